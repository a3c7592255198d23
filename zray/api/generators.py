"""Refs on the items of generators, one by one, while the function still runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from numbers import Integral
from typing import Any, Generic, NoReturn, TypeVar

from ..exceptions import ZrayError
from ..host import context
from ..ids import item_id, task_of
from ..object_ref import ObjectRef
from ..options.checks import check_timeout
from ..store.values import deserialize, is_error

T_co = TypeVar("T_co", covariant=True)

# What a generator of Python has, and one of refs has not.
_NOT_SUPPORTED = ("send", "throw", "close", "asend", "athrow", "aclose")


class ObjectRefGenerator(Generic[T_co]):
    """Items of a generator function or method: an iterator of refs, each there as soon as its item is made.

        @zray.remote
        def count(n):
            for number in range(n):
                yield number

        for ref in count.remote(3):
            print(zray.get(ref))

    The function runs whether anybody draws or not.  An error of the function is the last ref: `get` of that raises it.
    A generator that nobody refers to any more ends its function; refs that were drawn stay.
    """

    __module__ = "zray"  # as programs import it

    def __init__(self, runtime: Any, end: ObjectRef[Any], *, is_limited: bool) -> None:
        """end: the task's first return, which this process holds.  is_limited: the function waits for draws."""
        self._is_limited = is_limited
        self._runtime = runtime
        self._end = end
        self._task_id = task_of(end.id)
        self._drawn = 0
        self._is_over = False
        self._is_awaited = False  # somebody has a ref on the end
        self._is_told = False  # who draws has had StopIteration
        self._lock = threading.Lock()  # several threads may draw

    # --- drawing ---

    def __iter__(self) -> ObjectRefGenerator[T_co]:
        return self

    def __next__(self) -> ObjectRef[T_co]:
        while True:
            found = self._take()
            if found is not None:
                return found
            if self._is_over:
                self._is_told = True
                raise StopIteration
            try:
                self._runtime.wait(self._awaited(), 1, None, True)
            except ZrayError as error:
                __tracebackhide__ = True
                raise error.with_traceback(None) from error.__cause__

    def _take(self) -> ObjectRef[Any] | None:
        """The next ref, if it is there."""
        with self._lock:
            end = self._end_value()  # before the count: items arrive ahead of the end
            if self._is_over:
                return None
            if self._drawn < self._runtime.items_of(self._task_id):
                self._drawn += 1
                if self._is_limited:
                    self._runtime.drew(self._task_id, self._drawn)
                return ObjectRef(item_id(self._task_id, self._drawn - 1))
            if end is None:
                return None
            if type(end) is bytes and is_error(end):
                self._leave()
                return self._runtime.another_ref(self._end.id)  # type: ignore[no-any-return]
            if self._drawn >= deserialize(end):
                self._leave()
            return None

    def _end_value(self) -> Any:
        return self._runtime.client.values.get(self._end.id)

    def _awaited(self) -> list[bytes]:
        """Objects of which one must arrive before anything can be drawn."""
        item = item_id(self._task_id, self._drawn)
        return [item, self._end.id] if self._end_value() is None else [item]

    def _leave(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._runtime.draws_no_more(self._task_id, self._drawn, ends=False)

    def __aiter__(self) -> ObjectRefGenerator[T_co]:
        return self

    async def __anext__(self) -> ObjectRef[T_co]:
        while True:
            found = self._take()
            if found is not None:
                return found
            if self._is_over:
                self._is_told = True
                raise StopAsyncIteration
            await asyncio.wrap_future(self._runtime.futures.arrival_of(self._awaited()))

    # --- state ---

    def completed(self) -> ObjectRef[Any]:
        """A ref on the end of the function: `get` returns the number of items, or raises what the function raised."""
        self._is_awaited = True
        return self._runtime.another_ref(self._end.id)  # type: ignore[no-any-return]

    def next_ready(self) -> bool:
        """Whether a ref can be drawn without a wait; False at the end."""
        if self._is_over:
            return False
        end = self._end_value()
        if self._drawn < self._runtime.items_of(self._task_id):
            return True
        return end is not None and is_error(end)

    def is_finished(self) -> bool:
        """Whether all refs, that of an error included, were drawn."""
        if not self._is_over and self._drawn >= self._runtime.items_of(self._task_id):
            end = self._end_value()
            if end is not None and not is_error(end) and self._drawn >= deserialize(end):
                with self._lock:
                    self._leave()
        return self._is_over

    def _answers_at_once(self) -> bool:
        """Whether `next` gives a ref, or StopIteration for the first time."""
        return self.next_ready() or (not self._is_told and self.is_finished())

    def task_id(self) -> bytes:
        """The id of the task that yields the items."""
        return self._task_id

    def __del__(self) -> None:
        if not self._is_over and context.runtime is not None and context.runtime is self._runtime:
            self._is_over = True
            self._runtime.draws_no_more(self._task_id, self._drawn, ends=not self._is_awaited)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "You cannot return or pass a generator to other task: only the process that called the function draws from "
            "it.  Pass the refs that it yields, or its completed()."
        )

    def __getattr__(self, name: str) -> Any:
        if name in _NOT_SUPPORTED:
            return _refusal(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"ObjectRefGenerator({self._task_id.hex()})"


def _refusal(name: str) -> Callable[..., Generator[Any, Any, Any]]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"`gen.{name}` is not supported: the function runs in another process.")

    return refuse


def are_among(things: Any) -> bool:
    """Whether generators stand in a list."""
    return type(things) is list and any(type(thing) is ObjectRefGenerator for thing in things)


def wait_for_any(
    things: list[Any], num_returns: int, timeout: float | None, fetch_local: bool
) -> tuple[list[Any], list[Any]]:
    """Wait as `zray.wait` does, where generators stand among the refs: ready is one whose next ref can be drawn.

    A generator at its end is ready until `next` has raised StopIteration: loops learn by that to leave it out.
    """
    if type(num_returns) is not int and not isinstance(num_returns, Integral):
        raise TypeError(f"num_returns must be an int, not {type(num_returns).__name__}.")
    if not 0 < num_returns <= len(things):
        raise ValueError(
            f"wait() for {num_returns} of {len(things)} refs and generators: num_returns is from 1 to {len(things)}."
        )
    if len(set(map(id, things))) < len(things):
        raise ValueError("wait() takes different refs and generators: one is there twice.")
    deadline = None if timeout is None else time.monotonic() + check_timeout(timeout)
    while True:
        late, awaited = [], []
        for thing in things:
            if isinstance(thing, ObjectRefGenerator):
                if not thing._answers_at_once():
                    late.append(thing)
                    if not thing.is_finished():
                        awaited += thing._awaited()
            elif not _is_there(thing, fetch_local):
                late.append(thing)
                awaited.append(thing.id)
        ready = [thing for thing in things if not any(thing is other for other in late)]
        if len(ready) >= num_returns or not awaited:
            if not ready and timeout is None:
                raise ValueError(
                    "wait() for generators that have ended: nothing more will be ready.  Leave a generator out of the "
                    "list once next() has raised StopIteration."
                )
            break
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        is_ready = _runtime().wait(awaited, 1, left, fetch_local)
        if left is not None and not any(map(is_ready, awaited)):
            break
    ready = ready[:num_returns]
    return ready, [thing for thing in things if not any(thing is other for other in ready)]


def _runtime() -> Any:
    return context.runtime


def _is_there(ref: ObjectRef[Any], fetch_local: bool) -> bool:
    return bool(_runtime().wait([ref.id], 1, 0, fetch_local)(ref.id))
