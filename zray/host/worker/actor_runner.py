"""An actor inside its worker: constructs it, runs its calls serially, in threads, or on an event loop.

Serial actors run in the worker's main thread, call by call, like tasks.  Async and threaded ones run there too
as far as the order of *beginning* goes; the rest is the loop's or the pool's.
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
from ...wire.actors import ActorExited, ActorStarted, ActorStartFailed, StartActor
from ...wire.task_spec import StoredValue, TaskSpec, parse_options
from ..client.task_context import Call, Submitter, current_call
from ..output.worker_output import begun_lines
from ..process.math_threads import threads
from ..process.preloading import suggest
from .actor_methods import Methods
from .actor_shutdown import Shutdown, has_shutdown
from .checkpoints import NotAsBefore, Recovery
from .exit import crash, leave
from .exit_errors import ActorExit, farewell, is_success
from .failures import failure
from .outcomes import several

if TYPE_CHECKING:
    from .async_runner import AsyncCalls
    from .main import Worker


# What has begun when an actor leaves is waited for, so long: one of its calls may be a loop without end.
LAST_CALLS_SECONDS = 10.0

# Values of a call's returns, the refs inside each, and whether it asks for another attempt.
Result = tuple[list[Any], tuple[tuple[bytes, ...], ...], bool]


class ActorHost:
    """One actor."""

    def __init__(self, worker: Worker, order: StartActor) -> None:
        self.worker = worker
        self.order = order
        self.options = order.options
        self.actor_id = order.spec.task_id
        self.in_words = f"actor {order.options.class_name}"
        if order.options.name:
            self.in_words += f" named {order.options.name!r}"
        self.restart_count = order.restart_count
        self.is_async = order.options.is_async
        self.is_serial = order.options.max_concurrency == 1 and not order.options.is_async
        self.instance: Any = None
        self.methods: Methods | None = None  # of the instance
        self.has_shutdown = False  # its class has something to run before the process ends
        self.shutdown = Shutdown(self)
        self.recovery = Recovery(self) if order.options.checkpoint_interval >= 0 else None
        self.async_calls: AsyncCalls | None = None
        self.pool: Any = None
        self.slots = threading.Semaphore(max(1, order.options.max_concurrency))
        self.in_threads: dict[bytes, TaskSpec] = {}  # calls in the pool, by task
        self.running = 0  # calls in threads, or in the loop; changed with the worker's lock held
        self.last_call: TaskSpec | None = None  # it asked for the actor's end
        self.farewell = ""  # by what
        self.exiting = ""  # why, once that call's result is on its way
        self.leavers: set[bytes] = set()  # calls of exit_actor(): user code may catch what it raises

    def start(self) -> None:
        """Run the constructor, then say so; replace the worker's way to run tasks by ours."""
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

            self.pool = ThreadPoolExecutor(self.options.max_concurrency, "zray-actor")
        # What is made beyond its calls, by its threads and by what saves and restores it, no other process of it
        # makes again: its ids are this one's own.
        stray, constructor = (
            Submitter(task_id, self.options.class_name, self.actor_id, self.options.where, path)
            for task_id, path in ((worker.root.task_id, b""), (spec.task_id, worker.path_of(spec)))
        )
        worker.root = stray
        worker.call = Call(spec, stray if self.order.checkpoint else constructor)
        threads.fit(self.options.resources)
        try:
            cls = worker.function_of(spec.function_id)
            suggest(cls)
            args, kwargs = worker.arguments_of(spec)
            if self.async_calls is not None:
                self.instance = self.async_calls.construct(cls, args, kwargs)
            elif self.recovery is not None and self.order.checkpoint:
                self.instance = self.recovery.restored(cls)
            else:
                self.instance = cls(*args, **kwargs)
            if self.leavers:
                raise ActorExit(0)
        except BaseException as error:
            if isinstance(error, ActorExit) and os.getpid() == worker.pid:
                reason = self._left_by(error)
                leave(worker, reason, ActorExited(self.actor_id, reason))
            worker.say(ActorStartFailed(self.actor_id, self._death_by(error)))
            worker.flush()
            return
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

    def _death_by(self, error: BaseException) -> bytes:
        """The error that every call on an actor gets whose constructor raised."""
        is_restored = bool(self.order.checkpoint)
        name = f"{self.options.class_name}.{'__zray_restore__' if is_restored else '__init__'}"
        task_error = deserialize_error(serialize_error(error, name, skip_frames=2).inband)
        where = "while its state was restored" if is_restored else "in its constructor"
        text = f"The {self.in_words} died {where}: {task_error}"
        node = self.worker.node_id.hex()[:8]
        exit_text = "its state could not be restored" if is_restored else "its constructor raised"
        return encode_system_error("ActorDiedError", text, {"pid": os.getpid(), "node": node, "exit_text": exit_text})

    # --- calls ---

    def claim_next(self) -> TaskSpec | None:
        """The call at the head of the queue, if the window lets us have it and its arguments are here."""
        worker = self.worker
        executor = worker.executor
        if self.exiting:  # nothing begins behind the call that leaves
            self.leave_if_asked()
            threading.Event().wait()  # whoever ends last, or loses patience, ends the process
        while executor.queue:
            try:
                worker.claim(0)
            except posix_ipc.BusyError:
                with worker.lock:
                    executor.throw_out()
                return None
            with worker.lock:
                spec = executor.queue.popleft()
                if not spec.deps or executor.has_arguments(spec):
                    return spec
                executor.give_back(spec)
                executor.done_with(spec)
        return None

    def run_next(self) -> None:
        """Begin calls at the head of the queue."""
        worker = self.worker
        if self.async_calls is not None:
            self.async_calls.begin()
        elif self.pool is not None:
            self.slots.acquire()
            spec = self.claim_next()
            if spec is None:
                self.slots.release()
            else:
                with worker.lock:
                    self.running += 1
                try:
                    self.pool.submit(self._run_in_thread, spec)
                except RuntimeError:  # the system gives us no further thread: the call waits for one of those there are
                    if not self.pool._threads:
                        raise
        else:
            spec = self.claim_next()
            if spec is not None:
                began = time.perf_counter()
                self.run_call(spec)
                worker.ended(spec, time.perf_counter() - began)
            worker.send_results_soon()
        self.leave_if_asked()

    def run_call(self, spec: TaskSpec) -> None:
        """A serial actor's call."""
        worker = self.worker
        outer, worker.call = worker.call, Call(spec)
        try:
            args, kwargs = worker.arguments_of(spec)
            value = self.method_of(spec)(*args, **kwargs)
            del args, kwargs
            result = self.result_of(spec, value)
        except BaseException as error:
            result = self.outcome_of(spec, error)
            value = error
        worker.call = outer
        self.finished(spec, result)
        value = None  # an error's traceback has this frame, which would keep the error
        if self.recovery is not None:
            self.recovery.call_ended(spec)

    def run_once_more(self, spec: TaskSpec) -> None:
        """A call of a process before this one: its result has been told, but what was large of it may be lost."""
        is_read = parse_options(spec.options).is_readonly
        try:
            args, kwargs = self.worker.arguments_of(spec)
            value = self.method_of(spec)(*args, **kwargs)
            if self.recovery is not None and any(task_of(object_id) == spec.task_id for object_id in self.order.again):
                self.recovery.give(spec, self.result_of(spec, value))
        except BaseException as error:
            if is_success(error):  # that process died before it could say so
                self.exiting = self._left_by(error)
            elif isinstance(error, ObjectLostError) and spec.task_id not in self.order.failed and not is_read:
                what = f"{self.worker.name_of(spec)} succeeded before the loss, and failed in the replay"
                raise NotAsBefore(f"The {self.in_words} died: it cannot recover: {what}: {error}") from None

    def method_of(self, spec: TaskSpec) -> Callable[..., Any]:
        name = parse_options(spec.options).method
        methods = self.methods
        if methods is None:
            methods = self.methods = Methods(self.instance)
        return methods.bound.get(name) or methods.find(name)

    def result_of(self, spec: TaskSpec, value: Any) -> Result:
        worker, count = self.worker, parse_options(spec.options).num_returns
        if count != 1:
            values, contained = several(worker, spec, value, count)
            return values, contained, False
        serialized = serialize(value)
        if serialized.size <= worker.inline_bytes_max and not serialized.buffers:
            stored: bytes | StoredValue = serialized.inband
        else:
            stored = worker.store(return_id(spec.task_id, 1), serialized)
        return [stored], (serialized.contained,) if serialized.contained else (), False

    def finished(self, spec: TaskSpec, result: Result) -> None:
        worker = self.worker
        if self.leavers and spec.task_id in self.leavers and spec is not self.last_call:
            result = self.outcome_of(spec, ActorExit(0))  # its own code has caught the first one
        values, contained, wants_retry = result
        begun_lines.write_own()
        with worker.lock:
            worker.note(spec, values, contained, wants_retry=wants_retry)
            if spec is self.last_call:
                # Not before: another thread that sees it ends the process.
                self._begin_to_leave(self.farewell)

    def note_exit(self) -> None:
        """exit_actor() is called here: the actor ends behind this call, whatever user code does with the exception."""
        call = current_call.get() or self.worker.call
        if call is not None and (self.async_calls is None or self.async_calls.is_own(call.spec)):
            self.leavers.add(call.spec.task_id)

    def _left_by(self, error: BaseException) -> str:
        return farewell(self.in_words, error)

    def outcome_of(self, spec: TaskSpec, error: BaseException) -> Result:
        """What a call that raised leaves behind: an error, or the wish to leave."""
        if is_success(error) and os.getpid() == self.worker.pid:
            self.last_call = spec
            self.farewell = self._left_by(error)
            left = encode_system_error("ActorDiedError", self.farewell)
            return [left] * max(1, parse_options(spec.options).num_returns), (), False
        return failure(self.worker, spec, error)

    # --- threads ---

    def _run_in_thread(self, spec: TaskSpec) -> None:
        worker = self.worker
        token = current_call.set(Call(spec))
        self.in_threads[spec.task_id] = spec
        try:
            try:
                args, kwargs = worker.arguments_of(spec)
                value = self.method_of(spec)(*args, **kwargs)  # lives until it is noted, with the refs inside
                result = self.result_of(spec, value)
            except BaseException as error:
                result = self.outcome_of(spec, error)
                value = error
            self.finished(spec, result)
            value = None  # as above
        except BaseException as trouble:  # of zray's own: in a pool's thread nobody would see it
            crash(worker, worker.name_of(spec), trouble)
        finally:
            current_call.reset(token)
            del self.in_threads[spec.task_id]
            with worker.lock:
                self.running -= 1
            self.slots.release()
            worker.flush()
            self.leave_if_asked()

    def label(self) -> str:
        """The actor's own words for its lines, where its class defines `__repr__`, as in Ray; else empty."""
        if self.instance is None or type(self.instance).__repr__ is object.__repr__:
            return ""
        with suppress(Exception):
            return repr(self.instance)
        return ""

    def running_call(self) -> TaskSpec | None:
        """The oldest call in threads, or in the loop; None: there is none.  In any thread."""
        with suppress(RuntimeError):  # it has just changed
            if self.async_calls is not None:
                return next((spec for spec, _ in self.async_calls.tasks.values()), None)
            return next(iter(self.in_threads.values()), None)
        return None

    def look_around(self) -> None:
        """In the worker's helper thread, now and then."""
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
        """A task or callback beside the calls has asked for the end: those that have begun end first."""
        with self.worker.lock:
            self._begin_to_leave(self._left_by(error))
        self.leave_if_asked()

    def leave_if_asked(self) -> None:
        """By itself, once the result of the call that asked for it is noted, and what runs beside it has ended."""
        if self.exiting and not self.running:
            self._leave()

    def _leave(self) -> None:
        self.shutdown.run(lambda: leave(self.worker, self.exiting, ActorExited(self.actor_id, self.exiting)))

    def stop(self) -> None:
        """The node has told us to; without anything to run first this returns."""
        if self.has_shutdown:
            self.shutdown.run(lambda: leave(self.worker, "told to stop"))
