"""The floor of the task path: a bare driver -> hub -> workers pipeline, with nothing that can be left out.

    python floor_pipeline.py [--seconds 2] [--workers 2] [--figures sync_us,async_10k]     one JSON line

The hub keeps a task table, reference counts, values and lineage; it knows no resources, faults or second node.
Stands alone (no import of this package), so that it can be run in a clean process.

sync_us      one no-op task submitted and fetched, median, microseconds
async_1k     1,000 tasks submitted, then all fetched: median, tasks/s; async_10k and async_100k alike
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import statistics
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import msgspec
import zmq

COUNTS = {"sync_us": 1, "async_1k": 1_000, "async_10k": 10_000, "async_100k": 100_000}  # tasks per burst
SUBMIT_BATCH = 64  # specs per message from the driver
WORKER_WINDOW = 64  # tasks that a worker may hold at once
REPORT_SECONDS = 0.0005  # a worker reports what it has finished at least this often
TURN_FRAMES = 256  # frames that the hub takes in before it sends
WARM_UP_TASKS = 2_000


class Spec(msgspec.Struct, array_like=True, gc=False):
    id: bytes
    function: bytes
    arguments: bytes
    needs: tuple[bytes, ...] = ()


class Join(msgspec.Struct, array_like=True, tag=1):
    runs_tasks: bool


class Submit(msgspec.Struct, array_like=True, tag=2):
    specs: list[Spec]


class Start(msgspec.Struct, array_like=True, tag=3):
    specs: list[Spec]


class Finished(msgspec.Struct, array_like=True, tag=4):
    values: list[tuple[bytes, bytes]]


class Drop(msgspec.Struct, array_like=True, tag=5):
    ids: list[bytes]


class End(msgspec.Struct, array_like=True, tag=6):
    pass


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[Join | Submit | Start | Finished | Drop | End]).decode


def open_socket(kind: int) -> zmq.Socket:
    """A socket that drops nothing: no high-water mark, and nothing left to send when it closes."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.sndhwm = socket.rcvhwm = 0
    socket.linger = 0
    return socket


class Pending:
    """A task that has not finished, and who asked for it."""

    __slots__ = ("spec", "owner")

    def __init__(self, spec: Spec, owner: bytes) -> None:
        self.spec = spec
        self.owner = owner


class Hub:
    """The middle of the pipeline: takes specs, deals them to workers, passes values back."""

    def __init__(self, socket: zmq.Socket) -> None:
        self.socket = socket
        self.held: dict[bytes, int] = {}  # per worker: tasks given and not yet reported
        self.waiting: deque[Pending] = deque()
        self.pending: dict[bytes, Pending] = {}
        self.counts: dict[bytes, int] = {}
        self.values: dict[bytes, bytes] = {}
        self.lineage: dict[bytes, Spec] = {}
        self.outbox: dict[bytes, list[Any]] = defaultdict(list)
        self.handlers: dict[type, Callable[[bytes, Any], None]] = {
            Join: self.on_join,
            Submit: self.on_submit,
            Finished: self.on_finished,
            Drop: self.on_drop,
        }

    def on_join(self, sender: bytes, message: Join) -> None:
        if message.runs_tasks:
            self.held[sender] = 0

    def on_submit(self, sender: bytes, message: Submit) -> None:
        for spec in message.specs:
            pending = self.pending[spec.id] = Pending(spec, sender)
            self.counts[spec.id] = 1
            self.lineage[spec.id] = spec
            for need in spec.needs:
                self.counts[need] += 1
            self.waiting.append(pending)

    def on_finished(self, sender: bytes, message: Finished) -> None:
        self.held[sender] -= len(message.values)
        replies = defaultdict(list)
        for pair in message.values:
            self.values[pair[0]] = pair[1]
            replies[self.pending.pop(pair[0]).owner].append(pair)
        for owner, values in replies.items():
            self.outbox[owner].append(Finished(values))

    def on_drop(self, sender: bytes, message: Drop) -> None:
        for id in message.ids:
            left = self.counts[id] - 1
            if left:
                self.counts[id] = left
            else:
                del self.counts[id], self.values[id], self.lineage[id]

    def deal(self) -> None:
        """Top up every worker whose window is at most half full."""
        for worker, held in self.held.items():
            if self.waiting and held <= WORKER_WINDOW // 2:
                count = min(WORKER_WINDOW - held, len(self.waiting))
                self.held[worker] = held + count
                self.outbox[worker].append(Start([self.waiting.popleft().spec for _ in range(count)]))

    def turn(self) -> bool:
        """Take in what has arrived, then send one frame per destination. False when told to end."""
        self.socket.poll()
        for _ in range(TURN_FRAMES):
            try:
                sender, frame = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            for message in decode(frame):
                if type(message) is End:
                    return False
                self.handlers[type(message)](sender, message)
        self.deal()
        for destination, messages in self.outbox.items():
            self.socket.send_multipart([destination, encode(messages)])
        self.outbox.clear()
        return True


