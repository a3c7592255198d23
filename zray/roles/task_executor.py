"""Task executor: inside every worker; the tasks to run, their order, and their results.

Like the client, the executor is called for every task and collects messages.  Its host (or the simulator) asks for the
next task, runs it, and reports.

Dialog (sender, message, reaction):

    local scheduler    StartTasks    queue them; nested ones run at once, inside the wait that blocks us
    local scheduler    StartActor, StopWorker, JobStarted    handled by the host

The worker owns a queued task only after claiming it from the window.  An empty window means that the node has reclaimed
the rest of the queue, so those tasks are dropped and reported (TasksReturned, drained).
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from ..ids import FIRST_RETURN, return_id
from ..wire import tasks
from ..wire.message import Message
from ..wire.task_spec import StoredValue, TaskSpec
from ..wire.tasks import LEARNED_BYTES_MAX, LEARNED_COUNT_MAX
from .kept import Latest

EWMA_WEIGHT = 0.2  # of the newest run in the average (Ray paper 4.2.2)
# A mean of a short one is reported again when it has moved by this factor: the node only plans with it.
REPORT_FACTOR = 1.25
REPORT_US_MIN = 20
# A run that took so much longer than its function does was perhaps only held up: its host knows whether it was.
UNLIKE_FACTOR = 8
# The number of functions with a mean: a program that defines ever new functions evicts the oldest.
MEANS_MAX = 10_000
NOTHING_STORED: list[bytes] = []


class Mean(Struct, gc=False):
    """Mean run time of a function, in microseconds."""

    us: float
    reported_us: float


class TaskExecutor:
    """The task queue of a worker."""

    PASSING = {"arguments uses queue": None}
    LASTING = {"functions": "count_max", "code_bytes": "bytes_max"}

    def __init__(self) -> None:
        self.queue: deque[TaskSpec] = deque()
        self.nested: deque[TaskSpec] = deque()
        self.functions: dict[bytes, tasks.Function] = {}  # by when they were last sent
        self.code_bytes = 0
        # When there is so much, what is not needed goes.
        self.count_max, self.bytes_max = LEARNED_COUNT_MAX, LEARNED_BYTES_MAX
        self.forgotten: list[bytes] = []  # functions, for the host
        self.begun: TaskSpec | None = None  # what was taken out of the queue last
        self.arguments: dict[bytes, bytes | StoredValue] = {}
        self.uses: dict[bytes, int] = {}  # queued tasks that take an argument
        self.results: list[tasks.TaskResult] = []
        # Names as in CUDA_VISIBLE_DEVICES: the GPUs of the running tasks; None: no GPUs.  Below, those of nested tasks.
        self.gpus: list[str] | None = None
        self.nested_gpus: dict[bytes, list[str]] = {}
        self.returned: list[bytes] = []
        self.drained: list[bytes] = []
        self.means: Latest[bytes, Mean] = Latest(MEANS_MAX)
        self.timings: dict[bytes, tasks.Timing] = {}

    # --- the queue ---

    def on_start_tasks(self, message: tasks.StartTasks) -> None:
        """StartTasks: the tasks and their arguments are queued."""
        for argument in message.arguments:
            self.arguments[argument.object_id] = argument.value
        uses = self.uses
        for spec in message.specs:
            for object_id in spec.deps:
                uses[object_id] = uses.get(object_id, 0) + 1
        (self.nested if message.nested else self.queue).extend(message.specs)
        if message.gpus is not None:
            if message.nested:
                self.nested_gpus.update({spec.task_id: message.gpus for spec in message.specs})
            else:  # nothing of ours runs but what has the same ones
                self.gpus = message.gpus
        if message.functions:
            self.learn(message.functions)

    def will_take(self, spec: TaskSpec) -> None:
        """Keep the arguments of a call in another queue until the worker is done with the call."""
        for object_id in spec.deps:
            self.uses[object_id] = self.uses.get(object_id, 0) + 1

    def learn(self, functions: list[tasks.Function]) -> None:
        """Add new functions, or functions evicted before."""
        for function in functions:
            known = self.functions.pop(function.function_id, None)
            self.functions[function.function_id] = function
            self.code_bytes += len(function.code) - (len(known.code) if known is not None else 0)
        if len(self.functions) > self.count_max or self.code_bytes > self.bytes_max:
            self._forget()

    def _forget(self) -> None:
        """Evict functions, except the latest (as the node assumes) and functions of queued tasks."""
        needed = {spec.function_id for spec in (self.begun, *self.queue, *self.nested) if spec is not None}
        count = size = 0
        for function in reversed(list(self.functions.values())):
            count += 1
            size += len(function.code)
            is_old = count > LEARNED_COUNT_MAX or size > LEARNED_BYTES_MAX
            if is_old and count > 1 and function.function_id not in needed:
                del self.functions[function.function_id]
                self.code_bytes -= len(function.code)
                self.forgotten.append(function.function_id)
        self.count_max = len(self.functions) + LEARNED_COUNT_MAX // 8
        self.bytes_max = self.code_bytes + LEARNED_BYTES_MAX // 8

    def gpus_inside(self, spec: TaskSpec) -> list[str] | None:
        """Return the GPUs of a nested task that begins."""
        return self.nested_gpus.pop(spec.task_id, self.gpus)

    def has_arguments(self, spec: TaskSpec) -> bool:
        """Whether all arguments of the task are present.

        An argument is missing if a task earlier in the queue should have made the value, and failed.
        """
        return all(object_id in self.arguments for object_id in spec.deps)

    def begin(self, spec: TaskSpec) -> list[bytes | StoredValue]:
        """Return the values of the task's arguments, in the order of spec.deps."""
        return [self.arguments[object_id] for object_id in spec.deps]

    def done_with(self, spec: TaskSpec) -> list[bytes]:
        """Drop a task's use of the arguments.  Returns arguments not taken by other queued tasks."""
        unused = []
        for object_id in spec.deps:
            left = self.uses[object_id] - 1
            if left:
                self.uses[object_id] = left
            else:
                del self.uses[object_id]
                if self.arguments.pop(object_id, None) is not None:
                    unused.append(object_id)
        return unused

    def throw_out(self, count: int = 0) -> list[bytes]:
        """Drop what the window has taken away: the queue but for its first `count` tasks.

        Returns arguments that no task takes now.
        """
        unused = []
        while len(self.queue) > count:
            spec = self.queue.pop()
            self.drained.append(spec.task_id)
            unused += self.done_with(spec)
        return unused

    def throw_nested_out(self) -> list[bytes]:
        """Drop the nested tasks of an abandoned wait, which the node reclaims.  Returns as `throw_out`."""
        unused = []
        while self.nested:
            spec = self.nested.popleft()
            self.nested_gpus.pop(spec.task_id, None)
            unused += self.done_with(spec)
        return unused

    def give_back(self, spec: TaskSpec) -> None:
        """Return a task that cannot run, because an argument is missing."""
        self.returned.append(spec.task_id)

    # --- what came of it ---

    def finished(
        self,
        spec: TaskSpec,
        values: list[bytes | StoredValue],
        contained: tuple[tuple[bytes, ...], ...] = (),
        *,
        wants_retry: bool = False,
    ) -> list[bytes]:
        """Record the results of a finished task; values needed by queued tasks stay in the worker.

        Returns the ids of large results: the node counts them as pinned by this process until unpinned.
        """
        self.results.append(tasks.TaskResult(spec.task_id, values, contained, wants_retry))
        if self.uses and not wants_retry:
            object_id = spec.task_id + FIRST_RETURN
            if object_id in self.uses and values:
                self.arguments[object_id] = values[0]
            for index in range(1, len(values)):
                object_id = return_id(spec.task_id, index + 1)
                if object_id in self.uses:
                    self.arguments[object_id] = values[index]
        if len(values) == 1 and type(values[0]) is not StoredValue:
            return NOTHING_STORED
        return [return_id(spec.task_id, index) for index, value in enumerate(values, 1) if type(value) is StoredValue]

    def is_unlike(self, function_id: bytes, us: float) -> bool:
        """Whether a run of `us` microseconds is far longer than the function's mean."""
        mean = self.means.get(function_id)
        return mean is not None and us > UNLIKE_FACTOR * mean.us

    def ran_for(self, function_id: bytes, us: float) -> None:
        """Record a run of `us` microseconds."""
        mean = self.means.get(function_id)
        if mean is None:
            mean = self.means[function_id] = Mean(us, 0.0)
            moved = True
        else:
            mean.us += EWMA_WEIGHT * (us - mean.us)
            now, before = mean.us, mean.reported_us
            moved = (
                now >= tasks.STEADY_US
                or now > before * REPORT_FACTOR + REPORT_US_MIN
                or now * REPORT_FACTOR + REPORT_US_MIN < before
            )
        if moved:
            mean.reported_us = mean.us
            self.timings[function_id] = tasks.Timing(function_id, int(mean.us))

    def take_forgotten(self) -> list[bytes]:
        """Take the ids of evicted functions."""
        forgotten, self.forgotten = self.forgotten, []
        return forgotten

    def take_messages(self) -> list[Message]:
        """Take the messages to send, in order: results first."""
        messages: list[Message] = []
        if self.results:
            timings, self.timings = list(self.timings.values()), {}
            messages.append(tasks.TasksFinished(self.results, timings))
            self.results = []
        if self.returned:
            messages.append(tasks.TasksReturned(self.returned))
            self.returned = []
        if self.drained:
            messages.append(tasks.TasksReturned(self.drained, True))
            self.drained = []
        return messages
