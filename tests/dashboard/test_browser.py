"""The page in a headless Chromium: each view, on a screen and on a phone, in bright and in dark colours."""

import json
import time

import pytest

from tests.dashboard.browser import CHROMIUM, Browser
from tests.dashboard.made import HOSTILE, MadeSession, served
from zray.dashboard import streams
from zray.exceptions import GetTimeoutError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)"),
    pytest.mark.timeout(180),
]
TABS = "overview nodes tasks actors objects logs jobs groups trials".split()
DETAILS = [
    f"task/{'1' + '0' * 31}",
    f"actor/{'2' + '0' * 31}",
    f"node/{'a' + '0' * 15}",
    f"object/{'4' + '0' * 39}",
    "why",
    "log?filename=worker-0.log",
]
WINDOWS = {"screen": (1440, 900), "phone": (390, 844)}
LIVE = "document.getElementById('state').textContent === 'LIVE'"
# Elements that reach beyond the window.
CUT = """
[...document.querySelectorAll('body *')].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width && box.height && (box.right > innerWidth + 1 || box.left < -1) && !each.closest('.skip');
}).slice(0, 3).map((each) => each.outerHTML.slice(0, 120)).concat(
  document.documentElement.scrollWidth > innerWidth ? ['the page'] : [])
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture
def page(browser):
    """`page(server, width, height)` opens the page with a clean record of errors."""

    def opened(server, window="screen", *, is_dark=False):
        browser.size(*WINDOWS[window], is_dark=is_dark)
        browser.open("about:blank")
        browser.errors.clear()
        browser.requests.clear()
        browser.open(server.address)
        browser.until(LIVE)
        return browser

    return opened


def go(browser, address):
    browser.run(f"location.hash = '#/{address}'")
    browser.until(f"location.hash === '#/{address}' && {LIVE}")


def folder_of_experiments(folder):
    trial = folder / HOSTILE.replace("/", "_")[:40] / "trial_0"
    trial.mkdir(parents=True)
    rows = [{"loss": 1 / step, "training_iteration": step, "config": {"a": HOSTILE}} for step in range(1, 20)]
    (trial / "result.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(folder)


@pytest.mark.parametrize("is_dark", [False, True], ids=["bright", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
def test_no_view_has_an_error_or_is_cut(window, is_dark, page, monkeypatch, tmp_path):
    """Names are markup: they appear as text, and nothing of them runs or is loaded."""
    session = MadeSession(name=HOSTILE, results=folder_of_experiments(tmp_path), now=time.time())
    with served(session, monkeypatch) as server:
        browser = page(server, window, is_dark=is_dark)
        for view in (*TABS, *DETAILS):
            go(browser, view)
            browser.until("document.querySelector('#view h2') && document.body.innerText.length > 100")
            assert browser.run(CUT) == [], view
            assert not browser.run("document.querySelectorAll('#view img, #view script, #view iframe').length"), view
        assert browser.run("window.hurt") is None
        assert browser.errors == []
        assert all(each.startswith((f"http://127.0.0.1:{server.port}/", "data:")) for each in browser.requests)
        dark = browser.run("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(12, 16, 21)") == is_dark


def test_token_leaves_the_address_and_is_in_no_request(page, monkeypatch):
    with served(MadeSession(), monkeypatch) as server:
        browser = page(server)
        assert browser.run("location.hash") == "#/overview"
        assert not [each for each in browser.requests if server.token in each.partition("#")[0]]
        assert browser.run("document.cookie") == "" and server.token not in browser.run("document.body.innerHTML")


def test_empty_session_says_so_on_each_view(page, monkeypatch, tmp_path):
    session = MadeSession(is_empty=True, results=str(tmp_path / "none"))
    session.actors = session.objects = session.groups = session.jobs = list
    session.log_files = lambda: ([], [])
    session.summary = lambda kind: {"cluster": {"summary": {}}}
    with served(session, monkeypatch) as server:
        browser = page(server)
        for view in set(TABS) - {"nodes"}:
            go(browser, view)
            said = browser.until("[...document.querySelectorAll('.empty, .note')].map((e) => e.innerText).join(' ')")
            assert said.strip(), view
        go(browser, "trials")
        assert str(tmp_path / "none") in browser.until("document.querySelector('.note').innerText")
        assert browser.errors == []


def test_links_lead_from_node_to_actor_to_task_to_object(page, monkeypatch):
    with served(MadeSession(), monkeypatch) as server:
        browser = page(server)
        for view, kind in (("nodes", "node"), (DETAILS[2], "task"), ("actors", "actor"), (DETAILS[1], "task")):
            go(browser, view)
            target = browser.until(f"document.querySelector('#view td a[href^=\"#/{kind}/\"]')?.hash")
            go(browser, target.removeprefix("#/"))
            assert browser.until("document.querySelector('#view h2').innerText").lower().startswith(kind)
        go(browser, DETAILS[3])
        assert browser.until("document.querySelector('#view a[href^=\"#/task/\"]')?.hash")
        assert browser.errors == []


def test_filters_and_sorting_are_by_keyboard_and_in_the_address(page, monkeypatch):
    with served(MadeSession(), monkeypatch) as server:
        browser = page(server)
        go(browser, "tasks?group=failed")
        states = "[...document.querySelectorAll('.chip')].map((each) => each.innerText.trim())"
        browser.until(f"{states}.length && {states}.every((each) => each.endsWith('failed'))")
        go(browser, "nodes")
        header = "document.querySelectorAll('th')[3]"
        browser.until(f"{header}?.innerText.includes('Processors')")
        browser.run(f"{header}.querySelector('button').click()")
        assert browser.run(f"{header}.getAttribute('aria-sort')") == "ascending"


def test_lost_connection_is_said_and_the_page_goes_on(page, monkeypatch):
    monkeypatch.setattr(streams, "PERIOD_S", 0.1)
    session = MadeSession()
    with served(session, monkeypatch) as server:
        browser = page(server)
        go(browser, "nodes")
        browser.until("document.querySelectorAll('tbody tr').length === 3")
        session.failure = GetTimeoutError("The head does not answer.")
        browser.until("document.getElementById('state').textContent === 'LOST'")
        said = browser.run("document.getElementById('notice').innerText")
        assert "Lost connection to the session" in said and "The head does not answer." in said
        assert browser.run("document.querySelectorAll('tbody tr').length") == 3
        session.failure = None
        browser.until(LIVE)
        assert browser.run("document.getElementById('notice').hidden")
    browser.until("document.getElementById('notice').innerText.includes('Lost connection to the dashboard')")


def test_wrong_token_is_explained(page, browser, monkeypatch):
    with served(MadeSession(), monkeypatch) as server:
        browser.open("about:blank")
        browser.open(server.address[:-3] + "abc")
        browser.until("document.getElementById('state').textContent === 'NO ACCESS'")
        assert "open the address that the dashboard has printed" in browser.run(
            "document.getElementById('notice').innerText"
        )


def test_200_nodes_and_100000_tasks_do_not_stall_the_page(page, monkeypatch):
    """The longest time in which the page does nothing else is that of one update."""
    session = MadeSession(nodes=200, tasks=100_000, now=time.time())
    with served(session, monkeypatch) as server:
        browser = page(server)
        for view in ("nodes", "overview", "tasks", "tasks?name=work_7"):
            browser.run("""(() => {
              window.worst = 0; window.watched = (window.watched || 0) + 1;
              const mine = window.watched; let before = performance.now();
              const look = () => { const now = performance.now(); window.worst = Math.max(window.worst, now - before);
                before = now; if (window.watched === mine) setTimeout(look, 5); };
              look(); })()""")
            go(browser, view)
            browser.until(
                "document.querySelectorAll('tbody tr').length > 20 || document.querySelector('canvas')?.height > 500"
            )
            first = browser.run("window.worst")
            browser.run("window.worst = 0")
            browser.until("performance.now() && window.worst > 0 && document.readyState === 'complete'")
            browser.run("new Promise((done) => setTimeout(done, 2500))")
            later = browser.run("window.worst")
            print(f"{view}: first {first:.0f} ms, later {later:.0f} ms")
            assert first < 1_500 and later < 500, (view, first, later)
        note = browser.run("[...document.querySelectorAll('.note')].map((each) => each.innerText).join(' ')")
        assert "First 200 of 2,500 tasks" in note
        assert browser.errors == []


def test_stream_is_enlarged_with_the_mouse_or_a_button_and_a_run_leads_to_its_task(page, monkeypatch):
    with served(MadeSession(now=time.time()), monkeypatch) as server:
        browser = page(server)
        canvas = "document.querySelector('canvas.stream')"
        seconds = f"Number({canvas}.ariaLabel?.match(/runs in ([0-9.]+) s/)?.[1] || 60)"
        browser.until(f"{canvas}?.ariaLabel?.includes('runs in 1m 00s')")
        browser.run("[...document.querySelectorAll('button')].find((each) => each.title === 'Zoom in').click()")
        half = browser.until(f"{seconds} < 40 && {seconds}")
        point = "new PointerEvent('pointer{}', {{clientX: {}, clientY: {}, bubbles: true, pointerType: 'mouse'}})"
        box = browser.run(f"{canvas}.getBoundingClientRect().toJSON()")
        y = box["y"] + 10
        for kind, x in (("down", box["right"] - 300), ("up", box["right"] - 100)):
            browser.run(f"{canvas}.dispatchEvent({point.format(kind, x, y)})")
        assert browser.until(f"{seconds} < {half / 2} && {seconds}")
        browser.run("[...document.querySelectorAll('button')].find((each) => each.innerText === 'Back to now').click()")
        browser.until(f"{canvas}.ariaLabel.includes('runs in 1m 00s')")
        found = browser.until(
            f"""(() => {{ for (let x = {box["x"] + 200}; x < {box["right"]}; x += 3) {{
              {canvas}.dispatchEvent({point.format("move", "x", y)});
              if (!document.querySelector('.tip').hidden) return [x, document.querySelector('.tip').innerText];
            }} }})()"""
        )
        assert found[1].startswith("work_") and found[1].endswith(("finished", "failed"))
        for kind in ("down", "up"):
            browser.run(f"{canvas}.dispatchEvent({point.format(kind, found[0], y)})")
        browser.until("location.hash.startsWith('#/task/1')")
        assert browser.errors == []
