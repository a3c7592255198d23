"""Remote functions: @zray.remote on a function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, ParamSpec, TypeVar, overload

from ..exceptions import SerializationError
from ..host import context
from ..host.code.environments import environment_for, portable
from ..ids import function_id as id_of_code
from ..ids import return_id
from ..object_ref import ObjectRef, check_refs, refuse_nil
from ..options.remote_options import (
    STREAMING,
    TASK_OPTIONS,
    check_options,
    resource_units,
    returns_of,
    where_of,
)
from ..store.arguments import Arguments, serialize_arguments, simple_payload
from ..wire.environment import NO_ENVIRONMENT
from ..wire.task_spec import TaskOptions, TaskSpec, encode_options
from ..wire.tasks import Function
from . import sessions
from .introspection import returning, shows_signature, signature_of_function
from .signatures import check_arguments, signature_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..host.client.runtime import Runtime
    from ..wire.where import Where
    from .dag import FunctionNode
    from .generators import ObjectRefGenerator
    from .remote_types import FunctionOfMany, FunctionOptions

P = ParamSpec("P")
R = TypeVar("R")

# Larger code of a function is warned of, once.
LARGE_CODE_BYTES = 1 << 20
# Code of more goes by the object store: other code travels in one frame (wire/limits.py).
MESSAGE_BYTES_MAX = 60_000_000
# Code of more is refused, as by Ray (there from 100 MB on): each worker unpickles a copy of its own.
CODE_BYTES_MAX = 512_000_000
# What users call a function, a class or a method is cut there.
NAME_CHARACTERS_MAX = 1_000


class RemoteFunction(Generic[P, R]):
    """Function whose calls run as tasks: `f.remote(...)` submits one and returns a ref."""

    __module__ = "zray.remote_function"  # as programs import it

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        options = check_options(options, TASK_OPTIONS, "a remote function")
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options
        self._name = str(options.get("name") or name_of(function))[:NAME_CHARACTERS_MAX]
        self._num_returns = returns_of(options, is_generator=inspect.isgeneratorfunction(function))
        self._blob: bytes | None = None
        self._mark: object = None  # of the runtime that the next two are of
        self._environment = NO_ENVIRONMENT
        self._files: list[ObjectRef] = []  # of the environment: each task holds them
        self._code: Code | None = None
        self._takes_nothing: bool | None = None

    def __get__(self, instance: object, owner: Any = None) -> RemoteFunction[P, R]:
        # help() shows the signature of an object only if it has this.
        return self

    def __dir__(self) -> list[str]:
        return ["bind", "local", "options", "remote"]

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"Remote function {self._name} cannot be called directly: use {self._name}.remote(...), "
            f"or {self._name}.local(...) to run it here."
        )

    def local(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in this process, as an ordinary function: for tests and debuggers."""
        return self._function(*args, **kwargs)

    @overload
    def options(  # type: ignore[overload-overlap]
        self, /, *, num_returns: Literal[1] = 1, **options: Unpack[FunctionOptions]
    ) -> RemoteFunction[P, R]: ...
    @overload
    def options(self, /, *, num_returns: int, **options: Unpack[FunctionOptions]) -> FunctionOfMany[P]: ...
    def options(self, /, **options: Any) -> Any:
        """Make a copy of this remote function with other options: `f.options(num_cpus=2).remote(...)`.

        - `num_cpus` (default 1): CPUs that the task holds; fractions from 0.0001
        - `num_gpus` (default 0): GPUs; above 1 whole numbers
        - `memory` (default 0): bytes; from 64 MiB on also a limit
        - `resources` (default none): amounts by name
        - `num_returns` (default 1): number of refs; 0 returns `None`; default `"streaming"` of generators
        - `max_buffered` (default none): items of a generator that may be made and not drawn
        - `deterministic` (default `True`): a retry of a generator yields the same items; `False` accepts others
        - `max_retries` (default 3): retries after the death of a worker or node; -1: no limit
        - `retry_exceptions` (default `False`): `True`, or a list of exception classes that cause a retry too
        - `timeout` (default `None`): seconds that one run may take; then `TaskTimeoutError`
        - `priority` (default 0): whole number; ready tasks of a program with a higher one start first
        - `max_calls` (default 0): the worker ends after so many runs; 0: never; 1 with `num_gpus`; not in `.options()`
        - `name` (default the function's name): name in errors and logs
        - `writable` (default `False`): array arguments are private copies
        - `runtime_env` (default the program's): environment, as `{"env_vars": {...}, "pip": [...]}`
        - `scheduling_strategy` (default `"DEFAULT"`): `"DEFAULT"`, `"SPREAD"`, or one of
          `zray.util.scheduling_strategies`
        - `label_selector` (default none): labels of the node, as `{"disk": "in(ssd, nvme)"}`
        - `fallback_strategy` (default none): list of `{"label_selector": {...}}`, at most 20
        - `placement_group` (default `"default"`): a group, or `None` for none, also where the parent's group captures
        - `placement_group_bundle_index` (default -1): bundle of the group; -1: any
        - `placement_group_capture_child_tasks` (default as the parent): children run in the group too

        Returns:
            A remote function; options that are not given are as before.

        Raises:
            TypeError: an option has a wrong type.
            ValueError: an unknown option, or a value out of range.
            NotImplementedError: an option of Ray's that zray does not have yet.
        """
        if "max_calls" in options:
            raise ValueError("max_calls can only be given to @remote, not to .options().")
        other: RemoteFunction[P, R] = RemoteFunction(self._function, {**self._options, **options})
        other._code = self.code()
        return other

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Ray's older way: `.options(...).remote(*args, **kwargs)`; options that are None say nothing."""
        return configured(self, options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> FunctionNode:
        """Add a task to a lazy graph, which execute() of the node submits (zray.dag).

        Args:
            args, kwargs: the function's arguments; nodes stand for their results.
        """
        from .dag import FunctionNode

        return FunctionNode(self, args, kwargs)

    def code(self) -> Code:
        """The pickled function, made on first use, so that it may refer to names defined after it."""
        if self._code is None:
            self._code = Code(self._function, name_of(self._function))
        return self._code

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R]:
        """Submit a task, and return at once.  help(f) shows the function's own docstring.

        Args:
            args, kwargs: the function's arguments.  A ref stands for its value.

        Returns:
            A ref on the result; a list of refs with num_returns=n; None with num_returns=0.

        Raises:
            TypeError: the arguments do not fit the function's signature, or cannot be serialized.
        """
        runtime = context.runtime
        if runtime is None:
            runtime = sessions.require_runtime([*args, *kwargs.values(), *map(ObjectRef, self.code().captured_ids)])
        submitter = runtime.submitter()
        captured = submitter.captured
        code, blob = self._code, self._blob
        if blob is None or code is None or self._mark is not runtime.mark or captured is not None:
            code, blob = self.prepare(runtime, captured)
        if args or kwargs or not self._takes_nothing:
            code.check_call(args, kwargs)
        payload = None if kwargs else simple_payload(args, runtime.inline_bytes_max)
        deps: tuple[bytes, ...] = ()
        holds: tuple[bytes, ...] = ()
        if payload is None:
            keep: list[ObjectRef] = []
            arguments = serialize_call(runtime, args, kwargs, keep)
            payload, deps, holds = arguments.payload, arguments.deps, arguments.holds
        if code.captured or self._files:
            holds = with_captured(holds, code, self._files)
        task_id = submitter.next_task_id()
        spec = TaskSpec(
            task_id,
            code.function.function_id,
            payload,
            deps,
            holds,
            blob,
            b"",
            submitter.path and submitter.path_of(task_id),
        )
        count = self._num_returns
        if count == STREAMING:
            return stream(runtime, spec, is_limited=bool(self._options.get("max_buffered")))  # type: ignore[return-value]
        first = runtime.submit(spec, count)
        if count == 1:
            return ObjectRef(first)
        if count == 0:
            return None  # type: ignore[return-value]
        return [ObjectRef(return_id(task_id, index)) for index in range(1, count + 1)]  # type: ignore[return-value]

    def prepare(self, runtime: Runtime, captured: Where | None = None) -> tuple[Code, bytes]:
        """Publish the code and encode the options, once per session; the options each time where a group captures."""
        code = self.code()
        context.refuse_strangers(code.captured_ids)
        code.publish(runtime)
        if self._mark is not runtime.mark:
            self._environment, self._files = environment_for(
                runtime, self._options.get("runtime_env"), uses_gpus=bool(self._options.get("num_gpus"))
            )
            self._blob, self._mark = None, runtime.mark
        blob = self._blob if captured is None else encode_options(self._task_options(runtime, captured))
        self._takes_nothing = code.signature is not None and not code.signature.parameters
        if blob is None:
            blob = self._blob = encode_options(self._task_options(runtime))
        return code, blob

    def _task_options(self, runtime: Runtime, captured: Where | None = None) -> TaskOptions:
        from ..store.values import serialize, to_bytes

        options = self._options
        is_streaming = self._num_returns == STREAMING or inspect.isasyncgenfunction(self._function)
        if is_streaming and not inspect.isgeneratorfunction(self._function):
            check_is_generator(self._function, self._name)
        retry = options.get("retry_exceptions") or False
        classes = tuple(retry) if isinstance(retry, (list, tuple)) else ()
        retries = options.get("max_retries")
        resources = resource_units(options, 1)
        max_calls = options.get("max_calls")
        if max_calls is None:
            max_calls = 1 if resources.get("GPU") else 0  # a library that has used a GPU keeps its memory
        return TaskOptions(
            resources=resources,
            num_returns=1 if self._num_returns == STREAMING else self._num_returns,
            is_generator=self._num_returns == STREAMING,
            max_buffered=options.get("max_buffered") or 0,
            is_dynamic=options.get("num_returns") == "dynamic",
            is_deterministic=options.get("deterministic") is not False,
            takes_first=options.get("num_returns") == 1 and inspect.isgeneratorfunction(self._function),
            max_retries=3 if retries is None else retries,
            retry_exceptions=bool(retry),
            retry_on=to_bytes(serialize(classes)) if classes else b"",
            name=options.get("name") or "",
            writable=bool(options.get("writable")),
            environment=self._environment,
            where=where_of(options, resources, captured),
            max_calls=max_calls,
            time_limit=options.get("timeout") or 0.0,
            priority=options.get("priority") or 0,
        )

    def _signature_of_call(self) -> inspect.Signature:
        return returning(signature_of_function(self._function), self._num_returns)

    def __reduce__(self) -> Any:
        return RemoteFunction, (self._function, portable(self._options))

    def __repr__(self) -> str:
        return f"RemoteFunction({self._name})"


