"""A node's load report: how long a task would wait here, and how fast arguments come."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ....wire import groups, scheduling
from ....wire.allowed import kind_of
from ....wire.amounts import STORE_MEMORY
from ....wire.task_spec import RESOURCE_UNIT
from ...kept import Latest
from ...role import on
from ...work_effects import CountStore, StoreCounted
from ..resources import CPU
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

BANDWIDTH_FIRST_GUESS = 1e9  # bytes per second, until one is measured
# Transfers of less tell how far it is, not how much comes through.
MEASURED_BYTES_MIN = 1 << 20
# A measurement that has lasted this long is used although fetches go on.
MEASURED_SECONDS_MAX = 1.0
MEASURE_WEIGHT = 0.2
# A run that lasts longer than is known of its function says something only when it lasts so long: the news of its end
# may be late, on a machine that is busy.
LONG_US = 100_000
# Finished placements count until the next report, ten times a second.  A node without work therefore reports at once,
# at most this often.
IDLE_REPORT_SECONDS = 0.01
# Global schedulers that have placed some here, of heads and hosts that came one after the other: nobody has so many.
PLACERS_MAX = 1_000
# Queued tasks that are looked at to know what the queue holds.
SAMPLE_MAX = 100


class Load:
    """The load of a node."""

    PASSING = {"fetching": "node.fetches.ordered", "awaiting": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.bandwidth = BANDWIDTH_FIRST_GUESS
        self.fetching: dict[bytes, int] = {}  # large objects under way, and their sizes
        self.fetched_bytes = 0  # since `fetching_since`
        self.fetching_since = 0.0
        # Global scheduler -> tasks that it has placed here, whether we have been told of it yet or not: what we do not
        # count it takes to be on its way for good.
        self.placed_counts: Latest[str, int] = Latest(PLACERS_MAX)
        # Global scheduler -> tasks that it has placed elsewhere since the last report, and their seconds until then.
        self.placings: Latest[str, tuple[int, float]] = Latest(PLACERS_MAX)
        self.awaiting: dict[bytes, Task] = {}  # placed tasks that may wait for their arguments
        self.is_behind = False  # a global scheduler has placed some since the last report
        self.reported_at = -IDLE_REPORT_SECONDS
        self.said_busy = False  # in the last report
        self.store_bytes = 0  # of the object store, for people; 0: they are told nothing of it
        self.store_used = 0  # bytes of the object store, as of the report before

    def count_store(self) -> None:
        """Ask the object manager for the store's use, for the next report."""
        if self.store_bytes:
            self.node.send(self.node.addresses.object_manager, CountStore())

    @on(StoreCounted)
    def on_store_counted(self, message: StoreCounted) -> None:
        """StoreCounted."""
        self.store_used = message.used

    # --- bandwidth: of all transfers together, while there are any ---

    def fetch_begins(self, object_id: bytes, size: int) -> None:
        """Measure a fetch from its request on."""
        if size >= MEASURED_BYTES_MIN:
            if not self.fetching:
                self.fetching_since, self.fetched_bytes = self.node.now, 0
            self.fetching[object_id] = size

    def fetch_ends(self, object_id: bytes, *, has_come: bool) -> None:
        """Record the end of a fetch, successful or not."""
        size = self.fetching.pop(object_id, None)
        if size is None:
            return
        self.fetched_bytes += size if has_come else 0
        seconds = self.node.now - self.fetching_since
        if self.fetched_bytes and seconds > 0 and (not self.fetching or seconds > MEASURED_SECONDS_MAX):
            self.bandwidth += MEASURE_WEIGHT * (self.fetched_bytes / seconds - self.bandwidth)
            self.fetching_since, self.fetched_bytes = self.node.now, 0

    def fetch_seconds(self, size: int) -> float:
        """Estimate how long `size` bytes would take to fetch."""
        return size / self.bandwidth

    # --- tasks ---

    def task_is_placed(self) -> None:
        """Count a placement by the sender, for reports to global schedulers.  Peers place tasks too."""
        counts, sender = self.placed_counts, self.node.sender
        if sender in counts or (kind_of(sender) == "global" and sender not in self.node.flights.gone):
            counts[sender] = counts.get(sender, 0) + 1
            self.is_behind = True

    def is_placed(self, task: Task) -> None:
        """Note how long a spilled task took to be placed."""
        if task.state == TaskState.SCHEDULER:
            count, seconds = self.placings.get(task.forward.via, (0, 0.0))
            self.placings[task.forward.via] = count + 1, seconds + self.node.now - task.forward.handed_at

    # --- reports ---

    def report(self) -> None:
        """Report the load to all global schedulers."""
        self.is_behind, self.reported_at, self.said_busy = False, self.node.now, self._is_busy()
        for scheduler in self.node.addresses.global_schedulers:
            self.node.send(scheduler, self._report_for(scheduler))
        self.placings.clear()

    def all_is_done(self) -> None:
        """Report all workers as idle, to end the diversion of placements."""
        if not self._queue_count() and self.node.now - self.reported_at >= IDLE_REPORT_SECONDS:
            self.report()

    def says_if_busy(self) -> None:
        """Report tasks that have come since the last report, before actors are spread."""
        if not self.said_busy and self._is_busy():
            self.report()

    def _is_busy(self) -> bool:
        return self.node.resources.free.get(CPU, 0) < RESOURCE_UNIT or bool(self._queue_count())

    def _report_for(self, receiver: str) -> scheduling.LoadReport:
        node = self.node
        count, seconds = self.placings.get(receiver, (1, 0.0))
        return scheduling.LoadReport(
            node.address,
            {},
            self._taken_from(),
            self._queue_count(),
            self._mean_seconds(),
            self.bandwidth,
            self._held(),
            self.placed_counts.get(receiver, 0),
            node.drain.is_on,
            seconds / count,
        )

    def _taken_from(self) -> dict[str, int]:
        """Return the free amounts of resources that are not entirely free."""
        node, total = self.node, self.node.resources.total
        free = {name: amount for name, amount in node.resources.free_for_one().items() if amount != total[name]}
        if self.store_used:
            free[STORE_MEMORY] = max(0, self.store_bytes - self.store_used) * RESOURCE_UNIT
        return groups.plain(free)

    def _queue_count(self) -> int:
        """Count ready tasks, unbegun tasks of workers, and placed tasks still waiting for arguments."""
        dispatch = self.node.dispatch
        if self.awaiting:  # looked at ten times a second
            for task_id in [key for key, task in self.awaiting.items() if task.state != TaskState.WAITING]:
                del self.awaiting[task_id]
        unbegun = sum(len(worker.inflight) - 1 for worker in self.node.pool.leased.values() if worker.inflight)
        return dispatch.ready_count + unbegun + len(self.awaiting)

    def _mean_seconds(self) -> float:
        """Estimate the mean seconds of the queued tasks, or of the tasks run so far."""
        means, longer = self.node.dispatch.mean_us, self._longer_than_known()
        known = []
        for queue in islice(self.node.dispatch.queues, SAMPLE_MAX):
            tasks = islice(queue.tasks, max(1, SAMPLE_MAX // len(self.node.dispatch.queues)))
            ids = [task.spec.function_id for task in tasks]
            known += [longer.get(found) or means[found] for found in ids if found in means or found in longer]
        known = known or list(longer.values()) or list(means.values())
        return sum(known) / len(known) / 1e6 if known else 0.0

    def _longer_than_known(self) -> dict[bytes, int]:
        """Return functions with all current runs longer than the mean, with the shortest time so far, in us."""
        means = self.node.dispatch.mean_us
        lasted: dict[bytes, int] = {}
        for worker in self.node.pool.leased.values():
            if worker.inflight and worker.frames[-1].wait is None:
                function_id = worker.inflight[0].spec.function_id
                us = int((self.node.now - worker.progress_at) * 1e6)
                lasted[function_id] = min(us, lasted.get(function_id, us))
        return {function_id: us for function_id, us in lasted.items() if us > max(LONG_US, means.get(function_id, 0))}

    def wait_seconds(self) -> float:
        """Estimate how long the queued work would last."""
        slots = (self.node.resources.total.get(CPU, 0) - self.node.resources.held.get(CPU, 0)) // RESOURCE_UNIT
        return self._queue_count() * self._mean_seconds() / max(1, slots)

    def _held(self) -> dict[str, int]:
        """Return the amounts held by actors and bundles, and by actors about to start."""
        resources = self.node.resources
        held = resources.held_by(resources.held, self.node.pool.gpus_of_actors())
        for name, amount in self.node.calls.promised.items():
            if amount:
                held[name] = held.get(name, 0) + amount
        return groups.plain(held)
