"""The memory of a GCS shard while finished lineage goes to disk, and while it does not (E8).

    python -m benchmarks.flushing [--tasks 500000] [--limit 67108864] [--cap 0]

One replica with its log and its store, as in production, in a process of its own that nothing else is in.  What it is
told is a line of tasks, each of which takes the result of the one before and a kilobyte of arguments: while the last
result lives, all of them may have to be run again.  At the end the first one's is asked for, from a node that is lost.

--cap: bytes that the process may take beside what it has at the start.  The kernel gives it no more than that (as
RLIMIT_DATA), and what then becomes of it is reported: a MemoryError, as a rule, and now and then the end of the
process, where a library in C had not expected it.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import json
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from zray.host.cluster.replica_log import ORDERS, ShardLog
from zray.ids import return_id
from zray.roles.effects import Send
from zray.roles.gcs.chain import ChainMember
from zray.wire.chain import ChainChanged, ChainResults, ChainWrite
from zray.wire.codec import Envelope, decode, encode
from zray.wire.gcs import HoldAtNode, NodeLost, RebuildObject, RecordTasks, ReleaseAtNode, SubscribeObject
from zray.wire.task_spec import TaskSpec

ARGUMENT_BYTES = 1_000
BATCH = 100
POINTS = 40
REBUILD_SECONDS = 30.0
Point = tuple[int, int, int]  # tasks, bytes resident, bytes that specs in memory weigh


class Replica:
    """The member, with this process as its reactor."""

    def __init__(self, folder: str, limit: int) -> None:
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.member = ChainMember("s1/gcs-0", "gcs-0", "chains", is_durable=True, lineage_bytes=limit)
        self.log = ShardLog(folder, self.member, lambda role, message: self.inbox.put(message), is_lasting=False)
        self.results: dict[str, list[Any]] = {}
        self.count: dict[str, int] = {}
        self.taken: dict[str, int] = {}
        self.turn("chains", ChainChanged("gcs-0", 1, ["s1/gcs-0"], ""))

    def turn(self, sender: str, message: Any) -> None:
        """One message, and the end of its turn."""
        for effects in (self.member.handle(sender, message, 0.0), self.member.end_turn(0.0)):
            for effect in effects:
                if type(effect) in ORDERS:
                    self.log.perform(self.member.address, effect)  # type: ignore[arg-type]
                elif type(effect) is Send and type(effect.message) is ChainResults:
                    said = effect.message
                    self.taken[effect.destination] = said.first + len(said.results) - 1
                    self.results.setdefault(effect.destination, []).extend(said.results)

    def hear(self, seconds: float = 0.0) -> None:
        """What the disk has to say."""
        try:
            while True:
                self.turn("host", self.inbox.get(timeout=seconds) if seconds else self.inbox.get_nowait())
                seconds = 0.0
        except queue.Empty:
            pass

    def say(self, host: str, *messages: Any) -> None:
        """As a frame brings it."""
        client = f"{host}/shard-0"
        first = self.count.get(client, 0) + 1
        self.count[client] = first + len(messages) - 1
        requests = [(f"{host}/local", message) for message in messages]
        write = ChainWrite(1, first, self.taken.get(client, 0), requests)
        (message,) = decode(encode(Envelope(1, 1, 0, [write]))).messages
        self.turn(client, message)
        self.hear()


def task_id(number: int) -> bytes:
    return b"%016d" % number


def spec(number: int) -> TaskSpec:
    deps = (return_id(task_id(number - 1), 1),) if number else ()
    return TaskSpec(task_id(number), b"f" * 16, (b"%08d" % number).ljust(ARGUMENT_BYTES, b"."), deps)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def data_bytes() -> int:
    """What RLIMIT_DATA counts of this process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData:"))


@contextlib.contextmanager
def capped(more: int) -> Iterator[None]:
    """This process is given so many bytes more than it has, and not one beyond; 0: as many as there are.  Not any more
    afterwards, whatever has come of it.
    """
    former = resource.getrlimit(resource.RLIMIT_DATA)
    if more:
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + more, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, former)


