"""Cancellation of tasks and calls by programs.

    waiting, ready, or to run on another node           ends locally with TaskCancelledError; the other node is told
    with a worker                                       the worker interrupts the task; with force, is killed
    a call in the queue of the actor                    leaves the queue; for a forwarded call, the other node is told
    not found                                           all other nodes are told, because any may have the task
    longer with its worker than its time limit          the worker interrupts the task, and is killed if that fails
    with a worker, and is to end only if it waits       the worker's tasks from it on are taken back, if not begun

A worker returns an unbegun cancelled task.  Such a task is not sent again, nor retried after a failure or the loss of
the worker.  Children of a running task are cancelled too, also children submitted later, until the task's code knows:
its clean-up may submit.

Rule 1: `asked` holds tasks that a worker or another node has, or had; `parents` the id prefixes of their children.

Rule 2: A task in `asked` is never sent to a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....ids import PARENT_HASH_BYTES, children_prefix
from ....wire import tasks
from ....wire.task_spec import TaskSpec, overdue_in_words, parse_options
from ...effects import ReclaimTasks
from ...kept import Latest
from ...role import on
from ...work_effects import InterruptWorker
from ..tables import name_of_call
from ..task import FORWARDED, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Tasks that run are as many as there are workers, and calls some thousands; those that have ended need not be known.
ASKED_MAX = 10_000
# C code that does not return holds the exception up: the user hears of that after so long.
PATIENCE_SECONDS = 5.0
# A cancelled task that runs on gets a further signal after so long, then after twice as long, and so on.
AGAIN_SECONDS = 0.05
# A worker or another node has them, or nobody any more.
PAST_WAITING = (TaskState.SENT, TaskState.DONE, TaskState.PLACED, TaskState.ACCEPTED)
HAS_BEGUN = "The task does not wait any more."
NO_FORCE = "force=True is for tasks: it ends the worker, and an actor would lose its state.  See kill() for actors."


class Cancels:
    """The cancelled tasks of a node."""

    PASSING = {"sought": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.asked: Latest[bytes, tuple[bool, bool]] = Latest(ASKED_MAX)  # force, recursive
        self.parents: Latest[bytes, bool] = Latest(ASKED_MAX)  # by force or not
        self.overdue: Latest[bytes, None] = Latest(ASKED_MAX)  # tasks of `asked` that nobody has cancelled
        # Tasks that are to end only if they wait, while their workers are asked -> processes, and their requests.
        self.sought: dict[bytes, list[tuple[str, int]]] = {}

    @on(tasks.CancelTask)
    def on_cancel_task(self, message: tasks.CancelTask) -> None:
        """CancelTask, from a local process or another node."""
        node = self.node
        task = node.tasks.get(message.task_id)
        if message.items and task is not None:
            node.generators.is_left(message.task_id, message.items)
        is_refused = message.force and task is not None and bool(task.options.actor_id)
        if message.only_waiting and not self._waits(task):
            if task is None or not self._seek(task):
                node.send(node.sender, tasks.CancelTaskReply(message.request, HAS_BEGUN))
            else:
                self.sought.setdefault(message.task_id, []).append((node.sender, message.request))
            return
        if node.sender in node.processes:
            if message.request:
                node.send(node.sender, tasks.CancelTaskReply(message.request, NO_FORCE if is_refused else ""))
            if task is None and message.task_id not in self.asked:
                for peer in node.members.peers:
                    node.send(peer, tasks.CancelTask(message.task_id, message.force, message.recursive))
        elif task is None:
            if message.trip:
                node.fates.unwanted[message.task_id] = (node.sender, message.trip)
        elif message.trip and (task.origin, task.trip) != (node.sender, message.trip):
            return
        if task is not None and not is_refused:
            self.cancel(task, message.force, message.recursive)

    def _waits(self, task: Task | None) -> bool:
        """Return whether neither a worker nor another node has the task or call."""
        if task is None or task.state in PAST_WAITING or task.spec.task_id in self.asked:
            return False
        return task.state != TaskState.CALL or task.options.actor_id in self.node.calls.actors

    def _seek(self, task: Task) -> bool:
        """Have a task taken back from its worker, if it has not begun.  Returns whether that may be so."""
        worker = task.worker
        if worker is None or task not in worker.inflight or task.spec.task_id in self.asked:
            return False
        behind = len(worker.inflight) - worker.inflight.index(task)
        self.node.perform(ReclaimTasks(worker.address, behind, task.spec.task_id))
        return True

    def was_sought(self, task_id: bytes) -> None:
        """Tell who wants a task to end only if it waits: a task that its worker has not begun waits here again."""
        task = self.node.tasks.get(task_id)
        error = "" if self._waits(task) else HAS_BEGUN
        for process, request in self.sought.pop(task_id, ()):
            if process in self.node.processes:
                self.node.send(process, tasks.CancelTaskReply(request, error))
        if task is not None and not error:
            self.cancel(task, False, True)

    def cancel(self, task: Task, force: bool, recursive: bool) -> None:
        """End a task or a call, or have its process end the run."""
        if task.state == TaskState.DONE or task.spec.task_id in self.asked:
            return
        if task.options.actor_id:
            self._cancel_call(task, recursive)
        elif task.state == TaskState.SENT:
            self._interrupt(task, force, recursive)
        else:
            if task.state == TaskState.READY:
                self.node.fates.take_out(task)
            elif task.state >= FORWARDED:
                self._tell_place(task, force, recursive)
            self._end(task)
            return
        if recursive and task.state == TaskState.SENT:
            self._cancel_children(task, force)

    def end_abandoned(self) -> None:
        """Cancel tasks to whose returns nothing refers any more, where the program asked for that; no calls."""
        node, objects = self.node, self.node.objects
        abandoned, objects.abandoned = objects.abandoned, []
        for task in abandoned:
            is_there = node.tasks.get(task.spec.task_id) is task and not (task.job.is_over or task.options.actor_id)
            if is_there and node.fates.is_bereft(task):
                self.cancel(task, False, True)

    def _end(self, task: Task) -> None:
        if task.missing:
            self.node.trips.stop_waiting((task,))
        self.node.trips.is_over(task)
        if task.spec.function_id in self.node.functions.waiters:
            self.node.functions.forget_waiters()
        self.fail(task)

    def has_ended(self, task_id: bytes) -> None:
        """Forget a task that ended by itself; a later reconstruction runs uncancelled."""
        self.asked.pop(task_id, None)
        self.parents.pop(children_prefix(task_id), None)
        self.overdue.pop(task_id, None)

    def fail(self, task: Task) -> None:
        """End a task or call that no worker has."""
        if task.spec.task_id in self.overdue:
            self.node.lifecycle.fail(task, "TaskTimeoutError", overdue_in_words(self._in_words(task), task.options))
        else:
            self.node.lifecycle.fail(task, "TaskCancelledError", f"{self._in_words(task)} was cancelled.")

    def _in_words(self, task: Task) -> str:
        if task.options.actor_id:
            return name_of_call(task)
        return f"Task {task.options.name or self.node.lifecycle.function_name(task.spec.function_id)}"

    def _tell_place(self, task: Task, force: bool, recursive: bool) -> None:
        self.asked[task.spec.task_id] = force, recursive
        self.node.fates.ended_elsewhere(task)

    # --- what a worker has ---

    def _interrupt(self, task: Task, force: bool, recursive: bool) -> None:
        node, worker, task_id = self.node, task.worker, task.spec.task_id
        self.asked[task_id] = force, recursive
        if worker is None:
            return
        if force:
            text = f"{self._in_words(task)} was cancelled by force: its worker was ended."
            node.lifecycle.fail(task, "TaskForceCancelledError", text)
            node.pool.kill(worker)
            return
        node.send(worker.address, tasks.InterruptTask(task_id, node.generators.seen(task)))
        if worker.host is None:  # else its main thread runs no user code, and receives
            self._signal(task, AGAIN_SECONDS)
        node.after(PATIENCE_SECONDS, self._is_held_up, task)
        if worker.inflight and worker.inflight[0] is not task:
            node.perform(ReclaimTasks(worker.address, len(worker.inflight)))

    def interrupt_run(self, task: Task) -> None:
        """End the present run of a task or call, which is to run again."""
        self.node.send(task.worker.address, tasks.InterruptTask(task.spec.task_id))
        if task.worker.host is None:
            self._signal(task, AGAIN_SECONDS)

    def _signal(self, task: Task, again_seconds: float) -> None:
        """Send a signal, and a further one later: one that comes right before a system call begins ends no sleep."""
        task_id = task.spec.task_id
        is_here = self.node.tasks.get(task_id) is task and task.state == TaskState.SENT
        is_to_end = task_id in self.asked or task_id in self.node.reruns.ending
        if is_here and is_to_end and task.worker is not None and again_seconds < PATIENCE_SECONDS:
            self.node.perform(InterruptWorker(task.worker.address))
            self.node.after(again_seconds, self._signal, task, 2 * again_seconds)

    def interrupt_again(self, task: Task) -> None:
        """Have the worker end a cancelled generator that runs again, behind the items that the program has seen."""
        task_id = task.spec.task_id
        if task_id in self.asked and task.worker is not None:
            actor, seen = self.node.calls.actors[task.options.actor_id], self.node.generators.seen(task)
            count = max(seen, actor.items.count(task_id))
            self.node.send(task.worker.address, tasks.InterruptTask(task_id, count))
            self.node.perform(InterruptWorker(task.worker.address))

    def _is_held_up(self, task: Task) -> None:
        actor = self.node.calls.actors.get(task.options.actor_id)
        is_running = actor is None or not actor.ahead_of(task)
        if self.node.tasks.get(task.spec.task_id) is task and task.state == TaskState.SENT and is_running:
            hint = "kill() ends its actor" if task.options.actor_id else "cancel(force=True) ends its worker"
            text = f"{self._in_words(task)} was cancelled {PATIENCE_SECONDS:g} s ago, and still runs: {hint}"
            self.node.notices.tell(task.job, text)

    @on(tasks.TaskOverdue)
    def on_task_overdue(self, message: tasks.TaskOverdue) -> None:
        """TaskOverdue: no further run follows, and a worker that cannot be interrupted is ended."""
        node, task = self.node, self.node.tasks.get(message.task_id)
        if task is None or task.worker is None or task.worker.address != node.sender:
            node.reject("a task that is overdue, and not there")
        elif message.task_id not in self.asked:
            self.asked[message.task_id] = False, True
            self.overdue[message.task_id] = None
            self._cancel_children(task, False)
            node.after(PATIENCE_SECONDS, self._end_overdue, task)

    def _end_overdue(self, task: Task) -> None:
        if self.node.tasks.get(task.spec.task_id) is task and task.state == TaskState.SENT:
            worker = task.worker
            self.fail(task)
            self.node.pool.kill(worker)

    def _cancel_children(self, task: Task, force: bool) -> None:
        prefix = children_prefix(task.spec.task_id)
        self.parents[prefix] = force
        for child in [child for task_id, child in self.node.tasks.items() if task_id.startswith(prefix)]:
            self.cancel(child, force and not child.options.actor_id, True)

    @on(tasks.TaskCleansUp)
    def on_task_cleans_up(self, message: tasks.TaskCleansUp) -> None:
        """TaskCleansUp: children from here on are work of the clean-up."""
        self.parents.pop(children_prefix(message.task_id), None)

    def submitted(self, specs: Iterable[TaskSpec]) -> None:
        """Cancel the children of a cancelled task among new tasks."""
        for spec in specs:
            force = self.parents.get(spec.task_id[:PARENT_HASH_BYTES])
            task = self.node.tasks.get(spec.task_id)
            if force is not None and task is not None:
                self.cancel(task, force and not task.options.actor_id, True)

    # --- calls ---

    def _cancel_call(self, task: Task, recursive: bool) -> None:
        node, actor_id = self.node, task.options.actor_id
        actor, route = node.calls.actors.get(actor_id), node.routes.by_actor.get(actor_id)
        may_have_begun = actor is not None and actor.journal is not None and actor.has_begun(task)
        if actor is not None and task.state == TaskState.CALL and not may_have_begun and actor.queue.take_out(task):
            self._end(task)
            node.calls.touch(actor_id)
        elif actor is not None:
            self._interrupt(task, False, recursive)
        elif route is not None and not _may_run_elsewhere(task) and route.take_queued(lambda call: call is task):
            self._end(task)
            node.routes.calls_ended(route)
        else:
            self.asked[task.spec.task_id] = False, recursive
            if route is not None and route.home:  # else its home is told when the call leaves
                self.tell_home(task, route.home)

    def cancel_again(self, task: Task) -> None:
        """Cancel a call that was cancelled before its actor came to this node, or while the call was held back."""
        asked = self.asked.pop(task.spec.task_id, None)
        if asked is not None:
            self.cancel(task, *asked)

    def tell_home(self, task: Task, home: str) -> None:
        """Tell the actor's node of a call that is cancelled, once more if the call is sent again."""
        task_id = task.spec.task_id
        if task_id in self.asked:
            _, recursive = self.asked[task_id]
            items = self.node.generators.seen(task)
            self.node.send(home, tasks.CancelTask(task_id, False, recursive, items=items))


def _may_run_elsewhere(task: Task) -> bool:
    """Return whether an earlier process of a recoverable actor may have made the same generator call."""
    return task.options.is_generator and bool(task.spec.caller) and parse_options(task.spec.options).is_logged
