"""Node whose tasks reach their workers later, for E11: a hook of this benchmark, which zray itself does not offer.

`slow_nodes()` has the nodes that this process starts run `main` below.  There, each order to a worker waits for the
delay between the local scheduler's decision and the socket; other messages do not.  The delay can be changed while the
nodes run, so that all delays are measured in turns.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

from zray.host.node.main import main as run_node
from zray.host.process import node_processes

NODE_MODULE = "zray.host.node.main"
VARIABLE = "ZRAY_BENCHMARK_DISPATCH_DELAY"
ADDRESS = "slow dispatch"
SECONDS = struct.Struct("d")


class Delay:
    """Seconds in a file, which all nodes see at once.  To be changed while no task is under way."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), SECONDS.size)

    @property
    def seconds(self) -> float:
        """The delay of each order to a worker."""
        found: float = SECONDS.unpack_from(self.page)[0]
        return found

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        SECONDS.pack_into(self.page, 0, seconds)


@contextlib.contextmanager
def slow_nodes() -> Iterator[Delay]:
    """Nodes that are started in this block have the hook; the delay is 0 at first."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(SECONDS.pack(0.0))
        file.flush()
        with hooked(file.name):
            yield Delay(file.name)


@contextlib.contextmanager
def hooked(path: str) -> Iterator[None]:
    """Nodes that are started in this block have the delay of that file."""
    spawn, folder = node_processes.spawn, os.path.dirname(os.path.abspath(__file__))

    def spawn_slow(module: str, *given: Any, **options: Any) -> int:
        if module != NODE_MODULE:
            return spawn(module, *given, **options)
        sys.path.append(folder)  # last: none of its names hides another
        try:
            name = os.path.splitext(os.path.basename(__file__))[0]
            return spawn(name, *given, **options, variables={VARIABLE: path})
        finally:
            sys.path.remove(folder)

    node_processes.spawn = spawn_slow
    try:
        yield
    finally:
        node_processes.spawn = spawn


class LateSends:
    """Stand-in for a role: messages come back to the reactor when their time has come, and leave."""

    address = ADDRESS

    def __init__(self, reactor: Any, delay: Delay) -> None:
        self.reactor, self.delay = reactor, delay
        self.waiting: SimpleQueue[tuple[float, Any]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, effect: Any) -> None:
        """Have a message wait."""
        self.waiting.put((time.monotonic() + self.delay.seconds, effect))

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Let go of it.  The message is the effect itself."""
        return [message]

    def _work(self) -> None:
        while True:
            due, effect = self.waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self.reactor.deliver_from_thread(ADDRESS, effect)


def slow_down(delay: Delay) -> None:
    """Change the reactor of this process."""
    from zray.host.reactor import Reactor
    from zray.roles.effects import Send
    from zray.wire.tasks import StartTasks

    perform, begin = Reactor._perform, Reactor.__init__

    def init(self: Any, *given: Any, **options: Any) -> None:
        begin(self, *given, **options)
        late = LateSends(self, delay)
        self.role_by_address[ADDRESS] = late
        self.places[ADDRESS] = len(self.places)
        self.late = late

    def perform_late(self: Any, address: str, effects: Sequence[Any]) -> None:
        is_late = [address != ADDRESS and type(each) is Send and type(each.message) is StartTasks for each in effects]
        if any(is_late) and delay.seconds:
            for effect, waits in zip(effects, is_late, strict=True):
                if waits:
                    self.late.put(effect)
            effects = [effect for effect, waits in zip(effects, is_late, strict=True) if not waits]
        perform(self, address, effects)

    Reactor.__init__ = init  # type: ignore[method-assign]
    Reactor._perform = perform_late  # type: ignore[method-assign]


def main() -> None:
    """Run a node with the delay of the environment."""
    slow_down(Delay(os.environ.pop(VARIABLE)))
    run_node()
