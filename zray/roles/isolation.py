"""Whether all others are silent since this machine, the head's, is cut off itself: a cable, a switch, a network card.

A head that hears nobody cannot tell that from all having died at once, which is rarer.  So when no node on another
machine is heard of, at least two of them, and a look from outside reaches none, the verdict on them waits: they are
suspended meanwhile (local_scheduler/membership/suspension.py), and go on when they are heard of again.  Until then they
wait for us by themselves; then the verdict falls after all.

Of one node alone its death is the likelier cause: it is judged as ever.  So is one of several that are silent while
others are heard of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.where import host_of
from .effects import Finding
from .work_effects import HeadIsAlone

if TYPE_CHECKING:
    from .monitor import Monitor

NODES_MIN = 2
# When a silent node is looked at: heartbeats come with each tick, and the look takes up to a second; its outcome is
# there before the verdict would fall (27 ticks).
LOOK_AT_TICKS = 12
# From then on so often: a line that is there for a moment makes us forget what the last look has found.  So often, too,
# is a node looked at that is not back.
LOOK_TICKS = 5
WAIT_SECONDS = 60.0  # as Lease.HEAD_WAIT_SECONDS


class Isolation:
    """Of one monitor, which asks with each tick."""

    LASTING = {"out_of_reach": "monitor.nodes"}

    def __init__(self, monitor: Monitor, ticks_max: int) -> None:
        self.monitor = monitor
        self.ticks_max = ticks_max  # so long the verdicts wait
        self.ticks = 0  # so long they have waited; 0: they do not
        self.out_of_reach: dict[str, None] = {}  # nodes where the last look found nobody, in this silence

    def found(self, node: str, finding: Finding) -> None:
        """A look at a node has told this."""
        if finding is Finding.OUT_OF_REACH and node in self.monitor.nodes:
            self.out_of_reach[node] = None
        else:
            self.heard(node)

    def heard(self, node: str) -> None:
        """There is a sign of that node; or it is none any more."""
        self.out_of_reach.pop(node, None)

    @staticmethod
    def looks_at(silent_ticks: int) -> bool:
        """Whether a node that has been silent for so long is looked at."""
        return silent_ticks >= LOOK_AT_TICKS and (silent_ticks - LOOK_AT_TICKS) % LOOK_TICKS == 0

    def tick(self) -> bool:
        """Whether verdicts on silent nodes wait."""
        was_so = self.ticks > 0
        is_so = self._hears_nobody()
        if not is_so:
            if was_so:
                self.ticks = 0
                self.monitor.await_all()
                self.monitor.perform(HeadIsAlone(False))
            return False
        self.ticks += 1
        if not was_so:
            self.monitor.perform(HeadIsAlone(True))
        return self.ticks <= self.ticks_max

    def _hears_nobody(self) -> bool:
        monitor, count = self.monitor, 0
        if len(self.out_of_reach) < NODES_MIN:
            return False  # as ever
        own = host_of(monitor.address)
        for node, facts in monitor.nodes.items():
            if facts.kind == "node" and host_of(node) != own:
                count += 1
                if node not in self.out_of_reach or monitor.silent_ticks[node] <= LOOK_AT_TICKS:
                    return False
        return count >= NODES_MIN
