"""Tasks that blocked workers wait for: started with the CPU that these have lent, or run inside their waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....wire.tasks import StartTasks
from ..tables import ReadyQueue, Wait
from ..task import Task, TaskState
from .lending import BLOCKED

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .dispatch import Dispatch

# How many tasks may wait inside each other in one process: each level takes some of its C stack.
FRAMES_COUNT_MAX = 2_000
# Tasks looked at to find what a blocked worker could run itself.
NESTED_SEARCH_MAX = 1_000


class BehindWaits:
    """Tasks behind the waits of one node's workers."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch

    def start_at_once(self) -> None:
        """CPU that was lent in this turn goes to children of who lent it, ahead of workers that owe theirs.  As many
        run as before; else workers that wait again and again for short times would have it in turns, and no child.
        """
        dispatch, lending, pool = self.dispatch, self.dispatch.lending, self.node.pool
        lenders, lending.new_lenders = lending.new_lenders, {}
        for lender in lenders.values() if lending.resuming and dispatch.ready_count else ():
            frame = lender.frames[-1] if lender.frames else None
            if frame is None or frame.wait is None or frame.state not in BLOCKED:
                continue
            for queue in dispatch.queues:
                is_deeper = queue.job is lender.job and queue.depth > frame.depth
                if is_deeper and queue.tasks and dispatch.fits(queue):
                    worker = pool.take_idle(queue)
                    if worker is not None:
                        dispatch.lease(worker, queue)
                    elif not pool.start_for(queue) and frame.wait.limited:
                        pool.start_beyond_cap(queue, is_limited=True)
                    break

    def run_nested(self, queue: ReadyQueue) -> None:
        """A blocked worker runs the task that it waits for itself: no other worker can be had."""
        node = self.node
        for worker in node.pool.leased.values():
            if not queue.tasks or not self.dispatch.has_room(queue):
                return
            frame = worker.frames[-1]
            if frame.state not in BLOCKED or frame.wait is None or frame.wait.aside or worker.job is not queue.job:
                continue
            if worker.environment != queue.options.environment:
                continue  # one more is started for it when all are blocked
            task = self._task_behind(frame.wait, queue)
            if task is None or (frame.wait.limited and node.pool.start_beyond_cap(queue, is_limited=True)):
                continue
            queue.tasks.remove(task)
            self.dispatch.ready_count -= 1
            if len(worker.frames) >= FRAMES_COUNT_MAX:
                text = f"Tasks wait inside tasks {len(worker.frames)} deep in one process: does the recursion end?"
                node.lifecycle.fail(task, "TaskUnschedulableError", text)
                return
            gpus = self.dispatch.lending.begin(worker, queue.resources, queue.depth, task).gpus
            task.sent(worker)
            specs = [task.spec]
            functions = self.dispatch.batches.functions_for(worker, specs)
            arguments = self.dispatch.batches.arguments_for(worker, specs)
            names = node.resources.gpus.names_of(gpus)
            node.send(worker.address, StartTasks(specs, functions, arguments, True, names))

    def all_are_blocked(self) -> bool:
        """Whether every leased worker waits, and for nothing that a worker here could run inside its wait.

        So it may be with tasks of another node, whose blocked workers wait for ours, and with actors that wait.
        """
        leased = self.node.pool.leased.values()
        return bool(leased) and all(worker.frames[-1].state in BLOCKED for worker in leased)

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
