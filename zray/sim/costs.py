"""Virtual time with the costs of real time: CPU time per message, and cores shared by a node's processes.

Without costs (all tests) a turn takes no time.  With costs, the messages of a turn determine its duration: outgoing
messages leave at its end, and the next turn begins after that.  A `Stopwatch` on a world measures these costs: the CPU
time of the real handlers, by kind and number of items.  The clock is passed in by the measuring program.

Left out: the time-slices of a real kernel (a core is taken to the end of a turn), caches, and garbage collection.
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
    """CPU seconds.  kinds: per item in a message of that kind."""

    kinds: dict[str, float]
    frame: float = 0.0  # system calls of the node for a frame, in or out
    worker_task: float = 0.0  # a worker, beside the task itself
    cores: int = 2  # of each node, shared by its processes

    def of(self, kind: str, count: int) -> float:
        """Return the cost of `count` items; kinds never measured are rare, and cost nothing."""
        return self.kinds.get(kind, 0.0) * count


class Stopwatch:
    """The CPU time of a world's handlers, on the machine of the simulator."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.spent: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    def note(self, kind: str, count: int, begun: float) -> None:
        """Note the end of a handler of that kind."""
        self.spent[kind] = self.spent.get(kind, 0.0) + self.clock() - begun
        self.counts[kind] = self.counts.get(kind, 0) + count

    def kinds(self) -> dict[str, float]:
        """Seconds per thing."""
        return {kind: seconds / self.counts[kind] for kind, seconds in self.spent.items() if self.counts[kind]}


class Cores:
    """The cores of a machine: the first request computes first, to the end."""

    def __init__(self, count: int) -> None:
        self.free_at = [0.0] * count
        self.used = 0.0

    def occupy(self, now: float, seconds: float) -> float:
        """Return the time at which work that could begin now is done."""
        core = min(range(len(self.free_at)), key=self.free_at.__getitem__)
        end = max(now, self.free_at[core]) + seconds
        self.free_at[core] = end
        self.used += seconds
        return end


def things_in(message: Any) -> int:
    """Return the length of a message's longest list; 1 without a list."""
    count = 1
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if type(value) is list or type(value) is tuple:
            count = max(count, len(value))
    return count


def things_done(message: Any, effects: list[Any]) -> int:
    """Return the number of items in a handler's message, or in its outgoing messages (as for a timer)."""
    count = 1 if message is None else things_in(message)
    for effect in effects:
        if type(effect) is Send:
            count = max(count, things_in(effect.message))
    return count


def kind_of(role: Any, message: Any) -> str:
    """Return the role and the message type as a key."""
    return f"{type(role).__name__}: {name_of(message)}"
