"""Ctrl-C in a driver: KeyboardInterrupt is raised where it can do no harm.

Python raises it between any two bytecodes, so also while a message has been taken from the socket and not yet
been handled, or a ref counted and not yet made.  Inside zray it is therefore put off until its turn is over: the
handler looks where the main thread is, and has the signal sent again a little later.  This costs nothing while
nobody presses Ctrl-C.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from types import FrameType
from typing import Any

AGAIN_SECONDS = 0.002
# Where user code may run, or bytes are copied: nothing of ours is half done.
HARMLESS = frozenset(
    f"zray.{name}"
    for name in (
        "exceptions", "store.arguments", "store.arrays", "store.copying", "store.errors",
        "store.functions", "store.inspect", "store.layout", "store.values",
    )
)  # fmt: skip

_is_sent_again = False
_previous: Any = signal.default_int_handler  # the program's own handler


def install() -> None:
    """From now on, before whatever handler the program has.  Only the main thread can do this."""
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
    global _is_sent_again
    if may_interrupt(frame):
        _previous(number, frame)
    elif not _is_sent_again:
        _is_sent_again = True
        # Not a Thread: the main thread may hold a lock that starting one takes.
        _thread.start_new_thread(_send_again, ())


def _send_again() -> None:
    global _is_sent_again
    time.sleep(AGAIN_SECONDS)
    _is_sent_again = False
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def may_interrupt(frame: FrameType | None) -> bool:
    """Whether nothing of zray's is half done where the main thread is."""
    from .connection import Connection
    from .joining import stop
    from .nodes import end_node
    from .runtime import Runtime

    innermost = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("zray."):
            if innermost is None:
                innermost = frame
            if frame.f_code in (stop.__code__, end_node.__code__):
                return False  # half a shutdown leaves processes behind
        frame = frame.f_back
    if innermost is None:
        return True
    if innermost.f_code is Connection.receive.__code__:
        return bool(innermost.f_locals["self"].is_waiting)  # asleep: no message is in hand
    return innermost.f_code is Runtime._follow.__code__ or innermost.f_globals["__name__"] in HARMLESS
