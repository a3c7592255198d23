"""What workers print: into a log per worker, and from there to the driver's terminal.

A worker's standard output and error lead into its log, line by line.  In the driver a thread follows the logs of the
workers of its job.  Each line carries the worker's number and pid, `(worker-1 pid=4711) line`; and the machine, if the
worker is on another node: such lines come in files that the thread reads and removes (output.py).  Lines are passed on
with their colours, and what else in them acts on a terminal as escapes (`coloured`), so that none hides the mark of its
worker; none is merged, none is dropped but the rest of a line beyond LINE_BYTES_MAX, and then the line says so.
A line that is not ended is shown when its worker prints nothing for QUIET_SECONDS, or has ended, or when the driver
leaves; what is printed behind it later is a line of its own.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

from ..printable import coloured
from .log_room import LOG_BYTES_KEPT, read_log

# What a thread has begun to print is in the log after twice this long, if it stays as it is.
BEGUN_SECONDS = 0.05
BEGUN_MAX = 8192  # characters
LOOK_SECONDS = 0.1
QUIET_SECONDS = 0.5
LINE_BYTES_MAX = 64 << 10
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_BYTES_MAX = 1 << 20  # per log and look: a flood in one does not starve the others
NOT_KEPT = f"it came faster than it was read, and its log keeps the last {LOG_BYTES_KEPT >> 20} MiB"
FLUSH_LOOKS_MAX = 40  # at the end, at what other nodes have sent: more is never kept (output.py)

_new_decoder = codecs.getincrementaldecoder("utf-8")


class BegunLines:
    """Lines of a worker that are begun and not ended, by stream and thread: soon in the log nevertheless."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal's handler may print in the middle of a print
        self.lines: dict[tuple[WorkerOutput, int], str] = {}
        self.are_there = threading.Event()
        self.thread: threading.Thread | None = None
        self.has_written = False  # since the last task ended
        self.on_written: Callable[[], None] | None = None  # told at the end of a task in which something was

    def notice(self) -> None:
        """There is one.  The first of all starts the thread that looks after them."""
        self.are_there.set()
        if self.thread is None:
            self.thread = threading.Thread(target=self._follow, name="zray-output", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:
                pass  # no room for a thread: the line comes with its end

    def _follow(self) -> None:
        seen: dict[tuple[WorkerOutput, int], str] = {}
        while self.are_there.wait():
            time.sleep(BEGUN_SECONDS)
            with self.lock:
                self.are_there.clear()
                for key in [key for key, line in self.lines.items() if seen.get(key) == line]:
                    self.write_out(key)
                seen = self.lines.copy()
                if seen:
                    self.are_there.set()

    def write_out(self, key: tuple[WorkerOutput, int]) -> None:
        """One of them, as far as it goes.  With the lock held."""
        io.TextIOWrapper.write(key[0], self.lines.pop(key))

    def write_own(self) -> None:
        """Those of this thread, whose task is done: in the log before its result is on its way."""
        if self.has_written:
            thread = get_ident()
            with self.lock:
                for key in list(self.lines):
                    if key[1] == thread:
                        self.write_out(key)
                self.has_written = bool(self.lines)
            if self.on_written is not None:
                self.on_written()

    def before_fork(self) -> None:
        """A child must not write its parent's lines once more, nor find the lock taken."""
        self.lock.acquire()
        for key in list(self.lines):
            self.write_out(key)

    def in_child(self) -> None:
        """Here nobody looks after them: nobody need be told."""
        self.are_there = threading.Event()
        self.are_there.set()
        self.lock.release()


class LogFile(io.FileIO):
    """A worker's log, as its streams write it.  Work goes on where the log takes no more (a full disk, RLIMIT_FSIZE):
    what is printed then is lost.
    """

    def write(self, data: Any) -> int:
        """All of it, as far as anyone is told."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            return len(data)


class WorkerOutput(io.TextIOWrapper):
    """A worker's standard output or error, on a descriptor that leads into its log.

    A line goes into the log in one piece, whatever other threads, the other stream and forked children print.  One
    that is begun and not ended goes with `flush`, with the end of `print(..., end="")`, or when its thread has added
    nothing to it for some BEGUN_SECONDS.
    """

    def __init__(self, descriptor: int, begun: BegunLines) -> None:
        raw = LogFile(descriptor, "wb", closefd=False)
        super().__init__(raw, encoding="utf-8", errors="backslashreplace", write_through=True)  # type: ignore[arg-type]
        self.begun = begun

    def write(self, text: str) -> int:
        """Into the log up to the last end of a line; all of it, when there is no end in sight."""
        begun, key = self.begun, (self, get_ident())
        with begun.lock:
            begun.has_written = True
            lines = begun.lines
            line = lines[key] + text if key in lines else text
            # The last that print(..., end="") writes is its end, an empty text.
            upto = len(line) if line[-1:] == "\n" or not text or len(line) > BEGUN_MAX else line.rfind("\n") + 1
            if upto < len(line):
                lines[key] = line[upto:]
                if not begun.are_there.is_set():
                    begun.notice()
            elif key in lines:
                del lines[key]
            if upto:
                super().write(line[:upto])
        return len(text)

    def flush(self) -> None:
        """What all threads have begun."""
        with self.begun.lock:
            for key in list(self.begun.lines):
                if key[0] is self:
                    self.begun.write_out(key)
            super().flush()


begun_lines = BegunLines()  # of a worker; a driver has none


def worker_streams(output: int = 1, error: int = 2) -> tuple[WorkerOutput, WorkerOutput]:
    """Standard output and error of this process, on descriptors that lead into its log."""
    begun = begun_lines
    os.register_at_fork(before=begun.before_fork, after_in_parent=begun.lock.release, after_in_child=begun.in_child)
    return WorkerOutput(output, begun), WorkerOutput(error, begun)


class Log:
    """One worker's log, as far as it was read."""

    def __init__(self, name: str, upto: int, where: str = "") -> None:
        """where: its machine, if that is not the driver's."""
        worker, _, pid = name.removesuffix(".log").rpartition("-")
        self.label = f"({worker} pid={pid}, ip={where})" if where else f"({worker} pid={pid})"
        self.process = f"/proc/{pid}"
        self.upto = upto
        self.rest = b""  # of a line that has no end yet
        self.left_out = 0  # bytes of that line that are not kept
        self.is_shown = False  # the line's beginning is on the terminal already
        self.grew_at = 0.0

    def take(self, data: bytes) -> list[str]:
        """The lines that the next bytes of the log make complete."""
        self.upto += len(data)
        self.grew_at = time.monotonic()
        first, *others = data.split(b"\n")
        self._extend(first)
        if not others:
            return []
        shown = self.take_rest(is_ended=True)
        *others, last = others
        shown += [self._line(line) for line in others]
        self._extend(last)
        return shown

    def pass_over(self, count: int, why: str) -> list[str]:
        """So many bytes are not shown; the lines that say so."""
        shown = self.take_rest()
        self.upto += count
        return [*shown, f"{self.label} [... {count:,} bytes of this worker's output are left out here: {why}]\n"]

    def _extend(self, piece: bytes) -> None:
        room = LINE_BYTES_MAX - len(self.rest)
        self.rest += piece[:room]
        self.left_out += max(0, len(piece) - room)

    def take_rest(self, *, is_ended: bool = False) -> list[str]:
        """What there is of the unfinished line, to be shown now; its end, if it comes later, is no line."""
        shown = [] if not self.rest and (self.is_shown or not is_ended) else [self._line(self.rest, self.left_out)]
        self.is_shown = not is_ended and (self.is_shown or bool(shown))
        self.rest, self.left_out = b"", 0
        return shown

    def _line(self, line: bytes, left_out: int = 0) -> str:
        left_out += max(0, len(line) - LINE_BYTES_MAX)
        if not left_out:
            return f"{self.label} {line.decode('utf-8', 'backslashreplace')}\n"
        decoder = _new_decoder("backslashreplace")
        text = decoder.decode(line[:LINE_BYTES_MAX])
        left_out += len(decoder.getstate()[0])  # the beginning of a character
        return f"{self.label} {text} [... {left_out:,} more bytes of this line are left out]\n"

    def is_quiet(self) -> bool:
        """Whether nothing will come that could end the line soon."""
        return time.monotonic() - self.grew_at >= QUIET_SECONDS or self.has_ended()

    def has_ended(self) -> bool:
        """Whether its worker has."""
        return not os.path.exists(self.process)


def worker_logs(folder: str) -> list[str]:
    """Their names."""
    return _names_in(folder, "worker-")


def _names_in(folder: str, prefix: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith(prefix))
    except OSError:
        return []


def elsewhere_name(number: int) -> str:
    """Of the files with lines of workers on other nodes (output.py), from 1."""
    return f"elsewhere-{number:09}.log"


def _show(text: str) -> None:
    """On standard output, which may be a stream of the program's own, or none.

    Raises:
        Exception: what the stream raises.
    """
    stream = sys.stdout
    if stream is None:  # the program was started with its standard output closed
        return
    try:
        stream.write(text)
    except UnicodeEncodeError as error:  # a terminal of another encoding: no reason to show nothing at all
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    flush = getattr(stream, "flush", None)  # print() needs none either
    if flush is not None:
        flush()


class LogFollower:
    """Follows worker-*.log in a folder, which need not be there yet."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        # A session that was here before us: what was printed before is not ours.
        self.logs = {name: Log(name, self._size(name)) for name in worker_logs(folder)}
        self.elsewhere: tuple[str, int] = ("", 0)  # which of those files is read, and how far
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._follow, name="zray-logs", daemon=True)
        self.thread.start()

    def _size(self, name: str) -> int:
        try:
            return os.stat(os.path.join(self.folder, name)).st_size
        except OSError:
            return 0

    def _log(self, name: str) -> Log:
        log = self.logs.get(name)
        if log is None:
            log = self.logs[name] = Log(name, 0)
        return log

    def _follow(self) -> None:
        while not self.ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Print what is new."""
        self._look_elsewhere()
        for name in worker_logs(self.folder):
            log = self._log(name)
            has_ended = log.has_ended()  # before the look at its size: it may end between the two
            is_quiet = bool(log.rest) and (has_ended or log.is_quiet())
            if self._size(name) > log.upto:
                self._print_from(name, log)
            elif is_quiet:
                self._write(log.take_rest())
            elif has_ended:
                self._forget(name)

    def _forget(self, name: str) -> None:
        """It has no more to say: its link goes, and the log itself stays."""
        path = os.path.join(self.folder, name)
        try:
            if os.path.islink(path):
                os.unlink(path)
                del self.logs[name]
        except OSError:
            pass  # the session ends

    def _look_elsewhere(self) -> bool:
        """The next piece of what other nodes have sent.  False: there is none.

        A file that was read to its end is removed when the next one has begun.
        """
        names = _names_in(self.folder, "elsewhere-")
        for name in names:
            upto = self.elsewhere[1] if self.elsewhere[0] == name else 0
            path = os.path.join(self.folder, name)
            try:
                with open(path, "rb") as file:
                    file.seek(upto)
                    data = file.read(READ_BYTES_MAX)
                whole = data[: data.rfind(b"\n") + 1]
                self.elsewhere = (name, upto + len(whole))
                if whole:
                    return self._write([whole.decode("utf-8", "backslashreplace")])
                if data or name == names[-1]:
                    return False
                os.unlink(path)
            except OSError:
                return False
        return False

    def _print_from(self, name: str, log: Log) -> bool:
        """The next piece of a log.  False: there is none, or nobody reads us."""
        try:
            gone, data = read_log(os.path.join(self.folder, name), log.upto, READ_BYTES_MAX)
        except OSError:
            return False
        lines = log.pass_over(gone, NOT_KEPT) if gone else []
        return self._write(lines + log.take(data)) and bool(gone or data)

    def _write(self, lines: list[str]) -> bool:
        if not lines:
            return True
        try:
            _show(coloured("".join(lines)))
        except Exception:  # closed; or a stream of the program's own that cannot do it
            self.ended.set()  # nobody reads us any more
            return False
        return True

    def close(self) -> None:
        """The last lines, then no more; what is printed from now on is nobody's."""
        self.ended.set()
        self.thread.join(timeout=2.0)
        if self.thread.is_alive():
            return  # it hangs in a write: so would we
        for _ in range(FLUSH_LOOKS_MAX):
            if not self._look_elsewhere():
                break
        upto = {name: self._size(name) for name in worker_logs(self.folder)}
        for name, size in upto.items():
            log = self._log(name)
            while log.upto < size and self._print_from(name, log):
                pass
            self._write(log.take_rest())
