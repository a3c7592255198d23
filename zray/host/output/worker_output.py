"""Output of workers on its way into their logs.

A worker's standard output and error lead into its log, line by line; text written to descriptor 2 past Python's streams
goes into a file beside it (error_file.py).  From the log the driver's thread takes the lines to the terminal
(log_follower.py), and nodes send them to each other (forwarding.py).
"""

from __future__ import annotations

import errno
import io
import os
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, NamedTuple

from ..session.log_marks import TO_ERROR, TO_OUTPUT, mark_of, shown_name
from .error_file import ErrorFile

# A begun line is in the log after twice this long, if unchanged.
BEGUN_SECONDS = 0.05
BEGUN_MAX = 8192  # characters
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# A new row above the bar, which stays in place (terminal_rows.py).
_INSERT = "\r\x1b[L"


class Bar(NamedTuple):
    """A line without an end that a program draws repeatedly, behind a carriage return."""

    key: tuple[WorkerOutput, int]  # its stream and thread
    text: str  # the text so far


class BegunLines:
    """Lines of a worker that are begun and not ended, by stream and thread: soon in the log nevertheless."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may print in the middle of a print
        self.lines: dict[tuple[WorkerOutput, int], str] = {}
        self.are_there = threading.Event()
        self.thread: threading.Thread | None = None
        self.bar: Bar | None = None  # the bar at the end of the log
        self.is_error = False  # the log is behind a mark of standard error
        self.error_file = ErrorFile()
        self.log: WorkerOutput | None = None  # standard output
        self.is_child = False  # forked: the log may return to the parent at any time
        self.has_written = False  # since the last task ended
        self.new_name: Callable[[], str] = str  # of the printing task; "": the same as at the last call
        self.name = ""  # of the last mark in the log
        self.on_written: Callable[[], None] | None = None  # called at the end of a task that has printed

    def notice(self) -> None:
        """Note a begun line.  The first starts the thread that watches begun lines."""
        self.are_there.set()
        if self.thread is None:
            self.thread = threading.Thread(target=self._follow, name="zray-output", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:
                pass  # no thread can be started: the line comes with its end

    def _follow(self) -> None:
        seen: dict[tuple[WorkerOutput, int], str] = {}
        while self.are_there.wait():
            time.sleep(BEGUN_SECONDS)
            with self.lock:
                self.are_there.clear()
                # A line with a carriage return is a progress bar, which changes all the time.
                for key in [key for key, line in self.lines.items() if seen.get(key) == line or "\r" in line]:
                    self.write_out(key)
                seen = self.lines.copy()
                if seen:
                    self.are_there.set()

    def write_out(self, key: tuple[WorkerOutput, int]) -> None:
        """Write a begun line, as far as it goes.  With the lock held."""
        self.put(key, self.lines.pop(key))

    def put(self, key: tuple[WorkerOutput, int], text: str) -> None:
        """Write into the log, and note a bar.  With the lock held.

        Lines of another stream or thread go into rows above the bar: neither spoils the other.
        """
        bar = self.bar
        start = text.rfind("\r")
        if text[-1] == "\n":
            if bar is not None and bar.key != key:
                text = "".join(f"{_INSERT}{line}\n" for line in text[:-1].split("\n"))
            else:
                self.bar = None
        elif start >= 0:
            self.bar = Bar(key, text[start:])
        else:
            self.bar = Bar(key, bar.text + text) if bar is not None and bar.key == key else None
        if self.bar is not None and len(self.bar.text) > BEGUN_MAX:
            self.bar = None
        key[0].write_marked(text, may_mark=bar is None and self.bar is None)

    def mark(self, name: str) -> None:
        """Write the name of the printing task into the log.  With the lock held.

        A bar and the lines above have the same label: a mark would end the bar.
        """
        if name != self.name and self.bar is None:
            self.mark_errors()
            self.name = name
            self._write_mark(mark_of(shown_name(name)))

    def stream_of(self, stream: WorkerOutput) -> WorkerOutput:
        """Return the stream for this stream's text: the log, unless the program has redirected a descriptor."""
        if not stream.is_error or self.log is None or self.log.closed or self.error_file.is_elsewhere():
            return stream
        return self.log

    def mark_errors(self) -> None:
        """Mark in the log the text written to descriptor 2 before the next text.  With the lock held."""
        if mark := self.error_file.new_mark():
            self._write_mark(mark)

    def _write_mark(self, mark: bytes) -> None:
        try:
            os.write(self.error_file.descriptors[0], mark)
        except OSError:
            pass  # the log is full, or user code has closed it

    def write_own(self, *, ends_bar: bool = False) -> None:
        """Write the begun lines of this thread at the end of its task, before the result leaves.

        ends_bar: a bar of this thread ends too.
        """
        if self.has_written:
            thread = get_ident()
            with self.lock:
                for key in list(self.lines):
                    if key[1] == thread:
                        self.write_out(key)
                if ends_bar and self.bar is not None and self.bar.key[1] == thread:
                    if self.bar.text.strip():
                        io.TextIOWrapper.write(self.stream_of(self.bar.key[0]), "\n")
                    self.bar = None
                self.has_written = bool(self.lines)
            if self.on_written is not None:
                self.on_written()

    def write_all(self) -> None:
        """Write the begun lines of all threads: the process is about to end."""
        with self.lock:
            for key in list(self.lines):
                self.write_out(key)

    def before_fork(self) -> None:
        """Write all begun lines and take the lock: a child must not write its parent's lines again, nor find the lock
        taken.
        """
        self.lock.acquire()
        for key in list(self.lines):
            self.write_out(key)
        if self.is_error:
            self.is_error = False
            self._write_mark(TO_OUTPUT.encode())

    def in_child(self) -> None:
        """Stop watching lines in the child, which has no thread for that."""
        self.are_there = threading.Event()
        self.are_there.set()
        self.is_child = True
        self.lock.release()


