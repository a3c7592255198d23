"""Progress bars and dots of tasks on the driver's terminal, and in a pipe (real processes)."""

import re
import signal
import subprocess
import sys

import pytest

from tests.gates import Gate, until
from tests.scripts import ROOT, environment, start_script, write_script
from tests.terminals import Terminal
from zray.cluster_utils import Cluster

# Each task prints until the test opens its gate.
PROGRAM = """
    import sys, time
    sys.path.insert(0, {root!r})
    import zray
    from tests.gates import Gate

    gate = Gate({gate!r})
    zray.init({how})

    @zray.remote(num_cpus=1)
    def bar(name):
        number = 0
        while not gate.is_open():
            number += 1
            sys.stderr.write(f"\\r{{name}} {{number}}")
            sys.stderr.flush()
            time.sleep(0.01)
        sys.stderr.write(f"\\r{{name}} is done")

    @zray.remote(num_cpus=1)
    def dots():
        while not gate.is_open():
            print(".", end="")
            time.sleep(0.01)
        print("!")

    @zray.remote(num_cpus=0)
    def nested(name, count):
        number = 0
        while not gate.is_open():
            number += 1
            for position in range(count):  # as tqdm draws its positions
                text = f"{{chr(10) * position}}\\r{{name}}.{{position}} {{number}}" + "\\x1b[A" * position
                sys.stderr.write(text)
                sys.stderr.flush()
            time.sleep(0.01)
        for position in range(count):
            sys.stderr.write(f"\\r{{name}}.{{position}} is done\\n")

    refs = [{tasks}]
    print("driver: ready", flush=True)
    sys.stdin.readline()
    print("driver: goes on", flush=True)
    zray.get(refs)
    zray.shutdown()
"""


def program(folder, tasks, how="num_cpus=2"):
    return PROGRAM.format(root=str(ROOT), gate=str(folder / "gate"), tasks=tasks, how=how)


class OnTerminal:
    """A program whose standard output and error are a terminal."""

    def __init__(self, folder, code, height=24):
        self.terminal = Terminal(height=height)
        self.gate = Gate(folder / "gate")
        command = [sys.executable, str(write_script(folder, code))]
        streams = {"stdin": subprocess.PIPE, "stdout": self.terminal.slave, "stderr": self.terminal.slave}
        self.process = subprocess.Popen(command, env=environment() | {"TERM": "xterm"}, text=True, **streams)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.gate.open()
        self.process.kill()
        self.process.stdin.close()
        self.process.wait()
        self.terminal.close()

    def until_last(self, *patterns):
        """Wait until the last rows are such ones, in any order."""

        def are_there():
            last = self.terminal.shown()[-len(patterns) :]
            return len(last) == len(patterns) and all(any(re.fullmatch(p, row) for row in last) for p in patterns)

        until(are_there)

    def end(self):
        """The rows without their workers, once it has run to its end."""
        self.gate.open()
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()
        until(lambda: self.terminal.read() or self.process.poll() is not None, 40)
        assert self.process.returncode == 0, self.terminal.shown()
        return [row.partition(") ")[2] or row for row in self.terminal.shown()]


MARK = r"\([\w.-]+ pid=\d+\) "


def test_bars_and_dots_are_on_the_terminal_while_they_are_drawn(tmp_path):
    with OnTerminal(tmp_path, program(tmp_path, "bar.remote('bar'), dots.remote()")) as running:
        running.until_last(rf"{MARK}bar \d+", MARK + r"[. ]+")
        running.until_last(rf"{MARK}bar \d\d\d+", MARK + r"[. ]+")
        first, *others = running.terminal.shown()
        assert first == "driver: ready" and len(others) == 2
        rows = running.end()
        assert running.terminal.is_clean()
    assert rows[:2] == ["driver: ready", "driver: goes on"]
    dots = "".join(row for row in rows[2:] if row != "bar is done")
    assert rows.count("bar is done") == 1 and re.fullmatch(r"\.+!", dots), rows


def test_each_bar_of_several_tasks_has_a_row_and_becomes_a_line_when_it_ends(tmp_path):
    tasks = "bar.remote('one'), bar.remote('two'), nested.remote('three', 3)"
    bars = ["one", "two", "three.0", "three.1", "three.2"]
    with OnTerminal(tmp_path, program(tmp_path, tasks)) as running:
        running.until_last(*(rf"{MARK}{re.escape(bar)} \d+" for bar in bars))
        running.until_last(*(rf"{MARK}{re.escape(bar)} \d\d+" for bar in bars))
        assert len(running.terminal.shown()) == 1 + len(bars)
        rows = running.end()
        assert running.terminal.is_clean()
    assert rows[:2] == ["driver: ready", "driver: goes on"]
    assert sorted(rows[2:]) == sorted(f"{bar} is done" for bar in bars)


def test_program_that_is_interrupted_leaves_the_terminal_clean(tmp_path):
    """Bars that were drawn are lines, the traceback is whole, and nothing is below it."""
    with OnTerminal(tmp_path, program(tmp_path, "bar.remote('bar'), nested.remote('other', 30)"), 10) as running:
        # The bar of the one task is among the rows, or one of those that are counted only.
        running.until_last(*[rf"{MARK}(bar|other\.\d+) \d+"] * 8, r"\.\.\. and \d+ more")
        running.process.send_signal(signal.SIGINT)
        until(lambda: running.terminal.read() or running.process.poll() is not None, 40)
        rows = running.terminal.shown()
        assert "KeyboardInterrupt" in "".join(rows) and not [row for row in rows if "more" in row]
        assert running.terminal.is_clean()


def test_bar_in_a_pipe_is_its_last_text_and_dots_are_soon_there(tmp_path):
    with start_script(
        tmp_path, program(tmp_path, "bar.remote('bar'), dots.remote()"), stdin=subprocess.PIPE
    ) as running:
        lines = [running.stdout.readline() for _ in range(3)]
        assert not Gate(tmp_path / "gate").is_open()  # and dots are there
        Gate(tmp_path / "gate").open()
        rest, errors = running.communicate("go on\n", timeout=40)
        assert running.returncode == 0, errors
    texts = [line.partition(") ")[2] or line for line in (*"".join(lines).splitlines(), *rest.splitlines())]
    assert "driver: ready" in texts and texts.count("bar is done") == 1
    dots = [text for text in texts if not text.startswith("driver: ") and text != "bar is done"]
    assert len(dots) > 1 and re.fullmatch(r"\.+!", "".join(dots)), texts


@pytest.mark.slow
def test_bar_of_a_task_on_another_node_is_on_the_terminal_while_it_is_drawn(tmp_path, nothing_left):
    with Cluster(True, head_node_args={"num_cpus": 0}) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.wait_for_nodes()
        code = program(tmp_path, "bar.remote('bar'), dots.remote()", f"address={cluster.address!r}")
        with OnTerminal(tmp_path, code) as running:
            mark = MARK.replace(r"\) ", r", ip=127\.0\.0\.1\) ")
            running.until_last(rf"{mark}bar \d+", mark + r"[. ]+")
            running.until_last(rf"{mark}bar \d\d\d+", mark + r"[. ]+")
            rows = running.end()
    assert rows.count("bar is done") == 1 and not [row for row in rows if row.startswith("bar") and row[-1].isdigit()]
