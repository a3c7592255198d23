"""The runtime of this process: what the public API talks to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .runtime import Runtime

runtime: Runtime | None = None
is_own = False  # this is a process of zray's own, a node or a fork server
is_forked = False  # this process was forked from one that was in a session, which it is not in itself


def set_runtime(new: Runtime | None) -> None:
    """This process has joined a session, or left it."""
    global runtime, is_forked, is_own
    runtime, is_forked, is_own = new, False, False


class StartLock:
    """Held while a session starts.  Who holds it does not start another one meanwhile, nor do zray's own processes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holder = 0  # a thread

    def __enter__(self) -> None:
        # A program that is called random.py hides the module of that name: whoever imports that begins the program
        # again, zray among them.
        if is_own or self.holder == threading.get_ident():
            raise RuntimeError(
                "zray was about to start a session while it starts one: what it imports has run your program once "
                "more, which has the name of a module and hides it (see the lines that say import).  Rename that file."
            )
        self.lock.acquire()
        self.holder = threading.get_ident()

    def __exit__(self, *error: object) -> None:
        self.holder = 0
        self.lock.release()
