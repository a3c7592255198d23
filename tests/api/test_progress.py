"""zray.get(refs, progress=...) and zray.util.tqdm: on a terminal, and in a pipe."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import types

import pytest

import zray
from tests.gates import until
from tests.scripts import environment, run_script, write_script
from tests.terminals import Terminal
from zray.experimental import tqdm_ray
from zray.host.output import progress_bar
from zray.util import bars
from zray.util import tqdm as Bar


class RawTerminal:
    """A pseudo terminal, and all that was written to it."""

    def __init__(self):
        self.master, self.slave = pty.openpty()
        self.text = ""

    def read(self):
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")
        return self.text

    def close(self):
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def raw_terminal():
    terminal = RawTerminal()
    yield terminal
    terminal.close()


WAITS = """
    import sys
    import time
    import zray

    zray.init(num_cpus=2)

    @zray.remote
    def square(x):
        return x * x

    @zray.remote
    def fail():
        raise KeyError("mine")

    @zray.remote
    def sleep():
        time.sleep(60)

    refs = [square.remote(x) for x in range(20)]
    assert zray.get(refs, progress="text") == [x * x for x in range(20)]
    assert zray.get(refs[3], progress=True) == 9
    assert zray.get(refs, progress=False, timeout=10)[2] == 4
    assert zray.get([], progress=True) == []
    try:
        zray.get([*refs, fail.remote()], progress=True)
    except KeyError:
        print("failed as it should")
    try:
        zray.get(refs, progress="html")
    except ValueError as error:
        print(error)
    try:
        zray.get([*refs, sleep.remote()], timeout=0.3, progress=True)
    except zray.exceptions.GetTimeoutError:
        print("late as it should be")
    print("values are right")
    zray.shutdown()
"""


def test_get_draws_a_bar_on_a_terminal(tmp_path, raw_terminal):
    streams = {"stdin": subprocess.DEVNULL, "stdout": raw_terminal.slave, "stderr": raw_terminal.slave}
    command = [sys.executable, str(write_script(tmp_path, WAITS))]
    process = subprocess.Popen(command, env=environment() | {"TERM": "xterm"}, **streams)
    try:
        until(lambda: raw_terminal.read() is not None and process.poll() is not None, 40)
    finally:
        process.kill()
        process.wait()
    text = raw_terminal.read()
    assert process.returncode == 0 and "values are right" in text, text
    assert "20/20" in text and "1/1" in text and "zray.get" in text


def test_short_get_draws_nothing_in_a_pipe(tmp_path):
    done = run_script(tmp_path, WAITS)
    assert done.stderr == "" and done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "failed as it should",
        "progress must be True, False or \"text\", not 'html'.",
        "late as it should be",
        "values are right",
    ]


LONG = """
    import sys
    import zray
    from zray.host.output import progress_bar

    progress_bar.LINE_SECONDS = 0.0  # a line at each look
    zray.init(num_cpus=1)

    @zray.remote
    class Gate:
        def __init__(self):
            self.seen = 0

        def looked(self):
            self.seen += 1

        async def opens(self):
            import asyncio
            while not self.seen:
                await asyncio.sleep(0.01)

    gate = Gate.remote()
    first = [zray.put(number) for number in range(1_499)]
    show = progress_bar.Lines.show

    def look(lines, done):
        show(lines, done)
        gate.looked.remote()

    progress_bar.Lines.show = look
    zray.get([*first, gate.opens.remote()], progress=True)
    zray.shutdown()
