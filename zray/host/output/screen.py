"""Workers' lines on the driver's standard output, and their standard error on its standard error.

Ended lines are printed.  A line not yet ended (log_lines.py) is live:

- On a terminal, each live line has a separate row below the cursor, and each of several progress bars of a task has a
    row.  Rows are cut to the terminal's width and redrawn in place twice a second at most.  Rows beyond the height
  of the terminal, and beyond ROWS_SHOWN_MAX, are summed up in the last one.  A live line that ends is printed above the
  rows, and so is every other line.
- Elsewhere (a pipe, a file, a notebook) each part of a live line is printed as a line.  A line drawn repeatedly is
    printed once, with its last text, at its end.

The cursor stays at the end of the text above, and only rows below the cursor are erased.  Text of the program, or of
its child processes, is therefore never overwritten, and a resized terminal is right after the next redraw.  Print
statements of the program erase the live rows first (OwnOutput); the rows come back below.

Lines keep their colours.  Other control sequences are shown as escapes (`coloured`), so that no line hides the label of
its worker.
"""

from __future__ import annotations

import io
import math
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any

from ...exceptions.printable import coloured
from .log_lines import ERROR, LATEST, PART, ROW
from .terminal_rows import LINE_BYTES_MAX

# Cursor to a row above, as progress bars of several rows move it; or an end of a line.
_VERTICAL = re.compile("\x1b\\[([0-9]{0,3})[AF]|\n")


def is_terminal(stream: Any) -> bool:
    """Return whether a line can be redrawn on the stream.  Only streams of Python's own are asked: others may do
    anything.
    """
    try:
        return (
            type(stream) is io.TextIOWrapper
            and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
            and stream.isatty()
        )
    except ValueError:
        return False  # closed


class OwnOutput:
    """The program's print statements while live rows may be on the screen: each erases the rows first.

    The methods `write` of the two standard streams are replaced meanwhile.
    """

    def __init__(self, erase: Callable[[], None]) -> None:
        self.erase = erase
        self.lock = threading.RLock()  # a signal's handler may print in the middle of a print
        self.pid = os.getpid()
        self.is_line_open = False  # the cursor is behind the beginning of a line of the program
        self.rows_below = 0  # rows of the program's own below the cursor: nested progress bars
        self.replaced: list[tuple[Any, Callable[[str], int], Callable[[str], int]]] = []

    def watch(self, stream: Any) -> None:
        """Watch that stream, and standard error."""
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
        """Return whether print statements on that stream are watched."""
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
        """Restore the streams."""
        with self.lock:
            for stream, former, mine in self.replaced:
                if stream.__dict__.get("write") is mine:
                    del stream.write
                    if stream.write != former:  # the program replaced it earlier
                        stream.write = former
            self.replaced.clear()
            self.is_line_open = False
            self.rows_below = 0

    def former(self, stream: Any) -> Callable[[str], Any]:
        """Return the stream's original method `write`."""
        for watched, former, _ in self.replaced:
            if watched is stream:
                return former
        write: Callable[[str], Any] = stream.write
        return write


DRAW_SECONDS = 0.5
LIVE_MAX = 1_000
ROWS_SHOWN_MAX = 20  # more would leave little of the terminal to lines
LABEL_MAX = 200  # characters; a longer text is no label of a worker's
_ERASE_BELOW = "\x1b[J"
# With the cursor behind text without an end: from the next row on.  The first two ensure that the row exists.
_ERASE_NEXT = "\x1bD\x1b[A\x1b7\x1b[B\r\x1b[J\x1b8"
_SAVE, _RESTORE, _DOWN, _ROW_BELOW = "\x1b7", "\x1b8", "\x1bD", "\x1b[B\r"
# Terminals cut a long row themselves while they do not wrap.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")


class Live:
    """A line without an end so far."""

    __slots__ = ("is_latest", "text")

    def __init__(self) -> None:
        self.text = ""  # rows of several progress bars have ROW between them
        self.is_latest = False  # drawn repeatedly

    def rows(self) -> list[str]:
        """Return the texts of its rows."""
        return self.text.split(ROW)


