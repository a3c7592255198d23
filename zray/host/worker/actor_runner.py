"""An actor inside its worker: constructs the instance, and runs its calls serially, in threads, or on an event loop.

Serial actors run in the worker's main thread, call by call, like tasks.  Calls of async and threaded actors begin in
that thread too, in order; the loop or the pool does the rest.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import posix_ipc

from ...exceptions import ObjectLostError, encode_system_error
from ...ids import return_id, task_of
from ...store.errors import deserialize_error, serialize_error
from ...store.values import serialize
from ...wire.actors import ActorExited, ActorStarted, ActorStartFailed, CallClosed, StartActor
from ...wire.task_spec import StoredValue, TaskSpec, parse_options
from ..client.event_log import Kind
from ..client.task_context import Call, Submitter, current_call
from ..output.worker_output import begun_lines
from ..process.math_threads import threads
from ..process.preloading import suggest
from .actor_methods import Methods, Shutdown, has_shutdown
from .checkpoints import NotAsBefore, Recovery
from .exit import crash, leave
from .exit_errors import ActorExit, farewell, is_success
from .failures import failure
from .function_loading import function_of
from .outcomes import several
from .replays import keep

if TYPE_CHECKING:
    from .async_runner import AsyncCalls
    from .main import Worker


CALL = int(Kind.CALL)
# How long a leaving actor waits for its running calls: some may loop without end.
LAST_CALLS_SECONDS = 10.0

# Values of a call's returns, the refs inside each, and whether another attempt is wanted.
Result = tuple[list[Any], tuple[tuple[bytes, ...], ...], bool]


class Instance:
    """An actor's instance, and the outcomes of its constructor and of its calls."""

    __slots__ = ("__weakref__", "actor_id", "creation", "instance", "is_restored", "methods", "options", "worker")

    def __init__(self, worker: Worker, order: StartActor) -> None:
        self.worker = worker
        self.options = order.options
        self.actor_id = order.spec.task_id
        self.creation = order.spec
        self.is_restored = bool(order.checkpoint)
        self.instance: Any = None
        self.methods: Methods | None = None  # of the instance

    @property
    def in_words(self) -> str:
        """The actor, as in "actor Counter named 'joe'"."""
        return f"actor {self.options.class_name}" + (f" named {self.options.name!r}" if self.options.name else "")

    def death_by(self, error: BaseException) -> bytes:
        """Return the error for all calls on an actor after a failed constructor."""
        name = f"{self.options.class_name}.{'__zray_restore__' if self.is_restored else '__init__'}"
        task_error = deserialize_error(serialize_error(error, name, skip_frames=2).inband)
        where = "while its state was restored" if self.is_restored else "in its constructor"
        text = f"The {self.in_words} died {where}: {task_error}"
        node = self.worker.node_id.hex()[:8]
        exit_text = "its state could not be restored" if self.is_restored else "its constructor raised"
        return encode_system_error("ActorDiedError", text, {"pid": os.getpid(), "node": node, "exit_text": exit_text})

    def method_of(self, spec: TaskSpec) -> Callable[..., Any]:
        """Return the bound method of a call."""
        name = parse_options(spec.options).method
        methods = self.methods
        if methods is None:
            methods = self.methods = Methods(self.instance)
        return methods.bound.get(name) or methods.find(name)

    def result_of(self, spec: TaskSpec, value: Any) -> Result:
        """Return what a call has returned as its result."""
        worker, options = self.worker, parse_options(spec.options)
        if not options.has_plain_return:
            values, contained = several(worker, spec, value, options)
            return values, contained, False
        serialized = serialize(value)
        if serialized.size <= worker.inline_bytes_max and not serialized.buffers:
            stored: bytes | StoredValue = serialized.inband
        else:
            stored = worker.store(return_id(spec.task_id, 1), serialized)
        return [stored], (serialized.contained,) if serialized.contained else (), False

    def left_by(self, error: BaseException) -> str:
        """Return the reason of an actor's end by exit_actor() or sys.exit(0)."""
        return farewell(self.in_words, error)


