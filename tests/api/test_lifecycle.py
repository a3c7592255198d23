"""Sessions: how they begin, what is refused, and that nothing outlives the driver, however it ends."""

import os
import signal
import socket
import warnings

import pytest

import zray
from tests.gates import Gate, forever, until
from tests.scripts import ROOT, run_script, start_script

LEFTOVER_DEADLINE_S = 5.0  # from the end of a driver until nothing of its session is left

# A driver that has everything: a task under way, an actor, large values, a process that a task started.
BUSY = """
import os, sys, signal, subprocess, threading
import numpy as np
import zray as ray

@ray.remote
def wait(path):
    open(path, "w").close()
    threading.Event().wait()

@ray.remote
def start_process():
    return subprocess.Popen(["sleep", "1000"]).pid

@ray.remote
class Actor:
    def value(self):
        return 1

ray.init(num_cpus=3)
kept = [ray.put(np.ones(1_000_000)), Actor.remote(), start_process.remote()]
ray.get([kept[1].value.remote(), kept[2]])
kept.append(wait.remote("{gate}"))
"""


def test_a_session_begins_and_ends():
    assert not zray.is_initialized()
    context = zray.init(num_cpus=1)
    assert zray.is_initialized()
    assert zray.get_runtime_context().gcs_address == context.address  # where other programs of this user join
    zray.shutdown()
    assert not zray.is_initialized()
    zray.shutdown()


def test_sessions_follow_each_other(leftovers):
    for number in range(3):
        zray.init(num_cpus=1)
        assert zray.get(zray.remote(lambda number=number: number).remote()) == number
        zray.shutdown()
        leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_session_as_a_context():
    with zray.init(num_cpus=1):
        assert zray.is_initialized()
    assert not zray.is_initialized()
    with pytest.raises(KeyError), zray.init(num_cpus=1):
        raise KeyError
    assert not zray.is_initialized()


def test_a_second_init_is_refused_unless_asked_for(start):
    start(num_cpus=1)
    with pytest.raises(RuntimeError):
        zray.init()
    zray.init(ignore_reinit_error=True)
    assert zray.cluster_resources()["CPU"] == 1.0


def test_what_was_declared_is_there(start):
    start(num_cpus=3, num_gpus=2, resources={"licence": 1.5})
    total = zray.cluster_resources()
    assert (total["CPU"], total["GPU"], total["licence"]) == (3.0, 2.0, 1.5)
    assert zray.available_resources() == total
    (node,) = zray.nodes()
    assert node["Alive"] and node["Resources"]["CPU"] == 3.0
    assert (node["NodeManagerAddress"], node["NodeManagerHostname"]) == ("127.0.0.1", socket.gethostname())


def test_everything_starts_by_itself(start):
    assert zray.get(zray.put(1)) == 1
    assert zray.is_initialized()


@pytest.mark.parametrize("wrong", [{"num_cpus": -1}, {"num_cpus": "two"}, {"resources": {"CPU": 1}}], ids=str)
def test_wrong_arguments_of_init_are_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        zray.init(**wrong)
    assert not zray.is_initialized()


def test_no_session_to_join(tmp_path):
    with pytest.raises(ConnectionError):
        zray.init(address="auto")
    assert not zray.is_initialized()


def test_a_functions_second_session():
    """A remote function and an actor class outlive the session in which they were first used."""

    @zray.remote
    def answer():
        return 42

    @zray.remote
    class Answerer:
        def answer(self):
            return 43

    for _ in range(2):
        with zray.init(num_cpus=1):
            assert zray.get([answer.remote(), Answerer.remote().answer.remote()]) == [42, 43]


def test_a_reference_of_an_ended_session_is_an_error_and_not_a_wait():
    with zray.init(num_cpus=1):
        old = zray.put(1)
    with zray.init(num_cpus=1), pytest.raises((zray.exceptions.RayError, ValueError)):
        zray.get(old, timeout=20)
    del old


def test_a_get_that_waits_in_a_thread_ends_with_the_session(start):
    from concurrent.futures import ThreadPoolExecutor

    start(num_cpus=1)
    begun, never = zray.put(None), zray.remote(forever).remote()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(zray.get, [begun, never])
        until(waiting.running)
        zray.shutdown()
        assert waiting.exception(timeout=20) is not None


