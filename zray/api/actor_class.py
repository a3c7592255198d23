"""Actor classes: @zray.remote on a class.  Handles are in `actor_handle`."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partialmethod, singledispatchmethod, update_wrapper
from types import ClassMethodDescriptorType, FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, NoReturn, ParamSpec, TypeVar, cast, overload

from ..exceptions import ActorAlreadyExistsError, ActorClassInheritanceException
from ..host import context
from ..host.code.environments import environment_for, portable
from ..ids import FIRST_RETURN
from ..object_ref import ObjectRef
from ..options.remote_options import (
    ACTOR_OPTIONS,
    METHOD_OPTIONS,
    check_hosted,
    check_options,
    check_text,
    resource_units,
    where_of,
    where_of_actor,
)
from ..wire.task_spec import ActorOptions, TaskSpec
from . import sessions
from .actor_handle import (
    GROUPS,
    IS_GENERATOR,
    IS_LOGGED,
    MAX_PENDING,
    PARAMETERS,
    ActorHandle,
    ActorMethod,
    ActorProxy,
    check_group,
    find_actor,
)
from .introspection import OfInstance, shows_signature, signature_of_constructor
from .remote_function import Code, RemoteFunction, configured, name_of, serialize_call, with_captured
from .signatures import check_arguments, implementations_of, parameters_of, signature_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..host.client.runtime import Runtime
    from ..wire.environment import Environment
    from ..wire.where import Where
    from .dag import ClassNode
    from .remote_types import (
        CallOptions,
        ClassOptions,
        DecoratorOfManyReturns,
        GeneratorMethod,
        MethodDecorator,
        RemoteMethod,
    )

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["ActorClass", "ActorClassInheritanceException", "ActorHandle", "ActorMethod", "exit_actor", "method"]

C = TypeVar("C")

# Ray's default for actors with async methods.
ASYNC_CONCURRENCY = 1000
# Methods that every actor has.
BUILT_IN_METHODS = ("__ray_ready__", "__ray_terminate__", "__ray_call__")
# Callable descriptors in a class that are no methods of its instances.
NO_METHODS = (staticmethod, classmethod, ClassMethodDescriptorType, RemoteFunction, ActorMethod)
# Descriptors that are methods, and cannot be called themselves.
BOUND_LATER = (partialmethod, singledispatchmethod)
# Python looks for these in a handle, and would take the actor's.
NOT_CALLED = ("__copy__", "__deepcopy__", "__del__", "__getnewargs__", "__getnewargs_ex__", "__setstate__")


F = TypeVar("F", bound=Callable[..., Any])


@overload
def method(
    target: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
) -> RemoteMethod[P, R, Coroutine[Any, Any, R]]: ...
@overload
def method(  # type: ignore[overload-overlap]
    target: Callable[Concatenate[Any, P], Iterator[R]], /
) -> GeneratorMethod[P, R, Iterator[R]]: ...
@overload
def method(  # type: ignore[overload-overlap]
    target: Callable[Concatenate[Any, P], AsyncIterator[R]], /
) -> GeneratorMethod[P, R, AsyncIterator[R]]: ...
@overload
def method(target: Callable[Concatenate[Any, P], R], /) -> RemoteMethod[P, R, R]: ...
@overload
def method(*, num_returns: Literal[1] = ..., **options: Unpack[CallOptions]) -> MethodDecorator: ...
@overload
def method(*, num_returns: int | str, **options: Unpack[CallOptions]) -> DecoratorOfManyReturns: ...
def method(*args: Any, **options: Any) -> Any:
    """Tell type checkers and editors of an actor's method, and set the options of its calls.  Decorator.

        @zray.remote
        class Trainer:
            @zray.method
            def loss(self, batch: int) -> float: ...

            @zray.method(num_returns=2)
            def step(self): ...

    - `num_returns` (default 1): number of refs; 0 returns `None`; default `"streaming"` of generators
    - `max_buffered` (default none): items of a generator that may be made and not drawn
    - `deterministic` (default `True`): a retry of a generator yields the same items; `False` accepts others
    - `max_task_retries` (default the actor's): repetitions of this call
    - `retry_exceptions` (default `False`): `True`, or a list of exception classes that cause a repetition, counted by
      `max_task_retries`
    - `name` (default `Class.method`): name in errors and logs
    - `readonly` (default `False`): the method changes nothing; replay skips it
    - `concurrency_group` (default none): group of the actor's `concurrency_groups` in which the calls run

    Raises:
        TypeError: an option has a wrong type.
        ValueError: an unknown option, or a value out of range.
        NotImplementedError: an option of Ray's that zray does not have yet.
    """
    if args:
        if options or len(args) > 1 or not callable(args[0]):
            raise ValueError("@method takes a method, or options: @zray.method(num_returns=2).")
        return args[0]
    checked = check_options({**options}, METHOD_OPTIONS, "@method")

    def decorate(function: F) -> F:
        function.__zray_method__ = checked  # type: ignore[attr-defined]
        return function

    return decorate


class ActorClass(Generic[C]):
    """Class whose instances are actors: `A.remote(...)` creates one and returns its handle."""

    __module__ = "zray.actor"  # as programs import it

    def __init__(self, cls: type[C], options: dict[str, Any]) -> None:
        options = check_options(options, ACTOR_OPTIONS, "an actor")
        if options.get("hosted"):
            check_hosted(options)
        for base in cls.__mro__:
            if isinstance(base, ActorClass):
                raise ActorClassInheritanceException("An actor class cannot be inherited from.")
        self.__cls = cls
        self.__options = options
        self.__name = name_of(cls)
        self.__doc__ = cls.__doc__
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__
        self.__code: Code | None = None
        self.__methods: dict[str, dict[str, Any]] | None = None
        self.__is_async = inspect.iscoroutinefunction(inspect.getattr_static(cls, "__init__"))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"Actors cannot be made directly: use {self.__name}.remote(...).")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise ActorClassInheritanceException(
            f"{self.__name} is an actor class and cannot be inherited from: inherit from a plain class, and decorate "
            "the subclass with @zray.remote."
        )

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the class, since its own code knows the class by the name of this object.

        Raises:
            AttributeError: the class has none, or Python looks for a method of its own.
        """
        if "_ActorClass__cls" not in self.__dict__:
            raise AttributeError(name)  # it is being copied, or unpickled
        cls = self.__cls
        found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        is_bound = hasattr(type(found), "__get__")
        if name.startswith("__") and name.endswith("__") and (found is None or is_bound or callable(found)):
            raise AttributeError(f"Actor class {self.__name} has no attribute {name!r}.")
        if is_bound and not isinstance(found, NO_METHODS) and (callable(found) or isinstance(found, BOUND_LATER)):
            return ClassFunction(cls, name, getattr(cls, name))
        return getattr(cls, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_ActorClass__") or (name.startswith("__") and name.endswith("__")):
            object.__setattr__(self, name, value)
        else:
            setattr(self.__cls, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__cls, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.__cls)})

    def options(self, /, **options: Unpack[ClassOptions]) -> ActorClass[C]:
        """Make a copy of this actor class with other options: `Counter.options(name="hits").remote(...)`.

        - `num_cpus` (default `None`): CPUs that the actor holds for life; `None`: none, and the actors are spread
        - `num_gpus` (default 0): GPUs that the actor holds for life
        - `memory` (default 0): bytes; from 64 MiB on also a limit
        - `resources` (default none): amounts by name
        - `name` (default none): name for `zray.get_actor`
        - `namespace` (default the program's): namespace of the name
        - `lifetime` (default `None`): `"detached"`: the actor stays after its program
        - `get_if_exists` (default `False`): with a name: return the living actor of that name
        - `hosted` (default `False`): the actor shares a process with the program's other hosted actors
        - `max_restarts` (default 0): restarts of a dead process; -1: no limit; -1 with `checkpoint_interval`
        - `max_task_retries` (default 0): repetitions of a call; -1: no limit; -1 with `checkpoint_interval`
        - `max_concurrency` (default 1): calls at once; 1000 for async actors
        - `concurrency_groups` (default none): calls at once by group, as `{"io": 2}`; others have `max_concurrency`
        - `allow_out_of_order_execution` (default `None`): calls do not wait for the arguments of earlier ones
        - `max_pending_calls` (default -1): unfinished calls by a handle in one process; -1: no limit
        - `checkpoint_interval` (default none): save the state after so many calls and recover; 0: replay all calls
        - `runtime_env` (default the program's): environment, as `{"env_vars": {...}, "pip": [...]}`
        - `scheduling_strategy` (default `"DEFAULT"`): `"DEFAULT"`, `"SPREAD"`, or one of
          `zray.util.scheduling_strategies`
        - `label_selector` (default none): labels of the node, as `{"disk": "in(ssd, nvme)"}`
        - `fallback_strategy` (default none): list of `{"label_selector": {...}}`, at most 20
        - `placement_group` (default `"default"`): a group, or `None` for none, also where the parent's group captures
        - `placement_group_bundle_index` (default -1): bundle of the group; -1: any
        - `placement_group_capture_child_tasks` (default as the parent): children run in the group too

        Returns:
            An actor class; options that are not given are as before.

        Raises:
            TypeError: an option has a wrong type.
            ValueError: an unknown option, or a value out of range.
            NotImplementedError: an option of Ray's that zray does not have yet.
        """
        other = ActorClass(self.__cls, {**self.__options, **options})
        other.__code = self.__code
        return other

    def _remote(self, args: Any = None, kwargs: Any = None, **options: Any) -> ActorHandle[C]:
        """Call with options as arguments, as RemoteFunction._remote does."""
        handle: ActorHandle[C] = configured(self, options).remote(*(args or ()), **(kwargs or {}))
        return handle

    def bind(self, /, *args: Any, **kwargs: Any) -> ClassNode:
        """Add an actor to a lazy graph; `node.method.bind(...)` adds its calls (zray.dag).

        Args:
            args, kwargs: the arguments of the constructor; nodes stand for their results.
        """
        from .dag import ClassNode

        return ClassNode(self, args, kwargs)

    def __described(self) -> dict[str, dict[str, Any]]:
        """Names of the methods, with their @method options and whether they are async."""
        if self.__methods is None:
            methods: dict[str, dict[str, Any]] = {}
            for name, function in inspect.getmembers(self.__cls, callable):
                if name.startswith("__") and not _can_be_called(self.__cls, name):
                    continue
                check_text("The name of a method", name)
                holder = inspect.getattr_static(self.__cls, name, None)
                described = dict(getattr(function, "__zray_method__", getattr(holder, "__zray_method__", {})))
                described[PARAMETERS] = parameters_of(self.__cls, name, function)
                methods[name] = described
                for called in implementations_of(self.__cls, name) or (function,):
                    if inspect.isgeneratorfunction(called):
                        described[IS_GENERATOR] = True
                    elif inspect.iscoroutinefunction(called):
                        self.__is_async = True
                    elif inspect.isasyncgenfunction(called):
                        self.__is_async = described[IS_GENERATOR] = True
            for name in BUILT_IN_METHODS:
                methods[name] = {}
            self.__methods = methods  # only now: a class that is refused is refused again
        return self.__methods

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorProxy[C]:
        """Create an actor, and return its handle at once.  help(A) shows the class's own docstring.

        Args:
            args, kwargs: the arguments of the constructor.  A ref stands for its value.

        Raises:
            ActorAlreadyExistsError: a living actor has that name in that namespace (and not get_if_exists).
            TypeError: the arguments do not fit the constructor, or cannot be serialized.
        """
        runtime = context.runtime or sessions.require_runtime([*args, *kwargs.values()])
        options = self.__options
        name = options.get("name")
        if options.get("get_if_exists"):
            if not name:
                raise ValueError("get_if_exists needs a name.")
            if not runtime.is_worker and (found := find_actor(runtime, name, options.get("namespace"))) is not None:
                return cast("ActorProxy[C]", found)
        methods = self.__with_groups(self.__described())
        if options.get("checkpoint_interval") is not None:
            methods = {name: {**described, IS_LOGGED: True} for name, described in methods.items()}
        if (most := options.get("max_pending_calls") or -1) > 0:
            methods = {n: d if n in BUILT_IN_METHODS else {**d, MAX_PENDING: most} for n, d in methods.items()}
        if self.__code is None:
            self.__code = Code(self.__cls, self.__name)
        code = self.__code
        code.publish(runtime)
        runtime.look_for_code()
        self.__check_constructor(args, kwargs)
        keep: list[ObjectRef] = []
        arguments = serialize_call(runtime, args, kwargs, keep)
        submitter = runtime.submitter()
        task_id = submitter.next_task_id()
        if name and options.get("get_if_exists") and runtime.is_worker:
            # Only now: a task that runs again finds what it has made, and what comes behind is to have the same ids.
            if (found := find_actor(runtime, name, options.get("namespace"))) is not None:
                return cast("ActorProxy[C]", found)
        holds = with_captured(arguments.holds, code)
        environment, files = environment_for(runtime, options.get("runtime_env"))
        # Code and files in the store are there before it starts, and as long as it lives, like its arguments.
        deps = tuple(dict.fromkeys((*arguments.deps, *code.object_id, *(ref.id for ref in files))))
        if options.get("lifetime") == "detached":
            # It needs the modules of this program when that is gone: they live as long as what its constructor takes.
            modules = runtime.code_refs()
            keep += modules
            deps = tuple(dict.fromkeys((*deps, *(ref.id for ref in modules))))
        spec = TaskSpec(task_id, code.function.function_id, arguments.payload, deps, holds)
        spec.path = submitter.path_of(task_id)
        actor_options = self.__actor_options(runtime, methods, submitter.captured, environment)
        runtime.create_actor(spec, actor_options)
        ref: ObjectRef[C] = ObjectRef(task_id + FIRST_RETURN)
        handle: ActorHandle[C] = ActorHandle(task_id, ref, self.__name, methods, actor_options.max_task_retries)
        handle._cls = weakref.ref(self.__cls)
        if name:
            handle = self.__confirm_name(runtime, handle, name)
        return cast("ActorProxy[C]", handle)

    def __is_ordered(self, *, is_concurrent: bool) -> bool:
        """Return whether a call waits for the arguments of earlier ones.

        Raises:
            ValueError: order is asked for where calls run side by side, or disorder where calls are replayed.
        """
        allowed = self.__options.get("allow_out_of_order_execution")
        if is_concurrent and allowed is False:
            raise ValueError(
                f"allow_out_of_order_execution=False: {self.__name} runs calls side by side, in any order.  Leave the "
                "option out, or create a serial actor."
            )
        if allowed and self.__options.get("checkpoint_interval") is not None:
            raise ValueError("allow_out_of_order_execution: an actor with checkpoint_interval repeats calls in order.")
        return not (is_concurrent or allowed)

    def __with_groups(self, methods: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Add the names of the concurrency groups to the methods, which may name one of them only."""
        groups = tuple(self.__options.get("concurrency_groups") or ())
        for name, described in methods.items():
            check_group(described, groups, f"{self.__name}.{name}")
        return {name: {**described, GROUPS: groups} for name, described in methods.items()} if groups else methods

    def __confirm_name(self, runtime: Runtime, handle: ActorHandle[C], name: str) -> ActorHandle[C]:
        """A named actor's name must have been free: one question tells, in order behind the creation."""
        namespace = self.__options.get("namespace")
        winner = find_actor(runtime, name, namespace)
        if winner is not None and winner._actor_id == handle._actor_id:
            return handle
        if winner is not None and self.__options.get("get_if_exists"):
            return winner
        if winner is not None:
            raise ActorAlreadyExistsError(f"An actor named {name!r} exists already; get_actor({name!r}) finds it.")
        return handle  # it has died already: its calls say why

    def __check_constructor(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        constructor: Any = self.__cls.__init__  # type: ignore[misc]
        if constructor is object.__init__:
            if args or kwargs:
                raise TypeError(f"{self.__name}() takes no arguments.")
            return
        signature, _ = signature_of(constructor, skip_self=True)
        if signature is not None:
            check_arguments(signature, self.__name, args, kwargs)

    def __actor_options(
        self, runtime: Runtime, methods: dict[str, dict[str, Any]], captured: Where | None, environment: Environment
    ) -> ActorOptions:
        from ..store.values import serialize, to_bytes

        options = self.__options
        concurrency = options.get("max_concurrency")
        if concurrency is None:
            concurrency = ASYNC_CONCURRENCY if self.__is_async else 1
        interval = options.get("checkpoint_interval")
        groups = options.get("concurrency_groups") or {}
        if interval is not None and (concurrency != 1 or self.__is_async or groups):
            how = "has concurrency_groups" if groups else f"is threaded (max_concurrency={concurrency})"
            raise ValueError(
                f"checkpoint_interval={interval}: only an actor that runs one call after the other can recover; "
                f"{self.__name} {'is async' if self.__is_async else how}."
            )
        # Who asks for recovery means that callers do not notice; unless something else is said.
        unsaid = 0 if interval is None else -1
        retries = unsaid if options.get("max_task_retries") is None else options["max_task_retries"]
        restarts = unsaid if options.get("max_restarts") is None else options["max_restarts"]
        resources = resource_units(options, 0)
        hosted = bool(options.get("hosted"))
        return ActorOptions(
            resources=resources,
            max_restarts=restarts,
            max_task_retries=retries,
            max_concurrency=concurrency,
            is_async=self.__is_async,
            name=options.get("name") or "",
            namespace=options.get("namespace") or runtime.namespace,
            detached=options.get("lifetime") == "detached",
            handle=to_bytes(serialize((self.__name, methods, retries))),
            class_name=self.__name,
            environment=environment,
            # Light actors stay together: on the node of their maker, unless a strategy says otherwise.
            where=where_of(options, resources) if hosted else where_of_actor(options, resources, captured),
            checkpoint_interval=-1 if interval is None else interval,
            groups=groups,
            is_ordered=self.__is_ordered(is_concurrent=concurrency != 1 or self.__is_async or bool(groups)),
            hosted=hosted,
        )

    def _signature_of_call(self) -> inspect.Signature:
        return signature_of_constructor(self.__cls).replace(return_annotation=ActorHandle)

    def __reduce__(self) -> Any:
        return ActorClass, (self.__cls, portable(self.__options))

    def __repr__(self) -> str:
        return f"ActorClass({self.__name})"


shows_signature(ActorClass.remote)
ActorClass.__signature__ = OfInstance(ActorClass._signature_of_call, None)  # type: ignore[attr-defined]


class ClassFunction:
    """Method of an actor's class, looked up in the class; only the class's own code may call it."""

    def __init__(self, cls: type, name: str, function: Any) -> None:
        update_wrapper(self, function)
        self._cls = cls
        self._name = name
        self._function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], self._cls):  # the class's own code, in the actor
            return self._function(*args, **kwargs)
        raise TypeError(self._how_to_call())

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Raise TypeError: the text says how a method of an actor is called."""
        raise TypeError(self._how_to_call())

    options = remote

    def _how_to_call(self) -> str:
        cls, name = name_of(self._cls), self._name
        return (
            f"{cls}.{name} is a method of actors: {cls}.remote(...) creates an actor and returns its handle, and "
            f"handle.{name}.remote(...) calls it."
        )


def _can_be_called(cls: type, name: str) -> bool:
    """Whether it is one of the actor's methods, of a name with underscores.

    Not what every object has, what a handle has itself, or what Python asks a handle for to copy it; nor what is
    async: a class is not run otherwise for an `__aenter__` that is for others.
    """
    if name == "__call__":
        return True
    function = inspect.getattr_static(cls, name, None)
    if not isinstance(function, FunctionType) or name in NOT_CALLED or name in vars(ActorHandle):
        return False
    is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    return not is_async and name not in vars(object)


def exit_actor() -> None:
    """End the actor whose method calls this.  The actor is not restarted.

    This call and all later ones raise ActorDiedError; earlier calls keep their results.  Functions of `atexit` run.
    The same holds in a constructor, and where the method catches SystemExit and goes on: the actor ends behind it.

    Raises:
        TypeError: the caller is no method of an actor.
    """
    from ..host import context
    from ..host.worker.exit_errors import ActorExit

    actor = getattr(context.runtime, "actor", None)
    if actor is None:
        raise TypeError("exit_actor() can only be called in an actor's method.")
    actor.note_exit()
    raise ActorExit(0)
