"""A task from submission to end: arguments, retries, values.

The position of a task is in TaskState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ....exceptions import FIRST_MARK, PAST_MARKS, encode_system_error
from ....ids import FIRST_RETURN, return_id
from ....wire.task_spec import StoredValue, TaskOptions, TaskSpec, parse_options
from ....wire.tasks import SubmitTasks, TasksFinished
from ...role import on
from ..actor_logs.copies import Step
from ..objects.table import ObjectEntry
from ..tables import Job, Process, ReadyQueue
from ..task import FORWARDED, ChildTask, Forward, RebuiltTask, Task, TaskState

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class Lifecycle:
    """The tasks of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node

    @on(SubmitTasks)
    def submit(self, message: SubmitTasks) -> None:
        process = self.node.processes.get(self.node.sender)
        if process is None:
            self.node.reject("tasks of a process that is gone")
            return
        if process.job.is_over:
            self.node.reject("tasks of a job that is over: its workers are being killed")
            return
        objects = self.node.objects
        tasks, entries, job, small_max = self.node.tasks, objects.entries, process.job, objects.small_max
        fresh = self.node.lineage.fresh
        functions = self.node.functions.by_id
        worker = process.worker
        depth = worker.frames[-1].depth + 1 if worker is not None and worker.frames else 0
        dispatch, fates, came = self.node.dispatch, self.node.fates, (depth, self.node.now)
        queue: ReadyQueue | None = None  # of the task ahead, if any ready one with the same options may follow it
        for spec in message.specs:
            task_id = spec.task_id
            if queue is not None and spec.options != queue.blob:
                queue = None
            options = parse_options(spec.options) if queue is None else queue.options
            object_id = task_id + FIRST_RETURN
            known = entries.get(object_id)
            if known is None:
                entry = entries[object_id] = ObjectEntry(object_id, process)
            elif self._is_known(spec, options, process):
                continue
            else:  # somebody asked for it before we heard of its task
                entry = known
                self.node.objects.hold(entry, process)
            if worker is None:
                task = Task(spec, options, entry, job, 0, came)
            else:
                trip = fates.trip_of(task_id) if fates.ended else 0
                task = ChildTask(spec, options, entry, job, 0, came, trip=trip, submitter=process)
            entry.task = task
            if options.num_returns != 1:
                self._make_further_returns(task, process)
            if options.is_generator:
                self._generator_submitted(task_id, options, process)
            tasks[task_id] = task
            if len(spec.args) > small_max:
                objects.inline_bytes += len(spec.args)
            fresh.append(task)
            if options.actor_id:
                if not spec.caller or not self.node.calls.made_by_call(task, worker):
                    self.node.calls.submit(task)
                continue
            function = functions.get(spec.function_id)
            if function is not None:
                spec.function_id = function.function_id  # one copy of the id, not one per task
            if spec.deps or spec.holds or function is None:
                self.retain_arguments(task)
                if function is None and spec.function_id in job.refused:
                    self.node.functions.refuse(task)
                    continue
                if task.missing or task.state >= FORWARDED:
                    continue
            if queue is None:
                queue = dispatch.enqueue(task)
            else:
                dispatch.append(task, queue)
        if self.node.cancels.parents:
            self.node.cancels.submitted(message.specs)

    def _is_known(self, spec: TaskSpec, options: TaskOptions, process: Process) -> bool:
        """Whether the task is running or has run, since a re-executed parent submits the same tasks.  The process holds
        its returns then."""
        ids = [return_id(spec.task_id, index) for index in range(1, max(1, options.num_returns) + 1)]
        known = [self.node.objects.entries.get(object_id) for object_id in ids]
        if spec.task_id not in self.node.tasks:
            if options.actor_id and self.node.calls.is_asked_again(spec.task_id, options.actor_id):
                return False  # what it has returned may be held here
            # A task that is neither running nor complete any more runs again.
            # Nor can anybody tell whether all items of a generator are still there.
            if (
                options.is_generator
                or any(entry is None or entry.is_lost or not (entry.is_here or entry.is_elsewhere) for entry in known)
            ) and not self.node.calls.has_ended(spec.task_id, process.worker):
                for entry in known:
                    if entry is not None:
                        self.node.recovery.made_after_all(entry)
                return False
        self.node.reject("a task submitted again")
        actor = self.node.calls.actors.get(options.actor_id)
        if actor is not None and actor.shipping is not None:
            actor.shipping.answers.asked_for(spec.task_id, self.node.address)  # the call may run ahead of this
        if options.is_generator:
            self._generator_submitted(spec.task_id, options, process)
        if any(entry is not None and entry.is_released for entry in known):
            self.node.lineage.record_again(spec)
        for entry in known if options.num_returns else ():
            assert entry is not None
            self.node.objects.hold(entry, process)
            if entry.value is not None:
                self.node.push(entry, process)
            elif entry.is_on_disk:
                self.node.waits.lies_elsewhere(entry)
        return True

    def _generator_submitted(self, task_id: bytes, options: TaskOptions, process: Process) -> None:
        maker = self.node.calls.recovering(process.worker, task_id) if options.actor_id else None
        self.node.generators.submitted(task_id, process, maker)

    def _make_further_returns(self, task: Task, process: Process | None) -> None:
        """Create entries of all returns but the first.  A task without returns has an entry that nobody holds."""
        if task.options.num_returns < 1:
            task.entry.held_by_none()
        more = []
        for index in range(2, task.options.num_returns + 1):
            entry = self.node.objects.require(return_id(task.spec.task_id, index))
            if process is not None:
                self.node.objects.hold(entry, process)
            entry.task = task
            more.append(entry)
        task.returns_more(more)

    def accept_placed(self, spec: TaskSpec, options: TaskOptions, job: Job, origin: str, before: int = 0) -> Task:
        """Accept a task from another node: only the shard's message frees the returns.

        before: for a task with lost results, the number of attempts including the new one.
        """
        entry = self.node.objects.require(spec.task_id + FIRST_RETURN)
        if before:
            task: Task = RebuiltTask(spec, options, entry, job, attempts=before, before=before)
        else:
            task = Task(spec, options, entry, job, forward=Forward(origin) if origin else None)
        entry.task = task
        if options.num_returns != 1:
            self._make_further_returns(task, None)
        for entry in self.returns_of(task):
            entry.recorded()
            entry.share_unheld().told_to(origin_alone=False)
        self.node.stages.begins(task)
        self.node.add_task(task)
        return task

    def retain_arguments(self, task: Task) -> None:
        """Hold the task's arguments; count and request missing ones."""
        spec = task.spec
        missing = 0
        elsewhere: list[ObjectEntry] | None = None  # those that no task here makes
        for object_id in spec.deps:
            entry = self.node.objects.retain(object_id)
            if entry.value is None:
                if entry.task is None or entry.task.state >= FORWARDED:
                    if self.node.is_embedded:
                        self.node.remote.want(entry)
                        if entry.value is not None:
                            continue  # it is lost, and says so
                    elif elsewhere is None:
                        elsewhere = [entry]
                    else:
                        elsewhere.append(entry)
                entry.waits(task)
                missing += 1
        for object_id in spec.holds:
            self.node.objects.retain(object_id)
        if spec.function_id not in self.node.functions.by_id and not task.options.actor_id:
            self.node.functions.wait_for(task)
            missing += 1
        task.waits_for(missing)
        if elsewhere is not None:
            self.node.trips.bring_or_go(task, elsewhere)

    def argument_is_here(self, task: Task | Step) -> None:
        """Note the arrival of an argument of a task, or of a step of a log."""
        if type(task) is Step:
            task.copy.argument_is_here(task)
            return
        if task.state == TaskState.DONE:
            return  # it was cancelled
        if not task.has_come():
            if task.state == TaskState.WAITING:
                self.node.stages.wait_ends(task, TaskState.READY)
                self.node.dispatch.enqueue(task, has_waited=True)
            elif task.state == TaskState.CALL:
                self.node.stages.arguments_are_here(task)
                self.node.calls.arguments_are_here(task)
            return
        if self.node.objects.on_disk:
            self.node.spilling.argument_is_here(task)
        if self.node.members.peers:
            self.node.trips.argument_is_here(task)

    @on(TasksFinished)
    def tasks_finished(self, message: TasksFinished) -> None:
        process = self.node.processes.get(self.node.sender)
        worker = process.worker if process is not None else None
        if process is None or worker is None:
            self.node.reject("results of a worker that is gone")
            return
        for timing in message.timings:
            self.node.dispatch.takes(timing.function_id, timing.mean_us)
        worker.moves(self.node.now)
        tasks, objects = self.node.tasks, self.node.objects
        inflight = worker.inflight
        first = worker.runs_first()
        for result in message.results:
            task = tasks.get(result.task_id)
            if task is None or (task.worker is not worker and not worker.has(task)):
                self.node.reject("a result that nobody awaits")
                if worker.has_ended_tasks:
                    self.node.fates.has_run(worker, result.task_id)
                if worker.guests is not None:
                    self.node.pool.hosts.free_unwanted(process, result)
                continue
            is_call = bool(task.options.actor_id)
            if is_call:
                self.node.calls.call_ended(task, task.worker, result)
            elif inflight and inflight[0] is task:
                inflight.popleft()
            else:
                self.node.dispatch.leave_worker(task, worker)
            if self.node.reruns.ending and self.node.reruns.begins(task, result.values):
                continue
            if result.wants_retry and self.may_retry(task):
                task.tried(task.attempts + 1)
                self.node.notices.raised(task)
                self.run_again(task)
                continue
            if self.node.cancels.asked:
                self.node.cancels.has_ended(result.task_id)
            if is_call and worker.actor is not None and worker.actor.shipping is not None:
                if task.options.is_generator and self.node.generators.attempts:
                    result = replace(result, values=self.node.generators.ended(task, result.values))
                if worker.actor.shipping.withhold(task, result, process):
                    continue
            del tasks[result.task_id]
            if len(task.spec.args) > objects.small_max:
                objects.inline_bytes -= len(task.spec.args)
            self.finish(task, result.values, result.contained, process)
        if worker.frames and worker.runs_first() is not first:
            if worker.actor is not None and first is not None:
                self.node.hung.calls_ended(worker, first, len(message.results))
            worker.begins(self.node.now)
        if worker.has_ended_tasks:
            self.node.fates.look(worker)
        self.node.dispatch.worker_progressed(worker)

    def may_retry(self, task: Task) -> bool:
        """Whether another attempt is allowed."""
        limit = task.options.max_retries
        if task.spec.task_id in self.node.cancels.asked:
            return False
        return (limit < 0 or task.attempts < limit) and not task.job.is_over

    def run_again(self, task: Task) -> None:
        """Queue the task again, at the front."""
        if task.options.actor_id:
            self.node.calls.run_again(task)
        else:
            self.node.dispatch.requeue(task)

    def finish(
        self,
        task: Task,
        values: list[bytes | StoredValue],
        contained: tuple[tuple[bytes, ...], ...] = (),
        writer: Process | None = None,
    ) -> None:
        """Finish a task with its values.  An error is stored in each return.

        writer: the process that ran the task, with large values known and pinned until unpinned.
        """
        if not task.options.is_generator:
            self._finish(task, values, contained, writer)
            return
        if self.node.generators.attempts:
            values = self.node.generators.ended(task, values)
        self._finish(task, values, contained, writer)
        self.node.generators.has_run(task, values[0] if values else b"")

    def _finish(
        self,
        task: Task,
        values: list[bytes | StoredValue],
        contained: tuple[tuple[bytes, ...], ...],
        writer: Process | None,
    ) -> None:
        first = values[0] if values else b""
        more = task.more
        if writer is not None and (more or type(first) is StoredValue):
            self._pin_for(writer, task, values)
        if task.attempts:
            if not task.options.actor_id:
                self.node.lineage.has_run_again(task)
            if task.options.is_generator:
                self.node.generators.look_again(task)
        if task.forward is not None and task.forward.origin:
            if task.options.actor_id:
                self.node.remote_calls.finish(task, values, contained, writer)
                return
            if task.is_quiet:
                self.node.results.end_quietly(task, values, contained, writer)
                return
            if self.node.recovery.ends_in_vain(task, first):
                return
            self.node.results.tell_origin(task, values, contained)
        self.node.finished_count += 1
        if task.state == TaskState.SENT:
            task.ended()
        else:
            self.node.task_states.ended(task)
        entry, spec = task.entry, task.spec
        if entry.actor is not None or type(first) is bytes and FIRST_MARK <= first < PAST_MARKS:
            self.node.ended.task_ended(task, first, writer)
            self.node.notices.failed(task, first)
        else:  # as there, without a call: each small task takes this way
            pid = writer.pid if writer is not None else 0
            row = spec.task_id, task.options, spec.function_id, task.job.job_id, pid, task.attempts
            self.node.ended.finished.append(row)
        entry.task = None
        self.node.object_is_here(entry, first, contained[0] if contained else ())
        if more:
            for index, further in enumerate(more, 1):
                further.task = None
                here = index < len(values)
                self.node.object_is_here(further, values[index if here else 0], contained[index] if contained else ())
        if spec.caller:
            self.node.calls.nested_ended(task, values, contained)
        if spec.deps:
            self.node.objects.drop_all(spec.deps)
        if spec.holds:
            self.node.objects.drop_all(spec.holds)

    def _pin_for(self, writer: Process, task: Task, values: list[bytes | StoredValue]) -> None:
        objects = self.node.objects
        name = task.options.name or task.options.method or self.function_name(task.spec.function_id)
        for index, value in enumerate(values, 1):
            if type(value) is StoredValue:
                object_id = return_id(task.spec.task_id, index)
                objects.pin(object_id, writer)
                objects.made[object_id] = f"task {name}"

    def fail(self, task: Task, class_name: str, text: str, details: dict[str, Any] | None = None) -> None:
        """End the task with a system error."""
        self.fail_with(task, encode_system_error(class_name, text, details))

    def fail_with(self, task: Task, error: bytes) -> None:
        """End the task with the error value in each return."""
        self.node.take_task(task.spec.task_id)
        self.node.names.call_failed(task)
        self.finish(task, [error] * max(1, task.options.num_returns))

    def function_name(self, function_id: bytes) -> str:
        """Return the function's name, for the user."""
        function = self.node.functions.by_id.get(function_id)
        return function.name if function is not None else function_id.hex()

    def returns_of(self, task: Task) -> list[ObjectEntry]:
        """Return the entries of an unfinished task's return values."""
        return [task.entry, *(task.more or ())]
