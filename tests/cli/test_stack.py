"""`zray stack`: what workers run, and where their threads stand; with py-spy where it is there."""

import ctypes
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import zray
from cli.stacks import Unreadable, stacks, state_of
from tests.cli.commands import zray as command
from tests.gates import is_running, until
from tests.scripts import ROOT, environment, run_script
from zray.util import state


@zray.remote
def outer(gate):
    def inner():
        gate.wait()

    inner()


@zray.remote
def in_c(path):
    """Wait in C code that holds the GIL; the kernel repeats the `open` of a pipe after the signal."""
    return ctypes.PyDLL(None).open(os.fsencode(path), os.O_RDONLY)


@zray.remote
def say_pid(folder, gate):
    (folder / str(os.getpid())).touch()
    gate.wait()
    return os.getpid()


@zray.remote(max_concurrency=2)
class Threaded:
    def first(self, gate):
        gate.wait()

    def second(self, gate):
        gate.wait()


@zray.remote
class Async:
    def __init__(self):
        self.has_begun = False

    async def wait(self):
        import asyncio

        self.has_begun = True
        await asyncio.Event().wait()

    async def begun(self):
        return self.has_begun


@zray.remote(hosted=True)
class Hosted:
    async def step(self):
        return 1


def running(name, count=1):
    """The rows of the calls of a function, once so many run."""

    def found():
        rows = state.list_tasks(filters=[("name", "=", name), ("state", "=", "RUNNING")])
        return rows if len(rows) == count else None

    return until(found)


