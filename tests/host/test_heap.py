"""Freed memory: a process which speaks to other hosts keeps some for what comes next; at rest all of it goes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading

import pytest

from tests.gates import until
from zray.host.process import malloc_tuning

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")

PROGRAM = """
import os, resource, sys
from zray.host.process import malloc_tuning
from zray.host.security.keyring import KeyPair, KeyRing
from zray.host.links.host_links import Neighbours
from zray.roles.object_manager.pulls import CHUNK_BYTES
from zray.roles.object_manager.sources import WINDOW_BYTES_MAX

if sys.argv[1] == "neighbours":
    neighbours = Neighbours("host", KeyPair.draw(), KeyRing(), print)
CHUNK, COUNT = CHUNK_BYTES, WINDOW_BYTES_MAX // CHUNK_BYTES

def faults_of_a_round(count=COUNT):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    chunks = [bytes([number % 255 + 1]) * CHUNK for number in range(count)]
    del chunks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

for _ in range(3):
    faults_of_a_round()
print(min(faults_of_a_round() for _ in range(5)) * resource.getpagesize() / (CHUNK * COUNT))
before = resident()
faults_of_a_round(16 * COUNT)
print(resident() - before < malloc_tuning.FREED_BYTES_MAX + (8 << 20), flush=True)
os._exit(0)
"""


def run(kind: str) -> tuple[float, bool]:
    """What share of a window's bytes is new memory each time; whether much more, once freed, is given back."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, kind], capture_output=True, text=True, timeout=60, check=True)
    share, gives_back = done.stdout.split()[-2:]
    return float(share), gives_back == "True"


def test_chunks_that_come_and_go_take_no_new_pages_each_time() -> None:
    share, gives_back = run("neighbours")
    assert share < 0.02, "the end of the heap is given back and fetched again"
    assert gives_back, "memory that was freed stays without a bound"


def test_without_it_they_would() -> None:
    assert run("none")[0] > 0.5


@pytest.mark.slow
def test_freed_memory_goes_back_at_rest(start):
    """Of the program, its node and its workers, though what lies at the end of each heap is still in use."""
    import zray
    from zray.host import context

    @zray.remote
    class Holder:
        def pid(self):
            return os.getpid()

        def fill(self):
            for _ in range(5):  # less than WORTH_CPU_SECONDS of work is not worth a look
                values = [bytes(1000) for _ in range(150_000)]
            self.kept = values[-1], zray.put(1)
            return own_bytes_of(os.getpid())

    start(num_cpus=1)
    holder = Holder.remote()
    worker, node = zray.get(holder.pid.remote()), context.runtime.node_pid
    pids = {"program": os.getpid(), "node": node, "worker": worker}
    before = {name: own_bytes_of(pid) for name, pid in pids.items()}
    filled = zray.get(holder.fill.remote())
    # No rest between these lines: a pause follows each giving back.
    refs = [zray.put(bytes(1000)) for _ in range(100_000)]
    full = {name: own_bytes_of(pid) for name, pid in pids.items()} | {"worker": filled}
    grown = {name: full[name] - before[name] for name in pids}
    assert min(grown.values()) > 90 << 20, grown
    kept = refs[-1:]
    del refs
    look = threading.Event()  # not often: who looks all the time is not at rest
    until(
        lambda: look.wait(0.2) or all(own_bytes_of(pid) - before[name] < grown[name] / 2 for name, pid in pids.items())
    )
    assert zray.get(kept[0]) == bytes(1000)


def own_bytes_of(pid):
    with open(f"/proc/{pid}/statm") as file:
        resident, shared = file.read().split()[1:3]
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class Process:
    """Process as `Rest` sees it: CPU time, memory, and how often memory was given back."""

    def __init__(self, monkeypatch):
        self.cpu, self.memory, self.now = 0.0, 1 << 30, 1000.0
        self.given_back = threading.Semaphore(0)
        monkeypatch.setattr(malloc_tuning, "own_bytes", lambda: self.memory)
        monkeypatch.setattr(malloc_tuning, "give_back", self.given_back.release)
        monkeypatch.setattr(malloc_tuning.time, "process_time", lambda: self.cpu)
        monkeypatch.setattr(malloc_tuning.time, "monotonic", lambda: self.now)
        self.rest = malloc_tuning.Rest()

    def run(self, seconds, share):
        """How often it gave back meanwhile."""
        for _ in range(seconds * 4):
            self.now += 0.25
            self.cpu += 0.25 * share
            self.rest.look(self.now)
            for thread in threading.enumerate():
                if thread.name == "zray-give-back":
                    thread.join()
        count = 0
        while self.given_back.acquire(blocking=False):
            count += 1
        return count


def test_process_gives_back_once_for_each_rest(monkeypatch):
    process = Process(monkeypatch)
    assert process.run(60, 1.0) == 0, "the process is busy"
    assert process.run(4, 0.0) == 1
    assert process.run(600, 0.0001) == 0, "the process has done nothing since"
    process.run(60, 0.5)
    assert process.run(4, 0.0) == 1


def test_process_that_is_never_quite_at_rest_gives_back_rarely(monkeypatch):
    process = Process(monkeypatch)
    count = process.run(600, 0.2)
    assert 1 <= count <= 600 / malloc_tuning.PAUSE_SECONDS


def test_small_process_gives_nothing_back(monkeypatch):
    process = Process(monkeypatch)
    process.memory = 20 << 20
    process.run(60, 1.0)
    assert process.run(60, 0.0) == 0


def test_pause_does_not_grow_with_the_wait_for_a_core(monkeypatch):
    process = Process(monkeypatch)

    def wait_for_a_core():
        process.now += 10.0
        process.given_back.release()

    monkeypatch.setattr(malloc_tuning, "give_back", wait_for_a_core)
    process.run(10, 1.0)
    assert process.run(4, 0.0) == 1
    process.run(int(malloc_tuning.PAUSE_SECONDS), 1.0)
    assert process.run(4, 0.0) == 1


def test_process_without_threads_to_be_had_goes_on(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    process = Process(monkeypatch)
    process.run(10, 1.0)
    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        assert process.run(10, 0.0) == 0
    process.run(10, 1.0)
    assert process.run(4, 0.0) == 1


@pytest.mark.parametrize(("freed", "is_given_back"), [(100 << 20, True), (1 << 20, False)])
def test_much_that_was_freed_in_little_time_goes_back_too(monkeypatch, freed, is_given_back):
    """A busy machine lets a program rest before it frees: its CPU time alone tells nothing."""
    calls = []
    monkeypatch.setattr(malloc_tuning, "free_bytes", lambda: freed)
    monkeypatch.setattr(malloc_tuning, "own_bytes", lambda: 1 << 30)
    monkeypatch.setattr(malloc_tuning.time, "process_time", lambda: 5.0)
    monkeypatch.setattr(malloc_tuning.Rest, "_give_back", lambda rest: calls.append(rest))
    rest = malloc_tuning.Rest()
    rest.cpu_seconds_before = 5.0
    for second in range(1, 6):
        rest.look(float(second))
    until(lambda: len(calls) == is_given_back)
