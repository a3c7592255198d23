"""What goes to a worker in one message: as many tasks as it should have, the code and the values that they take.

Short tasks go in batches; how many, the mean run time of their function tells (as measured by the workers).
Tasks whose missing arguments are all made by tasks ahead of them in the same worker's queue go along: chains
need no round trip per link.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....wire import tasks as wire
from ....wire.task_spec import StoredValue, TaskSpec
from ....wire.tasks import LEARNED_BYTES_MAX, LEARNED_COUNT_MAX
from ...effects import OpenWindow
from ..resources import CPU
from ..tables import INFLIGHT_US_MAX, ReadyQueue, Worker
from ..task import Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from .dispatch import Dispatch

# A worker's queue: at most so many tasks, and at most so much work beyond the one that runs (Worker.reach_us).  Fewer
# would cost a wake-up per few tasks; more would be taken back more often.
INFLIGHT_COUNT_MAX = 128
# A long task may have one more behind it, so that its worker need not wait for us; it is taken back when
# another worker is idle.
PREFETCH_COUNT = 2


class Batches:
    """Fills workers' queues."""

    def __init__(self, node: LocalScheduler, dispatch: Dispatch) -> None:
        self.node = node
        self.dispatch = dispatch

    def fill(self, worker: Worker, queue: ReadyQueue) -> None:
        """Send the worker as many of the queue's tasks as it should have."""
        tasks, inflight, means = queue.tasks, worker.inflight, self.dispatch.mean_us
        known = self.node.resources.total.get(CPU, 0) > 0
        room_us = worker.reach_us
        function_id, mean = b"", 0
        batch: list[Task] = []
        count = len(inflight)
        # Behind the last of max_calls its worker ends, and nothing else should wait for that.
        limit = min(INFLIGHT_COUNT_MAX, queue.options.max_calls or INFLIGHT_COUNT_MAX)
        while tasks and count < limit:
            task = tasks[0]
            if task.spec.function_id is not function_id:
                function_id = task.spec.function_id
                found = means.get(function_id)
                mean = found if found is not None else INFLIGHT_US_MAX
                known = found is not None
                if not batch:
                    room_us -= mean * count
            if count and (not known or (room_us <= 0 and count >= PREFETCH_COUNT)):
                break
            tasks.popleft()
            self.dispatch.ready_count -= 1
            batch.append(task)
            count += 1
            room_us -= mean
            task.sent(worker)
            inflight.append(task)
            if task.entry.waiting is not None and known and not queue.options.max_calls:
                count, room_us = self._send_along(task, worker, queue, batch, count, room_us)
        if batch:
            self._send(worker, batch)

    def _send_along(
        self, task: Task, worker: Worker, queue: ReadyQueue, batch: list[Task], count: int, room_us: int
    ) -> tuple[int, int]:
        """Tasks that only miss what this worker is about to make follow their makers."""
        makers = [task]
        while makers and count < INFLIGHT_COUNT_MAX and room_us > 0:
            maker = makers.pop(0)
            for entry in self.node.lifecycle.returns_of(maker):
                for follower in entry.waiting_tasks():
                    if (
                        follower.state == TaskState.WAITING
                        and follower.spec.options == queue.blob
                        and follower.job is queue.job
                        and count < INFLIGHT_COUNT_MAX
                        and room_us > 0
                        and self._makers_are_ahead(follower, worker)
                    ):
                        follower.sent(worker)
                        worker.inflight.append(follower)
                        batch.append(follower)
                        makers.append(follower)
                        count += 1
                        room_us -= self.dispatch.mean_us.get(follower.spec.function_id, INFLIGHT_US_MAX)
        return count, room_us

    def _makers_are_ahead(self, task: Task, worker: Worker) -> bool:
        """Whether each missing argument is made by a task in this worker's queue (and the code is here)."""
        if task.spec.function_id not in self.node.functions:
            return False
        entries = self.node.objects.entries
        for object_id in task.spec.deps:
            entry = entries[object_id]
            if entry.value is None:
                maker = entry.task
                if maker is None or maker.worker is not worker or maker.state != TaskState.SENT:
                    return False
        return True

    def _send(self, worker: Worker, batch: list[Task]) -> None:
        node = self.node
        if not worker.inflight or len(batch) == len(worker.inflight):
            worker.begins(node.now)
        specs = [task.spec for task in batch]
        message = wire.StartTasks(specs, self.functions_for(worker, specs), self.arguments_for(worker, specs))
        message.gpus = node.resources.gpus.names_of(worker.frames[0].gpus)
        node.perform(OpenWindow(worker.address, len(specs)))
        node.send(worker.address, message)
        if len(worker.inflight) > 1:
            self.dispatch.watch_progress()

    def functions_for(self, worker: Worker, specs: Iterable[TaskSpec]) -> list[wire.Function]:
        """Code that the worker has not been sent yet."""
        functions: list[wire.Function] = []
        known = worker.functions
        for spec in specs:
            if spec.function_id not in known:
                function = self.node.functions[spec.function_id]
                known[spec.function_id] = len(function.code)
                worker.code_bytes += len(function.code)
                functions.append(function)
                while len(known) > 1 and (len(known) > LEARNED_COUNT_MAX or worker.code_bytes > LEARNED_BYTES_MAX):
                    worker.code_bytes -= known.pop(next(iter(known)))
        return functions

    def arguments_for(self, worker: Worker, specs: Iterable[TaskSpec]) -> list[wire.Argument]:
        """Values of the arguments that are here, each once; large ones are pinned for the worker."""
        objects = self.node.objects
        arguments: dict[bytes, wire.Argument] = {}
        for spec in specs:
            for object_id in spec.deps:
                value = objects.entries[object_id].value
                if value is not None and object_id not in arguments:
                    if type(value) is StoredValue:
                        assert worker.process is not None
                        objects.pin(object_id, worker.process)
                    arguments[object_id] = wire.Argument(object_id, value)
        return list(arguments.values())