def lines_of(*arguments):
    done = command("stack", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def names_of(thread):
    """The functions of a thread; py-spy has qualified names."""
    return [frame.function.rpartition(".")[2] for frame in thread.frames]


def stands_in(pid, *functions):
    """The threads of a process, once one of them has these frames, in this order, below any others."""

    def found():
        threads = stacks(pid)
        named = [[name for name in names_of(thread) if name in functions] for thread in threads]
        return threads if any(names[: len(functions)] == [*functions] for names in named) else None

    return until(found)


def without_py_spy(monkeypatch):
    monkeypatch.setattr("cli.stacks.py_spy", lambda: "")


def test_nested_function_of_a_task_is_shown_below_its_task(start, gate):
    start(num_cpus=2)
    ref = outer.remote(gate)
    (row,) = running("outer")
    stands_in(row.worker_pid, "outer", "inner", "wait", "until")
    lines = lines_of(row.task_id[:8])
    assert lines[0].startswith(f"worker {row.worker_pid} runs outer ({row.task_id}) for ") and lines[0].endswith(" s")
    assert lines[1] == "  main thread" and lines[2].startswith("    ... ") and lines[2].endswith(" frames of zray")
    places = [line.split("  ")[-1].rpartition(":")[0] for line in lines[3:5]]
    assert [line.split()[0].rpartition(".")[2] for line in lines[3:5]] == ["outer", "inner"]
    assert places == [__file__, __file__]
    for named in ("outer", str(row.worker_pid), ref.hex()):
        assert lines_of(named)[1:5] == lines[1:5]
    assert any("run_task  " in line for line in lines_of("outer", "--verbose"))
    gate.open()
    zray.get(ref)


def test_idle_workers_are_one_line(start, tmp_path, gate):
    start(num_cpus=2)
    refs = [say_pid.remote(tmp_path, gate) for _ in range(2)]
    until(lambda: len([name for name in os.listdir(tmp_path) if name.isdecimal()]) == 2)
    gate.open()
    pids = sorted(zray.get(refs))
    until(lambda: not running_pids())
    (line,) = lines_of()
    assert line == f"2 idle workers: pid {', '.join(map(str, zray_order(line, pids)))}"
    (found, *_) = json.loads(command("stack", str(pids[0]), "--json").stdout)
    assert found["pid"] == pids[0] and found["kind"] == "worker" and not found["tasks"] and found["threads"]
    everything = lines_of("--all")
    assert any(line.startswith("node ") for line in everything) and f"worker {pids[0]} is idle" in everything


def running_pids():
    return [row for row in state.list_tasks() if row.state == "RUNNING"]


def zray_order(line, pids):
    """The pids in the order of a line that has all of them."""
    assert all(str(pid) in line for pid in pids)
    return sorted(pids, key=lambda pid: line.index(str(pid)))


def test_both_threads_of_an_actor_are_shown(start, gate):
    start(num_cpus=1)
    actor = Threaded.options(name="pair").remote()
    refs = [actor.first.remote(gate), actor.second.remote(gate)]
    pid = running("Threaded.first")[0].worker_pid
    stands_in(pid, "first") and stands_in(pid, "second")
    (found,) = json.loads(command("stack", "pair", "--json").stdout)
    assert found["kind"] == "actor" and found["actor"] == "Threaded 'pair'" and found["pid"] == pid
    assert {task["name"] for task in found["tasks"]} == {"Threaded.first", "Threaded.second"}
    names = [{frame["function"].rpartition(".")[2] for frame in thread["frames"]} for thread in found["threads"]]
    assert sum("first" in each for each in names) == sum("second" in each for each in names) == 1
    assert lines_of(found["actor_id"])[0].startswith(f"actor Threaded 'pair' ({found['actor_id']}), pid {pid} runs ")
    gate.open()
    zray.get(refs)


def test_async_call_is_named_and_its_loop_shown(start):
    start(num_cpus=1)
    actor = Async.remote()
    ref = actor.wait.remote()
    until(lambda: zray.get(actor.begun.remote()))
    lines = lines_of("Async")
    assert "Async.wait (" in lines[0] and any("run_forever" in line for line in lines)
    zray.cancel(ref)


def test_hosted_actors_are_found_by_id_and_name(start, gate):
    start(num_cpus=1)
    first, other = (Hosted.options(name=name).remote() for name in ("it's one", "other"))
    zray.get([first.step.remote(), other.step.remote()])
    (found,) = json.loads(command("stack", "it's one", "--json").stdout)
    assert set(found["hosted_actors"]) == {first._actor_id.hex(), other._actor_id.hex()} and not found["actor"]
    for named in ("Hosted", "other", first._actor_id.hex(), str(found["pid"])):
        assert lines_of(named)[0] == f"worker {found['pid']} of 2 hosted actors is idle"


def test_worker_in_c_code_with_the_gil_answers_and_goes_on(start, tmp_path, monkeypatch):
    without_py_spy(monkeypatch)
    start(num_cpus=1)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    ref = in_c.remote(path)
    pid = running("in_c")[0].worker_pid
    until(lambda: waits_in_open(pid))
    for _ in range(3):
        (main, *_) = stacks(pid)
        assert main.is_main and main.frames[-1].function == "in_c" and main.frames[-1].file == __file__
    os.close(os.open(path, os.O_WRONLY))
    assert zray.get(ref) > 2


def waits_in_open(pid):
    """Whether the main thread sleeps in the kernel below its C code."""
    (main, *_) = stacks(pid)
    return main.frames[-1].function == "in_c" and state_of(pid) == "S"


def test_stopped_worker_is_said_to_be_stopped(start, gate):
    start(num_cpus=1)
    ref = outer.remote(gate)
    pid = running("outer")[0].worker_pid
    stands_in(pid, "inner")
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: state_of(pid) == "T")
        (line,) = lines_of("outer")
        assert line.endswith(f" is stopped: `kill -CONT {pid}` has it go on")
    finally:
        os.kill(pid, signal.SIGCONT)
    gate.open()
    zray.get(ref)


def test_unknown_and_waiting_tasks_are_errors_in_words(start, gate):
    start(num_cpus=1)
    refs = [outer.remote(gate), outer.remote(gate)]
    running("outer")
    done = command("stack", "zz")
    assert done.returncode == 1 and "No process of this machine's sessions runs 'zz'" in done.stderr
    (waiting,) = (row for row in state.list_tasks() if row.state != "RUNNING")
    done = command("stack", waiting.task_id)
    assert done.returncode == 1 and f"`zray why {waiting.task_id}` explains it" in " ".join(done.stderr.split())
    gate.open()
    zray.get(refs)


