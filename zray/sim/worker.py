"""A simulated worker: the production task executor around scripts, in the order of zray/host/worker/main."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..exceptions import encode_system_error
from ..ids import return_id
from ..roles.local_scheduler.gpus import GPU
from ..roles.local_scheduler.tasks.pool import EXITED_IN_ORDER
from ..roles.role import on
from ..wire.actors import ActorExited, ActorStarted, ActorStartFailed, CallClosed, EndActor, StartActor
from ..wire.environment import NO_ENVIRONMENT
from ..wire.groups import plain_name
from ..wire.objects import AllocateRefused
from ..wire.scheduling import Bundle
from ..wire.task_spec import StoredValue, TaskOptions, TaskSpec, parse_options
from ..wire.tasks import Function, InterruptTask, ItemsDrawn, JobStarted, StartTasks, StopWorker, TaskOverdue
from . import language as say
from .checkpoints import Recovery
from .gpus import check_named
from .hosted import Hosted
from .language import FUNCTIONS
from .process import FLUSH_SECONDS, Activation, Process
from .requests import Write
from .values import Dep, Ref, RemoteError, UserError, decode_failure, encode, encode_failure, is_error

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator

TASK_SECONDS = (2e-6, 60e-6)  # cost of a task beyond its own sleeps


class Worker(Process):
    """A worker process."""

    kind = "worker"

    def __init__(self, world: Simulator, node: Node, address: str, pid: int, packages: str) -> None:
        super().__init__(world, node, address, pid)
        self.packages = packages
        self.job_id = b""
        self.environment = NO_ENVIRONMENT
        self.code: tuple[Bundle, ...] = ()  # of the job, if the driver is on another node
        self.taken: set[bytes] = set()  # fetched bundles
        self.actor: Any = None
        self.hosted: Hosted | None = None  # once it runs hosted actors
        self.recovery: Recovery | None = None  # of an actor that recovers
        self.is_told_to_stop = False
        self.is_leaving = ""
        self.overdue: set[bytes] = set()  # tasks of `interrupted` whose time limit has passed
        # Cancelled tasks: those that have not begun do not, others end so or not.  A generator has more items first.
        self.interrupted: dict[bytes, int] = {}
        self.drawn: dict[bytes, int] = {}  # items that were drawn, of generators with `max_buffered`

    # --- arrivals ---

    @on(StartTasks)
    def _on_start_tasks(self, message: StartTasks) -> None:
        if self.hosted is not None:
            self.hosted.take(message)
            return
        is_blocked = self.stack and self.stack[-1].is_over is not None
        assert not message.nested or is_blocked or self.client.left, "a nested task for a worker that is not blocked"
        for argument in message.arguments:
            if type(argument.value) is StoredValue:
                self.client.place_told(argument.object_id)
        self.executor.on_start_tasks(message)
        for spec in message.specs if self.interrupted else ():
            self.interrupted.pop(spec.task_id, None)  # of an earlier run
        for task_id, given, drawn in message.again:
            self.again[task_id], self.drawn[task_id] = given, drawn
        if message.nested and self.client.left:
            self.throw_nested_out()

    @on(StartActor)
    def _on_start_actor(self, message: StartActor) -> None:
        if message.options.hosted:
            self.hosted = self.hosted or Hosted(self)
            self.is_host = True
            self.hosted.start(message)
            return
        assert not self.stack and not self.actor_id, "two actors in one worker"
        self.executor.learn(message.functions)
        self.actor_id = message.spec.task_id
        top = Activation(message.spec.task_id)
        top.body = self.construct(top, message)
        self.actor_gpus = Activation(message.spec.task_id)
        self._has_gpus(self.actor_gpus, message.options.resources, message.gpus)
        self.stack.append(top)

    @on(ItemsDrawn)
    def _on_items_drawn(self, message: ItemsDrawn) -> None:
        self.drawn[message.task_id] = message.count

    @on(EndActor)
    def _on_end_actor(self, message: EndActor) -> None:
        assert self.hosted is not None, "the end of a hosted actor, in another process"
        self.hosted.end(message)

    @on(InterruptTask)
    def _on_interrupt_task(self, message: InterruptTask) -> None:
        self.interrupted[message.task_id] = message.items
        if self.hosted is not None:
            self.hosted.cancel(message.task_id)
        elif self.actor_id and not message.items:
            self._drop(message.task_id)

    def _drop(self, task_id: bytes) -> None:
        """Note the outcome of a cancelled call that has not begun."""
        executor, windows = self.executor, self.node.windows
        spec = next((spec for spec in executor.queue if spec.task_id == task_id), None)
        if spec is None or not windows.get(self.address):
            return
        windows[self.address] -= 1
        executor.queue.remove(spec)
        self.again.pop(task_id, None)
        if self.recovery is not None:
            self.client.say(CallClosed(task_id, 0))
            self.recovery.count_call(spec)
        executor.finished(spec, [*self.cancelled(spec, parse_options(spec.options))[0]])
        self.done_with(spec)
        self.flush()

    def _is_overdue(self, top: Activation) -> None:
        """Interrupt a task that has run for its time limit."""
        spec = top.spec
        if self.is_alive and spec is not None and top in self.stack and spec.task_id not in self.interrupted:
            self.interrupted[spec.task_id] = 0
            self.overdue.add(spec.task_id)
            self.client.say(TaskOverdue(spec.task_id))
            self.flush()

    @on(StopWorker)
    def _on_stop_worker(self, message: StopWorker) -> None:
        self.is_told_to_stop = True

    @on(JobStarted)
    def _on_job_started(self, message: JobStarted) -> None:
        assert not self.job_id or self.job_id == message.job_id, "a worker of two jobs"
        assert self.packages == message.environment.packages, "a worker of another fork server"
        self.job_id = message.job_id
        self.environment = message.environment
        if message.facts.home != self.node.scheduler.address:
            self.code = message.facts.code

    # --- tasks ---

    def run(self) -> None:
        if self.hosted is None:
            super().run()
        if self.hosted is not None:
            self.hosted.run()

    def served(self) -> Iterable[bytes]:
        return super().served() if self.hosted is None else self.hosted.served()

    @property
    def life(self) -> str:  # type: ignore[override]
        """The incarnation of the hosted actor that runs: it may run again in the same process."""
        guest = self.hosted.present if self.hosted is not None else None
        return f"#{guest.life}" if guest is not None else ""

    def next_task(self) -> bool:
        """Claim the next task of the queue; an empty window means that the rest was reclaimed."""
        executor = self.executor
        if self.is_leaving:
            self._leave()
            return False
        if not executor.queue:
            if self.is_told_to_stop:
                self.is_leaving = EXITED_IN_ORDER
                self._leave()
            return False
        windows = self.node.windows
        if not windows.get(self.address):
            self._throw_out()
            return True
        windows[self.address] -= 1
        spec = executor.begun = executor.queue.popleft()
        if not executor.has_arguments(spec):
            executor.give_back(spec)
            self.done_with(spec)
            return True
        self.begin(spec)
        return True

    def _throw_out(self) -> None:
        """Drop what was reclaimed."""
        for object_id in self.executor.throw_out(self.node.windows.get(self.address, 0)):
            self.client.place_unused(object_id)

    def _flush_is_due(self) -> None:
        if self.stack and not self.actor_id and self.hosted is None:  # as the helper thread of a worker
            self._throw_out()
        super()._flush_is_due()

    def next_nested(self) -> bool:
        """Run a task nested in a wait on top of the stack."""
        if not self.executor.nested:
            return False
        spec = self.executor.begun = self.executor.nested.popleft()
        self.begin(spec)
        return True

    def waits_for_draws(self, top: Activation, then: Callable[[], None]) -> bool:
        task_id, most = top.task_id, parse_options(top.spec.options).max_buffered if top.spec is not None else 0
        wanted = top.items - most + 1

        def may_go_on() -> bool:
            return self.drawn.get(task_id, 0) >= wanted or task_id in self.interrupted

        if not most or may_go_on():
            return False
        client = self.client
        # Its CPU is lent meanwhile.
        request = 0 if self.is_host else client.wait([return_id(task_id, 1)], 1, fetch=False, block=True)
        self.flush()
        is_cancelled = False

        def is_over() -> bool:
            nonlocal is_cancelled
            if not may_go_on() or not request:
                return may_go_on()
            if not is_cancelled:
                is_cancelled = True
                client.cancel_wait(request)
            return client.replies[request] is not None

        def resume() -> None:
            client.replies.pop(request, None)
            then()

        self.block(top, is_over, resume)
        return True

    def closes(self, top: Activation) -> bool:
        if not self.actor_id:
            return top.task_id in self.interrupted and self.world.random.random() < 0.7
        closed = self.recovery.closed if self.recovery is not None and top.spec is None else self.interrupted
        least = closed.get(top.task_id)
        return least is not None and top.items >= least

    def begin(self, spec: TaskSpec) -> None:
        options = parse_options(spec.options)
        assert options.actor_id or options.environment == self.environment, "a task in another one's environment"
        top = Activation(spec.task_id)
        top.spec = spec
        top.begun_at = self.world.now
        if not options.actor_id:
            self._has_gpus(top, options.resources, self.executor.gpus_inside(spec))
        function = self.executor.functions.get(spec.function_id)  # a message during the start may replace the entry
        top.body = self._run_task(top, spec, function)
        self.stack.append(top)
        if options.time_limit:
            self.world.call_later(options.time_limit, self._is_overdue, top)
        self.world.output.print(self.node, self.address, self.job_id)
        self.world.runs[spec.task_id] = self.world.runs.get(spec.task_id, 0) + 1

    def _has_gpus(self, level: Activation, request: Mapping[str, int], gpus: list[str] | None) -> None:
        """Assign GPUs to an activation, or, for an actor, to the process."""
        check_named(request, gpus)
        level.gpus, level.gpu_amount = gpus, sum(amount for key, amount in request.items() if plain_name(key) == GPU)

    @property
    def is_once_more(self) -> bool:
        """Whether the running call is a replay of an ended call with a lost result."""
        spec = self.stack[-1].spec
        return spec is not None and spec.caller == spec.task_id

    def done_with(self, spec: TaskSpec) -> None:
        for object_id in self.executor.done_with(spec):
            self.client.place_unused(object_id)

    def _run_task(self, top: Activation, spec: TaskSpec, function: Function | None) -> Generator[Any, Any, Any]:
        costs = self.world.costs
        if costs is None:
            yield say.Sleep(self.world.draw_task_seconds(is_call=not spec.function_id))
        else:
            yield say.Compute(costs.worker_task)
        yield from self._take_code()
        options = parse_options(spec.options)
        if self.interrupted.get(spec.task_id) == 0:
            top.closed_at = 0
            return self.cancelled(spec, options)
        if options.actor_id:
            code = getattr(self.actor, options.method)
        else:
            assert function is not None, "a task without its code"
            code = FUNCTIONS[function.code.decode()]
        wants_retry = False
        try:
            args, error = self._arguments(top, spec, self.executor.begin(spec))
            if error is not None:
                return [error] * max(1, options.num_returns), (), False
            result = code(*args)
            if isinstance(result, Generator):
                result = yield from result
        except say.Closed:
            return self.cancelled(spec, options)
        except (UserError, RemoteError) as raised:
            wants_retry = options.retry_exceptions
            return [failure_of(raised)] * max(1, options.num_returns), (), wants_retry
        if spec.task_id in self.interrupted and self.world.random.random() < 0.7:
            return self.cancelled(spec, options)
        values, contained = yield from self.returns_of(spec, result)
        return values, contained, False

    def cancelled(self, spec: TaskSpec, options: TaskOptions) -> tuple[list[bytes], tuple[()], bool]:
        kind = "TaskTimeoutError" if spec.task_id in self.overdue else "TaskCancelledError"
        return [encode_system_error(kind, "cancelled")] * max(1, options.num_returns), (), False

    def returns_of(self, spec: TaskSpec, result: Any) -> Generator[Any, Any, Any]:
        """Return a call's results as reported, and the refs inside."""
        num_returns = parse_options(spec.options).num_returns
        results = [result] if num_returns == 1 else list(result or ())
        assert len(results) == num_returns
        values: list[bytes | StoredValue] = []
        contained = []
        for index, item in enumerate(results, 1):
            data, inside = encode(item)
            value: Any = data
            if len(data) > self.inline_bytes_max:
                value = yield Write(return_id(spec.task_id, index), data)
                if type(value) is AllocateRefused:
                    value, inside = encode_system_error("ObjectStoreFullError", value.reason), ()
            values.append(value)
            contained.append(inside)
        return values, tuple(contained) if any(contained) else ()

    def _take_code(self) -> Generator[Any, Any, None]:
        """Fetch the job's code as a worker does, and check that it is the sent code."""
        while new := [bundle for bundle in self.code if bundle.object_id not in self.taken]:
            bundle = new[0]
            self.client.hold(bundle.object_id)
            self.stack[-1].refs.append(bundle.object_id)
            value = yield say.Get(Ref(bundle.object_id))
            assert sha256(repr(value).encode()).digest() == bundle.digest, "other code than was sent"
            self.taken.add(bundle.object_id)

    def _arguments(
        self, top: Activation, spec: TaskSpec, given: list[bytes | StoredValue]
    ) -> tuple[list[Any], bytes | None]:
        """Return the arguments; or the first error among them."""
        for object_id, value in zip(spec.deps, given, strict=True):
            self.world.checkers.is_read(object_id, self.bytes_of(value), self.address)
        for value in given:
            if type(value) is bytes and is_error(value):
                return [], value
        deps = [self.read_value(top, value) for value in given]
        args = self.read_value(top, spec.args)
        return [deps[arg.index] if type(arg) is Dep else arg for arg in args], None

    def construct(self, top: Activation, message: StartActor) -> Generator[Any, Any, Any]:
        yield say.Sleep(self.world.draw_task_seconds(is_call=False))
        yield from self._take_code()
        spec = message.spec
        given = {argument.object_id: argument.value for argument in message.arguments}
        for argument in message.arguments:
            if type(argument.value) is StoredValue:
                self.client.place_told(argument.object_id)
        cls = FUNCTIONS[self.executor.functions[spec.function_id].code.decode()]
        error: bytes | None
        self.executor.arguments.update(given)
        if message.options.checkpoint_interval >= 0:
            self.recovery = Recovery(self, message)
        try:
            args, error = self._arguments(top, spec, [given[object_id] for object_id in spec.deps])
            if error is None:
                if self.recovery is not None and message.checkpoint:
                    self.actor = yield from self.recovery.restored(top, cls, message.checkpoint)
                else:
                    self.actor = cls(*args)
                    if hasattr(self.actor, "begin"):
                        yield from self.actor.begin()
                self.actor.world, self.actor.process = self.world, self
        except UserError as raised:
            error = failure_of(raised)
        if self.recovery is not None and error is None:
            error = yield from self.recovery.run_again(top, message)
        if message.options.hosted:
            self.done_with(spec)  # others may take the same
            return error
        for object_id in given:
            del self.executor.arguments[object_id]
            self.client.place_unused(object_id)
        return error

    def ended(self, top: Activation, result: Any) -> None:
        if self.hosted is not None:
            self.hosted.ended(top, result)
            return
        executor = self.executor
        saving = None
        if top.is_save:
            pass
        elif top.spec is None:
            if result is None:
                self.client.say(ActorStarted(self.actor_id))
            else:
                if decode_failure(result).kind == "ObjectStoreFullError":
                    self.world.faults.found_no_room.add(self.actor_id)
                self.client.say(ActorStartFailed(self.actor_id, result))
        else:
            values, contained, wants_retry = result
            found = executor.finished(top.spec, values, contained, wants_retry=wants_retry)
            if self.recovery is not None and top.closed_at is not None:
                self.client.say(CallClosed(top.task_id, top.closed_at))
            self.again.pop(top.task_id, None)
            for object_id in found:
                self.client.place_told(object_id)
                if object_id not in executor.arguments:
                    self.client.place_unused(object_id)
            if top.spec.function_id:
                executor.ran_for(top.spec.function_id, (self.world.now - top.begun_at) * 1e6)
            self.done_with(top.spec)
            if self.recovery is not None and not self.is_leaving:
                saving = self.recovery.save_after(top.spec)
        self.let_go(top)
        if saving is not None:
            self.stack.append(saving)
        if self.is_leaving:
            self.flush()
            self.client.say(ActorExited(self.actor_id, "exit_actor() was called."))
        if self.stack or len(executor.results) >= self.world.options.flush_every or not executor.queue:
            self.flush()
        elif not self.flush_is_due:
            self.flush_is_due = True
            self.world.call_later(FLUSH_SECONDS, self._flush_is_due)

    def leave_after(self, top: Activation) -> None:
        if self.hosted is not None and self.hosted.present is not None:
            self.hosted.present.is_leaving = True
        else:
            self.is_leaving = EXITED_IN_ORDER

    def _leave(self) -> None:
        self.flush()
        self.world.orderly_exit(self, self.is_leaving)


def failure_of(error: Exception) -> bytes:
    """Return the error value of a task that raised."""
    if isinstance(error, RemoteError):
        return encode_failure(str(error), error.failed.is_system)
    return encode_failure(str(error), False)
