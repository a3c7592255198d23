"""`zray report`: the page of a run, from a record or a session, as Chromium shows it."""

import json
import re
import threading
import time
from pathlib import Path

import pytest

import zray
from tests.browser import CUT, look_at, needs_chromium
from tests.cli.commands import zray as command
from tests.gates import until
from zray.api.run_records import read_run
from zray.store.event_ring import Event, Kind, Outcome, RingContent
from zray.util.report.content import content_of
from zray.util.report.page import page_of
from zray.util.state import list_tasks

DRAWN = "root.dataset.drawn || root.dataset.error"


def run(*arguments, **options):
    return command("report", *map(str, arguments), timeout_s=60, **options)


@zray.remote
def load(number):
    return [number] * 1_000


@zray.remote
def total(*parts):
    return sum(map(sum, parts))


@zray.remote(max_retries=0)
def fail():
    raise OSError("no such part")


@zray.remote
class Model:
    def step(self, value):
        return value


def work():
    assert zray.get(total.remote(*[load.remote(number) for number in range(6)])) == 15_000
    with pytest.raises(OSError):
        zray.get(fail.remote())
    model = Model.remote()
    assert zray.get([model.step.remote(number) for number in range(4)]) == [*range(4)]


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    path = tmp_path_factory.mktemp("record") / "run.zrec"
    with zray.init(num_cpus=2, record=path):
        work()
    return path


def sums(*arguments, **options):
    done = run(*arguments, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_sums(found):
    functions = {each["name"]: each for each in found["functions"]}
    assert {name: each["runs"] for name, each in functions.items()} == {
        "load": 6,
        "total": 1,
        "fail": 1,
        "Model": 1,
        "Model.step": 4,
    }
    assert functions["fail"]["failed"] == 1 and functions["fail"]["errors"] == ["OSError"]
    assert sum(row[3] for row in found["path"]) == pytest.approx(found["duration"])
    assert sum(share for _, _, share in found["usage"]) == pytest.approx(1.0)
    assert found["headline"].startswith("The cores were")
    facts = dict(found["facts"])
    assert (facts["Runs"], facts["Failed"], facts["CPUs"], facts["Nodes"]) == ("13", "1", "2", "1")


def test_sums_of_a_record(record):
    found = sums(record)
    assert_sums(found)
    assert "1 of 1 runs of `fail` failed: OSError." in [each["text"] for each in found["findings"]]
    assert dict(found["facts"])["End"] == "orderly" and not found["notes"]
    assert found["memory"][0]["total"] > max(found["memory"][0]["used"]) > 0


def test_sums_of_a_session_that_runs(start):
    start(num_cpus=2)
    work()
    found = sums()
    assert_sums(found)
    assert dict(found["facts"])["End"] == "it runs"


@zray.remote
def hold(gate):
    gate.wait()


def test_task_that_runs_and_wait_of_the_program_are_in_the_sums(start, gate):
    start(num_cpus=1)
    zray.get(load.remote(1))
    held, found = hold.remote(gate), []

    def look():
        until(lambda: [task for task in list_tasks() if task.run_ms])
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 1.0)
        found.append(sums())
        gate.open()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        zray.get(held)
    finally:
        thread.join()
    ((report,),) = [found]
    seconds = {each["name"]: each["total"] for each in report["functions"]}
    assert seconds["hold"] > 1.0
    assert "% of the time hung on `hold`: one run" in report["findings"][0]["text"]
    assert not [each for each in report["findings"] if "the program itself computed" in each["text"]]
    assert report["notes"] == ["2 runs and waits have not ended: they are shown up to now."]


