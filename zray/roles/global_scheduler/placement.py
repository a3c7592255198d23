"""Where a task would start soonest: arithmetic without side effects.

    wait(node) = queue x mean task time / slots + bytes to fetch / bandwidth

The queue is the last report's, plus what was placed since then.  Source: Ray paper 4.2.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from msgspec import Struct, field

from ...wire import gcs, hosts, scheduling, task_spec
from ...wire.amounts import is_enough
from ...wire.where import Where, host_of, matches, rules_of

# The mean task time of a node without a report, while no node has reported.
FIRST_GUESS_SECONDS = 0.001

# Placed on one node and in no report of it yet: reports come ten times a second, from a node that still lives within
# three.  Of more than so many it is not known what they ask for; they count as waiting.
UNREPORTED_MAX = 10_000


class NodeLoad(Struct, gc=False):
    """A node's load as known to a global scheduler: the last report, and placements not in the report."""

    PASSING = {"unreported": "UNREPORTED_MAX", "waiting_count": None}

    node: str
    total: dict[str, int]
    free: dict[str, int]
    queue_count: int
    task_s_mean: float
    bandwidth_bytes_per_s: float
    kind: str = "node"  # on a "driver" outside of the cluster nothing is placed
    is_draining: bool = False  # it is to leave, and nothing is placed there either
    held: dict[str, int] = {}  # what actors have, for as long as they live
    rank: int = 0  # among equals, the lower one
    labels: dict[str, str] = {}
    spread_at: int = 0  # when it got the last of those that are spread, in counts of them
    assigned_count: int = 0  # tasks, ever
    # The requests of the latest placements.
    unreported: deque[Mapping[str, int]] = field(default_factory=lambda: deque(maxlen=UNREPORTED_MAX))
    waiting_count: int = 0  # those of them that find nothing free
    endpoint: str = ""
    hostname: str = ""
    hidden: dict[str, int] = {}  # what it had free by its last report, if it has passed something up since
    # Work stealing: the number of tasks requested from other nodes for this node, the time until which they are
    # expected, and when this node was last asked for tasks.
    coming_count: int = 0
    coming_until: float = 0.0
    asked_at: float = 0.0

    def fact(self) -> hosts.NodeFact:
        """Return the node's load as GetNodes and the state API show it."""
        return hosts.NodeFact(
            self.node,
            self.kind,
            self.total,
            {**self.hidden, **self.free},
            self.queue_count,
            self.labels,
            self.is_draining,
            self.endpoint,
            self.hostname,
        )

    def joined(self, message: gcs.NodeJoined) -> None:
        """Record the facts that a node joins with."""
        self.kind, self.labels = message.kind, message.labels
        self.endpoint, self.hostname = message.endpoint, message.hostname

    def renew(self, report: scheduling.LoadReport) -> None:
        """Replace the load by a report, which counts every placement that had arrived."""
        if report.total:
            self.total = report.total
        self.is_draining = report.is_draining
        self.free, self.hidden = {**self.total, **report.free}, {}
        self.held = dict(report.held)
        self.queue_count = report.queue_count
        self.task_s_mean = report.task_s_mean
        self.bandwidth_bytes_per_s = report.bandwidth_bytes_per_s
        under_way = max(0, self.assigned_count - report.placed_count)
        while len(self.unreported) > under_way:
            self.unreported.popleft()
        self.waiting_count = under_way - len(self.unreported)
        for request in self.unreported:
            self._count(request)

    def passed_up(self) -> None:
        """Record that the node has no free resources now: otherwise it would not have passed up a task.

        Listings still show the reported amounts, because memory and resources that the task did not ask for may be
        free.
        """
        if self.free:  # asked for each task
            self.hidden = {**self.hidden, **self.free}
            self.free = {}

    def reserve(self, request: Mapping[str, int]) -> None:
        """Count the amounts of an actor or a bundle as held, until the next report."""
        for name, amount in request.items():
            if amount:
                self.free[name] -= amount
                self.held[name] = self.held.get(name, 0) + amount

    def give_back(self, amounts: Mapping[str, int]) -> None:
        """Count the amounts of a removed group as free, until the next report."""
        for name, amount in amounts.items():
            self.free[name] = min(self.total.get(name, 0), self.free.get(name, 0) + amount)
            self.held[name] = max(0, self.held.get(name, 0) - amount)

    def has_turn(self, number: int) -> None:
        """Record the number of the latest spread placement on the node."""
        self.spread_at = number

    def expects_no_more(self, now: float) -> None:
        """Forget stolen tasks that have not come in time."""
        if now >= self.coming_until:
            self.coming_count = 0

    def steals(self, victim: NodeLoad, count: int, now: float, until: float) -> None:
        """Expect tasks that are requested from another node."""
        self.coming_count += count
        self.coming_until = until
        victim.asked_at = now

    def assign(self, request: Mapping[str, int]) -> None:
        """Record a task as placed on the node."""
        self.assigned_count += 1
        self.coming_count = max(0, self.coming_count - 1)
        self.unreported.append(request)
        self._count(request)

    def _count(self, request: Mapping[str, int]) -> None:
        if self.starts_at_once(request):
            for name, amount in request.items():
                self.free[name] = self.free.get(name, 0) - amount  # a node without has enough of nothing
        else:
            self.waiting_count += 1

    def starts_at_once(self, request: Mapping[str, int]) -> bool:
        """Whether a task would start at once, without a queue ahead."""
        return not self.queue_count and not self.waiting_count and is_enough(self.free, request)

    def fits_beside_actors(self, request: Mapping[str, int]) -> bool:
        """Whether the node could run the request if only its actors held resources."""
        total, held = self.total, self.held
        for name, amount in request.items():  # for each task and node: no generator
            if total.get(name, 0) - held.get(name, 0) < amount:
                return False
        return True

    def precedes(self, other: NodeLoad, request: Mapping[str, int]) -> bool:
        """Whether the node is preferred to `other` if both would start a task at the same time."""
        has, others = self.gpus_left_idle(request), other.gpus_left_idle(request)
        mine, theirs = self.free.get("CPU", 0), other.free.get("CPU", 0)
        return (has, -mine, self.rank, self.node) < (others, -theirs, other.rank, other.node)

    def gpus_left_idle(self, request: Mapping[str, int]) -> bool:
        """Whether a request without GPUs would take CPUs of a node that has GPUs."""
        return bool(self.total.get("GPU")) and not request.get("GPU")

    def estimated_wait_s(self, request: Mapping[str, int], bytes_to_fetch: int, guess: float, equals: int) -> float:
        """Return the seconds until a task with the request would start on the node.

        guess: the mean task time if the node reports none.  equals: the number of global schedulers, which are assumed
        to place equally much.
        """
        fetch = bytes_to_fetch / self.bandwidth_bytes_per_s
        if self.starts_at_once(request):
            return fetch
        slots = max(1, (self.total.get("CPU", 0) - self.held.get("CPU", 0)) // task_spec.RESOURCE_UNIT)
        # The one that runs now must end too: half of it is left, on average.
        ahead = self.queue_count + self.waiting_count * equals + 0.5
        return ahead * (self.task_s_mean or guess) / slots + fetch


def best_node(
    loads: Iterable[NodeLoad],
    request: Mapping[str, int],
    objects: Iterable[tuple[bytes, int, list[str]]],
    guess: float = FIRST_GUESS_SECONDS,
    equals: int = 1,
) -> NodeLoad | None:
    """Return the node with the least estimated wait, or None if actors hold too much everywhere.

    Ties: nodes without GPUs are preferred if the request has none, then the most free CPUs, then the least rank.

    objects: (id, size in bytes, nodes that have a copy) of each argument.
    """
    known = list(objects)
    best: NodeLoad | None = None
    best_wait = float("inf")
    for load in loads:
        if load.kind == "driver" or not load.fits_beside_actors(request):
            continue
        missing = sum([size for _, size, holders in known if load.node not in holders]) if known else 0
        wait = load.estimated_wait_s(request, missing, guess, equals)
        if best is None or wait < best_wait or (wait == best_wait and load.precedes(best, request)):
            best, best_wait = load, wait
    return best


def eligible(loads: Iterable[NodeLoad], where: Where | None, request: Mapping[str, int]) -> list[NodeLoad]:
    """Return the nodes allowed by the task or actor's strategy, with or without room."""
    able = [load for load in loads if load.kind != "driver" and not load.is_draining]
    if where is not None:
        able = _allowed(able, where, request)
    if request or (where is not None and where.soft):
        return able
    # Each could have what asks for nothing: it stays off nodes that were given no CPUs, as a head that is only to lead,
    # unless there is no other.
    return [load for load in able if load.total.get("CPU", 0)] or able


def _allowed(able: list[NodeLoad], where: Where, request: Mapping[str, int]) -> list[NodeLoad]:
    if where.node:
        own = [load for load in able if host_of(load.node) == where.node]
        able = own if not where.is_soft or any(is_enough(load.total, request) for load in own) else able
    if where.fallbacks:
        able = [load for load in able if is_enough(load.free, request) and _meets_some(load, where)] or able
    rules = rules_of(where, ((load.labels, is_enough(load.total, request)) for load in able))
    return [load for load in able if matches(load.labels, rules)]


def _meets_some(load: NodeLoad, where: Where) -> bool:
    return any(matches(load.labels, rules) for rules in (where.hard, *where.fallbacks))


def preferred(loads: Iterable[NodeLoad], where: Where | None) -> list[NodeLoad]:
    """Return the nodes among `loads` that match the soft labels."""
    return [load for load in loads if matches(load.labels, where.soft)] if where is not None and where.soft else []


def next_in_turn(loads: Iterable[NodeLoad], request: Mapping[str, int], *, must_start: bool = False) -> NodeLoad | None:
    """Return the node that had no such task or actor for the longest time; nodes that can start it at once come first.

    must_start: the request is an actor's, and only nodes with room now are eligible.  Nodes with a CPU free beside the
    actor are preferred.
    """
    able = [load for load in loads if load.fits_beside_actors(request)]
    if must_start:
        able = [load for load in able if is_enough(load.free, request)]
        request = {"CPU": task_spec.RESOURCE_UNIT, **request}
    free = [load for load in able if load.starts_at_once(request)]
    return min(free or able, key=lambda load: (load.spread_at, load.rank, load.node), default=None)


def random_node(loads: Iterable[NodeLoad], request: Mapping[str, int], seed: bytes) -> NodeLoad | None:
    """Return a random node that could run the task, whatever the load: a baseline for comparing the other policies."""
    able = [load for load in loads if load.kind != "driver" and load.fits_beside_actors(request)]
    able.sort(key=lambda load: load.node)
    drawn = int.from_bytes(blake2b(seed, digest_size=8).digest(), "big")
    return able[drawn % len(able)] if able else None


def best_home(loads: Iterable[NodeLoad], request: Mapping[str, int]) -> NodeLoad | None:
    """Return the node that has room for an actor now, or None.

    Nodes without GPUs are preferred if the request has none, then the most free CPUs.
    """
    best: NodeLoad | None = None
    best_cost = (False, 0, "")
    for load in loads:
        if any(load.free.get(name, 0) < amount for name, amount in request.items()):
            continue
        cost = (load.gpus_left_idle(request), -load.free.get("CPU", 0), load.node)
        if best is None or cost < best_cost:
            best, best_cost = load, cost
    return best
