"""The rate of spilling: a few tasks per turn, and not many more than other nodes can run soon.

A turn with a hundred thousand spilled tasks would last for seconds, while the process must answer heartbeats.  A placed
task stays where it is (trips.py), so a later placement uses more recent loads.  So only as many tasks of a kind are
under way, or waiting at other nodes, as those nodes run in HORIZON_SECONDS. The rest stays in the ready queue, to be
reconsidered soon.  Without progress for PATIENCE_SECONDS, the spilled tasks may depend on a task still in the queue, so
more are spilled.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.limits import ITEMS_MAX
from ....wire.scheduling import SpillTask
from ..tables import ReadyQueue
from ..task import LEAVING, UNDER_WAY, Event, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# A turn with so many lasts some 30 ms where the shard and the global scheduler are in our process.
TASKS_PER_TURN = 128
# How much work of a kind is kept waiting at other nodes, in time: enough to last until they are seen to need more.
HORIZON_SECONDS = 0.5
# The number of spilled tasks of a kind, beyond one for each place where it could run.
AWAY_MIN, AWAY_MAX = 64, 20_000
# States of spilled tasks that wait at other nodes, or are on their way.
AWAY = (*LEAVING, *UNDER_WAY)
LOOK_AGAIN_SECONDS = 0.02
PATIENCE_SECONDS = 0.5


class Kind(Struct, eq=False):
    """Tasks with the same options."""

    counted_at: float
    moved_at: float  # one of them was done, or came back
    away: int = 0  # at most
    extra: int = 0  # allowed beyond the rest, since they do not move


class Departures:
    """The spilling of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.count = 0  # that went up in this turn
        self.turn_at = 0.0
        self.kinds: dict[bytes, Kind] = {}  # by options, while there are more of them here than may go
        self.looks_again = False

    # --- a few in each turn ---

    def spill(self, task: Task) -> None:
        """Spill a task, in this turn or soon."""
        node = self.node
        if task.missing:
            node.trips.stop_waiting((task,))
        if not node.task_states.happened(task, Event.SPILLED):
            node.reject("a task that is on its way already")
            return
        if node.now != self.turn_at:
            self.turn_at, self.count = node.now, 0
        is_first = len(node.task_states.index[TaskState.THROTTLED]) == 1
        if is_first and self.count < TASKS_PER_TURN:
            self.count += 1
            self._depart(task)
        elif is_first:
            node.after(0.0, self.depart_some)

    def depart_some(self) -> None:
        """Spill the tasks of a turn."""
        throttled = self.node.task_states.index[TaskState.THROTTLED]
        for task in list(islice(throttled.values(), TASKS_PER_TURN)):
            self._depart(task)
        if throttled:
            self.node.after(0.0, self.depart_some)

    # --- one of them ---

    def _depart(self, task: Task) -> None:
        """Spill a task at once, or when the shards have acknowledged its records."""
        node, spec = self.node, task.spec
        code = node.code.leaving(task.job)
        if self._is_quiet(task):
            self.go(task, is_quiet=True)
            return
        request = node.acks.next_request()
        expected = self.record(task, request)
        expected += node.remote._share([*spec.deps, *spec.holds, *code], request)
        node.task_states.happened(task, Event.DEPARTS)
        node.acks.expect(request, expected, partial(self._is_recorded, task, task.trip))

    def _is_recorded(self, task: Task, trip: int) -> None:
        if task.state == TaskState.RECORDING and task.trip == trip:
            self.go(task, is_quiet=False)

    def _is_quiet(self, task: Task) -> bool:
        """Whether the task can leave without records at the shards; repeated trips are always recorded."""
        spec = task.spec
        if task.trip != 1 or spec.deps or spec.holds or task.job.code_unheard:
            return False
        return all(entry.shared is None for entry in self.node.lifecycle.returns_of(task))

    def record(self, task: Task, request: int) -> int:
        """Record the task, and the local node as holder of the returns, at the shards.  Returns the number of replies
        to expect."""
        self.node.lineage.flush()
        # Also when it was recorded before: the reply is the acknowledgement that we need.
        self.node.lineage.record_one(task.spec, request, task.attempts)
        for entry in self.node.lifecycle.returns_of(task):
            entry.share().holds()  # what is recorded is held
            entry.recorded()
        return 1 + self.node.remote._hold_at_shards([entry.object_id for entry in task.more or ()], request)

    def go(self, task: Task, *, is_quiet: bool) -> None:
        """Send the task to a global scheduler, or to its group's node."""
        node, job = self.node, task.job
        if task.options.where is not None and task.options.where.group:
            node.groups.depart(task, is_quiet=is_quiet)
            return
        schedulers = node.addresses.global_schedulers
        chosen = schedulers[task.spec.task_id[-1] % len(schedulers)]
        node.task_states.happened(task, Event.HANDED_UP, scheduler=chosen)
        task.forward.handed_up(node.now)
        of_job, located = (job.job_id, job.facts), self._located(task)
        node.send(chosen, SpillTask(task.spec, node.address, *of_job, task.trip, task.attempts, is_quiet, located))

    def _located(self, task: Task) -> list[tuple[bytes, int, list[str]]]:
        """Return the locations of large remote arguments."""
        located: list[tuple[bytes, int, list[str]]] = []
        for object_id in task.spec.deps:
            entry = self.node.objects.entries.get(object_id)
            shared = entry.shared if entry is not None else None
            if shared is not None and shared.locations and shared.size > self.node.inline_bytes_max:
                located.append((object_id, shared.size, list(shared.locations)))
                if len(located) == ITEMS_MAX:
                    break
        return located

    # --- not many more than can run soon ---

    def room(self, queue: ReadyQueue, seconds: float) -> int:
        """Return how many more tasks of this queue may be spilled now.  seconds: the duration of a task."""
        kind, now = self.kinds.get(queue.blob), self.node.now
        if kind is None:
            kind = self.kinds[queue.blob] = Kind(now, now)
            kind.away = self._count().get(queue.blob, 0)
        places = self._places(queue.resources)
        allowed = min(AWAY_MAX, AWAY_MIN + int(places * (1 + HORIZON_SECONDS / max(seconds, 1e-6))))
        if kind.away >= allowed + kind.extra and now - kind.counted_at >= LOOK_AGAIN_SECONDS:
            self._count_again(now)
        return allowed + kind.extra - kind.away

    def _places(self, request: dict[str, int]) -> int:
        """Return how many such tasks the other nodes could run at once if otherwise idle."""
        count = 0
        members = self.node.members
        for peer, total in members.peers.items():
            if peer not in members.outside:
                fits = [total.get(name, 0) // amount for name, amount in request.items() if amount]
                count += min(fits, default=AWAY_MIN)
        return count

    def went(self, queue: ReadyQueue, count: int) -> None:
        """Count `count` tasks of the queue as spilled."""
        kind = self.kinds.get(queue.blob)
        if kind is not None:
            kind.away += count

    def look_again(self) -> None:
        """Schedule another check, because some tasks that stay may be spilled later."""
        if not self.looks_again:
            self.looks_again = True
            self.node.after(LOOK_AGAIN_SECONDS, self.let_more_go)

    def let_more_go(self) -> None:
        """Check again: some spilled tasks may be done."""
        self.looks_again = False
        self.node.dispatch.is_dirty = True
        here = {queue.blob for queue in self.node.dispatch.queues}
        for blob in [blob for blob in self.kinds if blob not in here]:
            del self.kinds[blob]

    def _count_again(self, now: float) -> None:
        counts = self._count()
        for blob, kind in self.kinds.items():
            away = counts.get(blob, 0)
            if away < kind.away:
                kind.moved_at, kind.extra = now, 0
            elif now - kind.moved_at >= PATIENCE_SECONDS:
                kind.moved_at = now
                kind.extra = max(AWAY_MIN, 2 * kind.extra)
            kind.away, kind.counted_at = away, now

    def _count(self) -> dict[bytes, int]:
        """Count the spilled tasks by their options."""
        counts: dict[bytes, int] = {}
        for state in AWAY:
            for task in self.node.task_states.index[state].values():
                counts[task.spec.options] = counts.get(task.spec.options, 0) + 1
        return counts
