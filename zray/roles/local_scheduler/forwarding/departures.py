"""How fast tasks go up: a few in each turn, and not many more than the others can run soon.

A turn in which a hundred thousand tasks went up would last for seconds, all of them in the process that has to answer
heartbeats.  And what is placed stays where it is (trips.py): a task that is placed late is placed on fresher news.  So
only so many tasks of a kind are on their way, or wait at other nodes, as those do in HORIZON_SECONDS; the rest stays in
the ready queue, and we look again soon.  When that many do not move for PATIENCE_SECONDS, they may wait for one that is
still here: more go.
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
# Of one kind, beyond one for each place where it could run.
AWAY_MIN, AWAY_MAX = 64, 20_000
# In which tasks wait at other nodes, or for these.
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
    """Of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.count = 0  # that went up in this turn
        self.turn_at = 0.0
        self.kinds: dict[bytes, Kind] = {}  # by options, while there are more of them here than may go
        self.looks_again = False

    # --- a few in each turn ---

    def spill(self, task: Task) -> None:
        """Hand it up, in this turn or soon."""
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
        """Hand up those of one turn."""
        throttled = self.node.task_states.index[TaskState.THROTTLED]
        for task in list(islice(throttled.values(), TASKS_PER_TURN)):
            self._depart(task)
        if throttled:
            self.node.after(0.0, self.depart_some)

    # --- one of them ---

    def _depart(self, task: Task) -> None:
        """Hand it up: at once, or as soon as the shards have acknowledged what leaves with it."""
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
        """Whether nothing leaves with it that the shards must have heard of.  Of what went wrong once, they hear."""
        spec = task.spec
        if task.trip != 1 or spec.deps or spec.holds or task.job.code_unheard:
            return False
        return all(entry.shared is None for entry in self.node.lifecycle.returns_of(task))

    def record(self, task: Task, request: int) -> int:
        """The shards are to know it, and that what it returns is held here.  Returns how many replies come."""
        self.node.lineage.flush()
        # Also when it was recorded before: the reply is the acknowledgement that we need.
        self.node.lineage.record_one(task.spec, request, task.attempts)
        for entry in self.node.lifecycle.returns_of(task):
            entry.share().holds()  # what is recorded is held
            entry.recorded()
        return 1 + self.node.remote._hold_at_shards([entry.object_id for entry in task.more or ()], request)

    def go(self, task: Task, *, is_quiet: bool) -> None:
        """To a global scheduler, or to where its group is."""
        node, job = self.node, task.job
        if task.options.where is not None and task.options.where.group:
            node.groups.depart(task, is_quiet=is_quiet)
            return
        schedulers = node.addresses.global_schedulers
        chosen = schedulers[task.spec.task_id[-1] % len(schedulers)]
        node.task_states.happened(task, Event.HANDED_UP, scheduler=chosen)
        of_job, located = (job.job_id, job.facts), self._located(task)
        node.send(chosen, SpillTask(task.spec, node.address, *of_job, task.trip, task.attempts, is_quiet, located))

    def _located(self, task: Task) -> list[tuple[bytes, int, list[str]]]:
        """Where its large arguments are, of those that are not here."""
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
        """How many more of this queue may go up now.  seconds: what one of them takes."""
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
        """How many such tasks the other nodes could run at once if they did nothing else."""
        count = 0
        members = self.node.members
        for peer, total in members.peers.items():
            if peer not in members.outside:
                fits = [total.get(name, 0) // amount for name, amount in request.items() if amount]
                count += min(fits, default=AWAY_MIN)
        return count

    def went(self, queue: ReadyQueue, count: int) -> None:
        """So many of them did."""
        kind = self.kinds.get(queue.blob)
        if kind is not None:
            kind.away += count

    def look_again(self) -> None:
        """Some stay here that might go later."""
        if not self.looks_again:
            self.looks_again = True
            self.node.after(LOOK_AGAIN_SECONDS, self.let_more_go)

    def let_more_go(self) -> None:
        """Look again: some of those that are away may be done."""
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
        """Tasks that are away, by their options."""
        counts: dict[bytes, int] = {}
        for state in AWAY:
            for task in self.node.task_states.index[state].values():
                counts[task.spec.options] = counts.get(task.spec.options, 0) + 1
        return counts