def test_threads_that_wait_when_a_program_ends_end_in_silence(tmp_path):
    result = run_script(
        tmp_path,
        """
        import asyncio
        import threading
        import zray
        from zray.host import context
        zray.init(num_cpus=1, log_to_driver=False)
        @zray.remote
        def forever():
            threading.Event().wait()
        never = forever.remote()
        def wait_again():
            while True:
                zray.get(zray.put(1))
        async def wait_for_it():
            await never
        begun = [threading.Event() for _ in range(5)]
        calls = (
            lambda: zray.get(never),
            lambda: zray.wait([never]),
            wait_again,
            lambda: never.future().result(),
            lambda: asyncio.run(wait_for_it()),
        )
        for event, call in zip(begun, calls):
            threading.Thread(target=lambda event=event, call=call: (event.set(), call()), daemon=True).start()
        for event in begun:
            event.wait()
        while len(context.runtime.futures.waiting.get(never.id, ())) < 2:
            pass
        """,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_what_is_asked_for_when_the_interpreter_ends_is_refused_in_words(tmp_path):
    result = run_script(
        tmp_path,
        """
        import zray
        @zray.remote
        def one():
            return 1
        class Late:
            def __init__(self, call):
                self.call = call
            def __del__(self):
                try:
                    self.call()
                except BaseException as error:
                    print(type(error).__name__, error)
        assert zray.get(one.remote()) == 1
        late = Late(one.remote), Late(lambda zray=zray: zray.cancel(None))
        """,
    )
    lines = result.stdout.splitlines()
    assert len(lines) == 2 and all(line.startswith("RuntimeError The interpreter is ending") for line in lines), result


def test_a_store_that_is_refused_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="object_store_memory"):
            zray.init(object_store_memory=10**15)


def test_two_sessions_side_by_side(start, tmp_path):
    start(num_cpus=1)
    result = run_script(
        tmp_path,
        """
        import zray as ray
        ray.init(num_cpus=4)
        print(ray.cluster_resources()["CPU"], ray.get(ray.remote(lambda: 7).remote()))
        """,
    )
    assert result.stdout.split() == ["4.0", "7"], result.stderr
    assert zray.cluster_resources()["CPU"] == 1.0


def test_the_folder_of_a_session_is_for_its_owner_alone(start, request):
    start(num_cpus=1)
    folders = list(request.config.zray_folder.glob("*zray*"))
    assert folders
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in folders)


def test_no_tcp_port_is_opened_on_one_machine(start):
    import psutil

    start(num_cpus=1)
    zray.get(zray.remote(lambda: 1).remote())
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        listening = [c for c in process.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]
        assert not listening, process


ENDINGS = {
    "normal end": ("", None, 0),
    "shutdown": ("ray.shutdown()", None, 0),
    "exception": ("raise ValueError('on purpose')", None, 1),
    "sys.exit": ("sys.exit(3)", None, 3),
    "os._exit": ("os._exit(4)", None, 4),
    "interrupt": ("ray.get(kept[-1])", [signal.SIGINT], None),
    "two interrupts": ("ray.get(kept[-1])", [signal.SIGINT, signal.SIGINT], None),
    "terminate": ("ray.get(kept[-1])", [signal.SIGTERM], -signal.SIGTERM),
    "hang up": ("ray.get(kept[-1])", [signal.SIGHUP], -signal.SIGHUP),
    "kill": ("ray.get(kept[-1])", [signal.SIGKILL], -signal.SIGKILL),
}


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.replace(" ", "-"))
def test_nothing_is_left_however_the_driver_ends(ending, tmp_path, leftovers):
    """The child of a task, a `sleep`, must go as well."""
    last, signals, code = ENDINGS[ending]
    gate = Gate(tmp_path / "gate")
    busy = BUSY.replace("{gate}", gate.path)
    until_the_task_runs = f"while not os.path.exists({gate.path!r}): pass\n"
    with start_script(tmp_path, busy + until_the_task_runs + last) as driver:
        until(lambda: gate.is_open() or driver.poll() is not None, 30)
        for number in signals or []:
            driver.send_signal(number)
        output, errors = driver.communicate(timeout=30)
    if code is not None:
        assert driver.returncode == code, errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_program_that_becomes_another_one_ends_its_session(tmp_path):
    """Whatever it has forked before; and the other one may have a session of its own."""
    gate = Gate(tmp_path / "gate")
    code = (
        BUSY.replace("{gate}", gate.path)
        + f"""
while not os.path.exists({gate.path!r}):
    pass
beside = subprocess.Popen(["sleep", "1000"])
if not (child := os.fork()):
    os.execvp("sleep", ["sleep", "1000"])
if not (other := os.fork()):
    threading.Event().wait()
context = ray.init(ignore_reinit_error=True)
facts = [context["session_dir"], *map(str, (ray.get(kept[2]), beside.pid, child, other))]
os.execv(sys.executable, [sys.executable, sys.argv[0].replace("script", "next"), *facts])
"""
    )
    (tmp_path / "next.py").write_text("""
import os, signal, sys
import zray as ray
folder, of_task, *others = sys.argv[1:]
while os.path.exists(folder) or os.path.exists(f"/proc/{of_task}"):
    pass
print("gone")
ray.init(num_cpus=1)
print(ray.get(ray.remote(lambda: 1).remote()))
for pid in others:
    os.kill(int(pid), signal.SIGKILL)
""")
    result = run_script(tmp_path, code)
    assert (result.returncode, result.stdout) == (0, "gone\n1\n"), result.stderr


