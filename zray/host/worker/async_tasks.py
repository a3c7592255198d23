"""Async functions as tasks: each run is a coroutine on the event loop of its worker.

The loop runs in the main thread and is kept between tasks, so that clients of a library may be kept too.  The CPU is
lent out while the loop waits for refs (background_waits.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import context

if TYPE_CHECKING:
    import asyncio

    from ..client.task_context import Call

# Coroutines under way, each with its call and loop; the innermost is the last: a wait may run a task inside of another.
_under_way: list[tuple[Call | None, asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
_loop: asyncio.AbstractEventLoop | None = None


def runnable(function: Any) -> Any:
    """Return an AsyncFunction for a coroutine function; anything else unchanged."""
    return AsyncFunction(function) if inspect.iscoroutinefunction(function) else function


class AsyncFunction:
    """A coroutine function, callable as a plain function: the call runs the coroutine to its end."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        value, error = run(self.function(*args, **kwargs))
        if error is not None:
            raise error
        return value


def run(coroutine: Any) -> tuple[Any, BaseException | None]:
    """Run a coroutine to its end, and cancel its remaining tasks.  Returns the value, or the error."""
    import asyncio  # here and below: it takes long, and few workers need it

    outer = asyncio._get_running_loop()
    # In a task inside the wait of another task, `get` in a coroutine has stopped the outer loop.  In local mode other
    # threads run coroutines too.
    is_kept = outer is None and is_lending()
    loop = own_loop() if is_kept else new_loop()
    asyncio._set_running_loop(None)
    task = loop.create_task(_outcome(coroutine))
    _under_way.append((context.runtime.call, loop, task))  # type: ignore[union-attr]
    try:
        try:
            return loop.run_until_complete(task)  # type: ignore[no-any-return]
        finally:
            _cancel_the_rest(loop)
            _under_way.pop()
    finally:
        if not is_kept:
            loop.close()
            asyncio._set_running_loop(outer)


def is_lending() -> bool:
    """Return whether a waiting task lends its CPU out: not in local mode, where a loop is made for each run."""
    return hasattr(context.runtime, "aside")


def cancel(call: Call, is_due: Callable[[], bool]) -> None:
    """Cancel the coroutine of the innermost call where it awaits, if that is due by then.  For any thread, and for
    handlers of signals.
    """
    for owner, loop, task in _under_way[-1:]:
        if owner is call:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_cancel_if_due, task, is_due)


def _cancel_if_due(task: asyncio.Task[Any], is_due: Callable[[], bool]) -> None:
    if not task.done() and is_due():
        task.cancel()


def own_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process; a new one if user code has closed the former."""
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = new_loop()
    return _loop


def new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that lends its worker's CPU out before it waits for refs."""
    import asyncio
    import selectors

    if not is_lending():
        return asyncio.new_event_loop()

    class LendingSelector(selectors.DefaultSelector):
        """A selector that reports a waiting thread as idle at once, not at the helper's next look."""

        def select(self, timeout: float | None = None) -> list[Any]:
            if timeout is None or timeout > 0:
                context.runtime.aside.lend()  # type: ignore[union-attr]
            return super().select(timeout)

    return asyncio.SelectorEventLoop(LendingSelector())


async def _outcome(coroutine: Any) -> tuple[Any, BaseException | None]:
    """An exit or an interrupt would end the loop, and other frames than the user's would be in the traceback."""
    try:
        return await coroutine, None
    except BaseException as error:
        trace = error.__traceback__
        return None, error.with_traceback(trace.tb_next if trace is not None else None)


def _cancel_the_rest(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks left on the loop, before the next coroutine."""
    import asyncio

    if loop.is_closed():
        return
    while left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