class Screen:
    """Where lines of workers are shown."""

    def __init__(self) -> None:
        self.live: dict[str, Live] = {}  # by stream and label, which is in front of the text; in the order of the rows
        self.has_changed = False  # since the rows were drawn
        self.drawn_on: Any = None  # the terminal with the rows; None: no rows
        self.drawn_size = (0, 0)  # of that terminal
        self.drawn_at = -math.inf
        self.own = OwnOutput(self._erase_now)

    def write(self, lines: list[str]) -> None:
        """Show lines in the form of `log_lines`.

        Raises:
            Exception: an error of the stream.
        """
        if self.live or any(line[0] in (PART, LATEST) or line[1] in (PART, LATEST) for line in lines):
            on_terminal, before = is_terminal(sys.stdout), list(self.live)
            lines = [text for line in lines for text in self._take(line, on_terminal)]
            # A bar that ends and begins again, after a line above, keeps its row.
            kept = {label: self.live[label] for label in before if label in self.live}
            self.live = kept | self.live
        self._print_all(lines)

    def _print_all(self, lines: list[str]) -> None:
        for is_error, some in groupby(lines, lambda line: line[0] == ERROR):
            if is_error:
                self._print_error("".join(line[1:] for line in some))
            else:
                self._print(list(some))

    def _take(self, line: str, on_terminal: bool) -> Iterable[str]:
        """Return the lines to print for a line."""
        stream = ERROR if line[0] == ERROR else ""
        line = line[len(stream) :]
        mark = line[0] if line[0] in (PART, LATEST) else ""
        head, separator, text = line[len(mark) : -1].partition(") ")
        label = stream + head + separator
        if len(label) > LABEL_MAX:
            return [stream + line[len(mark) :]]
        if not mark:
            live = self.live.pop(label, None)
            if live is None:
                return [stream + line]
            self.has_changed = True
            if on_terminal or live.is_latest:
                return _lines(label, live.text + text)
            return [stream + line] if text else []  # its beginning was printed as a line
        self.has_changed = True
        if mark == LATEST and not text:
            self.live.pop(label, None)  # wiped out
            return []
        live = self.live.setdefault(label, Live())
        if mark == LATEST:
            live.text, live.is_latest = text, True
        elif not on_terminal:
            live.text, live.is_latest = "", False
            return [stream + line[1:]]
        else:
            live.text, live.is_latest = live.text + text, False
        if len(live.text) > LINE_BYTES_MAX or len(self.live) > LIVE_MAX:
            return self._ended(label if len(live.text) > LINE_BYTES_MAX else next(iter(self.live)))
        return []

    def _ended(self, label: str) -> list[str]:
        live = self.live.pop(label)
        self.has_changed = True
        return _lines(label, live.text) if live.text else []

    def _print(self, lines: list[str]) -> None:
        """Print ended lines, above the rows."""
        with self.own.lock:
            stream = sys.stdout
            text = coloured("".join(lines))
            if self.own.is_line_open and self.own.is_watched(stream):
                text = "\n" + text  # no line of a worker continues one of the program
            if self._is_on(stream):
                text = self._erasing() + text
                self.own.is_line_open = False
                self.drawn_size = _size(stream)
                if rows := self._rows(*self.drawn_size):
                    text += self._drawing(rows)
                else:
                    self.drawn_on = None
                self.has_changed = False
            self._show(stream, text)
            self.own.is_line_open = False

    def _print_error(self, text: str) -> None:
        """Ended lines of standard error.  The rows come back with the next look."""
        with self.own.lock:
            stream = sys.stderr
            self._erase_now()
            self.has_changed = True
            text = coloured(text)
            if self.own.is_line_open and self.own.is_watched(stream):
                text = "\n" + text
                self.own.is_line_open = False
            with suppress(Exception):  # closed: lines of standard output are shown nevertheless
                self._show(stream, text)

    def draw(self) -> None:
        """Redraw the live rows if they have changed and are due, or were erased.

        Raises:
            Exception: an error of the stream.
        """
        if not self.live and self.drawn_on is None:
            if self.own.replaced:
                self.own.let_go()
            return
        stream = sys.stdout
        with self.own.lock:
            if not self._is_on(stream):
                self._erase_now()  # from the former terminal of standard output
            if not is_terminal(stream):
                return
            self.own.watch(stream)
            if self.own.rows_below:
                return  # nested progress bars of the program itself are there
            size, now = _size(stream), time.monotonic()
            if self._is_on(stream):
                is_due = now - self.drawn_at >= DRAW_SECONDS
                if self.live and not ((self.has_changed and is_due) or size != self.drawn_size):
                    return
            if rows := self._rows(*size):
                self._show(stream, self._drawing(rows))
                self.drawn_on, self.drawn_size, self.drawn_at = stream, size, now
            else:
                self._erase_now()
            self.has_changed = False

    def _rows(self, columns: int, lines: int) -> list[str]:
        """Return the texts of the rows, for a terminal of that size; one line is kept for the cursor."""
        shown_max = min(ROWS_SHOWN_MAX, lines - 1)
        rows: list[str] = []
        count = 0
        for label, live in self.live.items():
            texts = live.rows()
            count += len(texts)
            if len(rows) < shown_max:
                rows += [_row(label.removeprefix(ERROR), text, columns, is_latest=live.is_latest) for text in texts]
        if count > shown_max > 1:
            rows[shown_max - 1 :] = [f"... and {count - shown_max + 1:,} more"]
        return rows[: max(0, shown_max)]

    def _drawing(self, rows: list[str]) -> str:
        """Return the text that draws these rows below the cursor, and leaves the cursor in place.

        Space below the cursor is made first: a terminal that scrolls after saving the cursor restores it to a wrong
        row.
        """
        count = len(rows)
        start = "" if self.own.is_line_open else _ERASE_BELOW
        room = f"{_DOWN * count}\x1b[{count}A"
        return f"{start}{room}{_SAVE}{_NO_WRAP}{_ROW_BELOW}{_ERASE_BELOW}{_ROW_BELOW.join(rows)}{_WRAP}{_RESTORE}"

    def _is_on(self, stream: Any) -> bool:
        """Return whether live rows are on that stream."""
        return self.drawn_on is not None and self.drawn_on is stream

    def _erasing(self) -> str:
        return _ERASE_NEXT if self.own.is_line_open else _ERASE_BELOW

    def _erase_now(self) -> None:
        """Erase the rows, if any.  With the lock held."""
        stream, self.drawn_on = self.drawn_on, None
        if stream is not None:
            try:
                self.own.former(stream)(self._erasing())
                stream.flush()
            except (OSError, ValueError):
                pass  # later print statements get the error

    def _show(self, stream: Any, text: str) -> None:
        """Write to a stream that may be the program's own, or None."""
        if stream is None:  # the program was started with its standard output closed
            return
        write = self.own.former(stream)
        try:
            write(text)
        except UnicodeEncodeError as error:  # a terminal of another encoding: no reason to show nothing at all
            write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
        flush = getattr(stream, "flush", None)  # print() needs none either
        if flush is not None:
            flush()

    def close(self) -> None:
        """End the live lines.

        Raises:
            Exception: an error of the stream.
        """
        try:
            with self.own.lock:
                if not self._is_on(sys.stdout):
                    self._erase_now()
            lines = [line for label in list(self.live) for line in self._ended(label)]
            self._print_all(lines)
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Nothing more is shown, and the program's print statements are as before."""
        with self.own.lock:
            self._erase_now()
            self.own.let_go()


def _lines(label: str, text: str) -> list[str]:
    """Return a line for each row."""
    return [f"{label}{row}\n" for row in text.split(ROW)]


def _row(label: str, text: str, columns: int, *, is_latest: bool) -> str:
    shown = coloured(label + text)
    if is_latest or len(shown) <= columns:
        return shown
    # The end of a growing line matters.
    shown = _COLOUR.sub("", shown)
    return f"{label}... {shown[len(label) :][-max(1, columns - len(label) - 4) :]}"


def _size(stream: Any) -> tuple[int, int]:
    """Return (columns, lines) of a terminal; some terminals do not know."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    return columns or 80, lines or 24
