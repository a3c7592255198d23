"""`zray top` on a session: its screen with keys pressed, a snapshot in a pipe, and a real terminal."""

import asyncio
import os
import re
import signal
import subprocess
import sys

import pytest

from cli.top import INSTALL, sampler
from cli.top.app import Top
from cli.top.asking import Asker
from cli.top.screens import Confirm, Details
from tests.cli.commands import command_line
from tests.cli.commands import zray as command
from tests.gates import until
from tests.scripts import ROOT, environment, write_script
from tests.terminals import Terminal

PROGRAM = """
    import sys, threading
    import numpy as np
    import zray

    @zray.remote
    def hold():
        print("\\x1b]0;title\\x07 held \\x1b[31mred", flush=True)
        threading.Event().wait()

    @zray.remote(resources={"disk": 1})
    def save():
        pass

    @zray.remote(resources={"disk": 1})
    def occupy():
        threading.Event().wait()

    @zray.remote(max_retries=0)
    def fail():
        raise OSError("no such part")

    @zray.remote
    class Model:
        def step(self):
            return 1

    zray.init(num_cpus=4, resources={"disk": 1})
    model = Model.options(name="main").remote()
    zray.get(model.step.remote())
    zray.wait([fail.remote()])
    part = zray.put(np.ones(200_000))
    held, occupied = [hold.remote(), hold.remote()], occupy.remote()
    saves = [save.remote() for _ in range(3)]
    print("ready", flush=True)
    sys.stdin.read()
"""


