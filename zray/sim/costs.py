"""Virtual time that costs what real time does: CPU time per message, and cores that a node's processes share.

Without costs (all tests) a turn takes no time.  With them, what a turn has handled decides how long it took: what it
says leaves when it is over, and the next one begins after that.  A `Stopwatch` on a world finds these costs: it takes
the CPU time of the very handlers, by kind and number of things.  The clock comes from whoever measures.

Not in it: the time-slices of a real kernel (a core is taken to the end of a turn), caches, and garbage collection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ..roles.effects import Send
from .trace import name_of

END_OF_TURN, QUIET_END_OF_TURN = "end of turn", "quiet end of turn"
PACK, UNPACK = "pack", "unpack"


class Costs(Struct, kw_only=True):
    """CPU seconds.  kinds: per thing that a message of that kind is about."""

    kinds: dict[str, float]
    frame: float = 0.0  # system calls of the node for one frame, in or out
    worker_task: float = 0.0  # a worker, beside what the task itself does
    cores: int = 2  # of each node; its processes share them

    def of(self, kind: str, count: int) -> float:
        """Of `count` things; what was never measured is rare, and costs nothing."""
        return self.kinds.get(kind, 0.0) * count


class Stopwatch:
    """What a world's own handlers take, on the machine that simulates it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.spent: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def note(self, kind: str, count: int, begun: float) -> None:
        """Something of that kind has ended just now."""
        self.spent[kind] = self.spent.get(kind, 0.0) + self.clock() - begun
        self.counts[kind] = self.counts.get(kind, 0) + count

    def kinds(self) -> dict[str, float]:
        """Seconds per thing."""
        return {kind: seconds / self.counts[kind] for kind, seconds in self.spent.items() if self.counts[kind]}


class Cores:
    """Those of one machine: whoever asks first computes first, to the end."""

    def __init__(self, count: int) -> None:
        self.free_at = [0.0] * count
        self.used = 0.0

    def occupy(self, now: float, seconds: float) -> float:
        """When so much work is done that could begin now."""
        core = min(range(len(self.free_at)), key=self.free_at.__getitem__)
        end = max(now, self.free_at[core]) + seconds
        self.free_at[core] = end
        self.used += seconds
        return end


def things_in(message: Any) -> int:
    """The length of its longest list; 1 where there is none."""
    count = 1
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if type(value) is list or type(value) is tuple:
            count = max(count, len(value))
    return count


def things_done(message: Any, effects: list[Any]) -> int:
    """What a handler has worked on: what it was told of, or what it has told of (as a timer's does)."""
    count = 1 if message is None else things_in(message)
    for effect in effects:
        if type(effect) is Send:
            count = max(count, things_in(effect.message))
    return count


def kind_of(role: Any, message: Any) -> str:
    """Who handles what."""
    return f"{type(role).__name__}: {name_of(message)}"
