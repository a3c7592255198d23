"""Node whose tasks reach their workers later, for E11: a hook of this benchmark, which zray itself does not offer.

`delayed(seconds)` has the nodes that this process starts run `main` below.  There, each order to a worker waits for so
long between the local scheduler's decision and the socket; other messages do not.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Any

from zray.host.node.main import main as run_node
from zray.host.process import node_processes

NODE_MODULE = "zray.host.node.main"
VARIABLE = "ZRAY_BENCHMARK_DISPATCH_SECONDS"
ADDRESS = "slow dispatch"


@contextlib.contextmanager
def delayed(seconds: float) -> Iterator[None]:
    """Nodes that are started in this block have the delay.  0: the hook alone."""
    spawn, folder = node_processes.spawn, os.path.dirname(os.path.abspath(__file__))

    def spawn_slow(module: str, *given: Any, **options: Any) -> int:
        if module != NODE_MODULE:
            return spawn(module, *given, **options)
        sys.path.append(folder)  # last: none of its names hides another
        try:
            name = os.path.splitext(os.path.basename(__file__))[0]
            return spawn(name, *given, **options, variables={VARIABLE: repr(seconds)})
        finally:
            sys.path.remove(folder)

    node_processes.spawn = spawn_slow
    try:
        yield
    finally:
        node_processes.spawn = spawn


class LateSends:
    """What the reactor takes for a role: messages come back to it when their time has come, and leave."""

    address = ADDRESS

    def __init__(self, reactor: Any, seconds: float) -> None:
        self.reactor, self.seconds = reactor, seconds
        self.waiting: SimpleQueue[tuple[float, Any]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, effect: Any) -> None:
        """Have a message wait."""
        self.waiting.put((time.monotonic() + self.seconds, effect))

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Let go of it.  The message is the effect itself."""
        return [message]

    def _work(self) -> None:
        while True:
            due, effect = self.waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            self.reactor.deliver_from_thread(ADDRESS, effect)


def slow_down(seconds: float) -> None:
    """Change the reactor of this process."""
    from zray.host.reactor import Reactor
    from zray.roles.effects import Send
    from zray.wire.tasks import StartTasks

    perform, begin = Reactor._perform, Reactor.__init__

    def init(self: Any, *given: Any, **options: Any) -> None:
        begin(self, *given, **options)
        late = LateSends(self, seconds)
        self.role_by_address[ADDRESS] = late
        self.places[ADDRESS] = len(self.places)
        self.late = late

    def perform_late(self: Any, address: str, effects: Sequence[Any]) -> None:
        is_late = [address != ADDRESS and type(each) is Send and type(each.message) is StartTasks for each in effects]
        if any(is_late):
            for effect, waits in zip(effects, is_late, strict=True):
                if waits:
                    self.late.put(effect)
            effects = [effect for effect, waits in zip(effects, is_late, strict=True) if not waits]
        perform(self, address, effects)

    Reactor.__init__ = init  # type: ignore[method-assign]
    Reactor._perform = perform_late  # type: ignore[method-assign]


def main() -> None:
    """Run a node with the delay of the environment."""
    if seconds := float(os.environ.pop(VARIABLE)):
        slow_down(seconds)
    run_node()
