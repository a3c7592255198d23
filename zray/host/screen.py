"""Workers' lines on the driver's standard output.

Lines that are ended are printed.  A line that is not ended yet (log_lines.py) is live:

- On a terminal, the last row shows one live line, cut to the terminal's width and redrawn in place twice a second at
  most.  Several live lines take turns.  Each is printed when it ends, above that row, and so is every other line.
- Elsewhere (a pipe, a file, a notebook) each part of a live line is printed as a line.  Of a line that is drawn again
  and again only the last text is printed, when it ends.

Nothing is moved up or down: text of the program, or of a process that it has started, is never overwritten.  Print
statements of the program erase the live line first (OwnOutput); it comes back below.

Lines keep their colours.  What else acts on a terminal in them is shown as escapes (`coloured`), so that no line hides
the label of its worker.
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
from typing import Any

from ..printable import coloured
from .log_lines import LATEST, PART
from .rows import LINE_BYTES_MAX

DRAW_SECONDS = 0.5
LIVE_MAX = 1_000
LABEL_MAX = 200  # characters; what is longer is no label of a worker's
_ERASE = "\r\x1b[K"
# Terminals cut a long row themselves while they do not wrap.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")


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
    """The program's print statements while a live line may be on the screen: each erases that line first.

    The methods `write` of the two standard streams are replaced for that time.
    """

    def __init__(self, erase: Callable[[], None]) -> None:
        self.erase = erase
        self.lock = threading.RLock()  # a signal's handler may print in the middle of a print
        self.pid = os.getpid()
        self.is_line_open = False  # the program has begun a line, so the live line has no row of its own
        self.replaced: list[tuple[Any, Callable[[str], int], Callable[[str], int]]] = []

    def watch(self, stream: Any) -> None:
        """That stream, and standard error."""
        if any(watched is stream for watched, _, _ in self.replaced):
            return
        self.let_go()
        for each in (stream, sys.stderr):
            if is_terminal(each) and all(watched is not each for watched, _, _ in self.replaced):
                former = each.write
                mine = self._writer(former)
                each.write = mine  # type: ignore[method-assign]
                self.replaced.append((each, former, mine))

    def _writer(self, former: Callable[[str], int]) -> Callable[[str], int]:
        def write(text: str) -> int:
            if os.getpid() != self.pid:  # a forked child: its copy of the lock may be taken for ever
                return former(text)
            with self.lock:
                if text:
                    self.erase()
                    self.is_line_open = text[-1] != "\n"
                return former(text)

        return write

    def let_go(self) -> None:
        """As it was."""
        with self.lock:
            for stream, former, mine in self.replaced:
                if stream.__dict__.get("write") is mine:
                    del stream.write
                    if stream.write != former:  # the program has replaced it before us
                        stream.write = former
            self.replaced.clear()
            self.is_line_open = False

    def former(self, stream: Any) -> Callable[[str], Any]:
        """How that stream is written to, past us."""
        for watched, former, _ in self.replaced:
            if watched is stream:
                return former
        write: Callable[[str], Any] = stream.write
        return write


class Live:
    """A line that is not ended."""

    __slots__ = ("is_latest", "text")

    def __init__(self) -> None:
        self.text = ""
        self.is_latest = False  # it is drawn again and again


class Screen:
    """Where lines of workers are shown."""

    def __init__(self) -> None:
        self.live: dict[str, Live] = {}  # by label, which is in front of the text
        self.changed: dict[str, None] = {}  # those whose latest text was not drawn; a queue
        self.drawn = ""  # the label of the live line on the screen
        self.drawn_on: Any = None  # its terminal; None: there is none
        self.drawn_at = -math.inf
        self.own = OwnOutput(self._erase_now)

    def write(self, lines: list[str]) -> None:
        """Show lines, as `log_lines` makes them.

        Raises:
            Exception: what the stream raises.
        """
        if self.live or any(line[0] in (PART, LATEST) for line in lines):
            on_terminal = is_terminal(sys.stdout)
            lines = [text for line in lines for text in self._take(line, on_terminal)]
        if lines:
            self._print(lines)

    def _take(self, line: str, on_terminal: bool) -> Iterable[str]:
        """The lines to print for one line."""
        mark = line[0] if line[0] in (PART, LATEST) else ""
        head, separator, text = line[len(mark) : -1].partition(") ")
        label = head + separator
        if len(label) > LABEL_MAX:
            return [line[len(mark) :]]
        if not mark:
            live = self.live.pop(label, None)
            self.changed.pop(label, None)
            if live is None:
                return [line]
            if on_terminal or live.is_latest:
                return [label + live.text + text + "\n"]
            return [line] if text else []  # its beginning was printed as a line
        if mark == LATEST and not text:
            self.live.pop(label, None)  # it was wiped out
            self.changed.pop(label, None)
            return []
        live = self.live.setdefault(label, Live())
        self.changed[label] = None
        if mark == LATEST:
            live.text, live.is_latest = text, True
        elif not on_terminal:
            live.text, live.is_latest = "", False
            return [line[1:]]
        else:
            live.text, live.is_latest = live.text + text, False
        if len(live.text) > LINE_BYTES_MAX or len(self.live) > LIVE_MAX:
            return self._ended(label if len(live.text) > LINE_BYTES_MAX else next(iter(self.live)))
        return []

    def _ended(self, label: str) -> list[str]:
        live = self.live.pop(label)
        self.changed.pop(label, None)
        return [f"{label}{live.text}\n"] if live.text else []

    def _print(self, lines: list[str]) -> None:
        """Ended ones, above the live line."""
        with self.own.lock:
            stream = sys.stdout
            text = coloured("".join(lines))
            if self._is_on(stream):
                text = _ERASE + text
                self.drawn_on = None
                if self.drawn in self.live and not self.own.is_line_open:
                    text += self._drawing(stream, self.drawn)
            self._show(stream, text)

    def draw(self) -> None:
        """The live line whose turn it is, when it is time.

        Raises:
            Exception: what the stream raises.
        """
        if not self.live and self.drawn_on is None:
            if self.own.replaced:
                self.own.let_go()
            return
        stream = sys.stdout
        if not is_terminal(stream):
            return
        with self.own.lock:
            self.own.watch(stream)
            is_on = self._is_on(stream)
            is_right = is_on and self.drawn in self.live
            now = time.monotonic()
            is_due = now - self.drawn_at >= DRAW_SECONDS
            if self.own.is_line_open or (not is_due and is_right == is_on) or (is_right and not self.changed):
                return
            text = _ERASE if is_on else ""
            self.drawn_on = None
            if self.live:
                former = self.drawn if self.drawn in self.live else next(iter(self.live))
                text += self._drawing(stream, next(iter(self.changed), former))
                self.drawn_at = now
            self._show(stream, text)

    def _drawing(self, stream: Any, label: str) -> str:
        self.changed.pop(label, None)
        self.drawn, self.drawn_on = label, stream
        live = self.live[label]
        text = coloured(label + live.text)
        width = _width(stream)
        if not live.is_latest and len(text) > width:
            # The end of a line that grows is of interest.
            text = _COLOUR.sub("", text)
            text = f"{label}... {text[len(label) :][-max(1, width - len(label) - 4) :]}"
        return _NO_WRAP + text + _WRAP

    def _is_on(self, stream: Any) -> bool:
        """Whether a live line is there."""
        return self.drawn_on is not None and self.drawn_on is stream

    def _erase_now(self) -> None:
        """The program prints.  With the lock held."""
        stream, self.drawn_on = self.drawn_on, None
        if stream is not None:
            try:
                self.own.former(stream)(_ERASE)
                stream.flush()
            except (OSError, ValueError):
                pass  # whoever prints hears of it

    def _show(self, stream: Any, text: str) -> None:
        """On a stream that may be the program's own, or none."""
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
        """Live lines are ended.

        Raises:
            Exception: what the stream raises.
        """
        try:
            lines = [line for label in list(self.live) for line in self._ended(label)]
            if lines or self.drawn_on is not None:
                self._print(lines)
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Nothing more is shown, and the program's print statements are as before."""
        self.own.let_go()


def _width(stream: Any) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