class LogFile(io.FileIO):
    """A worker's log, as written by its streams.  Work continues if the log is full (a full disk, RLIMIT_FSIZE), and
    its output is lost.
    """

    def write(self, data: Any) -> int:
        """Write the data, and report success even if the log is full."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return len(data)


class WorkerOutput(io.TextIOWrapper):
    """A worker's standard output or error, on a descriptor that leads into its log.

    A line goes into the log in a single write, whatever other threads, the other stream and forked children print.  A
    begun line is written by `flush`, at the end of `print(..., end="")`, or after some BEGUN_SECONDS without addition
    from its thread.
    """

    def __init__(self, descriptor: int, begun: BegunLines, *, is_error: bool = False) -> None:
        raw = LogFile(descriptor, "wb", closefd=False)
        super().__init__(raw, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[arg-type]
        self.begun = begun
        self.is_error = is_error

    def write_marked(self, text: str, *, may_mark: bool) -> None:
        """Write into the log, with marks for the stream.  With the lock of the begun lines held.

        may_mark: the text is neither a bar nor above a bar, which a mark would end.
        """
        begun = self.begun
        begun.mark_errors()
        if not self.is_error and not begun.is_error:
            super().write(text)
            return
        log = begun.stream_of(self)
        if self.is_error and log is self:
            super().write(text)
            return
        is_error = self.is_error and may_mark and (begun.is_error or not _moves_cursor(text))
        start = "" if is_error == begun.is_error else TO_ERROR if is_error else TO_OUTPUT
        begun.is_error = is_error and text[-1] != "\n" and not begun.is_child
        end = TO_OUTPUT if is_error and not begun.is_error else ""
        io.TextIOWrapper.write(log, f"{start}{text}{end}")

    def write(self, text: str) -> int:
        """Write up to the last end of a line; a long text without an end as a whole."""
        begun, key = self.begun, (self, get_ident())
        with begun.lock:
            begun.has_written = True
            if name := begun.new_name():
                begun.mark(name)
            lines = begun.lines
            line = lines[key] + text if key in lines else text
            # The last text that print(..., end="") writes is its end, an empty text.
            upto = len(line) if line[-1:] == "\n" or not text or len(line) > BEGUN_MAX else line.rfind("\n") + 1
            if upto < len(line):
                lines[key] = line[upto:]
                if not begun.are_there.is_set():
                    begun.notice()
            elif key in lines:
                del lines[key]
            if upto:
                if begun.bar is None and "\r" not in line:
                    self.write_marked(line[:upto], may_mark=True)
                else:
                    begun.put(key, line[:upto])
        return len(text)

    def flush(self) -> None:
        """Write the begun lines of all threads."""
        with self.begun.lock:
            for key in list(self.begun.lines):
                if key[0] is self:
                    self.begun.write_out(key)
            super().flush()


def _moves_cursor(text: str) -> bool:
    """Return whether the text may begin a bar of several rows."""
    return "\r" in text or "\x1b[A" in text or not text.strip("\n")


begun_lines = BegunLines()  # of a worker; a driver has none


def worker_streams(output: int = 1, error: int = 2) -> tuple[WorkerOutput, WorkerOutput]:
    """Return standard output and error of this process, on descriptors that lead into its log."""
    begun = begun_lines
    os.register_at_fork(before=begun.before_fork, after_in_parent=begun.lock.release, after_in_child=begun.in_child)
    streams = WorkerOutput(output, begun), WorkerOutput(error, begun, is_error=True)
    begun.error_file.begin(output, error)
    begun.log = streams[0]
    return streams
