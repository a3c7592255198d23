"""@zray.remote: remote functions of functions, actor classes of classes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from typing_extensions import Unpack

    from .actor_class import ActorClass
    from .remote_function import RemoteFunction
    from .remote_types import AnyOptions, Decorator, DecoratorOfMany, GeneratorFunction

__all__ = ["remote"]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


@overload
def remote(target: type[C], /) -> ActorClass[C]: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, Coroutine[Any, Any, R]], /) -> RemoteFunction[P, R]: ...
@overload
def remote(target: Callable[P, Iterator[R]], /) -> GeneratorFunction[P, R]: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(  # type: ignore[overload-overlap]
    *, num_returns: Literal[1] = 1, **options: Unpack[AnyOptions]
) -> Decorator: ...
@overload
def remote(*, num_returns: int, **options: Unpack[AnyOptions]) -> DecoratorOfMany: ...
def remote(*args: Any, **options: Any) -> Any:
    """Make a remote function of a function, or an actor class of a class.  Decorator, bare or with options.

        @zray.remote
        def square(x): ...
        @zray.remote(num_cpus=2, max_restarts=3)
        class Counter: ...

    Options of functions:

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
    - `scheduling_strategy` (default `"DEFAULT"`): `"DEFAULT"`, `"SPREAD"`, or one of `zray.util.scheduling_strategies`
    - `label_selector` (default none): labels of the node, as `{"disk": "in(ssd, nvme)"}`
    - `fallback_strategy` (default none): list of `{"label_selector": {...}}`, at most 20
    - `placement_group` (default `"default"`): a group, or `None` for none, also where the parent's group captures
    - `placement_group_bundle_index` (default -1): bundle of the group; -1: any
    - `placement_group_capture_child_tasks` (default as the parent): children run in the group too

    Options of classes:

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
    - `scheduling_strategy` (default `"DEFAULT"`): as for tasks
    - `label_selector` (default none): as for tasks
    - `fallback_strategy` (default none): as for tasks
    - `placement_group` (default `"default"`): as for tasks
    - `placement_group_bundle_index` (default -1): as for tasks
    - `placement_group_capture_child_tasks` (default as the parent): as for tasks

    Returns:
        A RemoteFunction or an ActorClass; with options, a decorator that makes one.

    Raises:
        TypeError: the target is neither a function nor a class, or an option has a wrong type.
        ValueError, NotImplementedError: an unknown option, a value out of range, or an option that zray lacks.
    """
    if len(args) == 1 and not options and callable(args[0]):
        return _make_remote(args[0], {})
    if args or not options:
        raise TypeError("Use @zray.remote, or @zray.remote(option=value, ...), on a function or a class.")
    return lambda target: _make_remote(target, options)


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    from .actor_class import ActorClass
    from .remote_function import RemoteFunction

    if inspect.isclass(target):
        return ActorClass(target, options)
    if callable(target) and not isinstance(target, (RemoteFunction, ActorClass)):
        return RemoteFunction(target, options)
    raise TypeError(f"@zray.remote needs a function or a class, not {type(target).__name__}.")
