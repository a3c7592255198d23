"""Types of @zray.remote for type checkers and editors: the options, and the result of the decorator.

Python's types set three limits:

- A ParamSpec cannot say "each parameter, or a ref on it".  A ref is therefore accepted in place of any value
  (object_ref.Argument).
- The parameters of a constructor cannot be derived from a class: `Counter.remote(...)` takes any arguments.  Those of
  methods under @zray.method are known, as in Ray: a handle is an ActorProxy, which has the attributes of the class.
- mypy ignores the results of class decorators.  `Counter = zray.remote(_Counter)` is understood there, and
  `@zray.remote class Counter` is not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

if TYPE_CHECKING:
    from ..object_ref import ObjectRef
    from .actor_class import ActorClass
    from .generators import ObjectRefGenerator
    from .remote_function import RemoteFunction

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
R_co = TypeVar("R_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
Bases = tuple[type[BaseException], ...] | list[type[BaseException]]


class PlaceOptions(TypedDict, total=False):
    """Options of functions and classes: what is needed, and where it runs."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: dict[str, float] | None
    accelerator_type: str | None
    scheduling_strategy: Any
    label_selector: dict[str, str] | None
    fallback_strategy: list[dict[str, Any]] | None
    placement_group: Any
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None
    runtime_env: dict[str, Any] | None
    name: str | None
    enable_task_events: bool


class FunctionOptions(PlaceOptions, total=False):
    """Options of remote functions, but for num_returns."""

    max_retries: int | None
    retry_exceptions: bool | Bases | None
    max_calls: int | None
    writable: bool
    max_buffered: int | None
    deterministic: bool | None
    timeout: float | None
    priority: int | None


class ClassOptions(PlaceOptions, total=False):
    """Options of actor classes."""

    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool
    hosted: bool
    max_restarts: int | None
    max_task_retries: int | None
    max_concurrency: int | None
    max_pending_calls: int | None
    concurrency_groups: dict[str, int] | None
    allow_out_of_order_execution: bool | None
    checkpoint_interval: int | None


class AnyOptions(FunctionOptions, ClassOptions, total=False):
    """Options of @zray.remote, which may stand on either."""


class CallOptions(TypedDict, total=False):
    """Options of calls of an actor's method, but for num_returns."""

    name: str | None
    max_task_retries: int | None
    retry_exceptions: bool | Bases | None
    concurrency_group: str | None
    readonly: bool
    max_buffered: int | None
    deterministic: bool | None
    enable_task_events: bool


class MethodOptions(CallOptions, total=False):
    """Options of calls of an actor's method."""

    num_returns: int


class RemoteMethod(Protocol[P, R_co, V_co]):
    """Method under @zray.method, as the handle of its actor has it.

    P: the parameters without self.  R_co: the value of a ref.  V_co: the result of a call within the class.
    """

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRef[R_co]: ...
    def options(self, /, **options: Any) -> RemoteMethod[P, R_co, V_co]: ...
    def bind(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> V_co: ...


class GeneratorMethod(Protocol[P, R_co, V_co]):
    """Method with `yield` under @zray.method: its calls return a generator of refs."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R_co]: ...
    def options(self, /, **options: Any) -> GeneratorMethod[P, R_co, V_co]: ...
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> V_co: ...


class MethodOfMany(Protocol[P, V_co]):
    """Method with num_returns other than 1: its calls return a list of refs."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> list[ObjectRef[Any]]: ...
    def options(self, /, **options: Any) -> MethodOfMany[P, V_co]: ...
    def bind(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> V_co: ...


class MethodDecorator(Protocol):
    """`zray.method` itself on a method, and the result of `zray.method(concurrency_group="io")`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> RemoteMethod[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[Concatenate[Any, P], Iterator[R]], /
    ) -> GeneratorMethod[P, R, Iterator[R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[Concatenate[Any, P], AsyncIterator[R]], /
    ) -> GeneratorMethod[P, R, AsyncIterator[R]]: ...
    @overload
    def __call__(self, target: Callable[Concatenate[Any, P], R], /) -> RemoteMethod[P, R, R]: ...


class DecoratorOfManyReturns(Protocol):
    """Result of `zray.method(num_returns=2)`."""

    def __call__(self, target: Callable[Concatenate[Any, P], R], /) -> MethodOfMany[P, R]: ...


class Decorator(Protocol):
    """Result of `zray.remote(num_cpus=2)`."""

    @overload
    def __call__(self, target: type[C], /) -> ActorClass[C]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, target: Callable[P, Coroutine[Any, Any, R]], /) -> RemoteFunction[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, target: Callable[P, Iterator[R]], /
    ) -> GeneratorFunction[P, R]: ...
    @overload
    def __call__(self, target: Callable[P, R], /) -> RemoteFunction[P, R]: ...


class GeneratorFunction(Protocol[P, R_co]):
    """Remote function with `yield`: its calls return a generator of refs."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ObjectRefGenerator[R_co]: ...
    def local(self, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R_co]: ...
    @overload
    def options(self, /, *, num_returns: int, **options: Any) -> FunctionOfMany[P]: ...
    @overload
    def options(self, /, **options: Any) -> GeneratorFunction[P, R_co]: ...


class FunctionOfMany(Protocol[P]):
    """Remote function with num_returns other than 1: its calls return a list of refs."""

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> list[ObjectRef[Any]]: ...
    def local(self, /, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    def options(self, /, **options: Any) -> FunctionOfMany[P]: ...


class DecoratorOfMany(Protocol):
    """Result of `zray.remote(num_returns=3)`."""

    def __call__(self, target: Callable[P, Any], /) -> FunctionOfMany[P]: ...
