"""Ctrl-C in a driver: KeyboardInterrupt is raised only at harmless points.

Python raises the exception between any two bytecodes: perhaps while a received message is not yet handled, or a counted
ref not yet made.  Inside zray the interrupt is therefore deferred: the handler looks where the main thread is, and has
the signal sent again a little later.  In a loop of `.remote()` user code may be met only after seconds.  So the
interrupt is raised at the latest when the present call returns to the program.  The cost is zero without Ctrl-C.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from .. import context

AGAIN_SECONDS = 0.002
# Where user code may run, or bytes are copied: nothing of ours is half done.
HARMLESS = frozenset(
    f"zray.{name}"
    for name in (
        "exceptions", "store.arguments", "store.arrays", "store.copying", "store.errors",
        "store.functions", "store.inspect", "store.layout", "store.values", "host.worker.breakpoints",
    )
)  # fmt: skip

# What programs call: where these return to one, nothing is half done either.
ENTRANCES = frozenset(
    f"zray.api.{name}"
    for name in (
        "actor_class", "actor_handle", "actors", "cluster_info", "objects", "remote_function", "runtime_context",
        "sessions",
    )
)  # fmt: skip

# Libraries on the public API: what they call of others' code may be interrupted, as user code that workers call.
LIBRARIES = ("zray.util.", "zray.testing.")

_is_sent_again = False  # a repeated signal is on its way
_is_again = False  # the next signal is a repeated one
_is_put_off = False
_previous: Any = signal.default_int_handler  # the program's own handler


def install() -> None:
    """Install the handler before the program's own.  Only the main thread can do so."""
    global _previous
    if threading.current_thread() is threading.main_thread():
        previous = signal.getsignal(signal.SIGINT)
        if callable(previous) and previous is not _on_interrupt:
            _previous = previous
            signal.signal(signal.SIGINT, _on_interrupt)


def uninstall() -> None:
    """The program's own handler again."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, _previous)


def _on_interrupt(number: int, frame: FrameType | None) -> Any:
    global _is_again, _is_put_off, _is_sent_again
    is_again, _is_again = _is_again, False
    if is_again and not _is_put_off:
        return  # raised meanwhile
    if may_interrupt(frame):
        _interrupt(frame)
        return
    _is_put_off = True
    if sys.getprofile() is None:  # the program's own profiler stays
        sys.setprofile(_on_return)
    if not _is_sent_again:
        _is_sent_again = True
        # Not a Thread: the main thread may hold a lock that starting one takes.
        _thread.start_new_thread(_send_again, ())


def _interrupt(frame: FrameType | None) -> None:
    global _is_put_off
    _is_put_off = False
    if sys.getprofile() is _on_return:
        sys.setprofile(None)
    _previous(signal.SIGINT, frame)


def _on_return(frame: FrameType, event: str, _: Any) -> None:
    """Raise the deferred interrupt in a returning call (as sys.setprofile's function)."""
    caller = frame.f_back
    if (
        event == "return"
        and frame.f_globals.get("__name__") in ENTRANCES
        and frame.f_code.co_name != "__del__"  # where nothing can be raised
        and caller is not None
        and not caller.f_globals.get("__name__", "").startswith("zray.")
    ):
        _interrupt(frame)


def _send_again() -> None:
    global _is_again, _is_sent_again
    time.sleep(AGAIN_SECONDS)
    _is_sent_again = False
    if _is_put_off:
        _is_again = True
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def may_interrupt(frame: FrameType | None) -> bool:
    """Return whether no work of zray's is half done at the main thread's position."""
    half_shutdown = (_code_of("driver.startup", "stop"), _code_of("process.node_processes", "end_node"))
    innermost, interrupted = None, frame
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("zray."):
            if innermost is None:
                innermost = frame
            if frame.f_code in half_shutdown:
                return False  # it leaves processes behind
        frame = frame.f_back
    if innermost is None:
        return True
    if innermost.f_code is _code_of("client.connection", "Connection", "receive"):
        return bool(innermost.f_locals["self"].is_waiting)  # asleep: no message is in hand
    if innermost is not interrupted:
        name = innermost.f_globals["__name__"]
        if name.startswith(LIBRARIES) or innermost.f_code in _callers_of_user_code():
            return True
        if innermost.f_code in _runners_of_coroutines():
            return not hasattr(context.runtime, "aside") or _is_in_coroutine(interrupted)  # local mode keeps no loop
    return (
        innermost.f_code is _code_of("client.runtime", "Runtime", "_follow")
        or innermost.f_globals["__name__"] in HARMLESS
    )


def _callers_of_user_code() -> tuple[Any, ...]:
    """Return the code of workers and of local mode that runs user code or sleeps."""
    return (
        _code_of("worker.main", "Worker", "run_task"),
        _code_of("worker.generators", "run_generator"),
        _code_of("worker.generators", "run_dynamic"),
        _code_of("worker.outcomes", "several"),
        _code_of("local_mode.calls", "LocalCalls", "run_task"),
        _code_of("local_mode.actor", "LocalActor", "_attempts"),
        _code_of("local_mode.actor", "LocalActor", "_construct"),
        _code_of("local_mode.objects", "LocalObjects", "watch"),
    )


def _runners_of_coroutines() -> tuple[Any, ...]:
    """Return the code that runs an event loop, and the code in which a task's coroutine runs."""
    return _code_of("worker.async_tasks", "run"), _code_of("worker.async_tasks", "_outcome")


def _is_in_coroutine(interrupted: FrameType | None) -> bool:
    """Return whether user code of an event loop runs, and not the loop's own, which an exception would leave half
    done: tasks would never go on.
    """
    frame = interrupted
    while frame is not None and not frame.f_globals.get("__name__", "").startswith(("asyncio.", "selectors", "zray.")):
        frame = frame.f_back
    if frame is None or frame is interrupted:
        return False
    handle = sys.modules["asyncio.events"].Handle
    return frame.f_code in (handle._run.__code__, _code_of("worker.async_tasks", "_outcome"))


def _code_of(module: str, *path: str) -> Any:
    """Return the code of a function in host/; None: its module is not fully loaded, so no thread runs it.

    The module is not imported here, because the main thread may be in the middle of the same import.
    """
    found: Any = sys.modules.get(f"zray.host.{module}")
    for name in path:
        found = getattr(found, name, None)
    return getattr(found, "__code__", None)
