"""Ctrl-C at any moment of a driver's life: it is raised, nothing is lost, and the session goes on."""

import signal
import threading

import pytest

import zray
from tests.gates import Tally, until
from tests.scripts import start_script
from zray.host import context

LEFTOVER_DEADLINE_S = 20.0
ROUNDS = 30

# Catches each interrupt, and goes on: whatever was under way must still be right.
DRIVER = """
import sys
import zray as ray

@ray.remote
def double(x):
    return 2 * x

@ray.remote
class Counter:
    def __init__(self):
        self.count = 0

    def add(self):
        self.count += 1
        return self.count

ray.init(num_cpus=2)
counter = Counter.remote()
last = ray.get(counter.add.remote())
interrupts = 0
while interrupts < ROUNDS:
    try:
        print("working", flush=True)
        while True:
            assert ray.get([double.remote(i) for i in range(200)], timeout=20) == [2 * i for i in range(200)]
            assert ray.get(double.remote(ray.put(21)), timeout=20) == 42
            assert len(ray.get(double.remote(bytes(200_000)), timeout=20)) == 400_000
    except KeyboardInterrupt:
        interrupts += 1
        value = ray.get(counter.add.remote(), timeout=20)
        assert value == last + 1, (value, last)
        last = value
assert ray.get(double.remote(21), timeout=20) == 42
print("done", flush=True)
"""


@pytest.mark.slow
def test_interrupts_at_any_moment_of_a_busy_driver(tmp_path, leftovers):
    with start_script(tmp_path, DRIVER.replace("ROUNDS", str(ROUNDS))) as driver:
        for number in range(ROUNDS):
            assert driver.stdout.readline() == "working\n", driver.stderr.read()
            # Not to synchronise: to interrupt at another moment each time.
            threading.Event().wait(0.0137 * (number % 7) / 3)
            driver.send_signal(signal.SIGINT)
        output, errors = driver.communicate(timeout=40)
    assert (output, driver.returncode) == ("done\n", 0), errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_handler_of_the_programs_own_is_called(tmp_path, leftovers):
    code = """
    import os, signal, threading
    called = []
    signal.signal(signal.SIGINT, lambda number, frame: called.append(number))
    mine = signal.getsignal(signal.SIGINT)
    import zray as ray
    ray.init(num_cpus=1)
    ref = ray.remote(lambda: threading.Event().wait(0.3)).remote()
    os.kill(os.getpid(), signal.SIGINT)
    ray.get(ref, timeout=20)
    print(called == [signal.SIGINT])
    ray.shutdown()
    print(signal.getsignal(signal.SIGINT) is mine)
    """
    with start_script(tmp_path, code) as driver:
        output, errors = driver.communicate(timeout=40)
    assert output.split() == ["True", "True"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_an_interrupt_in_a_call_is_raised_when_it_returns(tmp_path, leftovers):
    """Not at some later moment that happens to be between two calls: a loop of calls has few of these."""
    code = """
    import os, signal, sys
    import zray as ray
    from zray.host.client import interrupts, task_context
    interrupts.AGAIN_SECONDS = 3600.0
    ray.init(num_cpus=1)
    function = ray.remote(lambda: 4)
    original = task_context.Submitter.next_task_id

    def interrupted(self):
        os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    task_context.Submitter.next_task_id = interrupted
    try:
        function.remote()
        print("missed")
    except KeyboardInterrupt:
        print("interrupted")
    task_context.Submitter.next_task_id = original
    print(ray.get(function.remote()), sys.getprofile())
    """
    with start_script(tmp_path, code) as driver:
        output, errors = driver.communicate(timeout=40)
    assert output.split() == ["interrupted", "4", "None"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_an_interrupt_while_the_session_starts(tmp_path, leftovers):
    """The session is there as a whole, or not at all: half of one would be nobody's to end."""
    code = """
    import os, psutil, signal
    import zray as ray
    from zray.host.process import node_processes
    original = node_processes.spawn

    def spawn(*args, **kwargs):
        pid = original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGINT)
        return pid

    node_processes.spawn = spawn
    try:
        ray.init(num_cpus=1)
        while True:
            pass
    except KeyboardInterrupt:
        count = len(psutil.Process().children())
        print("interrupted", count == int(ray.is_initialized()))
    node_processes.spawn = original
    ray.init(num_cpus=1, ignore_reinit_error=True)
    print(ray.get(ray.remote(lambda: 4).remote()))
    """
    with start_script(tmp_path, code) as driver:
        output, errors = driver.communicate(timeout=40)
    assert output.split() == ["interrupted", "True", "4"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_an_interrupt_while_the_session_imports_what_it_needs(tmp_path, leftovers):
    """What looks where the program is must not need what is half imported there."""
    code = """
    import os, signal, sys
    import zray as ray

    class Interrupts:
        def find_spec(self, name, path=None, target=None):
            if name == "zmq":
                os.kill(os.getpid(), signal.SIGINT)

    assert "zmq" not in sys.modules
    sys.meta_path.insert(0, Interrupts())
    try:
        ray.init(num_cpus=1)
        while True:
            pass
    except KeyboardInterrupt:
        print("interrupted")
    ray.init(num_cpus=1, ignore_reinit_error=True)
    print(ray.get(ray.remote(lambda: 4).remote()))
    """
    with start_script(tmp_path, code) as driver:
        output, errors = driver.communicate(timeout=40)
    assert output.split() == ["interrupted", "4"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_an_interrupt_while_the_session_ends(tmp_path, leftovers):
    """All of it is gone when the interrupt is raised: the program may go on."""
    code = """
    import gc, os, psutil, signal
    import zray as ray
    from zray.host.process import node_processes
    original = node_processes.wait_for_end

    def wait_for_end(*args):
        os.kill(os.getpid(), signal.SIGINT)
        return original(*args)

    def session():
        with ray.init(num_cpus=1):
            value = ray.get(task.remote())
        gc.collect()
        return value, len(os.listdir("/proc/self/fd"))  # of no session: a living one opens logs as they come

    task = ray.remote(lambda: 4)
    _, descriptors = session()
    ray.init(num_cpus=1)
    ray.get(task.remote())
    node_processes.wait_for_end = wait_for_end
    try:
        ray.shutdown()
        while True:
            pass
    except KeyboardInterrupt:
        print("interrupted", ray.is_initialized(), psutil.Process().children())
    node_processes.wait_for_end = original
    value, count = session()
    print(value, count - descriptors)
    """
    with start_script(tmp_path, code) as driver:
        output, errors = driver.communicate(timeout=40)
    assert output.split() == ["interrupted", "False", "[]", "4", "0"], errors
    leftovers.assert_none(LEFTOVER_DEADLINE_S)


def test_a_get_in_a_signals_handler_while_a_get_sleeps(start, gate, tmp_path):
    """Both come back, whichever result arrives first."""
    start(num_cpus=2)
    connection = context.runtime.connection
    tally, heard = Tally(tmp_path / "tally"), []

    def work(gate, tally):
        tally.visit()
        gate.wait()
        return "outer"

    def handle(number, frame):
        heard.append(zray.get([zray.remote(lambda: "inner").remote() for _ in range(3)], timeout=20))
        gate.open()

    def interrupt():
        until(lambda: tally.count() == 1 and connection.is_waiting)  # nothing more comes: it stays asleep
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    previous = signal.signal(signal.SIGUSR1, handle)
    thread = threading.Thread(target=interrupt)
    try:
        ref = zray.remote(work).remote(gate, tally)
        thread.start()
        assert zray.get(ref, timeout=30) == "outer"
        assert heard == [["inner"] * 3]
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, previous)
