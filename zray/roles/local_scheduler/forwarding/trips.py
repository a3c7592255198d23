"""Tasks that leave the local node, or return: when they are spilled, and when placement is requested again.

A placed task stays, whatever the load; otherwise two full nodes would pass the task back and forth.  (An idle node may
steal the task: stealing.py.) But if actors hold the required resources for life, the task would wait for ever.  Such a
task is stranded, and is given back to the spilling node.

    ready, and would wait too long, or stranded                 spilled (Departures.spill)
    placed by another node, and stranded                        TaskGivenBack to its origin, and set aside at the origin
    TaskDeferred: everywhere, actors hold required resources    set aside
    set aside                                                   spilled again in ASK_AGAIN_SECONDS
    done on another node                                        TaskDone: Results; or Remote

Each spill of a task has a trip number, so news of an earlier spill is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ....wire.scheduling import NO_LOCALITY, TaskDeferred, TaskGivenBack
from ....wire.task_spec import RESOURCE_UNIT
from ...role import on
from ..objects.table import ObjectEntry
from ..resources import CPU
from ..tables import ReadyQueue
from ..task import FORWARDED, UNDER_WAY, Event, Task, TaskState
from .departures import TASKS_PER_TURN

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# A task that would wait longer than this here is worth a trip through the global scheduler.
SPILL_WAIT_SECONDS = 0.02
# The assumed run time of an unknown function, for that estimate.
UNKNOWN_TASK_SECONDS = 0.1
# Beyond this number of missing arguments, remote arguments are fetched, because each arrival would scan all of them.
LACKING_MAX = 64
# Tasks that were placed here, and are passed over on the way to others.
SAMPLE_MAX = 512
# A queue of such is not looked through again for so long, unless one that could go comes behind them.
STAY_SECONDS = 0.1
# The pause before a deferred task asks again: by then the global schedulers have a report of every node.
ASK_AGAIN_SECONDS = 0.2
# The number of tasks that ask at once; four times as many whenever none of the last ones came back.
ASK_AGAIN_COUNT_MIN, ASK_AGAIN_COUNT_MAX = 64, 16_384


def is_bound(task: Task) -> bool:
    """Whether the task was placed or is being retried on the local node."""
    return bool(task.origin) or task.is_retried_here


class Trips:
    """A node's tasks on their way to the global scheduler, or back."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.count_max = ASK_AGAIN_COUNT_MIN
        self.has_come_back = False  # one that asked again
        self.timer_is_set = False

    # --- up ---

    def consider(self) -> None:
        """Spill ready tasks with a long expected wait (Ray paper 4.2.2)."""
        node = self.node
        if not node.members.peers:
            return
        held = node.resources.held
        slots = (node.resources.total.get(CPU, 0) - held.get(CPU, 0)) // RESOURCE_UNIT
        for queue in list(node.dispatch.queues):
            if queue.options.where is not None and node.strategies.is_bound(queue.options.where):
                continue
            if (
                held
                and queue.tasks
                and not node.resources.fits_beside_actors(queue.resources, node.pool.gpus_of_actors())
            ):
                self.leave(queue, must_all=False)
                continue
            first = node.dispatch.mean_us.get(queue.tasks[0].spec.function_id) if queue.tasks else None
            seconds = first / 1e6 if first is not None else UNKNOWN_TASK_SECONDS
            keep = int(SPILL_WAIT_SECONDS * slots / (seconds or 1e-6)) if slots > 0 else 0
            # Tasks that have room now only wait for the start of a worker.
            keep += node.resources.count_that_fits(queue.resources, len(queue.tasks))
            if len(queue.tasks) > keep and not (node.now < queue.stays_until and is_bound(queue.tasks[-1])):
                self._some_leave(queue, keep, seconds)

    def _some_leave(self, queue: ReadyQueue, keep: int, seconds: float) -> None:
        """Spill the last tasks of a queue, as many as other nodes can run soon; placed and retried tasks stay."""
        node, tasks = self.node, queue.tasks
        room = min(node.departures.room(queue, seconds), TASKS_PER_TURN)
        stay: list[Task] = []
        leaving: list[Task] = []
        while len(leaving) < room and len(tasks) + len(stay) > keep and tasks and len(stay) < SAMPLE_MAX:
            task = tasks.pop()
            (stay if is_bound(task) else leaving).append(task)
        all_stay = not tasks and not leaving
        if all_stay:
            queue.stays(node.now + STAY_SECONDS)
        tasks.extend(reversed(stay))
        node.dispatch.ready_count -= len(leaving)
        node.departures.went(queue, len(leaving))
        for task in leaving:
            node.departures.spill(task)
        if not all_stay and len(tasks) > keep and len(stay) < SAMPLE_MAX:
            node.departures.look_again()

    def all_go(self) -> None:
        """Spill all tasks without a placement: policy "central"."""
        node = self.node
        if not node.members.peers:
            return
        for queue in node.dispatch.queues:
            for task in queue.take_all():
                if is_bound(task):
                    queue.add(task)
                else:
                    node.dispatch.ready_count -= 1
                    node.departures.spill(task)

    # --- up, to where their arguments are ---

    def bring_or_go(self, task: Task, elsewhere: list[ObjectEntry]) -> None:
        """Fetch a task's missing arguments from other nodes, or spill the task if this node has no room now.

        The global scheduler then chooses a node by the location of the arguments (Ray paper, figure 7).
        """
        node, where = self.node, task.options.where
        waits_for_all = task.missing == len(elsewhere) and task.state == TaskState.WAITING
        if waits_for_all and node.members.peers and not task.origin and node.groups.is_elsewhere(task):
            node.departures.spill(task)
            return
        if waits_for_all and node.members.peers and not task.origin and not node.strategies.is_bound(where):
            request = task.options.resources
            has_room = node.resources.fits(request)
            if not has_room or self.is_long_way(elsewhere) or node.strategies.would_go(where, request):
                node.departures.spill(task)
                return
        stays = not self.is_for_others(task)
        for entry in elsewhere:
            if stays or not entry.is_elsewhere:
                node.remote.want(entry)

    def is_for_others(self, task: Task) -> bool:
        """Whether the task can never run locally, even if other tasks end or nodes join.

        The arguments of such a task are not fetched; the task is spilled when all of them exist.
        """
        node, where = self.node, task.options.where
        if task.state != TaskState.WAITING or is_bound(task) or task.missing > LACKING_MAX:
            return False
        if not node.members.peers or node.strategies.is_bound(where):
            return False
        return (
            node.members.is_guest
            or not node.resources.could_ever_fit(task.options.resources)
            or node.strategies.is_barred(where)
        )

    def argument_is_here(self, task: Task) -> None:
        """Spill a task after an argument has arrived, if all missing arguments lie on other nodes."""
        if self.is_for_others(task) and self._only_lacks_what_is_elsewhere(task):
            self.node.departures.spill(task)

    def is_long_way(self, elsewhere: list[ObjectEntry]) -> bool:
        """Whether fetching the arguments would take so long as to justify running the task near them."""
        if self.node.policy == NO_LOCALITY:
            return False
        known = [entry.shared for entry in elsewhere if entry.shared is not None and entry.is_elsewhere]
        size = sum(shared.size for shared in known if not shared.is_fetching)
        return self.node.load.fetch_seconds(size) > SPILL_WAIT_SECONDS

    def go_to_arguments(self, entry: ObjectEntry) -> None:
        """Spill tasks that only wait for large remote objects, like the entry's."""
        node = self.node
        if not node.members.peers:
            return
        is_long_way = self.is_long_way([entry])
        leaving = [
            task
            for task in entry.waiting_tasks()
            if (is_long_way or self.is_for_others(task)) and self._only_lacks_what_is_elsewhere(task)
        ]
        entry.wait_no_more(set(map(id, leaving)))
        for task in dict.fromkeys(leaving):
            node.departures.spill(task)

    def are_for_others(self, waiting: Iterable[Any]) -> bool:
        """Whether no task that waits for an object can ever run locally."""
        return all(isinstance(waiter, Task) and self.is_for_others(waiter) for waiter in waiting)

    def _only_lacks_what_is_elsewhere(self, task: Task) -> bool:
        if task.state != TaskState.WAITING or is_bound(task):
            return False
        if self.node.strategies.is_bound(task.options.where):
            return False
        entries = self.node.objects.entries
        missing = [entry for object_id in task.spec.deps if (entry := entries[object_id]).value is None]
        return task.missing == len(missing) and all(entry.is_elsewhere for entry in missing)

    def stop_waiting(self, tasks: Collection[Task]) -> None:
        """Stop waiting for the arguments of tasks that are spilled or fail."""
        gone = set(map(id, tasks))  # membership only: tasks have no equals
        for object_id in dict.fromkeys(object_id for task in tasks for object_id in task.spec.deps):
            entry = self.node.objects.entries[object_id]
            entry.wait_no_more(gone)
        for task in tasks:
            task.waits_for(0)

    def wait_again(self, task: Task) -> bool:
        """Wait again for a returned task's arguments.  Returns whether any is missing."""
        for object_id in task.spec.deps:
            entry = self.node.objects.entries[object_id]
            if entry.value is None:
                entry.waits(task)
                task.waits_for(task.missing + 1)
        return bool(task.missing)

    def leave(self, queue: ReadyQueue, *, must_all: bool) -> None:
        """Move a queue's tasks elsewhere, because actors hold their resources or, if `must_all`, the node is being
        drained."""
        node = self.node
        tasks = queue.take_all()
        for task in tasks:
            is_chosen = task.origin == node.address  # by a global scheduler that did not know yet
            if task.origin and not is_chosen and task.origin not in node.recovery.lost:
                self.give_back(task)
            elif (
                (is_chosen and task.depth)
                if must_all
                else (not is_chosen and queue.blob in node.task_states.deferred_kinds)
            ):
                queue.add(task)  # no other node could run it; or others of the kind ask for it
            else:
                node.task_states.comes_from(task, "")
                if is_chosen:
                    self._set_aside(task)
                else:
                    node.departures.spill(task)
        node.dispatch.ready_count -= len(tasks) - len(queue.tasks)

    def give_back_waiting(self, task: Task) -> None:
        """Give back a task to its origin before all arguments have arrived."""
        self.stop_waiting((task,))
        self.give_back(task)

    def give_back(self, task: Task, thief: str = "") -> None:
        """Give back a task to its origin.  thief: as in TaskGivenBack."""
        self.node.send(task.origin, TaskGivenBack(task.spec.task_id, task.trip, task.attempts, thief))
        self.was_never_here(task)

    def was_never_here(self, task: Task) -> None:
        """Forget another node's task; locally needed returns are requested from elsewhere."""
        node, spec = self.node, task.spec
        self.is_over(task)
        for entry in node.lifecycle.returns_of(task):
            entry.made_by(None)
            if entry.waiting or entry.watchers:
                node.remote.want(entry)
            elif entry.is_released:
                node.objects.forget_released(entry)
            else:
                node.objects.free_if_unreferenced(entry)
        node.objects.drop_all((*spec.deps, *spec.holds))

    # --- done ---

    def is_made(self, entry: ObjectEntry) -> None:
        """Note that a spilled task's return exists somewhere; when all returns do, the task has landed.

        The end of a generator may be that of an earlier run: TaskDone lands it.
        """
        task = entry.task
        if task is not None and task.state >= FORWARDED and not task.options.is_generator:
            entry.made_by(None)
            if all(other.task is None for other in self.node.lifecycle.returns_of(task)):
                self.landed(task)

    def landed(self, task: Task) -> None:
        """Forget a task that another node has run."""
        node, spec = self.node, task.spec
        self.is_over(task)  # given back by one node, it may be run again by another one that wanted what it returns
        node.recovery.puts.keep(task)
        node.objects.drop_all(spec.deps)
        node.objects.drop_all(spec.holds)

    def is_over(self, task: Task) -> None:
        """Remove a task from all tables of unbegun tasks, so no table starts it."""
        node, task_id = self.node, task.spec.task_id
        node.task_states.ended(task)  # so that the end of one does not start another
        node.take_task(task_id)
        node.results.unaccepted.pop(task_id, None)

    # --- back ---

    @on(TaskGivenBack)
    def on_given_back(self, message: TaskGivenBack) -> None:
        """TaskGivenBack."""
        task = self.on_its_way(message.task_id, message.trip)
        if task is not None:
            task.tried(message.attempts)
            if message.thief:
                self.node.stealing.is_back(task, message.thief)
            else:
                self._set_aside(task)

    @on(TaskDeferred)
    def on_deferred(self, message: TaskDeferred) -> None:
        """TaskDeferred."""
        task = self.on_its_way(message.task_id, message.trip)
        if task is not None:
            self._set_aside(task)

    def on_its_way(self, task_id: bytes, trip: int) -> Task | None:
        """Return the task, if it is still on trip `trip`."""
        task = self.node.tasks.get(task_id)
        return task if task is not None and task.state in UNDER_WAY and task.trip == trip else None

    def _set_aside(self, task: Task) -> None:
        self.node.task_states.happened(task, Event.DEFERRED)
        self.has_come_back = self.has_come_back or task.trip > 1
        self._set_timer()

    def _set_timer(self) -> None:
        if not self.timer_is_set:
            self.timer_is_set = True
            self.node.after(ASK_AGAIN_SECONDS, self.ask_again)

    def ask_again(self) -> None:
        """Spill deferred tasks again, which no node had room for."""
        self.timer_is_set = False
        self.count_max = ASK_AGAIN_COUNT_MIN if self.has_come_back else min(4 * self.count_max, ASK_AGAIN_COUNT_MAX)
        self.has_come_back = False
        deferred = self.node.task_states.index[TaskState.DEFERRED]
        for task in list(islice(deferred.values(), self.count_max)):
            self.node.departures.spill(task)
        if deferred:
            self._set_timer()
        self.node.dispatch.is_dirty = True  # others of their kinds may go with them
