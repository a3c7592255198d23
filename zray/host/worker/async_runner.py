"""Calls of an async actor: begun in batches by the worker's main thread, run on an event loop in a thread beside it.

The two threads meet once per batch, not once per call: each meeting costs a wake-up and a turn of the
interpreter.  Results leave when the loop has run all that was ready.

asyncio has a sys.exit() and a KeyboardInterrupt of any task or callback end the loop, and so does loop.stop().  Calls
would then wait for ever, so the end of the loop is the end of the process, as in a program that asyncio.run() runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ...object_ref import ObjectRef
from ...store.values import serialize
from ...wire.task_spec import TaskSpec, parse_options
from ..client.event_log import ASYNC_LANE, Kind
from ..client.fork_guard import end_child
from ..client.task_context import Call, current_call
from ..process.process_utils import end_process
from .actor_methods import make_instance
from .exit import crash
from .exit_errors import is_success
from .generators import run_async_generator

if TYPE_CHECKING:
    from .actor_runner import ActorHost, Result

# The frame in which asyncio runs a callback or a step of a task, with the context.
HANDLE_CODE = asyncio.events.Handle._run.__code__


class EventLoop:
    """The event loop of an actor."""

    def __init__(self, host: ActorHost) -> None:
        self.host = host
        self.stopped_by: Call | None = None
        self.instance: Future[Any] = Future()  # of the class; done after its constructor
        self.loop = asyncio.new_event_loop()
        try:
            self.loop.stop = self._stop  # type: ignore[method-assign]
        except AttributeError:
            pass  # a loop written in C: the stopping call is unknown
        self.thread = threading.Thread(target=self._run, name="zray-loop", daemon=True)
        self.thread.start()

    def construct(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An instance, made in the loop's thread: constructors of async actors may ask for the running loop."""

        async def construct() -> None:
            try:
                instance = await make_instance(cls, args, kwargs)
            except BaseException as error:
                self._constructor_failed(error)
            else:
                if not self.instance.done():
                    self.instance.set_result(instance)

        asyncio.run_coroutine_threadsafe(construct(), self.loop)
        error = self.instance.exception()
        if error is not None:
            raise error
        return self.instance.result()

    def _constructor_failed(self, error: BaseException) -> None:
        """Pass on the error of the constructor, or of other code that ended the loop."""
        if not self.instance.done():
            trace = error.__traceback__
            self.instance.set_exception(error.with_traceback(trace.tb_next if trace is not None else None))

    # --- the end ---

    def _stop(self) -> None:
        self.stopped_by = current_call.get()
        type(self.loop).stop(self.loop)

    def _run(self) -> None:
        try:
            while True:
                try:
                    self.loop.run_forever()
                except BaseException as error:
                    self._ended(error)
                else:
                    self._stopped()
        finally:
            end_process(1)

    def _ended(self, error: BaseException) -> None:
        """The loop goes on for the calls that are still running, if the actor is to leave in order."""
        host = self.host
        if os.getpid() != host.worker.pid:
            end_child(error)
        if not self.instance.done():
            self._constructor_failed(error)
        elif is_success(error):
            host.leave_when_idle(error)
        else:
            crash(host.worker, self._name_of(call_that_raised(error)), error)

    def _stopped(self) -> None:
        error = RuntimeError("the actor's event loop was stopped (loop.stop()): no call of it can run any more")
        if not self.instance.done():
            self._constructor_failed(error)
        else:
            crash(self.host.worker, self._name_of(self.stopped_by), error, "stopped the actor's event loop")

    def _name_of(self, call: Call | None) -> str:
        """Return a text for the call that ended the loop."""
        if call is None:
            return f"A task or callback in the event loop of {self.host.in_words}"
        return self.host.worker.name_of(call.spec)


def current_task() -> Any:
    """Return the asyncio task that runs this code; None outside of event loops."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def call_that_raised(error: BaseException) -> Call | None:
    """Return the call in whose context the innermost failed callback or task ran."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is HANDLE_CODE:
            context = getattr(frame.f_locals.get("self"), "_context", None)
            if context is not None:
                found = context.get(current_call)
        trace = trace.tb_next
    return found


# Limit of calls begun at a time: more would delay the first of them.
BATCH_COUNT_MAX = 256
# Methods with their options, a handful in most programs; emptied if each call has new options.
METHODS_MAX = 1_000
# Interval of looks for calls that ended without an outcome, which only odd programs have.
LOOK_SECONDS = 1.0