"""


def test_long_get_has_lines_in_a_pipe(tmp_path):
    done = run_script(tmp_path, LONG)
    lines = done.stderr.splitlines()
    assert done.returncode == 0 and len(lines) >= 2, done.stderr
    begun = r"zray.get: 1,499 of 1,500 ready after 00:\d\d, about 00:00 left"
    assert all(re.fullmatch(begun, line) for line in lines[:-1]), lines
    assert re.fullmatch(r"zray.get: 1,500 of 1,500 ready after 00:\d\d", lines[-1])


def test_lines_of_a_wait_are_seconds_apart(monkeypatch, capsys):
    now = 100.0
    monkeypatch.setattr(progress_bar.time, "monotonic", lambda: now)
    lines = progress_bar.Lines(4_000)
    for second in range(11):
        now = 100.0 + second
        lines.show(second * 100)
    now = 3_800.0
    lines.show(4_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "zray.get: 500 of 4,000 ready after 00:05, about 00:35 left",
        "zray.get: 1,000 of 4,000 ready after 00:10, about 00:30 left",
        "zray.get: 4,000 of 4,000 ready after 1:01:40",
    ]


def test_line_that_nobody_reads_is_no_failure(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(progress_bar, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress_bar, "sys", types.SimpleNamespace(stderr=Closed()))
    progress_bar.Lines(2).show(1)


def test_get_in_local_mode_takes_progress(tmp_path):
    done = run_script(tmp_path, WAITS.replace("num_cpus=2", "local_mode=True").replace("time.sleep(60)", "1 / 0"))
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr and "AttributeError" not in done.stderr
    assert done.stdout.startswith("failed as it should"), done.stderr


# --- tqdm ---


class Screen(io.StringIO):
    """A stream that is a terminal, as far as it says."""

    def isatty(self):
        return True

    def rows(self):
        """The text with the moves of the cursor applied."""
        rows, at = [""], 0
        for move, text in re.findall(r"(\r|\n|\x1b\[K|\x1b\[A)|([^\r\n\x1b]+)", self.getvalue()):
            if move == "\n":
                at += 1
                rows += [""] * (at == len(rows))
            elif move == "\x1b[A":
                at -= 1
            elif move:
                rows[at] = ""
            else:
                rows[at] = text
        return rows


@pytest.fixture
def screen(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(bars, "sys", types.SimpleNamespace(stderr=screen))
    return screen


def test_bar_over_an_iterable(screen):
    assert list(Bar(range(7), desc="steps")) == list(range(7))
    first, last = screen.rows()
    assert first.startswith("steps: 100%|##########| 7/7 [00:00<") and last == ""


def test_bar_without_total_counts(screen):
    with Bar(unit="B", mininterval=0) as bar:
        bar.update(5)
        bar.update(7)
    assert screen.rows()[0].startswith("12B [00:00, ")


def test_description_and_postfix(screen):
    bar = Bar(total=10, desc="a", initial=5)
    bar.set_description("b")
    bar.set_postfix({"loss": 0.123456}, step="two")
    assert re.fullmatch(r"b:  50%\|#####     \| 5/10 \[00:00<\?, \?it/s, loss=0.123, step=two\]", screen.rows()[0])
    bar.close()
    bar.close()
    assert len(bar) == 10 and bar.n == 5


def test_bars_have_rows_in_the_order_of_their_positions(screen):
    second = Bar(total=2, desc="second", position=1)
    first = Bar(total=2, desc="first", position=0)
    assert [row.partition(":")[0] for row in screen.rows()] == ["first", "second"]
    tqdm_ray.safe_print("a line", file=screen)
    assert [row.partition(":")[0] for row in screen.rows()] == ["a line", "first", "second"]
    second.close()
    assert [row.partition(":")[0] for row in screen.rows()] == ["a line", "second", "first"]
    first.leave = False
    first.close()
    assert [row.partition(":")[0] for row in screen.rows()] == ["a line", "second", ""]
    assert not bars.instance().bars


def test_hidden_bars_come_back(screen):
    with Bar(total=2, desc="bar") as bar:
        tqdm_ray.instance().hide_bars()
        assert screen.rows() == [""]
        bar.refresh()
        assert screen.rows() == [""]
        tqdm_ray.instance().unhide_bars()
        assert screen.rows()[0].startswith("bar:")


def test_bar_in_a_pipe_is_its_last_state(monkeypatch):
    pipe = io.StringIO()
    monkeypatch.setattr(bars, "sys", types.SimpleNamespace(stderr=pipe))
    for _ in Bar(range(3), desc="x", mininterval=0):
        pass
    assert pipe.getvalue().count("x:") == 1 and "3/3" in pipe.getvalue()


def test_disabled_bar_draws_nothing(screen):
    assert sum(Bar(range(3), disable=True)) == 3
    assert screen.getvalue() == ""


def test_text_of_a_bar_is_one_line_without_escapes(screen):
    with Bar(total=1, desc="a\nb\x1b[2J\rc"):
        pass
    assert screen.rows()[0].startswith("a b?[2J c:")


def test_names_of_ray():
    import zray.experimental.tqdm_ray as module

    assert module.tqdm is zray.util.tqdm and module is zray.experimental.tqdm_ray
    with pytest.raises(AttributeError, match="nope"):
        _ = zray.experimental.nope


WORKERS = """
    import sys
    import zray
    from tests.gates import Gate
    from zray.experimental import tqdm_ray

    zray.init(num_cpus=2)

    @zray.remote
    def work(name, gate):
        bar = tqdm_ray.tqdm(desc=name, total=3, position=0)
        bar.update()
        bar.refresh()
        gate.wait()
        bar.update(2)
        bar.close()

    refs = [work.remote(name, Gate({gate!r})) for name in ("one", "two")]
    zray.get(refs)
    zray.shutdown()
"""


def test_bars_of_workers_are_on_the_terminal_of_the_program(tmp_path, gate):
    terminal = Terminal(columns=120)
    command = [sys.executable, str(write_script(tmp_path, WORKERS.format(gate=gate.path)))]
    streams = {"stdin": subprocess.DEVNULL, "stdout": terminal.slave, "stderr": terminal.slave}
    process = subprocess.Popen(command, env=environment() | {"TERM": "xterm"}, **streams)
    try:
        until(lambda: terminal.shown() and "one:  33%|###" in terminal.text and "two:  33%|###" in terminal.text)
        gate.open()
        until(lambda: terminal.read() or process.poll() is not None, 40)
    finally:
        process.kill()
        process.wait()
    rows = [row.partition(") ")[2] for row in terminal.shown()] if process.returncode == 0 else terminal.text
    terminal.close()
    assert sorted(row[:4] for row in rows) == ["one:", "two:"] and all("3/3" in row for row in rows), rows
