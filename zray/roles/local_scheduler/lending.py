"""Blocked workers: they lend their CPU out, get it back before they go on, and at the pool's cap run what they
wait for themselves.

A worker's frames are its stack (tables.Frame): only the top one can go on.

An actor holds its CPU for life, so it may have one that a blocked task has lent out: the task that made it, say, and
waits for it.  Such a task goes on with the CPU of an actor that has nothing to do, and that actor gets it back, before
anything new starts, to do its next call.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ...wire.tasks import StartTasks
from ..effects import ReclaimTasks
from .resources import CPU
from .tables import Actor, ActorState, Frame, ReadyQueue, Task, TaskState, Wait, Worker, WorkerState

if TYPE_CHECKING:
    from .dispatch import Dispatch
    from .scheduler import LocalScheduler

# How many tasks may wait inside each other in one process: each level takes some of its C stack.
FRAMES_COUNT_MAX = 2_000
# Tasks looked at to find what a blocked worker could run itself.
NESTED_SEARCH_MAX = 1_000


class Lending:
    """CPUs lent out by blocked workers."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch
        self.resuming: deque[Worker] = deque()  # blocked workers whose wait is over, waiting for their CPU
        self.lenders: dict[bytes, Worker] = {}  # by actor: idle ones whose CPU a resumed task has

    def block(self, worker: Worker, wait: Wait) -> None:
        """Its thread stops: lend its CPU out, and take back what it has not begun."""
        if not worker.frames:
            return  # an actor without resources of its own: nothing to lend
        frame = worker.frames[-1]
        frame.wait = wait
        if not frame.cpu_lent and frame.resources.get(CPU):
            frame.cpu_lent = True
            self.node.resources.give({CPU: frame.resources[CPU]})
            self.dispatch.is_dirty = True
            self.node.calls.wanting_worker_changed()
        if len(worker.frames) == 1 and len(worker.inflight) > 1 and worker.state == WorkerState.LEASED:
            self.node.perform(ReclaimTasks(worker.address, len(worker.inflight) - 1))

    def lent(self) -> int:
        """How much CPU is lent out."""
        frames = (frame for worker in self.node.pool.workers.values() for frame in worker.frames)
        return sum(frame.resources[CPU] for frame in frames if frame.cpu_lent)

    def wait_is_over(self, worker: Worker, wait: Wait) -> None:
        """The level that waited may go on as soon as it is on top and has its CPU again."""
        if not worker.frames:
            self.node.waits.finish(wait)
        elif worker.frames[-1].wait is wait and worker not in self.resuming:
            self.resuming.append(worker)
            self.resume()

    def resume(self) -> None:
        """Blocked workers get their CPU back before anything new starts."""
        resources = self.node.resources
        while self.resuming:
            worker = self.resuming[0]
            frame = worker.frames[-1]
            if frame.cpu_lent:
                share = {CPU: frame.resources[CPU]}
                if not resources.fits(share) and not self._borrow_from_actors(share[CPU]):
                    return
                resources.take(share)
                frame.cpu_lent = False
            self.resuming.popleft()
            wait, frame.wait = frame.wait, None
            worker.progress_at = self.node.now
            if wait is not None:
                self.node.waits.finish(wait)
        if self.lenders:
            self._give_back_to_actors()

    def _borrow_from_actors(self, amount: int) -> bool:
        """Have so much CPU free by what idle actors hold; nothing is borrowed where that is too little."""
        resources = self.node.resources
        missing = amount - resources.free.get(CPU, 0)
        chosen = []
        for actor in self.node.calls.actors.values():
            worker = actor.worker
            if missing <= 0:
                break
            is_busy = actor.inflight or actor.queue.has_ready()
            if worker is None or actor.state != ActorState.ALIVE or is_busy or not worker.frames:
                continue
            frame = worker.frames[0]
            if frame.cpu_lent or frame.wait is not None or not frame.resources.get(CPU):
                continue
            chosen.append((actor.actor_id, worker))
            missing -= frame.resources[CPU]
        if missing > 0:
            return False
        for actor_id, worker in chosen:
            worker.frames[0].cpu_lent = True
            resources.give({CPU: worker.frames[0].resources[CPU]})
            self.lenders[actor_id] = worker
        return True

    def _give_back_to_actors(self) -> None:
        """Those with calls to do first."""
        for with_calls in (True, False):
            for actor_id in list(self.lenders):
                actor = self.node.calls.actors.get(actor_id)
                if actor is None or actor.worker is not self.lenders[actor_id]:
                    del self.lenders[actor_id]  # it has ended, and gave back what it had
                elif bool(actor.queue) is with_calls:
                    self.has_its_cpu(actor)

    def has_its_cpu(self, actor: Actor) -> bool:
        """Whether the actor may do a call; one that has lent its CPU to a task takes it back if it can."""
        worker = self.lenders.get(actor.actor_id)
        if worker is None or worker is not actor.worker:
            return True
        frame = worker.frames[0]
        share = {CPU: frame.resources[CPU]}
        if self.resuming or not self.node.resources.fits(share):
            return False
        self.node.resources.take(share)
        frame.cpu_lent = False
        del self.lenders[actor.actor_id]
        self.node.calls.touch(actor.actor_id)
        return True

    def run_nested(self, queue: ReadyQueue) -> None:
        """No worker can be had: a blocked one runs the task that it waits for itself (U03)."""
        node = self.node
        for worker in self.dispatch.leased.values():
            if not queue.tasks or not node.resources.fits(queue.resources):
                return
            frame = worker.frames[-1]
            if frame.wait is None or frame.wait.is_over or worker.job is not queue.job:
                continue
            if worker.env_vars != queue.options.env_vars:
                continue  # one more is started for it when all are blocked
            task = self._task_behind(frame.wait, queue)
            if task is None:
                continue
            queue.tasks.remove(task)
            self.dispatch.ready_count -= 1
            if len(worker.frames) >= FRAMES_COUNT_MAX:
                text = f"Tasks wait inside tasks {len(worker.frames)} deep in one process: is there an end to it?"
                node.lifecycle.fail(task, "TaskUnschedulableError", text)
                return
            node.resources.take(queue.resources)
            worker.frames.append(Frame(queue.resources, queue.depth, task))
            task.state = TaskState.SENT
            task.worker = worker
            specs = [task.spec]
            arguments = self.dispatch.batches.arguments_for(worker, specs)
            node.send(
                worker.address, StartTasks(specs, self.dispatch.batches.functions_for(worker, specs), arguments, True)
            )

    def all_are_blocked(self) -> bool:
        """Whether every leased worker waits, and for nothing that a worker here could run inside its wait.

        So it may be with tasks of another node, whose blocked workers wait for ours, and with actors that wait.
        """
        return bool(self.dispatch.leased) and all(
            worker.frames[-1].wait is not None and not worker.frames[-1].wait.is_over
            for worker in self.dispatch.leased.values()
        )

    def _task_behind(self, wait: Wait, queue: ReadyQueue) -> Task | None:
        """A ready task of `queue` without which the wait cannot end."""
        entries = self.node.objects.entries
        looked_at = 0
        to_look_at = list(wait.pending)
        while to_look_at and looked_at < NESTED_SEARCH_MAX:
            entry = entries.get(to_look_at.pop())
            looked_at += 1
            task = entry.task if entry is not None else None
            if task is None or task.options.actor_id:
                continue
            is_its = task.job is queue.job and task.depth == queue.depth and task.spec.options == queue.blob
            if task.state == TaskState.READY and is_its:
                return task  # type: ignore[no-any-return]
            if task.state == TaskState.WAITING:
                to_look_at.extend(task.spec.deps)
        return None