class AsyncCalls:
    """The calls on the event loop of an actor."""

    def __init__(self, host: ActorHost, concurrency: int) -> None:
        self.host = host
        self.worker = host.worker
        groups = host.options.groups
        # With groups, all calls that come begin, and wait for their groups on the loop.
        self.concurrency = sys.maxsize if groups else concurrency
        self.groups = {group: asyncio.Semaphore(count) for group, count in ({"": concurrency} | groups).items()}
        self.has_room = threading.Event()
        self.flush_is_due = False
        self.tasks: dict[bytes, tuple[TaskSpec, Any]] = {}  # by call; a loop refers to its tasks weakly
        self.methods: dict[bytes, Any] = {}  # by options blob: (bound method, whether it has a single return)
        self.events = EventLoop(host)
        self.construct = self.events.construct
        self.loop = self.events.loop
        self.looked_at = 0.0

    def begin(self) -> None:
        """Begin as many calls as queue, window and concurrency allow; wait if the concurrency is used up."""
        host, worker = self.host, self.worker
        if host.running >= self.concurrency:
            self.has_room.clear()
            if host.running >= self.concurrency:
                self.has_room.wait()
        batch: list[TaskSpec] = []
        room = min(BATCH_COUNT_MAX, self.concurrency - host.running)
        while len(batch) < room:
            spec = host.claim_next()
            if spec is None:
                break
            batch.append(spec)
        if batch:
            with worker.lock:
                host.running += len(batch)
            self.loop.call_soon_threadsafe(self._begin_batch, batch)

    def _begin_batch(self, batch: list[TaskSpec]) -> None:
        create_task = self.loop.create_task
        for spec in batch:
            self.tasks[spec.task_id] = spec, create_task(self._run(spec))

    def cancel(self, task_id: bytes) -> None:
        """Cancel a call, from any thread: CancelledError is raised where it awaits."""
        self.loop.call_soon_threadsafe(self._cancel, task_id)

    def _cancel(self, task_id: bytes) -> None:
        known = self.tasks.get(task_id)
        if known is not None:
            self.host.worker.cancelling.knows(task_id)
            known[1].cancel()

    def _method_of(self, spec: TaskSpec) -> Any:
        found = self.methods.get(spec.options)
        if found is None:
            options = parse_options(spec.options)
            found = (self.host.method_of(spec), options.has_plain_return)
            if len(self.methods) >= METHODS_MAX:
                self.methods.clear()
            self.methods[spec.options] = found
        return found

    async def _run(self, spec: TaskSpec) -> None:
        if not self.host.options.groups:
            await self._run_now(spec)
            return
        slots = self.groups[parse_options(spec.options).group]
        try:
            await slots.acquire()
        except asyncio.CancelledError as error:
            self._finished(spec, self.host.outcome_of(spec, error))
            return
        try:
            refused = self.host.refused(spec)
            if refused is not None:
                self._finished(spec, refused)
            else:
                await self._run_now(spec)
        finally:
            slots.release()

    async def _run_now(self, spec: TaskSpec) -> None:
        current_call.set(Call(spec))  # the task's own context, invisible to other calls
        host, worker = self.host, self.worker
        began = time.perf_counter()
        read, failed = 0.0, None
        try:
            method, is_single = self._method_of(spec)
            args, kwargs = worker.arguments_of(spec)
            read = time.perf_counter()
            value = method(*args, **kwargs)
            if type(value) is not ObjectRef and hasattr(value, "__await__"):  # a returned ref stays a ref
                value = await value
            if hasattr(value, "__aiter__") and parse_options(spec.options).is_generator:
                value, is_single = await run_async_generator(worker, spec, value), None
            serialized = serialize(value) if is_single else None
            if serialized is not None and serialized.size <= worker.inline_bytes_max and not serialized.buffers:
                contained = (serialized.contained,) if serialized.contained else ()
                result: Any = ([serialized.inband], contained, False)
            elif is_single is None:
                result = ([value], (), False)
            else:
                result = host.result_of(spec, value)
        except BaseException as error:
            result = host.outcome_of(spec, error)
            value = failed = error
        if worker.events is not None:
            end = time.perf_counter()
            worker.events.ran(Kind.CALL, spec, began, read, end, end, failed, ASYNC_LANE)
        self._finished(spec, result)
        value = failed = None  # an error's traceback has this frame, which would keep the error alive

    def _finished(self, spec: TaskSpec, result: Result) -> None:
        host = self.host
        host.finished(spec, result)
        del self.tasks[spec.task_id]
        with self.worker.lock:
            host.running -= 1
        if host.running == self.concurrency - 1 or not self.has_room.is_set():
            self.has_room.set()
        if not self.flush_is_due:
            self.flush_is_due = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send results, after the calls that were ready together."""
        self.flush_is_due = False
        self.worker.flush()
        self.host.leave_if_asked()

    def is_own(self, spec: TaskSpec) -> bool:
        """Return whether this code runs in the call, or the constructor, not in a task or thread of its own."""
        if spec is self.host.order.spec:
            return True
        known = self.tasks.get(spec.task_id)
        return known is not None and known[1] is current_task()

    # --- calls ended without an outcome ---

    def look(self) -> None:
        """Have the loop look for ended calls now and then.  In the worker's helper thread."""
        now = time.monotonic()
        if self.tasks and now - self.looked_at >= LOOK_SECONDS:
            self.looked_at = now
            self.loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        """Finish tasks that user code cancelled before their first step, so that no line of zray's ran."""
        for spec, task in [entry for entry in self.tasks.values() if entry[1].done()]:
            error = asyncio.CancelledError("cancelled before it began") if task.cancelled() else task.exception()
            try:
                result = self.host.outcome_of(spec, error)
            except BaseException as trouble:
                crash(self.worker, self.worker.name_of(spec), trouble)
            self._finished(spec, result)