def hub_main(address: str, ready: Any) -> None:
    socket = open_socket(zmq.ROUTER)
    socket.bind(address)
    ready.set()
    hub = Hub(socket)
    while hub.turn():
        pass
    socket.linger = 1000
    for worker in hub.held:
        socket.send_multipart([worker, encode([End()])])
    socket.close()
    socket.context.term()  # a forked child ends without it, and takes the last messages along


def worker_main(address: str) -> None:
    socket = open_socket(zmq.DEALER)
    socket.connect(address)
    socket.send(encode([Join(True)]))
    functions = {b"same": lambda value: value}
    message: Any  # End, or Start
    while True:
        for message in decode(socket.recv()):
            if type(message) is End:
                return
            values, reported = [], time.monotonic()
            for spec in message.specs:
                args, kwargs = pickle.loads(spec.arguments)
                value = functions[spec.function](*args, **kwargs)
                values.append((spec.id, pickle.dumps(value, 5)))
                if time.monotonic() - reported > REPORT_SECONDS:
                    socket.send(encode([Finished(values)]))
                    values, reported = [], time.monotonic()
            if values:
                socket.send(encode([Finished(values)]))


class Ref:
    """A value to come; the hub forgets it when this is gone."""

    __slots__ = ("id", "driver")

    def __init__(self, id: bytes, driver: Driver) -> None:
        self.id = id
        self.driver = driver

    def __del__(self) -> None:
        self.driver.values.pop(self.id, None)
        self.driver.dropped.append(self.id)


class Driver:
    """The near end: specs leave in batches, values are kept until their refs are gone."""

    def __init__(self, address: str) -> None:
        self.socket = open_socket(zmq.DEALER)
        self.socket.connect(address)
        self.socket.send(encode([Join(False)]))
        self.prefix = os.urandom(10)
        self.submitted = 0
        self.specs: list[Spec] = []
        self.dropped: list[bytes] = []
        self.values: dict[bytes, bytes] = {}

    def submit(self, *args: Any, **kwargs: Any) -> Ref:
        self.submitted += 1
        id = self.prefix + self.submitted.to_bytes(6, "big")
        needs = tuple(arg.id for arg in args if type(arg) is Ref)
        self.specs.append(Spec(id, b"same", pickle.dumps((args, kwargs), 5), needs))
        if len(self.specs) >= SUBMIT_BATCH:
            self.flush()
        return Ref(id, self)

    def flush(self) -> None:
        messages: list[Any] = [Submit(self.specs)] if self.specs else []
        if self.dropped:
            messages.append(Drop(self.dropped))
        self.specs, self.dropped = [], []
        self.socket.send(encode(messages))

    def get(self, refs: list[Ref]) -> list[Any]:
        self.flush()
        message: Any  # Finished
        for ref in refs:
            while ref.id not in self.values:
                for message in decode(self.socket.recv()):
                    self.values.update(message.values)
        return [pickle.loads(self.values[ref.id]) for ref in refs]

    def burst(self, count: int) -> None:
        """`count` tasks submitted, then fetched and checked."""
        if self.get([self.submit(i) for i in range(count)]) != list(range(count)):
            raise AssertionError("the pipeline gave back other values than it was given")


def median_seconds(driver: Driver, count: int, seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        driver.burst(count)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(seconds: float, workers: int, figures: list[str]) -> dict[str, float]:
    """Start hub and workers, measure each named figure for `seconds`, end them."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/hub"
        ready = context.Event()
        processes = [context.Process(target=hub_main, args=(address, ready), daemon=True)]
        processes += [context.Process(target=worker_main, args=(address,), daemon=True) for _ in range(workers)]
        for process in processes:
            process.start()
        ready.wait()
        driver = Driver(address)
        time.sleep(0.3)
        driver.burst(WARM_UP_TASKS)
        report = {}
        for name in figures:
            took = median_seconds(driver, COUNTS[name], seconds)
            report[name] = round(took * 1e6, 1) if name == "sync_us" else round(COUNTS[name] / took)
        driver.socket.send(encode([End()]))
        for process in processes:
            process.join()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time given to each figure")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--figures", default=",".join(COUNTS))
    options = parser.parse_args()
    print(json.dumps(measure(options.seconds, options.workers, options.figures.split(","))))


if __name__ == "__main__":
    main()