def test_machine_without_a_session_is_an_error_in_words(start):
    start(num_cpus=1)
    zray.shutdown()
    done = command("stack")
    assert done.returncode == 1 and "No session of this user runs on this machine." in done.stderr


PROGRAM = """
import sys
import zray
zray.init(num_cpus=1)
@zray.remote
def other():
    print("begun", flush=True)
    sys.stdin = None
    import threading
    threading.Event().wait()
ref = other.remote()
sys.stdin.read()
"""


def test_two_sessions_are_both_shown(start, gate, tmp_path):
    start(num_cpus=1)
    ref = outer.remote(gate)
    running("outer")
    command_of_other = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command_of_other, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert "begun" in other.stdout.readline()
            lines = lines_of()
            assert any(" runs outer (" in line for line in lines) and any(" runs other (" in line for line in lines)
            sessions = {found["session"] for found in json.loads(command("stack", "--json").stdout)}
            assert len(sessions) == 2
        finally:
            other.stdin.close()
    until(lambda: not any(" runs other (" in line for line in lines_of()))
    gate.open()
    zray.get(ref)


def test_session_whose_node_does_not_answer_is_named_with_its_workers(start, gate):
    start(num_cpus=1)
    ref = outer.remote(gate)
    pid = running("outer")[0].worker_pid
    stands_in(pid, "inner")
    node = int(json.loads(command("status", "--format", "json").stdout)["sessions"][0]["node_pid"])
    os.kill(node, signal.SIGSTOP)
    try:
        done = command("stack", str(pid), timeout_s=90)
    finally:
        os.kill(node, signal.SIGCONT)
    assert done.returncode == 0, done.stderr
    assert (
        "does not say what runs: its node is stopped" in done.stderr
        and "is not known" in done.stdout
        and "inner" in done.stdout
    )
    gate.open()
    zray.get(ref)


FAKE = """#!/bin/sh
{body}
"""
DUMP = [
    {
        "pid": 1,
        "thread_id": 5,
        "thread_name": "Main\x1b[31m",
        "os_thread_id": 7,
        "frames": [{"name": "g", "filename": "b.py", "line": 2}, {"name": "f", "filename": "a.py", "line": 1}],
    }
]


@pytest.fixture
def py_spy(tmp_path, monkeypatch):
    """`py_spy(body)` puts a py-spy on the PATH that is a shell script."""

    def install(body):
        path = tmp_path / "bin" / "py-spy"
        path.parent.mkdir(exist_ok=True)
        path.write_text(FAKE.format(body=body))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    return install


def test_py_spy_is_asked_where_it_is_installed(start, gate, py_spy):
    start(num_cpus=1)
    ref = outer.remote(gate)
    running("outer")
    py_spy(f"cat <<'END'\n{json.dumps(DUMP)}\nEND")
    lines = lines_of("outer")
    assert lines[1:] == ["  thread 7 Main\\x1b[31m", "    f  a.py:1", "    g  b.py:2"]
    gate.open()
    zray.get(ref)


@pytest.mark.parametrize("body", ["exit 1", "echo '{'", "echo '[{}]'"])
def test_py_spy_that_may_not_trace_gives_way_to_requests(start, gate, py_spy, body):
    start(num_cpus=1)
    ref = outer.remote(gate)
    stands_in(running("outer")[0].worker_pid, "outer", "inner")
    py_spy(body)
    done = command("stack", "outer")
    assert "inner" in done.stdout and not done.stderr
    gate.open()
    zray.get(ref)


def test_process_of_another_program_is_not_signalled(tmp_path, monkeypatch):
    without_py_spy(monkeypatch)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with pytest.raises(Unreadable, match="install py-spy"):
            stacks(other.pid)
        assert is_running(other.pid)
        other.stdin.close()
    with pytest.raises(Unreadable, match="has ended"):
        stacks(other.pid)


