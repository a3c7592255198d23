"""zray.util.map and zray.util.map_unordered: one task for each chunk of many items."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

from ..api import objects
from ..api.decorator import remote
from ..api.remote_function import RemoteFunction
from ..object_ref import ObjectRef

__all__ = ["map", "map_unordered"]

# Results are fetched in groups: fewer waits.  A group waits so long at most for those that are not ready.
GROUP = 256
GROUP_SECONDS = 0.005
# Chunks under way at a time, for each CPU: enough to keep workers busy between two looks of this process.
CHUNKS_PER_CPU = 64
CHUNKS_MIN = 1_024
NAME_CHARACTERS_MAX = 200


def map(fn: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
    """Run `fn(item)` in tasks, and iterate over results in the order of the items.

        for result in zray.util.map(simulate, range(1_000_000), chunksize=100):
            print(result)

    The first tasks begin at once.  Items are drawn as results are fetched, so they may be endless.

    Args:
        fn: plain function of one item, or a remote function, whose options are used.
        iterable: any iterable.
        chunksize: items per task.  Default: 1.

    Raises:
        ValueError: chunksize is less than 1.
        TypeError: chunksize is no int.
        TaskError: fn raised, in place of the chunk's results.
    """
    check_count("chunksize", chunksize)
    return _ordered(fn, iter(iterable), chunksize)


def _ordered(fn: Callable[[Any], Any], items: Iterator[Any], chunksize: int) -> Iterator[Any]:
    is_single = chunksize == 1 and isinstance(fn, (FunctionType, RemoteFunction))
    task = chunk_task(fn) if not is_single else fn if isinstance(fn, RemoteFunction) else remote(fn)
    submit = task.remote
    bound = bound_of_chunks()
    refs: deque[ObjectRef[Any]] = deque()

    def fill() -> None:
        while len(refs) < bound and (chunk := list(itertools.islice(items, chunksize))):
            refs.append(submit(*chunk))

    def results() -> Iterator[Any]:
        while refs:
            values = next_values(refs)
            fill()
            if is_single:
                yield from values
            else:
                yield from itertools.chain.from_iterable(values)

    fill()
    return results()


def next_values(refs: deque[ObjectRef[Any]], deadline: float | None = None) -> list[Any]:
    """Take refs from the left, and return their values: ready ones, or soon ready ones; at least one.

    Args:
        refs: refs, at least one.
        deadline: time of time.monotonic(); None waits without limit.

    Raises:
        concurrent.futures.TimeoutError: the first value is not there at the deadline.
        TaskError: the first value is an error; its ref is taken.
    """
    group = list(itertools.islice(refs, GROUP))
    ready, _ = objects.wait(group, num_returns=len(group), timeout=GROUP_SECONDS)
    if not ready or ready[0] is not group[0]:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _ = objects.wait(group[:1], timeout=left)
        if not ready:
            from concurrent.futures import TimeoutError as LateError  # before Python 3.11 not the built-in one

            raise LateError(f"{len(refs)} results were not ready in time.")
    count = next((index for index, ref in enumerate(ready) if ref is not group[index]), len(ready))
    try:
        values = objects.get(group[:count])
    except BaseException:
        if count > 1:
            values = list(_values_before_error(group[:count]))
        if count == 1 or not values:
            refs.popleft()
            raise
        count = len(values)
    for _ in range(count):
        refs.popleft()
    return values


def _values_before_error(refs: list[ObjectRef[Any]]) -> Iterator[Any]:
    for ref in refs:
        try:
            yield objects.get(ref)
        except Exception:
            return


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Run `fn.remote(item)` for each item, and iterate over values in the order in which they become ready.

        for value in zray.util.map_unordered(square, range(1_000)):
            print(value)

    Args:
        fn: remote function of one item, or a method of an actor.
        items: any iterable.
        backpressure_size: number of tasks that may be under way; None: no bound.  Default: 100.
        chunk_size: number of values that are fetched together at most.  Default: 10.
        yield_obj_refs: yield the refs instead of the values.  Default: False.
        kwargs: further arguments of zray.util.as_completed: timeout and fetch_local.

    Raises:
        ValueError: backpressure_size is less than 1, or less than chunk_size; or chunk_size is less than 1.
        TypeError: fn has no `remote`.
        TaskError: a task raised, in place of its value.
    """
    check_count("chunk_size", chunk_size)
    if backpressure_size is not None:
        check_count("backpressure_size", backpressure_size)
        if backpressure_size < chunk_size:
            raise ValueError(
                f"backpressure_size is {backpressure_size}: it must be at least chunk_size, which is {chunk_size}."
            )
    if not hasattr(fn, "remote"):
        raise TypeError(f"map_unordered() needs a remote function, not {type(fn).__name__}: decorate it by @remote.")
    fetch_local = kwargs.pop("fetch_local", True)
    kwargs.pop("timeout", None)
    if kwargs:
        raise TypeError(f"map_unordered() has no argument {next(iter(kwargs))!r}.")
    return _unordered(fn.remote, iter(items), backpressure_size, chunk_size, yield_obj_refs, fetch_local)


def _unordered(
    submit: Callable[[Any], ObjectRef[Any]],
    items: Iterator[Any],
    bound: int | None,
    chunk_size: int,
    yields_refs: bool,
    fetch_local: bool,
) -> Iterator[Any]:
    refs = [submit(item) for item in itertools.islice(items, bound)]
    while refs:
        objects.wait(refs, num_returns=1, fetch_local=fetch_local)
        count = min(chunk_size, len(refs))
        ready, refs = objects.wait(refs, num_returns=count, timeout=0, fetch_local=fetch_local)
        refs += [submit(item) for item in itertools.islice(items, len(ready))]
        for ref in ready:
            yield ref if yields_refs else objects.get(ref)


def chunk_task(fn: Callable[..., Any], *, takes_tuples: bool = False) -> RemoteFunction[..., list[Any]]:
    """Make a remote function of many items returning the list of their results, with the options of fn.

    Args:
        fn: plain or remote function, or anything else that can be called.
        takes_tuples: call fn(*item) in place of fn(item).  Default: False.
    """
    options = dict(fn._options) if isinstance(fn, RemoteFunction) else {}
    return remote(**{"name": name_of(fn), **options})(chunk_function(fn, takes_tuples=takes_tuples))


def chunk_function(fn: Callable[..., Any], *, takes_tuples: bool = False) -> Callable[..., list[Any]]:
    """Make a plain function of many items returning the list of their results."""
    call = fn.local if isinstance(fn, RemoteFunction) else fn

    def run(*items: Any) -> list[Any]:
        return [call(*item) for item in items] if takes_tuples else [call(item) for item in items]

    return run


def name_of(fn: Callable[..., Any]) -> str:
    """Name of anything that can be called, for errors and lists: of a partial, that of its function; without enclosing
    functions.
    """
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__qualname__
    return str(name).rpartition("<locals>.")[2][:NAME_CHARACTERS_MAX]


def bound_of_chunks() -> int:
    """Number of chunks that may be under way: more where the cluster has more CPUs."""
    from ..api.cluster_info import cluster_resources

    return max(CHUNKS_MIN, int(CHUNKS_PER_CPU * cluster_resources().get("CPU", 1)))


def check_count(name: str, value: int) -> None:
    """Raises:
    TypeError: value is no int.
    ValueError: value is less than 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}.")
