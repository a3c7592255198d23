"""Ctrl-C during an experiment: the first ends the experiment between two turns of the loop, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any

__all__ = ["Interrupts", "command_to_resume", "how_to_go_on"]

# A function of the experiment's folder that says how an interrupted experiment goes on; commands have their own.
how_to_go_on: ContextVar[Callable[[str], str]] = ContextVar(
    "how_to_go_on", default=lambda path: f"Tuner.restore({path!r}, trainable)"
)
# The whole command line that goes on with the experiments of a command; empty: a program runs them.
command_to_resume: ContextVar[str] = ContextVar("command_to_resume", default="")


class Interrupts:
    """Context in which Ctrl-C is noted.  Outside of the main thread nothing changes, since handlers belong to it.

    `is_set` tells whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._former: Any = None

    def __enter__(self) -> Interrupts:
        former = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(former):
            self._former = former
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        if self._former is not None and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._former)

    def _note(self, number: int, frame: FrameType | None) -> Any:
        if self.is_set:
            return self._former(number, frame)
        self.is_set = True
        return None