def test_an_interrupt_of_the_whole_terminal_reaches_only_the_driver(tmp_path, leftovers):
    """Ctrl-C goes to the whole process group; zray's processes ignore it, and the driver can go on."""
    gate = Gate(tmp_path / "gate")
    # Inside `try` before the task can be seen to run.
    code = BUSY.replace("{gate}", gate.path).replace("\nkept.append", "\ntry:\n    kept.append") + (
        "    ray.get(kept[-1])\n"
        "except KeyboardInterrupt:\n"
        "    print(ray.get(kept[1].value.remote()), float(ray.get(kept[0]).sum()))\n"
    )
    with start_script(tmp_path, code) as driver:
        until(lambda: gate.is_open() or driver.poll() is not None, 30)
        os.killpg(driver.pid, signal.SIGINT)
        output, errors = driver.communicate(timeout=30)
    assert output.split() == ["1", "1000000.0"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_the_node_is_killed_under_a_driver(tmp_path):
    """A driver whose node is gone gets an error in words, not a wait without end."""
    result = run_script(
        tmp_path,
        """
        import os, signal, threading, psutil
        import zray as ray
        ray.init(num_cpus=1)
        ref = ray.remote(lambda: threading.Event().wait()).remote()
        for process in psutil.Process().children():
            process.send_signal(signal.SIGKILL)
        for _ in range(2):
            try:
                ray.get(ref)
            except ray.exceptions.ClusterLostError as error:
                print(error)
        """,
    )
    first, second = result.stdout.splitlines()
    assert "SIGKILL" in first and "SIGKILL" in second, result.stderr


@pytest.mark.slow
def test_drivers_killed_at_any_moment_leave_nothing(tmp_path, leftovers):
    """SIGKILL comes while a session starts, works and ends."""
    import threading

    script = """
    import zray as ray
    print("begin")
    ray.init(num_cpus=2)
    f = ray.remote(lambda x: x)
    for _ in range(20):
        ray.get([f.remote(i) for i in range(100)])
    ray.shutdown()
    """
    for step in range(20):
        with start_script(tmp_path, script) as driver:
            driver.stdout.readline()
            threading.Event().wait(step * 0.02)  # not to synchronise: to be killed at another moment each time
            driver.kill()
        leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_forked_child_of_the_driver_does_not_end_the_session(start):
    """The exit of a forked child touches neither references nor the session."""
    start(num_cpus=1)
    ref = zray.put(b"x" * 1_000_000)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert len(zray.get(ref)) == 1_000_000
    assert zray.get(zray.remote(lambda: 5).remote()) == 5


def test_import_alone_starts_nothing_and_is_quick_to_name_what_it_loads(tmp_path):
    """`import zray` brings neither the command line nor the libraries above the public names."""
    result = run_script(
        tmp_path,
        """
        import sys, threading
        import zray
        loaded = {name.partition(".")[0] for name in sys.modules}
        print(sorted(loaded & {"click", "rich", "sklearn", "torch", "pytest"}), threading.active_count())
        """,
    )
    assert result.stdout.split() == ["[]", "1"], result.stderr
    assert ROOT.is_dir()


def test_a_task_that_waits_for_an_actor_may_lend_it_the_only_cpu(start):
    """The actor holds the CPU for life; the task goes on without one, and nothing else starts."""
    start(num_cpus=1)

    @zray.remote(num_cpus=1)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    @zray.remote
    def use():
        counter = Counter.remote()
        return [zray.get(counter.add.remote()) for _ in range(3)], counter

    counts, counter = zray.get(use.remote(), timeout=20)
    assert counts == [1, 2, 3]
    assert zray.get(counter.add.remote(), timeout=20) == 4
    with pytest.raises(zray.exceptions.GetTimeoutError):
        zray.get(use.remote(), timeout=0.3)  # what is new starts when there is room
    del counter
    assert zray.get(use.remote(), timeout=20)[0] == [1, 2, 3]
