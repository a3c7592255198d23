"""Work that ends with the process that asked for it, where that dies and does not end in order (a kill, a crash).

    a task that it has submitted    ends, if nobody else holds what it returns, nor takes it: also while it runs, by the
                                    death of the worker that runs it, and so on with what that has asked for
    a call on an actor              waits no more for what it takes; one that waits for nothing is the actor's
    an actor                        ends in the middle of its calls, if the process had its last handle

Other nodes may hold what a task returns: its shard is asked first, and where the task is placed that node is told.  The
same holds for tasks here that a lost node had placed.

Values stay as long as others hold them, and detached actors.  A task that runs again, since its worker has died,
submits its children again: they run again too, with the same ids.

A task that is over and stands in the queue of a worker stays there (TaskState.DONE) until the worker gives it back, has
run it after all, or is dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....wire import gcs, scheduling, tasks
from ...effects import ReclaimTasks
from ...kept import Latest
from ...role import on
from ..objects.table import ObjectEntry
from ..routes.route import Route
from ..tables import Actor, ActorState, Process, Worker, died
from ..task import FORWARDED, ChildTask, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Tasks that were away when they ended are remembered, the last so many: what is placed travels for less than that.
ENDED_MAX = 10_000
# Objects in one question, or those of one task.
ASKED_COUNT = 1_000


class Fates:
    """Of the processes of one node."""

    PASSING = {"asked": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ended: Latest[bytes, int] = Latest(ENDED_MAX)  # tasks that were away -> the trip on which they were
        # Tasks of others that are not here yet, and are not to begin -> their origin, and their trip.
        self.unwanted: Latest[bytes, tuple[str, int]] = Latest(ENDED_MAX)
        self.asked: dict[int, list[Task]] = {}  # by request: they end if no other node holds what they return

    def end_with(self, process: Process) -> Iterator[None]:
        """The process is dead: it holds nothing, and what it alone had asked for ends, the youngest first, in steps."""
        node = self.node
        handles: list[ObjectEntry] = []
        yield from node.objects.release_process(process, handles)
        children = [task for task in node.tasks.values() if type(task) is ChildTask and task.submitter is process]
        known_to_others: list[Task] = []
        for task in reversed(children):
            if task.state != TaskState.DONE and self._is_bereft(task):
                if task.options.actor_id:
                    self._end_call(task)
                elif any(entry.shared is not None for entry in self.node.lifecycle.returns_of(task)):
                    known_to_others.append(task)
                else:
                    self.end(task)
            yield
        for entry in handles:
            self._end_actor_if_bereft(entry)
        self._ask(known_to_others)
        node.function_table.forget_waiters()

    def node_lost(self, message: gcs.NodeLost) -> None:
        """Work here that processes of the lost node alone had asked for ends too."""
        lost = self.node.recovery.lost
        tasks = [task for task in self.node.tasks.values() if task.origin in lost and not task.options.actor_id]
        if not message.is_drained:
            self._ask(tasks, message.node)

    # --- tasks ---

    def _is_bereft(self, task: Task) -> bool:
        """Whether nothing here refers to what it returns."""
        return all(entry.holders is None and not entry.count for entry in self.node.lifecycle.returns_of(task))

    def _ask(self, tasks: list[Task], lost: str = "") -> None:
        """Other nodes may hold what they return: their shards know.  lost: as in FindUnheld."""
        node = self.node
        by_shard: dict[str, list[Task]] = {}
        for task in tasks:
            by_shard.setdefault(node.addresses.shard_of(task.spec.task_id), []).append(task)
        for shard, left in by_shard.items():
            while left:
                request = node.acks.next_request()
                ids: list[bytes] = []
                asked: list[Task] = []
                while left and len(ids) < ASKED_COUNT:
                    asked.append(left.pop())
                    ids += [entry.object_id for entry in self.node.lifecycle.returns_of(asked[-1])]
                self.asked[request] = asked
                node.send(shard, gcs.FindUnheld(node.address, request, ids, lost))

    @on(gcs.FindUnheldReply)
    def on_find_unheld_reply(self, message: gcs.FindUnheldReply) -> None:
        """FindUnheldReply."""
        unheld = set(message.object_ids)  # membership only
        for task in self.asked.pop(message.request, ()):
            is_still = self.node.tasks.get(task.spec.task_id) is task and task.state != TaskState.DONE
            # Of a lost node's: its parent runs again elsewhere, or others count on it now (recovery).
            is_still = is_still and (type(task) is ChildTask or task.origin in self.node.recovery.lost)
            if (
                is_still
                and self._is_bereft(task)
                and all(item.object_id in unheld for item in self.node.lifecycle.returns_of(task))
            ):
                self.end(task)
        self.node.function_table.forget_waiters()

    def _end_call(self, task: Task) -> None:
        """A call of a dead process ends: its arguments need not be made for it."""
        actor = self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and task.state == TaskState.CALL and task.missing and actor.queue.take_out(task):
            self.node.trips.stop_waiting((task,))
            self._was_never_here(task)
            self.node.calls.touch(actor.actor_id)

    def _was_never_here(self, task: Task) -> None:
        """The arguments of a task go with the dead process, too."""
        objects = self.node.objects
        objects.is_by_death = True
        self.node.trips.was_never_here(task)
        objects.is_by_death = False

    def end(self, task: Task) -> None:
        """End a task, wherever it is: nobody wants its results."""
        node, worker = self.node, task.worker
        if task.missing:
            node.trips.stop_waiting((task,))
        if task.state == TaskState.READY:
            self.take_out(task)
        elif task.state >= FORWARDED:
            self.ended_elsewhere(task)
        elif task.state == TaskState.SENT and worker is not None:
            worker.has_ended_tasks = True
            # What it has not begun comes back.  Then we look at what it has.
            node.perform(ReclaimTasks(worker.address, len(worker.inflight)))
        self._was_never_here(task)

    def take_out(self, task: Task) -> None:
        """Take a ready task out of its queue."""
        queue = task.job.queues.get((task.depth, task.spec.options))
        if queue is not None and queue.tasks and queue.tasks[-1] is task:
            queue.tasks.pop()  # the youngest are ended first
        elif queue is not None and task in queue.tasks:
            queue.tasks.remove(task)
        else:
            return  # it waits for a place elsewhere (strategies, groups)
        self.node.dispatch.ready_count -= 1

    # --- tasks on other nodes ---

    def ended_elsewhere(self, task: Task) -> None:
        """Tell the node of a forwarded task that has ended here; now, or when it is placed."""
        self.ended[task.spec.task_id] = task.trip
        self.has_arrived(task.spec.task_id, task.trip, task.forward.peer)

    def has_arrived(self, task_id: bytes, trip: int, place: str) -> None:
        """A task is there.  If it has ended meanwhile, that node need not run it."""
        if self.ended and self.ended.get(task_id) == trip and place in self.node.members.peers:
            asked = self.node.cancels.asked.get(task_id)
            ends = scheduling.EndTasks([(task_id, trip)])
            self.node.send(place, ends if asked is None else tasks.CancelTask(task_id, *asked, trip))

    @on(scheduling.EndTasks)
    def on_end_tasks(self, message: scheduling.EndTasks) -> None:
        """EndTasks: those that are here, and that nobody here wants."""
        node = self.node
        for task_id, trip in message.tasks:
            task = node.tasks.get(task_id)
            if task is None:
                self.unwanted[task_id] = (node.sender, trip)  # it may be on its way
            elif (task.origin, task.trip) == (node.sender, trip) and not task.options.actor_id:
                if self._is_bereft(task):
                    self.end(task)
        node.function_table.forget_waiters()

    def is_unwanted(self, message: scheduling.PlaceTask) -> bool:
        """Whether its origin has said that it is not to run: it was on its way."""
        return self.unwanted.get(message.spec.task_id) == (message.origin, message.trip)

    # --- workers that have some ---

    def has_run(self, worker: Worker, task_id: bytes) -> None:
        """The worker has run one that was over, or gives it back."""
        for task in _tasks_of(worker):
            if task.state == TaskState.DONE and task.spec.task_id == task_id:
                self.node.dispatch.leave_worker(task, worker)
                return

    def look(self, worker: Worker) -> None:
        """All that a worker has is begun: it is killed for tasks that are over, unless others would fail by that."""
        tasks = _tasks_of(worker)
        others = [task for task in tasks if task.state != TaskState.DONE]
        if len(others) == len(tasks):
            worker.has_ended_tasks = False
        elif all(task.options.max_retries for task in others):
            self.node.pool.kill(worker)

    # --- actors ---

    def _end_actor_if_bereft(self, entry: ObjectEntry) -> None:
        """The object of a handle is still here: the actor is not made yet, or other nodes may hold it."""
        objects, actor, shared = self.node.objects, entry.actor, entry.shared
        if objects.entries.get(entry.object_id) is not entry or entry.holders is not None:
            return
        objects.is_by_death = True
        if type(actor) is Route and entry.count == 1 and actor.releases():  # calls under way would keep it
            objects.drop(entry.object_id)
        elif type(actor) is Actor and entry.task is not None and not entry.count:
            if shared is None:
                self.has_no_handle(actor)
            elif not shared.is_released:
                objects.let_go(entry, shared)
        objects.is_by_death = False

    def has_no_handle(self, actor: Actor | Route) -> None:
        """A process has died with the last one."""
        node = self.node
        if type(actor) is Route:
            node.routes.calls_ended(actor)
            return
        assert type(actor) is Actor
        node.ends.graves.pop(actor.actor_id, None)
        if node.calls.actors.get(actor.actor_id) is not actor:
            node.moves.forget(actor.actor_id)
        elif not actor.options.detached and actor.state != ActorState.DEAD:
            if actor.worker is not None:
                node.pool.kill(actor.worker)
            node.ends.bury(actor, died(actor.options, "has ended: the process that had its last handle died"))


def _tasks_of(worker: Worker) -> list[Task]:
    return [*worker.inflight, *(frame.task for frame in worker.frames if frame.task is not None)]
