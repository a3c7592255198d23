"""Work that ends with the requesting process, if the process dies instead of ending in order (a kill, a crash).

    a submitted task                ends, unless another process or node holds or takes the returns: even if running, by
                                    the death of the worker, and recursively with the worker's own requests
    a call on an actor              stops waiting for arguments; a call with all arguments is left to the actor
    a generator                     is cancelled: nobody else can draw its items, and those drawn before are freed
    an actor                        ends in the middle of a call, if the process had the last handle

Other nodes may hold a task's returns, so the shard is asked first; then the task's node is told.  The same holds for
local tasks placed by a lost node.

Values stay as long as others hold them, and so do detached actors.  A task retried after the death of its worker
submits its children again, which run again with the same ids.

A finished task in the queue of a worker stays there (TaskState.DONE) until the worker returns or runs the task, or is
dead.
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
from ..tables import Actor, ActorState, Process, died
from ..task import FORWARDED, ChildTask, Task, TaskState
from ..worker import Worker

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Tasks that were away when they ended are remembered, the last so many: what is placed travels for less than that.
ENDED_MAX = 10_000
# Objects in one question, or those of one task.
ASKED_COUNT = 1_000
# A cancelled task that ends with its requester has so long for its `finally` blocks.
CLEAN_UP_SECONDS = 1.0


class Fates:
    """The fates of work requested by a node's processes."""

    PASSING = {"asked": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ended: Latest[bytes, int] = Latest(ENDED_MAX)  # tasks that were away -> the trip on which they were
        # Tasks of others that are not here yet, and are not to begin -> their origin, and their trip.
        self.unwanted: Latest[bytes, tuple[str, int]] = Latest(ENDED_MAX)
        self.asked: dict[int, list[Task]] = {}  # by request: they end if no other node holds what they return

    def end_with(self, process: Process) -> Iterator[None]:
        """End the work that only the dead process requested, the youngest first, in steps."""
        node = self.node
        handles: list[ObjectEntry] = []
        yield from node.objects.release_process(process, handles)
        actor = process.worker.actor if process.worker is not None else None
        # A replay asks for the same generators again.
        is_repeated = actor is not None and actor.journal is not None and actor.state != ActorState.DEAD
        children = [task for task in node.tasks.values() if type(task) is ChildTask and task.submitter is process]
        known_to_others: list[Task] = []
        for task in reversed(children):
            is_unread = task.options.is_generator and not is_repeated
            if task.state == TaskState.DONE:
                pass
            elif is_unread and (task.options.actor_id or not self.is_bereft(task)):
                node.cancels.cancel(task, False, True)
            elif self.is_bereft(task):
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
        node.functions.forget_waiters()

    def let_go(self, process: Process) -> Iterator[None]:
        """Release what a process held that ended in order, and cancel its generators: nobody else draws from them."""
        node = self.node
        yield from node.objects.release_process(process)
        for task in list(node.tasks.values()):
            if type(task) is ChildTask and task.submitter is process and task.options.is_generator:
                if self.is_bereft(task):
                    node.cancels.cancel(task, False, True)
            yield

    def node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost: local work requested only by processes of the lost node ends too."""
        lost = self.node.recovery.lost
        tasks = [task for task in self.node.tasks.values() if task.origin in lost and not task.options.actor_id]
        if not message.is_drained:
            self._ask(tasks, message.node)

    # --- tasks ---

    def is_bereft(self, task: Task) -> bool:
        """Whether nothing here refers to the task's returns, but a generator that waits until its items are drawn."""
        returns = self.node.lifecycle.returns_of(task)
        return all(entry.holders is None and entry.count == _own_waits(task, entry) for entry in returns)

    def _ask(self, tasks: list[Task], lost: str = "") -> None:
        """Ask the shards whether other nodes hold the tasks' returns.  lost: as in FindUnheld."""
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

    def ask_again(self, message: gcs.FindUnheld) -> None:
        """Ask other shards, for the asked one does not own all of these objects."""
        if tasks := self.asked.pop(message.request, None):
            self._ask(tasks, message.lost)

    @on(gcs.FindUnheldReply)
    def on_find_unheld_reply(self, message: gcs.FindUnheldReply) -> None:
        """FindUnheldReply."""
        unheld = set(message.object_ids)  # membership only
        for task in self.asked.pop(message.request, ()):
            is_still = self.node.tasks.get(task.spec.task_id) is task and task.state != TaskState.DONE
            # A lost node's task: its parent is re-executed elsewhere, or other nodes count on the task now (recovery).
            is_still = is_still and (type(task) is ChildTask or task.origin in self.node.recovery.lost)
            if not is_still:
                continue
            returns = self.node.lifecycle.returns_of(task)
            if self.is_bereft(task) and all(item.object_id in unheld for item in returns):
                self.end(task)
            elif task.options.is_generator and type(task) is ChildTask:
                # The node that runs it holds its end while it waits for draws.
                self.node.cancels.cancel(task, False, True)
        self.node.functions.forget_waiters()

    def _end_call(self, task: Task) -> None:
        """End a dead process's call that still waits for arguments."""
        actor = self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and task.state == TaskState.CALL and task.missing and actor.queue.take_out(task):
            self.node.trips.stop_waiting((task,))
            self._was_never_here(task)
            self.node.calls.touch(actor.actor_id)

    def _was_never_here(self, task: Task) -> None:
        """Forget a task of the dead process, and release the task's arguments as by death."""
        objects = self.node.objects
        objects.is_by_death = True
        self.node.trips.was_never_here(task)
        objects.is_by_death = False

    def end(self, task: Task) -> None:
        """End a task in any place, because its results are unwanted."""
        node, worker = self.node, task.worker
        if task.missing:
            node.trips.stop_waiting((task,))
        if task.state == TaskState.READY:
            self.take_out(task)
        elif task.state >= FORWARDED:
            self.ended_elsewhere(task)
        elif task.state == TaskState.SENT and worker is not None:
            worker.has_ended_some(are_left=True)
            if task.spec.task_id in node.cancels.asked:
                node.after(CLEAN_UP_SECONDS, self._reclaim, worker)  # it is being interrupted, and may clean up
            else:
                self._reclaim(worker)
        self._was_never_here(task)

    def _reclaim(self, worker: Worker) -> None:
        """Take unbegun tasks back from a worker with ended tasks; `look` handles the others after that."""
        if worker.has_ended_tasks and self.node.pool.workers.get(worker.address) is worker:
            self.node.perform(ReclaimTasks(worker.address, len(worker.inflight)))

    def take_out(self, task: Task) -> None:
        """Remove a ready task from its queue."""
        queue = task.job.queues.get((task.depth, task.spec.options))
        if queue is not None and queue.remove(task):  # else it waits for a place elsewhere (strategies, groups)
            self.node.dispatch.ready_count -= 1

    # --- tasks on other nodes ---

    def ended_elsewhere(self, task: Task) -> None:
        """Tell the node of a forwarded task about its end; now, or when the task is placed."""
        self.ended[task.spec.task_id] = task.trip
        self.has_arrived(task.spec.task_id, task.trip, task.forward.peer)

    def trip_of(self, task_id: bytes) -> int:
        """Return the trip on which a task was away when it ended; 0: there was none.

        The node that was told of the end refuses that trip for as long, in each further life of the task.
        """
        return self.ended.get(task_id, 0)

    def has_arrived(self, task_id: bytes, trip: int, place: str) -> None:
        """Tell the node of a placed task if the task has ended here meanwhile."""
        if self.ended and self.ended.get(task_id) == trip and place in self.node.members.peers:
            asked = self.node.cancels.asked.get(task_id)
            ends = scheduling.EndTasks([(task_id, trip)])
            self.node.send(place, ends if asked is None else tasks.CancelTask(task_id, *asked, trip))

    @on(scheduling.EndTasks)
    def on_end_tasks(self, message: scheduling.EndTasks) -> None:
        """EndTasks: tasks unwanted by the origin end, if nothing refers to the returns locally."""
        node = self.node
        for task_id, trip in message.tasks:
            task = node.tasks.get(task_id)
            if task is None:
                self.unwanted[task_id] = (node.sender, trip)  # it may be on its way
            elif (task.origin, task.trip) == (node.sender, trip) and not task.options.actor_id:
                if self.is_bereft(task):
                    self.end(task)
        node.functions.forget_waiters()

    def is_unwanted(self, message: scheduling.PlaceTask) -> bool:
        """Whether the origin has cancelled the task while on its way, on this trip or a later one."""
        origin, trip = self.unwanted.get(message.spec.task_id, ("", 0))
        return origin == message.origin and message.trip <= trip

    # --- workers that have some ---

    def has_run(self, worker: Worker, task_id: bytes) -> None:
        """Remove a finished task that the worker has run or returned."""
        for task in _tasks_of(worker):
            if task.state == TaskState.DONE and task.spec.task_id == task_id:
                self.node.dispatch.leave_worker(task, worker)
                return

    def look(self, worker: Worker) -> None:
        """Kill a worker for its finished tasks, unless other tasks would fail; all tasks have begun."""
        tasks = _tasks_of(worker)
        others = [task for task in tasks if task.state != TaskState.DONE]
        if len(others) == len(tasks):
            worker.has_ended_some(are_left=False)
        elif all(task.options.max_retries for task in others):
            self.node.pool.kill(worker)

    # --- actors ---

    def _end_actor_if_bereft(self, entry: ObjectEntry) -> None:
        """End an actor without a local handle, unless other nodes may hold a handle."""
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
        """End the actor or route whose last handle a dead process had."""
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


def _own_waits(task: Task, entry: ObjectEntry) -> int:
    """Return how often the process that runs a task waits for what the task returns, as held-back generators do."""
    if entry.watchers is None or task.worker is None:
        return 0
    return sum(1 for wait in entry.watchers if wait.process is task.worker.process)


def _tasks_of(worker: Worker) -> list[Task]:
    return [*worker.inflight, *(frame.task for frame in worker.frames if frame.task is not None)]