def start_program(folder):
    program = subprocess.Popen(
        [sys.executable, str(write_script(folder, PROGRAM))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert "ready" in program.stdout.readline()
    return program


def end_program(program):
    program.stdin.close()
    program.wait(20)
    program.stdout.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    started = start_program(tmp_path_factory.mktemp("program"))
    yield started
    end_program(started)


def on_screen(act, size=(80, 24)):
    """Run the screen, and something that presses keys there."""

    async def run():
        asker = Asker("auto")
        asker.join()
        app = Top(asker)
        async with app.run_test(size=size) as pilot:
            await shows(pilot, lambda: app.sample and app.sample.tasks and app.grid.rows)
            await act(app, pilot)
        return app

    return asyncio.run(run())


async def shows(pilot, condition, looks=1_000):
    """Wait for something on the screen."""
    for _ in range(looks):
        if found := condition():
            return found
        await pilot.pause(0.01)
    raise AssertionError(f"the screen does not show it:\n{text_of(pilot.app)}")


def text_of(app):
    """The text on the screen."""
    return "\n".join("".join(part.text for part in line) for line in app.screen._compositor.render_strips())


async def opened(pilot):
    """The text of the details, when they have come."""
    app = pilot.app
    await shows(pilot, lambda: isinstance(app.screen, Details) and "STACK" in text_of(app) or "WHY" in text_of(app))
    return text_of(app)


def test_each_view_shows_its_rows_and_their_commands(program):
    async def act(app, pilot):
        await shows(pilot, lambda: "3 save wait for 1 CPU, 1 disk" in text_of(app))
        text = text_of(app)
        for words in ("NODES", "TASKS BY FUNCTION", "STREAM", "cpu 3/4", "hold", "worker 1", "LIVE"):
            assert words in text, words
        expected = {
            "2": ("running", "zray why "),
            "3": ("Model", "zray get actors "),
            "4": ("put at ", "zray list objects --filter 'call_site="),
            "5": ("||||", "zray get nodes "),
            "6": ("LOG of process", "zray logs "),
            "1": ("STREAM", "zray list tasks --filter name="),
        }
        for key, (words, shell) in expected.items():
            await pilot.press(key)
            await shows(pilot, lambda words=words, shell=shell: words in text_of(app) and f"$ {shell}" in text_of(app))
            assert all(len(line) <= 80 for line in text_of(app).splitlines())
        await pilot.press("6", "slash", *"hold", "enter")
        await shows(pilot, lambda: "\\x1b]0;title\\x07 held \\x1b[31mred" in text_of(app))

    on_screen(act)


def test_details_say_why_a_task_waits_and_where_it_stands(program):
    async def act(app, pilot):
        await pilot.press("2", "slash", *"hold running", "enter", "enter")
        text = await opened(pilot)
        await shows(pilot, lambda: "STACK" in text_of(app) and "script.py:" in text_of(app))
        assert "is RUNNING" in text and "$ zray why" in text
        await pilot.press("q", "escape", "slash", *"save resource", "enter", "enter")
        assert '"disk": 1' in await opened(pilot) or "disk" in text_of(app)
        await pilot.press("escape", "escape", "x", "enter")
        await shows(pilot, lambda: "It raised OSError." in text_of(app))
        await pilot.press("q", "p")
        await shows(pilot, lambda: "CRITICAL PATH" in text_of(app))
        await pilot.press("q")
        assert len(app.screen_stack) == 1

    on_screen(act, (120, 40))


def test_rows_are_filtered_and_sorted_and_the_cursor_stays_on_its_row(program):
    async def act(app, pilot):
        await pilot.press("2", "slash", *"save")
        assert app._grid("tasks").filter == "save"
        assert {row.cells[1] for row in app._grid("tasks").rows} == {"save"}
        await pilot.press("q", "1", "enter")
        assert "No row has 'saveq1'." in text_of(app)
        await pilot.press("escape", "down", "down")
        chosen = app.grid.selected
        before = app.sampler.looks
        await pilot.press("s", "S")
        await shows(pilot, lambda: app.sampler.looks > before + 1)
        assert app.grid.sort == (app.grid.sort[0], not app.grid.table.columns[app.grid.sort[0]].is_right)
        assert app.grid.selected == app.grid.row.id == chosen

    on_screen(act)


def test_nothing_is_asked_while_paused(program):
    async def act(app, pilot):
        asked = []
        ask = app.asker.ask
        app.asker.ask = lambda question: asked.append(question) or ask(question)
        await pilot.press("space")
        await shows(pilot, lambda: "PAUSED" in text_of(app))
        app.sampler.do("idle", lambda: None)  # the thread has done what it began
        asked.clear()
        await pilot.pause(2.5 * sampler.SECONDS_MIN)
        assert not asked
        await pilot.press("space")
        await shows(pilot, lambda: asked and "LIVE" in text_of(app))

    on_screen(act)


def test_a_task_and_an_actor_end_after_a_question(program):
    async def act(app, pilot):
        await pilot.press("2", "slash", *"occupy", "enter", "k")
        await shows(pilot, lambda: isinstance(app.screen, Confirm))
        assert "Cancel task occupy" in text_of(app) and app._grid("tasks").row.id in text_of(app)
        await pilot.press("n")
        await shows(pilot, lambda: "Nothing was ended." in text_of(app))
        await pilot.press("K")
        assert "with the workers that run it" in text_of(app).replace("\n", "")
        await pilot.press("y")
        await shows(pilot, lambda: "Cancelled 1 of occupy." in text_of(app))
        await shows(pilot, lambda: [row for row in app._grid("tasks").rows if row.role == "cancelled"])
        await pilot.press("3", "k")
        await shows(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press(*"no", "enter")
        assert app._grid("actors").row.role == "alive"
        await pilot.press("k", *"yes", "enter")
        await shows(pilot, lambda: app._grid("actors").row.role == "dead")
        await pilot.press("5", "k")
        assert "A node is not ended here" in text_of(app)

    on_screen(act)


def test_pipe_gets_one_look_as_text(program):
    for options in ((), ("--once",)):
        done = command("top", *options)
        assert done.returncode == 0, done.stderr
        for words in ("NODES", "TASKS BY FUNCTION", "TASK STREAM", "hold", "Model", "put at", "PROCESSES"):
            assert words in done.stdout, words
        assert done.stdout.replace("\n", "").isprintable()


def test_missing_package_is_one_sentence_with_the_remedy(program):
    code = "import sys; sys.modules['textual'] = None\n"
    code += "sys.stdout.isatty = sys.stdin.isatty = sys.stderr.isatty = lambda: True\n"
    code += "from cli.main import main; sys.argv[1:] = ['top']; main()"
    variables = environment() | {"TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=40
    )
    assert (done.returncode, done.stderr) == (1, f"Error: {INSTALL}\n")


@pytest.mark.parametrize(("term", "colours"), [("xterm-256color", "48;5;"), ("xterm", "\x1b[7;3")])
def test_real_terminal(program, term, colours):
    """The first frame, keys and the end, at the least size; with 256 colours and with 16."""
    terminal = Terminal(80, 24)
    variables = {name: value for name, value in environment().items() if name not in ("COLORTERM", "NO_COLOR")}
    ends = {"stdin": terminal.slave, "stdout": terminal.slave, "stderr": terminal.slave}
    written = bytearray()

    def wrote(text):
        os.set_blocking(terminal.master, False)
        try:
            while data := os.read(terminal.master, 65_536):
                written.extend(data)
        except BlockingIOError:
            pass
        return re.search(text, written.decode(errors="replace"))

    with subprocess.Popen(command_line("top"), cwd=ROOT, env=variables | {"TERM": term}, **ends) as top:
        try:
            until(lambda: wrote("TASKS BY FUNCTION") and wrote("hold"))
            assert colours in written.decode()
            assert "8;2;" not in written.decode() and (term != "xterm" or "8;5;" not in written.decode())
            written.clear()
            os.write(terminal.master, b"2\x1b[B\r")  # at once, as a person who knows the keys
            until(lambda: wrote("task [a-z]+  [0-9a-f]{6}"))
            os.write(terminal.master, b"q")
            until(lambda: wrote("TASKS  "))
            os.write(terminal.master, b"q")
            until(lambda: wrote(r"\?1049l") and top.poll() is not None)
        finally:
            top.poll() is not None or top.send_signal(signal.SIGKILL)
        assert top.returncode == 0
    terminal.close()


def test_loss_of_the_session_is_said_and_another_one_is_shown(monkeypatch, tmp_path, program):
    """Also the command's last test here: the module's session has ended behind it."""
    monkeypatch.setattr(sampler, "AGAIN_MAX", 0.2)
    later = []

    async def act(app, pilot):
        first = app.asker.session
        await asyncio.to_thread(end_program, program)
        await shows(pilot, lambda: "LOST" in text_of(app) and "The session is lost since" in text_of(app))
        assert "hold" in text_of(app)  # what was last seen stays
        later.append(await asyncio.to_thread(start_program, tmp_path))
        await shows(pilot, lambda: "LIVE" in text_of(app) and app.asker.session != first)

    try:
        on_screen(act)
    finally:
        for each in later:
            end_program(each)
