"""Runs of tasks and of actors' calls in local mode: code, arguments, results and errors, as in a worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...exceptions import encode_system_error
from ...ids import FIRST_RETURN, return_id
from ...store.arguments import deserialize_arguments
from ...store.errors import deserialize_error
from ...store.functions import CodeInStore, deserialize_function
from ...store.values import deserialize, deserialize_writable, is_error, serialize
from ...wire.task_spec import TaskOptions, TaskSpec, overdue_in_words
from ...wire.tasks import FUNCTIONS_BYTES_MAX, FUNCTIONS_COUNT_MAX, Function, why_too_many
from ..client.task_context import Submitter, current_call
from ..worker import async_tasks
from ..worker.exit_errors import exit_status, exited_task
from ..worker.outcomes import Failure, raised, several
from .objects import INLINE_BYTES_MAX

if TYPE_CHECKING:
    from .runtime import LocalRuntime


# The run of this context: the same variable as in sessions, whose runs are other objects.
local_call: ContextVar[Any] = current_call  # type: ignore[assignment]


class LocalCall(Struct, eq=False, weakref=True):
    """A run of a task or of an actor's method or constructor.  outer: the call that submitted it inline, if any."""

    spec: TaskSpec
    options: TaskOptions
    actor: Any
    outer: Any
    submitter: Submitter | None = None  # made at the first submission, since few tasks submit


class PendingCall(Struct, eq=False):
    """A call of an actor, not ended yet."""

    spec: TaskSpec
    options: TaskOptions
    attempts: int = 0

    def may_retry(self) -> bool:
        """Return whether another attempt is allowed."""
        limit = self.options.max_retries
        return limit < 0 or self.attempts < limit


