"""Public functions on objects: `get`, `put`, `wait`, `as_completed`.  Names and meanings are Ray's."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from ..exceptions import GetTimeoutError, ZrayError
from ..host import context
from ..object_ref import ObjectRef
from ..options.checks import check_timeout, check_wait
from .sessions import require_runtime

if TYPE_CHECKING:
    from .generators import ObjectRefGenerator

T = TypeVar("T")
Progress = Literal["text"] | bool | None


@overload
def get(
    object_refs: ObjectRef[T], *, timeout: float | None = None, writable: bool = False, progress: Progress = None
) -> T: ...
@overload
def get(
    object_refs: Sequence[ObjectRef[T]],
    *,
    timeout: float | None = None,
    writable: bool = False,
    progress: Progress = None,
) -> list[T]: ...
def get(
    object_refs: Any = None, *, timeout: float | None = None, writable: bool = False, progress: Progress = None
) -> Any:
    """Wait for the value of a ref, or of each of a list of refs.

        total = zray.get(add.remote(1, 2))
        first, second = zray.get([a, b], timeout=10)

    Arrays are read-only views of shared memory.

    Args:
        object_refs: a ref or a list of refs.
        timeout: seconds; 0 looks and does not wait; None waits without limit.
        writable: return copies of arrays that may be written to.  Default: False.
        progress: True or "text" shows a bar on a terminal and in a notebook, elsewhere a line each 5 s.  Default:
            None, nothing.

    Returns:
        The value, or a list of values in the order of the refs.

    Raises:
        TaskError: the task raised; the error is also an instance of the user's class.
        GetTimeoutError: a value was not there in time; it may still come (indefinite).
        WorkerCrashedError, ActorDiedError, ObjectLostError: a value will never come (definite).
        ValueError: an argument is neither a ref nor a list of refs, or the timeout is negative.
        TypeError: the timeout is no number.
    """
    if timeout is not None:
        check_timeout(timeout)
    runtime = require_runtime(object_refs)
    try:
        if progress is not None:
            from ..host.output.progress_bar import show

            timeout = show(runtime, object_refs, timeout, progress)
        if type(object_refs) is ObjectRef and not writable:
            value = runtime.client.values.get(object_refs.id)
            if value is not None and type(value) is bytes:
                return runtime.value_of(object_refs.id)
            return runtime.get((object_refs,), timeout)[0]
        if type(object_refs) is ObjectRef:
            return runtime.get((object_refs,), timeout, writable=True)[0]
        if not isinstance(object_refs, (list, tuple)):
            if type(object_refs).__name__ == "ObjectRefGenerator":
                return object_refs  # as Ray does
            raise ValueError(f"get() takes an ObjectRef or a list of them, not {type(object_refs).__name__}.")
        for ref in object_refs:
            if type(ref) is not ObjectRef:
                raise ValueError(f"get() takes a list of ObjectRefs, but one item is of type {type(ref).__name__}.")
        return runtime.get(object_refs, timeout, writable=writable)
    except ZrayError as error:
        # The text has all that matters to the user; frames of zray do not help.
        __tracebackhide__ = True  # pytest leaves this frame out
        raise error.with_traceback(None) from error.__cause__


def put(value: T) -> ObjectRef[T]:
    """Store a value in shared memory, so that many tasks can read it without a copy.

        table = zray.put(np.zeros((1000, 1000)))
        refs = [column_sum.remote(table, index) for index in range(1000)]

    Returns:
        A ref on the value.

    Raises:
        TypeError: the value is a ref already, or cannot be serialized.
        ObjectStoreFullError: the value does not fit into the object store.
    """
    if type(value) is ObjectRef:
        raise TypeError("put() of an ObjectRef is not allowed: the ref is one already.  To wrap it, put([ref]).")
    try:
        return (context.runtime or require_runtime([value])).put(value)
    except ZrayError as error:
        __tracebackhide__ = True
        raise error.with_traceback(None) from error.__cause__  # as above


# The list that wait() returned last, by identity and length: wait in a loop need not check it all again.  Only
# errors that would have been raised are missed when another list takes its place.
_checked: tuple[int, int] = (0, 0)


def _given_once(what: str, former: Any, present: Any) -> Any:
    if former is not None:
        raise TypeError(f"{what} is another name of the first argument.")
    return present


def wait(
    object_refs: list[ObjectRef[T]] | None = None,
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
    ray_waitables: list[ObjectRef[T]] | None = None,
) -> tuple[list[ObjectRef[T]], list[ObjectRef[T]]]:
    """Wait until some of the refs are ready.  A failed task is ready too.

        while refs:
            (ref,), refs = zray.wait(refs)
            print(zray.get(ref))

    Args:
        object_refs: a list of different refs.
        num_returns: how many to wait for.  Default: 1.
        timeout: seconds; 0 looks and does not wait; None waits without limit.
        fetch_local: False counts a value as ready as soon as any node has it.  Default: True.
        ray_waitables: Ray's present name of object_refs.

    Returns:
        Two lists in the order of the input: at most num_returns ready refs, and all others.

    Raises:
        TypeError: the argument is no list of refs, or a number has a wrong type.
        ValueError: a ref is there twice, or num_returns or timeout is out of range.
    """
    global _checked
    if ray_waitables is not None:
        object_refs = _given_once("wait() takes its refs once: ray_waitables", object_refs, ray_waitables)
    if (
        type(object_refs) is not list
        or _checked != (id(object_refs), len(object_refs))
        or (object_refs and type(object_refs[0]) is not ObjectRef)
    ):
        generators = sys.modules.get("zray.api.generators")  # loaded with the first one
        if generators is not None and generators.are_among(object_refs):
            return generators.wait_for_any(object_refs, num_returns, timeout, fetch_local)  # type: ignore[no-any-return]
        check_wait(object_refs)
    assert object_refs is not None  # as checked
    if timeout is not None:
        check_timeout(timeout)
    count = len(object_refs)
    if not count:
        return [], []
    if type(num_returns) is not int and not isinstance(num_returns, Integral):
        raise TypeError(f"num_returns must be an int, not {type(num_returns).__name__}.")
    if num_returns <= 0 or num_returns > count:
        raise ValueError(f"wait() for {num_returns} of {count} refs: num_returns must be from 1 to {count}.")
    runtime = require_runtime(object_refs)
    client = runtime.client
    if num_returns == 1:
        values = client.values
        for index, ref in enumerate(object_refs):
            if ref.id in values:
                rest = object_refs[:index] + object_refs[index + 1 :]
                _checked = (id(rest), count - 1)
                return [ref], rest
    try:
        is_ready = runtime.wait([ref.id for ref in object_refs], num_returns, timeout, fetch_local)
    except ZrayError as error:
        __tracebackhide__ = True
        raise error.with_traceback(None) from error.__cause__  # as in get
    ready: list[ObjectRef[T]] = []
    rest = []
    for ref in object_refs:
        (ready if len(ready) < num_returns and is_ready(ref.id) else rest).append(ref)
    _checked = (id(rest), len(rest))
    return ready, rest


@overload
def as_completed(
    object_refs: Iterable[ObjectRef[T]], *, timeout: float | None = None, with_results: Literal[False] = False
) -> Iterator[ObjectRef[T]]: ...
@overload
def as_completed(
    object_refs: Iterable[ObjectRef[T]], *, timeout: float | None = None, with_results: Literal[True]
) -> Iterator[tuple[ObjectRef[T], T]]: ...
def as_completed(
    object_refs: Iterable[ObjectRef[Any]], *, timeout: float | None = None, with_results: bool = False
) -> Iterator[Any]:
    """Iterate over refs in the order in which they become ready.

        for ref, value in zray.as_completed(refs, with_results=True):
            print(value)

    Args:
        object_refs: refs, all different.
        timeout: seconds for all of them together; None waits without limit.
        with_results: yield pairs of ref and value.  Default: False.

    Raises:
        GetTimeoutError: a ref was not ready in time.
        TaskError: a task raised, and with_results asks for its value.
    """
    rest = list(object_refs)
    deadline = None if timeout is None else time.monotonic() + check_timeout(timeout)
    while rest:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, rest = wait(rest, num_returns=1, timeout=left)
        if not ready:
            text = f"{len(rest)} objects were not ready after {timeout:g} s."
            raise GetTimeoutError(text + require_runtime().why_late([ref.id for ref in rest], timeout or 0.0))
        yield (ready[0], get(ready[0])) if with_results else ready[0]


def cancel(
    ref: ObjectRef[Any] | ObjectRefGenerator[Any] | None = None,
    *,
    force: bool = False,
    recursive: bool = True,
    ray_waitable: Any = None,
) -> None:
    """Cancel a task or an actor's call, wherever it is; a ref of `put`, and one whose value is there, is left alone.

    `get` of its refs raises TaskCancelledError then, and it is not retried.  A task that runs has KeyboardInterrupt
    raised in it; the value of a task that catches that, or is faster, counts.  An async function or an async actor's
    call has `asyncio.CancelledError` raised where it awaits.  Nothing interrupts a call of another actor: it may ask
    `get_runtime_context().is_canceled()`, and what it returns does not count.

    Args:
        ref: any ref that the task or call returns, or its generator.
        force: end the worker of a task that runs, as for C code that does not return.  Default: False.
        recursive: cancel what a running task has submitted, and what it submits later, too.  Default: True.
        ray_waitable: Ray's present name of ref.

    Raises:
        TypeError: `ref` is no ref, or an option is not a bool.
        ValueError: `force` for an actor's call: see kill().

    Example:
        ref = simulate.remote(hours=10)
        zray.cancel(ref)
        zray.get(ref)  # raises TaskCancelledError
    """
    from ..ids import is_put, task_of
    from ..options.remote_options import check_flag
    from ..wire.tasks import CancelTask

    if ray_waitable is not None:
        ref = _given_once("cancel() takes its ref once: ray_waitable", ref, ray_waitable)
    if type(ref).__name__ == "ObjectRefGenerator":
        ref = ref.completed()  # type: ignore[union-attr]
    if not isinstance(ref, ObjectRef):
        raise TypeError(f"cancel() takes the ref of a task, not {type(ref).__name__}; for an actor see kill().")
    check_flag("force", force)
    check_flag("recursive", recursive)
    runtime = require_runtime(ref)
    if is_put(ref.id):
        return
    if force:
        reply = runtime.ask(lambda request: CancelTask(task_of(ref.id), True, recursive, request=request))
        if reply.error:
            raise ValueError(reply.error)
        return
    runtime.say(CancelTask(task_of(ref.id), False, recursive))
    runtime.flush()
