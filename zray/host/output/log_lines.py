"""A worker's log as lines for the driver, each with a label for the task or actor.

    (train pid=4711) text           an ended line; behind a part of a line, the rest
    \t(train pid=4711) text         a part of a line not yet ended, but quiet or old
    \x1d(train pid=4711) text       text of standard error; in front of \t and \r too
    \r(train pid=4711) text         the latest text of a line drawn repeatedly, replacing all before;
                                    of several bars, with \x1f between each two

The names are in the log (log_marks.py); before the first mark the label is the worker's, as (worker-1 pid=4711).

In this form lines go from node to node (forwarding.py), and to the screen (screen.py).  The screen folds equal lines of
several workers (repeated_lines.py).  No line is dropped; a line longer than LINE_BYTES_MAX is cut, with a note.
"""

from __future__ import annotations

import codecs
import os
import time

from ..session.log_marks import MARK, STREAM, TO_ERROR, UPTO, errors_name, split_at_marks
from .terminal_rows import LINE_BYTES_MAX, Row, Rows
from .truncation import NOT_KEPT, first_lines, read_log

PART, LATEST, ROW, ERROR = "\t", "\r", "\x1f", "\x1d"
# The beginning of a line is shown when its worker has printed nothing for this long,
QUIET_SECONDS = 0.5
# or when it is this old: with the looks at the log, within a second.
PART_SECONDS = 0.8
# A line drawn repeatedly is read twice a second at most.
LATEST_SECONDS = 0.5
LATEST_BYTES_MAX = 1_000  # of each row: more than a terminal shows
# A bar above the cursor has ended after this long without the cursor: several bars are drawn more often.
LEFT_SECONDS = 2.0

_new_decoder = codecs.getincrementaldecoder("utf-8")


class Stream:
    """A file of a worker's output, as far as read."""

    GROUND = ""  # in front of lines, where no mark says otherwise

    def __init__(self, name: str, upto: int, where: str = "") -> None:
        """where: the worker's machine, if not the driver's."""
        worker, _, pid = name.removesuffix(".log").rpartition("-")
        self.place = f"pid={pid}, ip={where})" if where else f"pid={pid})"
        self.label = f"({worker} {self.place}"
        self.process = f"/proc/{pid}"
        self.stream = self.GROUND  # in front of lines: ERROR between two marks
        self.upto = upto
        self.rows = Rows()
        self.is_cut = False  # the beginning of the row was shown as a separate line
        self.grew_at = 0.0
        self.begun_at = 0.0  # arrival of the oldest byte not yet shown; 0: none
        self.said: list[bytes] = []  # the latest texts of rows that were shown
        self.said_at = 0.0
        self.left_at = 0.0  # time of the last look for bars left by the cursor

    def take(self, data: bytes) -> list[str]:
        """Return the lines completed by the next bytes."""
        self.upto += len(data)
        return self._take(data)

    def _take(self, data: bytes) -> list[str]:
        self.grew_at = now = time.monotonic()
        shown: list[str] = []
        plain = self.rows.plain(data)
        if plain is not None:
            first, *others = plain.split(b"\n")
            self.rows.row.add(first)
            if others:
                shown = self._ended(self.rows.end_all())
                *others, last = others
                shown += [self._line(line) for line in others]
                self.rows.row.add(last)
        else:
            shown = self._ended(self.rows.take(data))
        if shown and self.rows.is_redrawn:
            shown += self._latest(now)  # the ended line stood in the row's place
        if not self.rows.row.text:
            self.begun_at = 0.0
        elif shown or not self.begun_at:
            self.begun_at = now
        return shown

    def latest(self, *, has_more: bool = False) -> list[str]:
        """Return the visible part of a line not yet ended.

        has_more: the log continues behind the bytes taken.  A line cut by a read is not quiet, however long earlier
        lines took to show: its end exists.
        """
        if self.rows.is_redrawn:
            now = time.monotonic()
            if now - self.grew_at >= QUIET_SECONDS and (ended := self.rows.end_above()):
                return self._ended(ended)
            shown: list[str] = []
            if now - self.left_at >= LEFT_SECONDS:
                self.left_at = now
                shown = self._ended(self.rows.end_left())
            return shown + self._latest(now) if shown or now - self.said_at >= LATEST_SECONDS else []
        if has_more or not self.begun_at:
            return []
        now = time.monotonic()
        if now - self.grew_at < QUIET_SECONDS and now - self.begun_at < PART_SECONDS:
            return []
        return self._part()

    def _latest(self, now: float) -> list[str]:
        rows = [row[:LATEST_BYTES_MAX] for row in self.rows.latest()]
        if rows == self.said:
            return []
        self.said, self.said_at = rows, now
        text = ROW.join(_new_decoder("backslashreplace").decode(row).replace(ROW, " ") for row in rows)
        return [f"{self.stream}{LATEST}{self.label} {text}\n"]

    def _part(self) -> list[str]:
        row = self.rows.row
        decoder = _new_decoder("backslashreplace")
        text = decoder.decode(row.text)
        if not text:
            return []  # only a part of its first character is there
        left_out, self.begun_at = row.left_out, 0.0
        row.is_shown = True
        row.text, row.left_out = (b"", 0) if left_out else (decoder.getstate()[0], 0)
        return [f"{self.stream}{PART}{self.label} {text}{_note(left_out)}\n"]

    def take_rest(self) -> list[str]:
        """Return all rows not ended, as lines; a later end of the last row is no line."""
        rows = [row for row in self.rows.end_all() if row.is_shown or not row.is_blank()]
        shown = self._ended(rows) if rows else self._latest(time.monotonic())
        self.is_cut = self.is_cut or bool(rows)
        self.begun_at = 0.0
        return shown

    def pass_over(self, count: int, why: str) -> list[str]:
        """Skip so many bytes, and return the lines that report the gap."""
        shown = self.take_rest()
        self.upto += count
        self.stream = self.GROUND
        return [
            *shown,
            f"{self.stream}{self.label} [... {count:,} bytes of this worker's output are left out here: {why}]\n",
        ]

    def _ended(self, rows: list[Row]) -> list[str]:
        """Return lines for ended rows."""
        shown: list[str] = []
        for row in rows:
            text = row.text.rstrip() if row.is_redrawn else row.text
            if self.said or (row.is_shown and row.is_redrawn):
                # In place of all its shown texts.
                shown += [self._line(text, row.left_out, LATEST), self._line(b"")]
            elif text or row.is_shown or not self.is_cut:
                shown.append(self._line(text, row.left_out))
            self.said, self.is_cut = [], False
        return shown

    def _line(self, line: bytes, left_out: int = 0, kind: str = "") -> str:
        left_out += max(0, len(line) - LINE_BYTES_MAX)
        if not left_out:
            return f"{self.stream}{kind}{self.label} {line.decode('utf-8', 'backslashreplace')}\n"
        decoder = _new_decoder("backslashreplace")
        text = decoder.decode(line[:LINE_BYTES_MAX])
        left_out += len(decoder.getstate()[0])  # the beginning of a character
        return f"{self.stream}{kind}{self.label} {text}{_note(left_out)}\n"

    def has_ended(self) -> bool:
        """Return whether the worker has ended."""
        return not os.path.exists(self.process)


