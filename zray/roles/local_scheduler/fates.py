"""What ends with the process that asked for it, where that dies and does not end in order (a kill, a crash).

    a task that it has submitted    ends, if nobody else holds what it returns, nor takes it: also while it runs, by the
                                    death of the worker that runs it, and so on with what that has asked for
    a call on an actor              waits no more for what it takes; one that waits for nothing is the actor's
    an actor                        ends in the middle of its calls, if the process had its last handle

Values stay as long as others hold them, and detached actors.  A task that runs again, since its worker has died,
submits its children again: they run again too, with the same ids.

A task that is over and stands in the queue of a worker stays there (TaskState.DONE) until the worker gives it back, has
run it after all, or is dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..effects import ReclaimTasks
from ..latest import Latest
from .names import died
from .route import Route
from .tables import Actor, ActorState, ChildTask, ObjectEntry, Process, Task, TaskState, Worker

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

# Tasks that were away when they ended are remembered, the last so many: what is placed travels for less than that.
ENDED_MAX = 10_000


class Fates:
    """Of the processes of one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.ended: Latest[bytes, int] = Latest(ENDED_MAX)  # tasks that were away -> the trip on which they were

    def end_with(self, process: Process) -> Iterator[None]:
        """The process is dead: it holds nothing, and what it alone had asked for ends, the youngest first, in steps."""
        node = self.node
        handles: list[ObjectEntry] = []
        yield from node.objects.release_process(process, handles)
        children = [task for task in node.tasks.values() if type(task) is ChildTask and task.submitter is process]
        for task in reversed(children):
            if task.state != TaskState.DONE:
                self._end_if_bereft(task)
            yield
        for entry in handles:
            self._end_actor_if_bereft(entry)
        node.function_table.forget_waiters()

    # --- tasks ---

    def _end_if_bereft(self, task: Task) -> None:
        if not self._is_bereft(task):
            return
        objects = self.node.objects
        objects.is_by_death = True
        if task.options.actor_id:
            self._end_call(task)
        elif task.state != TaskState.SPILLED and all(entry.shared is None for entry in self._returns(task)):
            self.end(task)
        objects.is_by_death = False

    def _is_bereft(self, task: Task) -> bool:
        """Whether nothing here refers to what it returns."""
        return all(entry.holders is None and not entry.count for entry in self._returns(task))

    def _returns(self, task: Task) -> list[ObjectEntry]:
        return self.node.lifecycle.returns_of(task)

    def _end_call(self, task: Task) -> None:
        """What it waits for need not be made for it."""
        actor = self.node.calls.actors.get(task.options.actor_id)
        if actor is not None and task.state == TaskState.CALL and task.missing and actor.queue.take_out(task):
            self.node.trips.stop_waiting((task,))
            self.node.trips.was_never_here(task)
            self.node.calls.touch(actor.actor_id)

    def end(self, task: Task) -> None:
        """It is over, wherever it is: nobody wants what it returns."""
        node, worker = self.node, task.worker
        if task.missing:
            node.trips.stop_waiting((task,))
        if task.state == TaskState.READY:
            self._take_out(task)
        elif task.state == TaskState.SENT and worker is not None:
            task.worker = None
            worker.has_ended_tasks = True
            # What it has not begun comes back.  Then we look at what it has.
            node.perform(ReclaimTasks(worker.address, len(worker.inflight)))
        node.trips.is_over(task)
        node.trips.was_never_here(task)

    def _take_out(self, task: Task) -> None:
        """It is ready, and does not start after all."""
        queue = task.job.queues.get((task.depth, task.spec.options))
        if queue is not None and queue.tasks and queue.tasks[-1] is task:
            queue.tasks.pop()  # the youngest are ended first
        elif queue is not None and task in queue.tasks:
            queue.tasks.remove(task)
        else:
            return  # it waits for a place elsewhere (strategies, groups)
        self.node.dispatch.ready_count -= 1

    # --- workers that have some ---

    def has_run(self, worker: Worker, task_id: bytes) -> None:
        """The worker has run one that was over, or gives it back."""
        for task in _tasks_of(worker):
            if task.state == TaskState.DONE and task.spec.task_id == task_id:
                self.node.dispatch.leave_worker(task, worker)
                return

    def look(self, worker: Worker) -> None:
        """What it has is what it has begun: it is killed for what is over, unless something else would fail by that."""
        tasks = _tasks_of(worker)
        others = [task for task in tasks if task.state != TaskState.DONE]
        if len(others) == len(tasks):
            worker.has_ended_tasks = False
        elif all(task.options.max_retries for task in others):
            self.node.pool.kill(worker)

    # --- actors ---

    def _end_actor_if_bereft(self, entry: ObjectEntry) -> None:
        """Its handle's object is still here, since the actor is not made yet."""
        actor = entry.actor
        if self.node.objects.entries.get(entry.object_id) is not entry or entry.holders is not None or entry.count:
            return
        if type(actor) is Actor and entry.task is not None and entry.shared is None:
            self.has_no_handle(actor)

    def has_no_handle(self, actor: Actor | Route) -> None:
        """A process has died with the last one."""
        node = self.node
        if type(actor) is Route:
            node.routes.handle_gone(actor)
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