class ActorHost(Instance):
    """The actor of a worker process."""

    def __init__(self, worker: Worker, order: StartActor) -> None:
        super().__init__(worker, order)
        self.order = order
        self.restart_count = order.restart_count
        self.is_async = order.options.is_async
        self.is_serial = order.options.is_serial
        self.has_shutdown = False  # its class has methods to run before the process ends
        self.shutdown = Shutdown(self)
        self.recovery = Recovery(self) if order.options.checkpoint_interval >= 0 else None
        self.async_calls: AsyncCalls | None = None
        self.pools: dict[str, Any] = {}  # threads by concurrency group; "": the actor's own
        self.slots = threading.Semaphore(max(1, order.options.max_concurrency))
        self.in_line: dict[bytes, TaskSpec] = {}  # calls that wait for a thread, by task
        self.in_threads: dict[bytes, TaskSpec] = {}  # calls in the pool, by task
        self.running = 0  # calls in threads, or in the loop; changed with the worker's lock held
        self.last_call: TaskSpec | None = None  # the call that asked for the actor's end
        self.farewell = ""  # the reason of the end
        self.exiting = ""  # the reason, once that call's result is on its way
        self.leavers: set[bytes] = set()  # calls of exit_actor(): user code may catch the exception

    def start(self) -> None:
        """Run the constructor and report; replace the worker's functions that run tasks."""
        worker, spec = self.worker, self.order.spec
        with begun_lines.lock:
            begun_lines.mark(self.options.class_name)
        executor = worker.executor
        executor.learn(self.order.functions)
        with worker.lock:
            for argument in self.order.arguments:
                if type(argument.value) is StoredValue:
                    worker.client.place_told(argument.object_id)
                executor.arguments[argument.object_id] = argument.value
        if self.is_async:
            from .async_runner import AsyncCalls  # it imports asyncio, which other actors do without

            self.async_calls = AsyncCalls(self, self.options.max_concurrency)
        elif not self.is_serial:
            from concurrent.futures import ThreadPoolExecutor

            for group, count in {"": self.options.max_concurrency, **self.options.groups}.items():
                self.pools[group] = ThreadPoolExecutor(count, f"zray-actor-{group}" if group else "zray-actor")
        # Children submitted outside calls, by threads and by save and restore methods, are not repeated in a later
        # process of the actor: their ids are specific to this process.
        worker.root, constructor = (
            Submitter(task_id, self.options.class_name, self.actor_id, self.options.where, path)
            for task_id, path in ((worker.root.task_id, b""), (spec.task_id, worker.path_of(spec)))
        )
        worker.call = Call(spec, submitter=worker.root if self.order.checkpoint else constructor)
        threads.fit(self.options.resources)
        began, read = time.perf_counter(), 0.0
        try:
            cls = function_of(worker, spec.function_id)
            suggest(cls)
            args, kwargs = worker.arguments_of(spec)
            read = time.perf_counter()
            if self.async_calls is not None:
                self.instance = self.async_calls.construct(cls, args, kwargs)
            elif self.recovery is not None and self.order.checkpoint:
                self.instance = self.recovery.restored(cls)
            else:
                self.instance = cls(*args, **kwargs)
            if self.leavers:
                raise ActorExit(0)
        except BaseException as error:
            self._constructed(began, read, error)
            if isinstance(error, ActorExit) and os.getpid() == worker.pid:
                reason = self.left_by(error)
                leave(worker, reason, ActorExited(self.actor_id, reason))
            worker.say(ActorStartFailed(self.actor_id, self.death_by(error)))
            worker.flush()
            return
        self._constructed(began, read)
        try:
            if self.recovery is not None and self.order.calls:
                self.recovery.run_again()
        except NotAsBefore as error:
            worker.say(ActorStartFailed(self.actor_id, encode_system_error("ActorDiedError", str(error))))
            worker.flush()
            return
        for object_id in spec.deps:
            executor.arguments.pop(object_id, None)
        worker.call = None
        worker.run_next = self.run_next  # type: ignore[method-assign]
        worker.run_task = self.run_call  # type: ignore[method-assign]
        self.has_shutdown = has_shutdown(self.instance)
        worker.say(ActorStarted(self.actor_id, self.has_shutdown))
        worker.flush()
        if self.recovery is not None:
            self.recovery.given.clear()
        self.leave_if_asked()

    def _constructed(self, began: float, read: float, error: BaseException | None = None) -> None:
        if self.worker.events is not None:
            end = time.perf_counter()
            spec, options = self.order.spec, self.options
            self.worker.events.ran(Kind.CONSTRUCTOR, spec, began, read, end, end, error, actor=options)
        if error is not None and not self.is_restored:
            keep(self.worker, self.order.spec, self.options.class_name, error, kind="constructor")

    # --- calls ---

    def claim_next(self) -> TaskSpec | None:
        """Return the call at the head of the queue, if the claim window permits and its arguments have arrived."""
        worker = self.worker
        executor = worker.executor
        if self.exiting:  # no call begins after the leaving call
            self.leave_if_asked()
            threading.Event().wait()  # another thread ends the process
        with worker.lock:  # a cancelled call leaves the queue with its claim
            while executor.queue:
                try:
                    worker.claim(0)
                except posix_ipc.BusyError:
                    worker.throw_out()
                    return None
                spec = executor.queue.popleft()
                if not spec.deps or executor.has_arguments(spec):
                    if self.pools:
                        self.in_line[spec.task_id] = spec
                    return spec
                worker.give_back(spec)
        return None

    def run_next(self) -> None:
        """Begin calls at the head of the queue."""
        worker = self.worker
        if self.async_calls is not None:
            self.async_calls.begin()
        elif self.pools:
            self._begin_in_thread()
        else:
            spec = self.claim_next()
            if spec is not None:
                began = time.perf_counter()
                self.run_call(spec)
                worker.ended(spec, time.perf_counter() - began)
            worker.send_results_soon()
        self.leave_if_asked()

    def _begin_in_thread(self) -> None:
        """Give the next call to the threads of its group, which may have others to run before."""
        if not self.options.groups:
            self.slots.acquire()  # a call that cannot begin yet stays where it can be cancelled
        spec = self.claim_next()
        if spec is None:
            if not self.options.groups:
                self.slots.release()
            return
        with self.worker.lock:
            self.running += 1
        pool = self.pools[parse_options(spec.options).group]
        try:
            pool.submit(self._run_in_thread, spec)
        except RuntimeError:  # the system gives us no further thread: the call waits for one of those there are
            if not pool._threads:
                raise

    def run_call(self, spec: TaskSpec) -> None:
        """A serial actor's call."""
        worker = self.worker
        outer, worker.call = worker.call, Call(spec)
        began = time.perf_counter()
        read = end = 0.0
        failed: BaseException | None = None
        try:
            args, kwargs = worker.arguments_of(spec)
            read = time.perf_counter() if spec.deps else began
            value = self.method_of(spec)(*args, **kwargs)
            end = time.perf_counter()
            del args, kwargs
            result = self.result_of(spec, value)
        except BaseException as error:
            result = self.outcome_of(spec, error)
            value = failed = error
        if (events := worker.events) is not None:
            stored = worker.clock = time.perf_counter()
            if failed is None:
                ran_well = events.ran_well  # as in Worker.run_task
                ran_well(spec, began, read, end, stored)
            else:
                events.ran(CALL, spec, began, read, end or stored, stored, failed)
                failed = None
        worker.call = outer
        self.finished(spec, result)
        value = None  # an error's traceback has this frame, which would keep the error
        if self.recovery is not None:
            self.recovery.call_ended(spec)

    def run_once_more(self, spec: TaskSpec) -> None:
        """Replay a call of an earlier process: its result was reported, but large values of it may be lost."""
        options, recovery = parse_options(spec.options), self.recovery
        assert recovery is not None
        if recovery.closed.get(spec.task_id) == 0:
            return  # cancelled before it began
        try:
            args, kwargs = self.worker.arguments_of(spec)
            value = self.method_of(spec)(*args, **kwargs)
            is_lost = any(task_of(object_id) == spec.task_id for object_id in self.order.again)
            if is_lost and not options.is_generator:
                recovery.give(spec, self.result_of(spec, value))
            else:
                recovery.replay_generator(spec, value)
        except BaseException as error:
            if is_success(error):  # the earlier process died before its report
                self.exiting = self.left_by(error)
            elif (
                isinstance(error, ObjectLostError) and spec.task_id not in self.order.failed and not options.is_readonly
            ):
                what = f"{self.worker.name_of(spec)} succeeded before the loss, and failed in the replay"
                raise NotAsBefore(f"The {self.in_words} died: it cannot recover: {what}: {error}") from None

    def finished(self, spec: TaskSpec, result: Result) -> None:
        worker = self.worker
        if self.leavers and spec.task_id in self.leavers and spec is not self.last_call:
            result = self.outcome_of(spec, ActorExit(0))  # user code has caught the first exception
        if worker.cancelling.cancelled:
            result = worker.cancelling.outcome(spec, result)
        values, contained, wants_retry = result
        begun_lines.write_own()
        with worker.lock:
            worker.note(spec, values, contained, wants_retry=wants_retry)
            if spec is self.last_call:
                # Not before: another thread would end the process.
                self._begin_to_leave(self.farewell)

    def note_exit(self) -> None:
        """Note a call of exit_actor(): the actor ends after this call, even if user code catches the exception."""
        call = current_call.get() or self.worker.call
        if call is not None and (self.async_calls is None or self.async_calls.is_own(call.spec)):
            self.leavers.add(call.spec.task_id)

    def of(self, spec: TaskSpec) -> Instance | None:
        """Return the actor that runs a call."""
        return self

    def cancel(self, task_id: bytes, *, at_once: bool) -> None:
        """Drop a call that has not begun; interrupt one that runs, if possible.  With the worker's lock held.

        at_once: a generator need not make items again that its program has had.
        """
        spec = self._taken_out(task_id) if at_once else None
        if spec is not None:
            self._drop(spec)
        elif self.async_calls is not None:
            self.async_calls.cancel(task_id)

    def _taken_out(self, task_id: bytes) -> TaskSpec | None:
        """Take a call that has not begun out of its line; None: it has begun."""
        worker, queue = self.worker, self.worker.executor.queue
        if task_id in self.in_line:
            return self.in_line.pop(task_id)
        spec = next((spec for spec in queue if spec.task_id == task_id), None)
        if spec is not None:
            try:
                worker.claim(0)
            except posix_ipc.BusyError:
                return None
            queue.remove(spec)
        return spec

    def _drop(self, spec: TaskSpec) -> None:
        """Note the outcome of a cancelled call that has not begun; its replay drops it too."""
        worker = self.worker
        worker.again.pop(spec.task_id, None)
        if self.recovery is not None:
            worker.client.say(CallClosed(spec.task_id, 0))
            self.recovery.count_call(spec)
        values, contained, _ = worker.cancelling.outcome(spec, ([], (), False))
        worker.note(spec, values, contained, wants_retry=False)
        worker.client.is_urgent = True

    def outcome_of(self, spec: TaskSpec, error: BaseException) -> Result:
        """Return the result of a call that raised: an error, or the end of the actor."""
        if is_success(error) and os.getpid() == self.worker.pid:
            self.last_call = spec
            self.farewell = self.left_by(error)
            left = encode_system_error("ActorDiedError", self.farewell)
            return [left] * max(1, parse_options(spec.options).num_returns), (), False
        return failure(self.worker, spec, error)

    # --- threads ---

    def _run_in_thread(self, spec: TaskSpec) -> None:
        worker = self.worker
        with worker.lock:
            is_dropped = self.in_line.pop(spec.task_id, None) is None
        if is_dropped:
            self._thread_ended()
            return
        token = current_call.set(Call(spec))
        self.in_threads[spec.task_id] = spec
        began = time.perf_counter()
        read, failed = 0.0, None
        try:
            try:
                refused, value = self.refused(spec), None
                if refused is None:
                    args, kwargs = worker.arguments_of(spec)
                    read = time.perf_counter()
                    value = self.method_of(spec)(*args, **kwargs)  # lives until it is noted, with the refs inside
                result = refused or self.result_of(spec, value)
            except BaseException as error:
                result = self.outcome_of(spec, error)
                value = failed = error
            if worker.events is not None:
                end = time.perf_counter()
                worker.events.ran(CALL, spec, began, read, end, end, failed, worker.events.lane())
            self.finished(spec, result)
            value = failed = None  # as above
        except BaseException as trouble:  # of zray's own: in a pool's thread it would be invisible
            crash(worker, worker.name_of(spec), trouble)
        finally:
            current_call.reset(token)
            del self.in_threads[spec.task_id]
            self._thread_ended()

    def _thread_ended(self) -> None:
        """Note that a thread has no call any more."""
        with self.worker.lock:
            self.running -= 1
        if not self.options.groups:
            self.slots.release()
        self.worker.flush()
        self.leave_if_asked()

    def refused(self, spec: TaskSpec) -> Result | None:
        """Return the result of a call that waited for its group while it was cancelled, or the actor began to leave."""
        if not self.options.groups:
            return None
        count = max(1, parse_options(spec.options).num_returns)
        if self.exiting:
            return [encode_system_error("ActorDiedError", self.exiting)] * count, (), False
        # `finished` puts the error in the place of what a cancelled call returns.
        return ([b""] * count, (), False) if spec.task_id in self.worker.cancelling.cancelled else None

    def label(self) -> str:
        """Return the actor's label for its lines if its class defines `__repr__`, as in Ray; else ""."""
        if self.instance is None or type(self.instance).__repr__ is object.__repr__:
            return ""
        with suppress(Exception):
            return repr(self.instance)
        return ""

    def running_call(self) -> TaskSpec | None:
        """Return the oldest call in threads, or in the loop; None: no call.  For any thread."""
        with suppress(RuntimeError):  # changed just now
            if self.async_calls is not None:
                return next((spec for spec, _ in self.async_calls.tasks.values()), None)
            return next(iter(self.in_threads.values()), None)
        return None

    def look_around(self) -> None:
        """Look for ended calls of the loop, in the worker's helper thread, now and then."""
        if self.async_calls is not None:
            self.async_calls.look()

    # --- the end ---

    def _begin_to_leave(self, reason: str) -> None:
        """No call begins any more.  With the worker's lock held."""
        if not self.exiting:
            self.exiting = reason
            if not self.is_serial:
                patience = threading.Timer(LAST_CALLS_SECONDS, self._leave)
                patience.daemon = True
                patience.start()

    def leave_when_idle(self, error: BaseException) -> None:
        """End the actor at the request of a task or callback beside the calls, after the running calls."""
        with self.worker.lock:
            self._begin_to_leave(self.left_by(error))
        self.leave_if_asked()

    def leave_if_asked(self) -> None:
        """Leave, once the result of the requesting call is noted, and all other calls have ended."""
        if self.exiting and not self.running:
            self._leave()

    def _leave(self) -> None:
        self.shutdown.run(lambda: leave(self.worker, self.exiting, ActorExited(self.actor_id, self.exiting)))

    def stop(self) -> None:
        """Stop at the node's order; returns if there are no methods to run first."""
        if self.has_shutdown:
            self.shutdown.run(lambda: leave(self.worker, "told to stop"))