def test_page_is_written_and_needs_nothing_else(record, tmp_path):
    done = run(record, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("report.html: open it in a browser.\n"), done.stderr
    assert "The cores were" in done.stdout
    text = (tmp_path / "report.html").read_text()
    assert not re.findall(r"(?:src|href)=|@import|url\(|https?://|@[A-Z]+@", text)
    assert "default-src 'none'" in text and len(text) < 200_000


def test_command_without_a_session_or_a_record_says_so_in_words(tmp_path):
    (tmp_path / "text").write_text("text")
    for name, words in (("text", "is no record of a run"), ("none", "cannot be read: No such file")):
        done = run(name, cwd=tmp_path)
        assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr
    done = run("--address", "127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 1 and "127.0.0.1:1" in done.stderr and "Traceback" not in done.stderr


def test_page_that_cannot_be_written_or_would_replace_a_record(record, tmp_path):
    done = run(record, "-o", tmp_path / "none" / "report.html")
    assert done.returncode == 1 and "cannot be written: No such file or directory" in done.stderr
    done = run(record, "-o", record)
    assert done.returncode == 2 and "is a record" in done.stderr


def test_record_without_tasks_has_a_report(tmp_path):
    path = tmp_path / "run.zrec"
    with zray.init(num_cpus=1, record=path):
        pass
    assert sums(path)["headline"] == "No task ran."
    assert run(path, "-o", tmp_path / "report.html").returncode == 0


LOOK = (
    CUT
    + """
const click = (id) => page.getElementById(id).click();
for (const id of ["in", "in", "later", "earlier", "out", "only-path", "all"]) click(id);
const rows = page.getElementById("rows"), box = rows.getBoundingClientRect();
for (const key of ["ArrowLeft", "+", "-", "0"]) rows.dispatchEvent(new window.KeyboardEvent("keydown", { key }));
for (let y = box.top + 5; y < box.bottom; y += 10) for (let x = box.left; x < box.right; x += 3) {
  const place = { clientX: x, clientY: y, pointerType: "touch", pointerId: 1 };
  if (page.getElementById("detail").textContent) break;
  rows.dispatchEvent(new window.PointerEvent("pointerdown", place));
  rows.dispatchEvent(new window.PointerEvent("pointerup", place));
}
page.querySelector("#functions th:nth-child(2) button").click();
return {
  cut, error: root.dataset.error || "", detail: page.getElementById("detail").textContent,
  functions: [...page.querySelectorAll("#functions tbody td:first-child")].map((cell) => cell.textContent),
  sorted: page.querySelector("#functions [aria-sort]").textContent,
  headline: page.getElementById("headline").textContent, path: page.querySelectorAll("#path tbody tr").length,
  title: page.title, back: window.getComputedStyle(page.body).backgroundColor,
};
"""
)


@needs_chromium
@pytest.mark.parametrize("is_dark", [False, True], ids=["bright", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_works_in_a_browser_and_is_not_cut(record, tmp_path, width, is_dark):
    page = tmp_path / "report.html"
    assert run(record, "-o", page).returncode == 0
    found, console = look_at(page, LOOK, tmp_path / "profile", width=width, ready=DRAWN, is_dark=is_dark)
    assert found["cut"] == [] and found["error"] == "" and console == []
    assert found["functions"][0] == "load" and found["sorted"].startswith("runs")
    assert found["headline"].startswith("The cores were") and found["path"] > 3
    assert re.search(r": .*(finished|failed), from .* task [0-9a-f]{32}", found["detail"])
    assert (found["back"] == "rgb(255, 255, 255)") == (not is_dark)


@needs_chromium
def test_names_of_functions_are_text_in_the_page(tmp_path):
    """A function's name may be anything: it is neither markup nor a script."""
    name = '</script><script>document.title="taken"</script><img src=x onerror=alert(1)>@DATA@`'
    content = content_of(made_up(names=[name]))
    page = tmp_path / "report.html"
    page.write_text(page_of(content))
    found, console = look_at(page, LOOK, tmp_path / "profile", ready=DRAWN)
    assert found["functions"] == [name] and "taken" not in found["title"] and console == []


@needs_chromium
@pytest.mark.slow
def test_page_of_100_000_runs_is_drawn_without_a_stall(tmp_path):
    content = content_of(made_up(names=[f"function_{number}" for number in range(12)], count=100_000, workers=64))
    page = tmp_path / "report.html"
    page.write_text(page_of(content))
    assert page.stat().st_size < 10 << 20
    script = """
const drawing = window.CanvasRenderingContext2D.prototype, own = drawing.fillRect;
let count = 0;
drawing.fillRect = function (...all) { count++; return own.apply(this, all); };
window.requestAnimationFrame = (draw) => draw();
page.getElementById("all").click();
return { count, label: page.getElementById("rows").getAttribute("aria-label") };
"""
    found, console = look_at(page, script, tmp_path / "profile", width=1280, ready=DRAWN)
    assert console == [] and found["label"].startswith("100,000 runs in 65 rows")
    # What is drawn follows from the pixels, not from the runs: at most one rectangle a pixel of a row.
    assert 65 * 100 < found["count"] < 65 * 1280 + 10_000


def made_up(names, count=200, workers=2):
    """The record of a run that never was."""
    record = read_run_of_nothing()
    rings = []
    for worker in range(workers):
        events = []
        for number in range(worker, count, workers):
            begin = 1.0 + number * 1e-3
            name = names[number % len(names)]
            task = number.to_bytes(16, "big")
            outcome = Outcome.FAILED if number % 97 == 3 else Outcome.FINISHED
            events.append(Event(Kind.TASK, task, begin, begin, begin + 9e-4, begin + 9.5e-4, name, "", outcome, 0, 0))
        rings.append(RingContent(worker + 2, 0.0, f"worker {worker}", events, 0))
    driver = Event(Kind.GET, bytes(16), 0.5, 0.5, 2.0, 2.0, "get", "", Outcome.FINISHED, 0, 0)
    rings.append(RingContent(1, 0.0, "driver made_up.py", [driver], 0))
    return record._replace(rings={"node": rings})


def read_run_of_nothing():
    from zray.api.run_records import RunRecord

    return RunRecord({"program": "made_up.py"}, {}, {}, [], None, "", 0)


def test_records_of_an_older_format_stay_readable():
    """A file that this format's first version wrote."""
    found = read_run(Path(__file__).parent / "record-1.zrec")
    assert found.header["program"] == "older.py" and len(content_of(found)["functions"]) == 2


def test_record_that_ends_before_its_first_task_is_refused_in_words(record, tmp_path):
    cut = tmp_path / "cut.zrec"
    cut.write_bytes(record.read_bytes()[:300])
    done = run(cut, "-o", tmp_path / "report.html")
    assert done.returncode == 1 and done.stderr.startswith(f"Error: {cut} has no records of tasks"), done.stderr
    assert not (tmp_path / "report.html").exists()