class LocalCode:
    """Functions and classes, unpickled as in a worker."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.published: dict[bytes, Function] = {}
        self.published_bytes = 0
        self.functions: dict[bytes, Callable[..., Any]] = {}

    def publish(self, function: Function) -> None:
        """Publish a function's code, once.

        Raises:
            ValueError: there are too many.
        """
        if function.function_id not in self.published:
            size = self.published_bytes + len(function.code)
            if len(self.published) >= FUNCTIONS_COUNT_MAX or size > FUNCTIONS_BYTES_MAX:
                raise ValueError(f"{function.name} is not submitted: this process {why_too_many()}")
            self.published[function.function_id] = function
            self.published_bytes = size

    def load(self, function_id: bytes) -> Callable[..., Any]:
        """Return the function, unpickled once; or each time if its closure has refs, since a cache would keep their
        objects.
        """
        runtime = self.runtime
        restored = runtime.restored_count
        function = deserialize_function(self.published[function_id].code)
        if type(function) is CodeInStore:
            found = runtime.get((function.ref,), None)[0]
            restored = runtime.restored_count  # that ref is not part of the closure
            function = deserialize_function(found)
        function = async_tasks.runnable(function)
        if runtime.restored_count == restored:
            self.functions[function_id] = function
        return function  # type: ignore[no-any-return]


class LocalCalls:
    """Runs of tasks and calls, and their outcomes."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.objects = runtime.objects
        self.code = LocalCode(runtime)
        self.functions = self.code.functions

    def run_task(self, spec: TaskSpec, options: TaskOptions) -> None:
        """Run a task, with retries if its options ask for them; its returns are ready afterwards."""
        retries = options.max_retries
        while True:
            outer = local_call.get()
            token = local_call.set(LocalCall(spec, options, None, outer))
            interrupt = None
            began = time.monotonic()
            try:
                function = self.functions.get(spec.function_id) or self.code.load(spec.function_id)
                args, kwargs = self.arguments_of(spec, options) if spec.deps else deserialize_arguments(spec.args, ())
                value = function(*args, **kwargs)
                del args, kwargs
                values, contained, wants_retry = self.result_of(spec, options, value)
            except BaseException as error:
                values, contained, wants_retry = self.failure(spec, options, error)
                interrupt = error if self.is_of_program(error) else None
                value = error
            finally:
                local_call.reset(token)
            if options.time_limit and time.monotonic() - began > options.time_limit:
                # Nothing can interrupt the program's own thread.
                text = overdue_in_words(f"Task {self.runtime.name_of(spec)}", options)
                values, contained = [encode_system_error("TaskTimeoutError", text)] * max(1, options.num_returns), ()
                wants_retry = False
            if wants_retry and retries and interrupt is None:
                retries -= 1
                value = None
                continue
            if contained or options.num_returns != 1:
                self.deliver(spec, options, values, contained)
            else:
                self.objects.deliver_first(spec.task_id + FIRST_RETURN, values[0])
            value = None  # an error's traceback has this frame, which would keep the error alive
            if interrupt is not None:
                raise interrupt
            return

    def deliver(
        self, spec: TaskSpec, options: TaskOptions, values: list[Any], contained: tuple[tuple[bytes, ...], ...] = ()
    ) -> None:
        """The returns of a call."""
        if len(values) == 1 and not contained:
            if options.num_returns:
                self.objects.deliver_first(spec.task_id + FIRST_RETURN, values[0])
            return
        ids = [return_id(spec.task_id, index) for index in range(1, max(1, options.num_returns) + 1)]
        self.objects.deliver(ids, values, contained)

    def fail(self, spec: TaskSpec, options: TaskOptions, error: bytes) -> None:
        """Deliver an error as each return of a call that did not run, or whose result is lost."""
        self.deliver(spec, options, [error] * max(1, options.num_returns))

    def arguments_of(self, spec: TaskSpec, options: TaskOptions) -> tuple[list[Any], dict[str, Any]]:
        """Return positional and keyword arguments, refs resolved.

        Raises:
            the error in an argument's place.
        """
        resolved = []
        for object_id in spec.deps:
            value = self.objects.values[object_id]
            if is_error(value):
                raise deserialize_error(value)
            resolved.append(deserialize_writable(value) if options.writable else deserialize(value))
        return deserialize_arguments(spec.args, resolved)

    def result_of(self, spec: TaskSpec, options: TaskOptions, value: Any) -> Failure:
        """Return a call's result in its stored form."""
        if options.has_plain_return:
            serialized = serialize(value)
            if serialized.size <= INLINE_BYTES_MAX and not serialized.buffers:
                stored: Any = serialized.inband
            else:
                stored = self.objects.store(b"", serialized)
            return [stored], (serialized.contained,) if serialized.contained else (), False
        values, contained = several(self.runtime, spec, value, options)  # type: ignore[arg-type]
        return list(values), contained, False

    @staticmethod
    def end_of(stored: bytes) -> Failure:
        """Return the end of a generator as a call's result."""
        return [stored], (), False

    def failure(self, spec: TaskSpec, options: TaskOptions, error: BaseException) -> Failure:
        """Each return holds the error.  An exit stands for the end of a worker process."""
        runtime = self.runtime
        name = runtime.name_of(spec)
        if isinstance(error, SystemExit):
            crashed = encode_system_error("WorkerCrashedError", exited_task(name, error), self.details(error))
            return [crashed] * max(1, options.num_returns), (), False
        return raised(options, name, error, runtime.node_id.hex(), is_far=False)

    def details(self, error: BaseException) -> dict[str, Any]:
        """Return details of an error that stands for the end of a process."""
        exit_text = f"exited with code {exit_status(error)}"
        return {"pid": os.getpid(), "node": self.runtime.node_id.hex()[:8], "exit_text": exit_text, "log_tail": ()}

    def is_of_program(self, error: BaseException) -> bool:
        """Return whether an error ends the program and not only the task: Ctrl-C, or the debugger's `quit`."""
        debugger = sys.modules.get("bdb")
        is_quit = debugger is not None and isinstance(error, debugger.BdbQuit)
        return (is_quit or isinstance(error, KeyboardInterrupt)) and not self.runtime.is_own_thread()

    def submitter_of(self, call: Any) -> Submitter:
        """Return the submitter for a call's children, made at the first submission, since few tasks submit."""
        spec, actor = call.spec, call.actor
        actor_id = actor.actor_id if actor is not None else b""
        where = actor.options.where if actor is not None else call.options.where
        return Submitter(spec.task_id, self.runtime.name_of(spec), actor_id, where)