def run(
    tasks: int, limit: int, cap: int = 0, on_point: Callable[[float, Point], None] = lambda seconds, point: None
) -> dict[str, Any]:
    """In this process.  error: what it ended with before all were recorded, for want of memory.  flushed: so many specs
    are on the disk alone.  on_point: told of each as soon as it is there, and of the seconds until then.
    """
    with tempfile.TemporaryDirectory(prefix="zray-flushing-") as folder:
        replica = Replica(folder + "/log", limit)
        gc.collect()
        points: list[Point] = []
        error = ""
        start = time.perf_counter()
        try:
            with capped(cap):
                for point in record(replica, tasks):
                    points.append(point)
                    on_point(time.perf_counter() - start, point)
        except MemoryError as found:
            error = type(found).__name__
        except OSError as found:
            if found.errno != errno.ENOMEM:
                raise
            error = f"{type(found).__name__}: {found.strerror}"
        seconds = time.perf_counter() - start
        assert replica.member.replica is not None
        table = replica.member.replica.shard.tasks
        result = {"points": points, "seconds": seconds, "error": error}
        result |= {"flushed": sum(table.pages.values()), "records": len(table.records)}
        result["rebuilt"] = not error and rebuild(replica) == spec(0)
        replica.log.close()
    return result


def record(replica: Replica, tasks: int) -> Iterator[Point]:
    """The line of tasks; POINTS of them, or one more, are looked at."""
    before = resident_bytes()
    for first in range(0, tasks, BATCH):
        numbers = range(first, min(first + BATCH, tasks))
        given_up = [return_id(task_id(number - 1), 1) for number in numbers if number]
        specs = [spec(number) for number in numbers]
        replica.say("n1", RecordTasks("n1/local", specs), ReleaseAtNode("n1/local", given_up))
        if first // BATCH % max(1, tasks // BATCH // POINTS) == 0:
            assert replica.member.replica is not None
            yield first + BATCH, resident_bytes() - before, replica.member.replica.shard.tasks.weight


def rebuild(replica: Replica) -> TaskSpec | None:
    """What the first task is to be run again by, when the node that has its result is lost."""
    lost = return_id(task_id(0), 1)
    replica.say("n2", HoldAtNode("n2/local", [lost], 0))
    replica.say("n2", NodeLost("n1/local", "killed"), SubscribeObject("n2/local", lost))
    end = time.monotonic() + REBUILD_SECONDS
    while time.monotonic() < end:
        replica.hear(1.0)
        for _, message in replica.results.get("n2/shard-0", ()):
            if type(message) is RebuildObject:
                return message.spec
    return None


def run_apart(tasks: int, limit: int, cap: int = 0) -> dict[str, Any]:
    """In a process of its own.  limit 0: nothing is flushed; cap 0: it may take as much memory as there is.

    One that dies where it has no more memory had got as far as its last point.
    """
    command = [sys.executable, "-m", __name__, "--tasks", str(tasks), "--limit", str(limit), "--cap", str(cap)]
    # One that is ended by a signal leaves its files: they are in a folder of ours.
    with tempfile.TemporaryDirectory(prefix="zray-flushing-") as folder:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": folder})
    if not cap or done.returncode >= 0:
        done.check_returncode()
    return as_result(done.returncode, done.stdout)


def as_result(code: int, printed: str) -> dict[str, Any]:
    """What a process of its own has found.  code: what it ended with; below 0: a signal."""
    found = [json.loads(line) for line in printed.splitlines()]
    if code >= 0:
        return found[-1]  # type: ignore[no-any-return]
    result: dict[str, Any] = {"points": [point for _, point in found], "seconds": found[-1][0]}
    result |= {"error": signal.Signals(-code).name, "flushed": 0, "records": found[-1][1][0], "rebuilt": False}
    return result


def main() -> int:
    """A line for each point, and then one with all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=500_000)
    parser.add_argument("--limit", type=int, default=64 << 20)
    parser.add_argument("--cap", type=int, default=0)
    arguments = parser.parse_args()

    def on_point(seconds: float, point: Point) -> None:
        print(json.dumps([seconds, point]), flush=True)

    print(json.dumps(run(arguments.tasks, arguments.limit, arguments.cap, on_point)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