ANSWERER = """
import os, select, signal, sys
from zray.host.process.stack_requests import REQUEST, SIGNAL, answer_with_stacks
answer_with_stacks()
opened = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
files = [file for file in opened if os.readlink(f"/proc/self/fd/{file}").startswith("/memfd:zray-")]
answers, signalled = sorted(files, key=lambda file: "signalled" in os.readlink(f"/proc/self/fd/{file}"))
def stands_here():
    print(os.getpid(), flush=True)
    select.select([sys.stdin], [], [])  # the kernel does not repeat this after a signal
"""


@pytest.fixture
def answerer(monkeypatch):
    """`answerer(text)` starts a program that answers to requests, runs the text, and has printed a line; its pid."""
    without_py_spy(monkeypatch)
    begun = []

    def start(text):
        program = [sys.executable, "-c", f"{ANSWERER}{text}\nstands_here()"]
        begun.append(
            subprocess.Popen(program, env=environment(), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        return int(begun[-1].stdout.readline())

    yield start
    for process in begun:
        process.stdin.close()
        process.stdout.close()
        assert process.wait(20) == 0


@pytest.mark.parametrize("program", ["os.close(signalled)", "os.close(answers); signal.signal(SIGNAL, signal.SIG_DFL)"])
def test_process_that_has_let_go_of_its_files_or_signal_lives_on(answerer, program):
    pid = answerer(program)
    with pytest.raises(Unreadable, match="install py-spy"):
        stacks(pid)


def test_process_that_runs_python_is_not_signalled(answerer):
    pid = answerer("signal.signal(SIGNAL, signal.SIG_DFL)")
    (main,) = stacks(pid)
    assert main.is_main and main.id == pid and names_of(main) == ["<module>", "stands_here"]


@pytest.mark.parametrize("program", ["os.close(answers)", "signal.signal(REQUEST, signal.SIG_IGN)"])
def test_process_that_does_not_answer_is_signalled(answerer, program):
    pid = answerer(program)
    (main,) = stacks(pid)
    assert main.is_main and main.id == pid and names_of(main) == ["<module>", "stands_here"]


def test_forked_child_shows_its_own_stack(answerer):
    pid = answerer(
        "def in_child():\n    stands_here()\n    os._exit(0)\n"
        "def in_parent():\n    assert not os.waitpid(child, 0)[1]\n    os._exit(0)\n"
        "child = os.fork()\nin_parent() if child else in_child()"
    )
    (main,) = stacks(pid)
    assert names_of(main) == ["<module>", "in_child", "stands_here"]
    parent_pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    # The child may answer before its parent has returned from the fork.
    (parent,) = stands_in(parent_pid, "in_parent")
    assert names_of(parent) == ["<module>", "in_parent"]


def test_threads_have_their_names_and_numbers_of_the_kernel(answerer):
    pid = answerer(
        "import threading, _thread\ndone = threading.Event()\n"
        "threading.Thread(target=done.wait, name='two\\nlines', daemon=True).start()\n"
        "_thread.start_new_thread(done.wait, ())"
    )
    until(lambda: len(stacks(pid)) == 3)  # threads start late
    main, *others = stacks(pid)
    named = {thread.name: thread.id for thread in others}
    assert main.is_main and {*named} == {"two lines", ""}
    assert str(named["two lines"]) in os.listdir(f"/proc/{pid}/task")


def test_import_of_zray_registers_no_signal(tmp_path):
    program = (
        "import zray, sys; print('faulthandler' in sys.modules, 'zray.host.process.stack_requests' in sys.modules)"
    )
    assert run_script(tmp_path, program).stdout.split()[1] == "False"


def test_several_commands_at_once_have_all_stacks(start, gate):
    start(num_cpus=1)
    ref = outer.remote(gate)
    pid = running("outer")[0].worker_pid
    stands_in(pid, "inner")
    found = []
    readers = [threading.Thread(target=lambda: found.append(stacks(pid))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(found) == 4 and all("inner" in names_of(one[0]) for one in found)
    gate.open()
    zray.get(ref)
