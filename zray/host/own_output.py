"""Print statements of the program itself, beside live rows of workers on the same terminal (screen.py)."""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

# Cursor to a row above, as progress bars of several rows move it; or an end of a line.
_VERTICAL = re.compile("\x1b\\[([0-9]{0,3})[AF]|\n")


def is_terminal(stream: Any) -> bool:
    """Whether a line can be redrawn there.  Only streams of Python's own are asked: others may do anything."""
    try:
        return (
            type(stream) is io.TextIOWrapper
            and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
            and stream.isatty()
        )
    except ValueError:
        return False  # it is closed


class OwnOutput:
    """The program's print statements while live rows may be on the screen: each erases those rows first.

    The methods `write` of the two standard streams are replaced for that time.
    """

    def __init__(self, erase: Callable[[], None]) -> None:
        self.erase = erase
        self.lock = threading.RLock()  # a signal's handler may print in the middle of a print
        self.pid = os.getpid()
        self.is_line_open = False  # the cursor is behind the beginning of a line of the program
        self.rows_below = 0  # rows of the program's own below the cursor: nested progress bars
        self.replaced: list[tuple[Any, Callable[[str], int], Callable[[str], int]]] = []

    def watch(self, stream: Any) -> None:
        """Begin with that stream, and standard error."""
        if self.is_watched(stream):
            return
        self.let_go()
        for each in (stream, sys.stderr):
            if is_terminal(each) and all(watched is not each for watched, _, _ in self.replaced):
                former = each.write
                mine = self._writer(former)
                each.write = mine  # type: ignore[method-assign]
                self.replaced.append((each, former, mine))

    def is_watched(self, stream: Any) -> bool:
        """Whether print statements on that stream are known here."""
        return any(watched is stream for watched, _, _ in self.replaced)

    def _writer(self, former: Callable[[str], int]) -> Callable[[str], int]:
        def write(text: str) -> int:
            if os.getpid() != self.pid:  # a forked child: its copy of the lock may be taken for ever
                return former(text)
            with self.lock:
                if text:
                    self.erase()
                    self._note(text)
                return former(text)

        return write

    def _note(self, text: str) -> None:
        """Follow the cursor."""
        self.is_line_open = text[-1] != "\n"
        if self.rows_below or "\x1b" in text:
            below = self.rows_below
            for move in _VERTICAL.finditer(text):
                below = max(0, below - 1) if move.group() == "\n" else below + int(move.group(1) or 1)
            self.rows_below = below

    def let_go(self) -> None:
        """Restore the streams as they were."""
        with self.lock:
            for stream, former, mine in self.replaced:
                if stream.__dict__.get("write") is mine:
                    del stream.write
                    if stream.write != former:  # the program has replaced it before us
                        stream.write = former
            self.replaced.clear()
            self.is_line_open = False
            self.rows_below = 0

    def former(self, stream: Any) -> Callable[[str], Any]:
        """How that stream is written to, past us."""
        for watched, former, _ in self.replaced:
            if watched is stream:
                return former
        write: Callable[[str], Any] = stream.write
        return write