class ErrorLog(Stream):
    """The file beside a worker's log, with standard error of C code and child processes."""

    GROUND = ERROR

    def __init__(self, name: str, folder: str, where: str = "") -> None:
        """folder: of links to the logs of a job; "": there is no such file."""
        super().__init__(name, 0, where)
        self.path = os.path.join(os.path.dirname(folder), errors_name(name)) if folder else ""
        self.room = (0, 0)  # bytes and lines still to be read in this look

    def size(self) -> int:
        """Return the present length of the file; restart with a truncated file (a shell's `> /dev/stderr`)."""
        try:
            size = os.stat(self.path).st_size
        except OSError:
            return 0
        if size < self.upto:
            self.upto = 0
        return size

    def read(self, upto: int) -> list[str]:
        """Return the lines up to a length, within the limits of this look."""
        bytes_max, lines_max = self.room
        count = min(bytes_max, upto - self.upto)
        if not self.path or count <= 0 or lines_max <= 0:
            return []
        try:
            gone, data = read_log(self.path, self.upto, count)
        except OSError:
            return []  # the session ends
        shown = self.pass_over(gone, NOT_KEPT) if gone else []
        data = first_lines(data, lines_max)
        self.room = bytes_max - len(data), lines_max - data.count(b"\n")
        return shown + self.take(data)


class Log(Stream):
    """The log of a worker, as far as read, and the file of errors beside it."""

    def __init__(self, name: str, upto: int, where: str = "", folder: str = "") -> None:
        super().__init__(name, upto, where)
        self.torn = b""  # the beginning of a mark
        self.errors = ErrorLog(name, folder, where)

    def take(self, data: bytes) -> list[str]:
        """Return the lines completed by the next bytes of the log."""
        self.upto += len(data)
        if not self.torn and MARK[:1] not in data:
            return self._take(data)
        pieces, last, self.torn = split_at_marks(self.torn + data)
        shown: list[str] = []
        for text, kind, name in pieces:
            shown += self._take(text)
            if kind == STREAM and name.startswith(UPTO):
                upto = name.removeprefix(UPTO)
                # A mark printed by the program itself may contain anything.
                shown += self.errors.read(min(int(upto), self.errors.size()) if upto.isdecimal() else 0)
                continue
            shown += self.take_rest()
            if kind == MARK:
                shown += self.errors.take_rest()
                self.label = self.errors.label = f"({name} {self.place}"
            else:
                self.stream = ERROR if name in TO_ERROR else ""
                if self.stream:
                    shown += self.errors.take_rest()  # ahead of later text on the same stream
        return shown + self._take(last)


def _note(left_out: int) -> str:
    return f" [... {left_out:,} more bytes of this line are left out]" if left_out else ""


def worker_logs(folder: str) -> list[str]:
    """Return the names of workers' logs in a folder."""
    return [name for name in names_in(folder, "worker-") if name.endswith(".log")]


def names_in(folder: str, prefix: str) -> list[str]:
    """Return the files whose names begin so, in order; none if the folder is absent."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith(prefix))
    except OSError:
        return []


def elsewhere_name(number: int) -> str:
    """Name of a file with lines of workers on other nodes (forwarding.py), numbered from 1."""
    return f"elsewhere-{number:09}.log"