shows_signature(RemoteFunction.remote)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function or class for people: without enclosing functions."""
    name = str(getattr(function, "__qualname__", None) or repr(function))
    return name.rpartition("<locals>.")[2][:NAME_CHARACTERS_MAX]


class Code:
    """Pickled code of a function or class, with the refs in its closure, which count as arguments.

    Code that is too large for a message lies in the object store of each session.  What is published then is its ref.

    Raises:
        ValueError: the code is too large to be sent.
        SerializationError: the code cannot be pickled.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.source = function
        self.name = name[:NAME_CHARACTERS_MAX]
        data, self.captured_ids = self._pickled()
        self.size = len(data)
        if self.size > LARGE_CODE_BYTES:
            _warn_of_size(function, name, self.size)
        self.is_in_store = self.size > MESSAGE_BYTES_MAX
        # Its id is known when it is published, where it lies in the store.
        self.function = Function(b"" if self.is_in_store else id_of_code(data), self.name, data)
        # What each of its tasks holds; refs of our own keep that alive as long as the code may be called.
        self.holds = self.captured_ids
        self.captured: list[ObjectRef] = []
        self.session: object = None  # the mark of the runtime that knows it
        self.signature, self.counts = signature_of(function)

    def _pickled(self) -> tuple[bytes, tuple[bytes, ...]]:
        from ..store.functions import serialize_function

        data, captured = serialize_function(self.source)
        if len(data) > CODE_BYTES_MAX:
            raise ValueError(
                f"{self.name} is too large: {len(data):,} bytes with captured values{_largest_part(self.source)}, but "
                f"at most {CODE_BYTES_MAX:,} can be sent.  put() large arrays and objects of the scope around, and "
                "pass the refs as arguments."
            )
        return data, captured

    def publish(self, runtime: Runtime) -> None:
        """Send the code to this session, once.

        Raises:
            ObjectStoreFullError: the code goes by the object store, which is full.
        """
        if self.session is not runtime.mark:
            runtime.look_for_code(self.source)
            kept = [self._put(runtime)] if self.is_in_store else []
            runtime.publish(self.function)
            if len(self.function.code) > LARGE_CODE_BYTES:
                runtime.flush()  # one by one: frames have a limit too
                runtime.wait_for_room()
            self.captured = [*map(runtime.another_ref, self.captured_ids), *kept]
            self.holds = tuple(ref.id for ref in self.captured)
            self.session = runtime.mark

    def _put(self, runtime: Runtime) -> ObjectRef[Any]:
        """Store it.  Published is how it is found; a later session pickles it again, so that nothing is held twice."""
        from ..store.functions import code_as_value, serialize_code_in_store

        data = self.function.code if not self.function.function_id else self._pickled()[0]
        # Not as the task in hand, whose puts are counted: a run in a process that has the code counts no such put.
        ref: ObjectRef[Any] = ObjectRef(runtime.put_serialized(code_as_value(data), runtime.root))
        code = serialize_code_in_store(ref)
        self.function = Function(id_of_code(code), self.name, code)
        return ref

    @property
    def object_id(self) -> tuple[bytes, ...]:
        """Where it lies in the store of the session that knows it; () where it does not."""
        return self.holds[-1:] if self.is_in_store else ()

    def check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse arguments that do not fit the signature, before the call is sent.

        Raises:
            TypeError: the text of Python's own error, with the function's name.
        """
        if self.signature is not None and (kwargs or not self.counts[0] <= len(args) <= self.counts[1]):
            check_arguments(self.signature, self.name, args, kwargs)


def _warn_of_size(function: Any, name: str, size: int) -> None:
    import warnings

    from ..store.folding import OWN_FOLDER

    text = (
        f"The code of {name} is {size:,} bytes{_largest_part(function)}.  Every worker loads the code: put() "
        "large values, and pass the refs."
    )
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDER):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)  # at the program's line


def _largest_part(function: Any) -> str:
    from ..store.functions import largest_captured

    said, largest = largest_captured(function)
    return f"; {said} makes {largest:,} of them" if said else ""


def stream(runtime: Runtime, spec: TaskSpec, *, is_limited: bool) -> ObjectRefGenerator[Any]:
    """Submit a call of a generator."""
    from .generators import ObjectRefGenerator

    spec.task_id = runtime.unrepeated(spec.task_id)
    runtime.draws(spec.task_id)
    return ObjectRefGenerator(runtime, ObjectRef(runtime.submit(spec, 1)), is_limited=is_limited)


def check_is_generator(function: Any, name: str) -> None:
    """Refuse a function that yields nothing.

    Raises:
        TypeError: the function is an async generator, which only methods of async actors may be.
        ValueError: the function is no generator.
    """
    if inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{name} is an async generator: these are for methods of async actors.  Write `def` in place of "
            "`async def`, or make it a method of an actor."
        )
    raise ValueError(f'{name} has num_returns="streaming", and is no generator function: it has no `yield`.')


def configured(target: Any, options: dict[str, Any]) -> Any:
    """A remote function, an actor class or a method, with those of the options that are not None."""
    given = {name: value for name, value in options.items() if value is not None}
    return target.options(**given) if given else target


def with_captured(holds: tuple[bytes, ...], code: Code, files: Sequence[ObjectRef] = ()) -> tuple[bytes, ...]:
    """Refs that a call's arguments hold, those that its code captures, and the files of its environment."""
    both = tuple(dict.fromkeys((*holds, *code.holds, *(ref.id for ref in files))))
    check_refs(both)
    return both


def serialize_call(runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any], keep: list[ObjectRef]) -> Arguments:
    """Serialize a call's arguments.  Large ones are put; `keep` holds their refs until the call is sent."""

    def put(serialized: Any) -> bytes:
        ref: ObjectRef[Any] = ObjectRef(runtime.put_serialized(serialized))
        keep.append(ref)
        return ref.id

    try:
        arguments = serialize_arguments(args, kwargs, put=put, inline_max_bytes=runtime.inline_bytes_max)
    except SerializationError as error:
        raise error.with_traceback(None) from error.__cause__  # as in objects.get
    refuse_nil(arguments.deps)
    check_refs(arguments.deps)
    check_refs(arguments.holds)
    if context.had_session:
        context.refuse_strangers((*arguments.deps, *arguments.holds))
    return arguments
