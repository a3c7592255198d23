"""Where a task would start soonest: arithmetic that is true on its own.

    wait(node) = queue x mean task time / slots + bytes to fetch / bandwidth

Source: Ray paper 4.2.2; USERS and PAPER 4.5 for what is counted since the last report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ...wire.task_spec import RESOURCE_UNIT


class NodeLoad(Struct, gc=False):
    """What a global scheduler believes of a node: its last report, and what was placed since."""

    node: str
    total: dict[str, int]
    free: dict[str, int]
    queue_count: int
    task_s_mean: float
    bandwidth_bytes_per_s: float
    placed_count: int = 0  # since the report
    kind: str = "node"  # on a "driver" outside of the cluster nothing is placed
    held: dict[str, int] = {}  # what actors have, for as long as they live

    def could_ever_fit(self, request: Mapping[str, int]) -> bool:
        """Whether the empty node would do."""
        return all(self.total.get(name, 0) >= amount for name, amount in request.items())

    def fits_beside_actors(self, request: Mapping[str, int]) -> bool:
        """Whether it would do with nothing but its actors."""
        return all(self.total.get(name, 0) - self.held.get(name, 0) >= amount for name, amount in request.items())

    def estimated_wait_s(self, request: Mapping[str, int], bytes_to_fetch: int) -> float:
        """Seconds until a task with this request would start here."""
        fetch = bytes_to_fetch / self.bandwidth_bytes_per_s
        slots = max(1, (self.total.get("CPU", 0) - self.held.get("CPU", 0)) // RESOURCE_UNIT)
        ahead = self.queue_count + self.placed_count
        if not ahead and all(self.free.get(name, 0) >= amount for name, amount in request.items()):
            return fetch
        # The one that runs now must end too: half of it is left, on average.
        return (ahead + 0.5) * (self.task_s_mean or 0.001) / slots + fetch


def best_node(
    loads: Iterable[NodeLoad], request: Mapping[str, int], objects: Iterable[tuple[bytes, int, list[str]]]
) -> NodeLoad | None:
    """The node of the least estimated wait, the first of equals by name.  None: nobody has what actors do not hold.

    objects: (id, size in bytes, nodes that have it) of what the task takes.
    """
    known = list(objects)
    best: NodeLoad | None = None
    best_cost = (float("inf"), "")
    for load in loads:
        if load.kind == "driver" or not load.fits_beside_actors(request):
            continue
        missing = sum(size for _, size, holders in known if load.node not in holders)
        cost = (load.estimated_wait_s(request, missing), load.node)
        if best is None or cost < best_cost:
            best, best_cost = load, cost
    return best


def best_home(loads: Iterable[NodeLoad], request: Mapping[str, int], origin: str) -> NodeLoad | None:
    """The node, other than the origin, that has room for an actor now; the one with the most free of CPUs.

    None: nobody has room.  The origin has none, or it would not ask.
    """
    best: NodeLoad | None = None
    best_cost = (0, "")
    for load in loads:
        if load.kind == "driver" or load.node == origin:
            continue
        if any(load.free.get(name, 0) < amount for name, amount in request.items()):
            continue
        cost = (-load.free.get("CPU", 0), load.node)
        if best is None or cost < best_cost:
            best, best_cost = load, cost
    return best
