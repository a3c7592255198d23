"""Work stealing: queued tasks are spilled again because another node is idle, at a global scheduler's request.

    StealTasks      the last queued tasks go: own tasks are spilled; tasks placed by other nodes are given back
                    (TaskGivenBack), and spilled by their origin, which still knows where each task is
    and behind a long task in a worker's queue    tasks are reclaimed; the next StealTasks finds them

A task stays if bound to the node or in its turn, failed before, spilled too often, or a reader of large local objects.
Calls on actors are in none of the queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from ....wire.amounts import is_enough
from ....wire.scheduling import NO_LOCALITY, StealTasks
from ....wire.task_spec import StoredValue
from ...effects import ReclaimTasks
from ...role import on
from ..tables import ReadyQueue
from ..task import Task

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# A task goes up so often at most, for whatever reason, before it stays where it is.
TRIPS_MAX = 4
# Several global schedulers may ask at once, each for all: one is heard in this time, which is less than what lies
# between two looks of one of them.
PORTION_SECONDS = 0.07
# Looked at in one go: queues, and tasks of each that stay.
QUEUES_MAX, STAY_MAX = 100, 512
# Tasks behind a longer task are reclaimed from the worker.
LONG_TASK_SECONDS = 0.1


class Stealing:
    """The victim's side of work stealing on a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.heard_at = -PORTION_SECONDS
        self.wait_s = 0.0  # of what waits here
        self.bytes_gone = 0  # that the tasks of this portion take along

    @on(StealTasks)
    def on_steal_tasks(self, message: StealTasks) -> None:
        """StealTasks."""
        node = self.node
        if node.members.is_fenced or node.drain.is_on or node.now - self.heard_at < PORTION_SECONDS:
            return
        self.heard_at = node.now
        self.wait_s, self.bytes_gone = node.load.wait_seconds(), 0
        missing = 0
        for thief in message.thieves:
            total = node.members.peers.get(thief.node)
            if total is None or thief.node in node.members.outside or thief.node in node.members.leaving:
                continue
            room = {name: amount - thief.held.get(name, 0) for name, amount in total.items()}
            count = thief.count
            for queue in list(islice(node.dispatch.queues, QUEUES_MAX)):
                if count and self._may_move(queue, thief.node, room):
                    count -= self._give(queue, thief.node, count)
            missing += count
        if missing:
            self._take_back(missing)

    def _may_move(self, queue: ReadyQueue, thief: str, room: Mapping[str, int]) -> bool:
        return self.node.strategies.may_move(queue.options.where, queue.resources, thief) and is_enough(
            room, queue.resources
        )

    def _give(self, queue: ReadyQueue, thief: str, count: int) -> int:
        """Give up to `count` tasks of a queue to the thief.  Returns how many went."""
        node, tasks = self.node, queue.tasks
        # Tasks that have room now only wait for the start of a worker.
        keep = node.resources.count_that_fits(queue.resources, len(tasks))
        stay: list[Task] = []
        leaving: list[Task] = []
        while len(leaving) < count and len(tasks) + len(stay) > keep and tasks and len(stay) < STAY_MAX:
            task = tasks.pop()
            (leaving if self._may_go(task) else stay).append(task)
        tasks.extend(reversed(stay))
        node.dispatch.ready_count -= len(leaving)
        node.departures.went(queue, len(leaving))
        for task in leaving:
            if task.origin and task.origin != node.address:
                node.trips.give_back(task, thief)
            else:
                node.task_states.comes_from(task, "")
                node.departures.spill(task)
        return len(leaving)

    def _may_go(self, task: Task) -> bool:
        node = self.node
        if task.trip >= TRIPS_MAX or task.attempts or task.origin in node.recovery.lost:
            return False
        if not task.spec.deps or node.policy == NO_LOCALITY:
            return True
        values = [node.objects.entries[object_id].value for object_id in task.spec.deps]
        size = sum(value.size for value in values if type(value) is StoredValue)
        if node.load.fetch_seconds(self.bytes_gone + size) > self.wait_s / 2:
            return False
        self.bytes_gone += size
        return True

    def _take_back(self, count: int) -> None:
        """Reclaim up to `count` tasks from the queues of workers that run long tasks."""
        node = self.node
        for worker in node.pool.leased.values():
            unbegun = min(count, len(worker.inflight) - 1)
            queue = worker.queue
            if unbegun < 1 or queue is None or worker.stale or worker.inflight[-1].missing:
                continue
            mean = node.dispatch.mean_us.get(worker.inflight[0].spec.function_id, 0)
            lasts = max(mean / 1e6, node.now - worker.progress_at)
            if lasts >= LONG_TASK_SECONDS and not node.strategies.is_bound(queue.options.where):
                node.perform(ReclaimTasks(worker.address, unbegun))
                count -= unbegun

    def is_back(self, task: Task, thief: str) -> None:
        """Spill a stolen task again for the thief, or run it if the thief is the local node and has room."""
        node = self.node
        if thief == node.address and node.resources.fits(task.options.resources) and not node.drain.is_on:
            node.remote.comes_back(task)
        else:
            node.departures.spill(task)
