"""A simulated world for predictions: given machines, lines and delays, no faults, no checks, and large values in small.

A value has one byte here for SCALE bytes of a real one, so that terabytes fit into memory; its line and its node's
store are slower and smaller by as much.  Messages have their real size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..wire.objects import ObjectChunk
from .checkers import Checkers
from .options import Options
from .simulator import Simulator
from .trace import Trace
from .values import Big

if TYPE_CHECKING:
    from .node import Node

SCALE = 1024
# Values of more bytes lie in a store, as those of more than 100 KiB do.
INLINE_BYTES_MAX = 100
# Bytes that are asked of another node at once: 1 MiB.
CHUNK_BYTES = 1024
# A node's store, 1 TiB: predictions have room for all values.
CAPACITY = 1 << 30


class Machines(Struct, kw_only=True):
    """The machines of a prediction.

    resources: of each node, in RESOURCE_UNITs; the program runs on the first one.  bandwidth: bytes/s of a node's line;
    0: any number.  latency: seconds between nodes.  hop: seconds between processes of a node.  start: seconds until a
    worker has started.  boots: seconds from the start of the program until the first worker of each node has.  task,
    call: seconds of a worker for each task and each call beyond their own code.
    """

    resources: list[dict[str, int]]
    bandwidth: float = 0.0
    latency: float = 0.0
    hop: float = 0.0
    start: float = 0.0
    boots: tuple[float, ...] = ()
    task: float = 0.0
    call: float = 0.0
    policy: str = "bottom_up"


class PredictedWorld(Simulator):
    """A world of given machines."""

    def __init__(self, machines: Machines, facts: Any) -> None:
        """facts: what its scripts find there (language.Surroundings)."""
        self.machines = machines
        self.facts = facts
        self.bytes_moved = 0
        self.start = 0.0  # of the program
        options = Options(
            seed=1,
            nodes=len(machines.resources),
            policy=machines.policy,
            bandwidth=machines.bandwidth,
            capacity=CAPACITY,
            pages_max=CAPACITY,
            chunk_bytes=CHUNK_BYTES,
            inline_bytes_max=INLINE_BYTES_MAX,
            turn_delay_max=0.0,
            check_every=1 << 60,
            infeasible="wait",
        )
        super().__init__(options)
        self.checkers = NoCheckers(self)
        self.trace = NoTrace()

    def resources_of(self, name: str, counts: dict[str, int]) -> dict[str, int]:
        return self.machines.resources[int(name[1:]) - 1]

    def bytes_on_line(self, frame: bytes, messages: Sequence[Any]) -> int:
        large = sum(len(message.data) for message in messages if type(message) is ObjectChunk)
        self.bytes_moved += large * SCALE
        return len(frame) + large * (SCALE - 1)

    def delay_of(self, source: str) -> float:
        return self.machines.latency if source in self.homes else self.machines.hop

    def draw_delay(self) -> float:
        return self.machines.hop

    def draw_start_seconds(self, node: str) -> float:
        boots = self.machines.boots
        first = self.start + boots[(int(node[1:]) - 1) % len(boots)] if boots else 0.0
        return max(self.machines.start, first - self.now)

    def draw_task_seconds(self, *, is_call: bool) -> float:
        return self.machines.call if is_call else self.machines.task


class NoCheckers(Checkers):
    """Checks nothing: predictions run the code that tests have checked."""

    def after_turn(self, node: Node) -> None:
        """Nothing."""

    def bounds_are_kept(self, address: str, *roles: Any) -> None:
        """Nothing."""

    def is_read(self, object_id: bytes, data: bytes, address: str) -> None:
        """Nothing."""


class NoTrace(Trace):
    """Keeps nothing."""

    def frame(self, now: float, source: str, target: str, frame: bytes) -> None:
        """Nothing."""

    def message(self, now: float, source: str, target: str, message: Any) -> None:
        """Nothing."""

    def event(self, now: float, target: str, words: str) -> None:
        """Nothing."""


def value_of(size: int) -> Any:
    """Return the value that stands for one of so many bytes in a store; 0: for a small one."""
    return Big(1, max(INLINE_BYTES_MAX + 1, size // SCALE)) if size else None
