"""Lines of the logs of workers and submitted programs, each with its task, actor and time, also of ended sessions.

A worker's log has marks with names (host/session/log_marks.py).  An index beside it says which task has written which
part, and when (host/output/task_index.py).
"""

from __future__ import annotations

import heapq
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..host.output.log_lines import ERROR, LATEST, PART, ROW, Log
from ..host.output.truncation import NOT_KEPT, read_log
from ..host.session.log_marks import index_name, mark_of, shown_name, unmarked
from ..ids import OBJECT_ID_BYTES, TASK_ID_BYTES
from .log_sessions import LogSession, read_lines
from .program_logs import PREFIX, id_in_name

READ_BYTES_MAX = 1 << 20
LOOK_SECONDS = 0.1
# Characters of an id that a user has to give.
ID_CHARACTERS_MIN = 4
# A longer number is the beginning of an id.
PID_DIGITS_MAX = 7
_LABELLED = re.compile(f"({ERROR}?)([{PART}{LATEST}]?)(\\((.*?) pid=([0-9]+)\\)) (.*)\n", re.DOTALL)
_WORKER = re.compile(r"worker-([0-9]+)-([0-9]+)\.log")
_PROGRAM = re.compile(rf"{PREFIX}(.+)-([0-9]+)\.log")
_NOTHING: dict[str, Any] = {}


class LogLine(NamedTuple):
    """A line of a worker's output.

    Args:
        time: of the part of the log, in seconds since 1970.
        facts: of its task, as in the index; empty: not known.
    """

    session: LogSession
    worker: str
    pid: int
    label: str
    name: str
    is_error: bool
    text: str
    time: float
    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The line as plain data."""
        return {
            "session": self.session.name,
            "node_id": self.session.node_id,
            "worker": self.worker,
            "pid": self.pid,
            "stream": "err" if self.is_error else "out",
            "time": self.time,
            "name": self.name,
            "task_id": self.facts.get("task"),
            "task_name": self.facts.get("name"),
            "actor_id": self.facts.get("actor"),
            "text": self.text,
        }


class WorkerLog:
    """A worker's log, or that of a submitted program, as far as read."""

    def __init__(self, session: LogSession, name: str) -> None:
        self.session, self.name = session, name
        self.path = os.path.join(session.folder, name)
        self.index = index_name(self.path)
        found = _WORKER.fullmatch(name)
        program = None if found else _PROGRAM.fullmatch(name)
        self.number, self.pid = (int(found[1]), int(found[2])) if found else (0, int(program[2]) if program else 0)
        self.program = program[1] if program else ""  # its id
        self.log = Log(name, 0, folder=os.path.join(session.folder, "-"))
        self.facts, self.time = _NOTHING, session.started
        self.drawn: list[str] = []  # the latest text of bars
        self.index_upto = 0
        self.waiting: list[dict[str, Any]] = []  # parts that begin behind the text that was read

    def parts(self) -> list[dict[str, Any]]:
        """The parts of the log, as in its index."""
        return [part for part in read_lines(self.index)[0] if isinstance(part.get("out"), int)]

    def _look_at_index(self) -> None:
        """Take the parts that the index has got; a part is there before its text."""
        while True:
            found, upto = read_lines(self.index, self.index_upto)
            if upto == self.index_upto:
                return
            self.index_upto = upto
            self.waiting += [part for part in found if isinstance(part.get("out"), int)]

    def read(self, *, is_last: bool) -> Iterator[LogLine]:
        """The lines since the last call.  is_last: a begun line ends here."""
        log = self.log
        try:
            size = os.stat(self.path).st_size
        except OSError:
            return
        self._look_at_index()
        ends = [part for part in self.waiting if part["out"] <= size]
        del self.waiting[: len(ends)]
        for part in [*ends, None]:
            end = size if part is None else part["out"]
            while log.upto < end:
                log.errors.room = (READ_BYTES_MAX, READ_BYTES_MAX)
                try:
                    gone, data = read_log(self.path, log.upto, min(READ_BYTES_MAX, end - log.upto))
                except OSError:
                    return
                if gone:
                    yield from self._lines(log.pass_over(gone, NOT_KEPT))
                yield from self._lines(log.take(data))
            if part is not None:
                if part.get("task") != self.facts.get("task"):
                    yield from self._lines(log.take_rest())
                self.facts, self.time = part, float(part.get("t", self.time))
        errors_size = log.errors.size()
        while log.errors.upto < errors_size:
            log.errors.room = (READ_BYTES_MAX, READ_BYTES_MAX)
            before = log.errors.upto
            yield from self._lines(log.errors.read(errors_size))
            if log.errors.upto == before:
                break
        if is_last:
            yield from self._lines(log.take_rest() + log.errors.take_rest(), is_last=True)

    def _lines(self, shown: list[str], *, is_last: bool = False) -> Iterator[LogLine]:
        for each in shown:
            found = _LABELLED.fullmatch(each)
            if found is None:
                continue
            mark, kind, label, name, _, text = found.groups()
            if kind == LATEST:
                self.drawn = text.split(ROW)  # in place of all before
                continue
            texts = self.drawn if self.drawn and not text else [*self.drawn, text]
            self.drawn = []
            yield from (self._line(label, name, mark, each) for each in texts)
        if is_last and self.drawn:
            name = self.log.label[1:].partition(" pid=")[0]
            yield from (self._line(self.log.label, name, "", each) for each in self.drawn)
            self.drawn = []

    def _line(self, label: str, name: str, mark: str, text: str) -> LogLine:
        worker = f"{PREFIX}{self.program}" if self.program else f"worker-{self.number}"
        return LogLine(self.session, worker, self.pid, label, name, bool(mark), text, self.time, self.facts)


class Wanted:
    """Output that a user names: by task, function, actor, class, process, worker, submitted program or node.

    Args:
        what: the name, number or beginning of an id; "": all.
        is_pid: a short number is a process, and no beginning of an id.
    """

    def __init__(self, what: str = "", *, is_pid: bool = True) -> None:
        self.what = what
        lowered = what.lower()
        is_id = len(what) >= ID_CHARACTERS_MIN and not set(lowered) - set("0123456789abcdef")
        is_id = is_id and not (is_pid and what.isdecimal() and len(what) <= PID_DIGITS_MAX)
        if len(lowered) == 2 * OBJECT_ID_BYTES:  # of an object that the task returns
            lowered = lowered[: 2 * TASK_ID_BYTES]
        self.id = lowered if is_id else ""

    def is_whole(self, log: WorkerLog) -> bool:
        """Whether all output of a worker is wanted."""
        if not self.what or (self.id and log.session.node_id.startswith(self.id)):
            return True
        names = [str(log.pid), log.name, log.name.removesuffix(".log")]
        if not log.program:
            return self.what in (*names, f"worker-{log.number}")
        wanted = id_in_name(self.what)
        is_begin = len(wanted) >= ID_CHARACTERS_MIN and log.program.startswith(wanted)
        return is_begin or wanted in (*names, log.program, f"{PREFIX}{log.program}")

    def is_part(self, facts: dict[str, Any]) -> bool:
        """Whether a part of a log is wanted."""
        if self.id and any(str(facts.get(key, "")).startswith(self.id) for key in ("task", "actor")):
            return True
        name = str(facts.get("name", ""))
        names = (name, shown_name(name), name.rpartition(".")[2], facts.get("class"), facts.get("called"))
        return self.what in names

    def takes(self, line: LogLine) -> bool:
        """Whether a line of a worker is wanted that is not wanted as a whole."""
        return self.is_part(line.facts) or line.name == self.what

    def is_in(self, log: WorkerLog) -> bool:
        """Whether a log may have something of it."""
        return self.is_whole(log) or any(map(self.is_part, log.parts())) or _contains(log.path, mark_of(self.what))


def _contains(path: str, data: bytes) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        before = b""
        while piece := file.read(READ_BYTES_MAX):
            if data in before + piece:
                return True
            before = piece[-len(data) :]
    return False


def has(group: list[LogSession], wanted: Wanted) -> bool:
    """Whether sessions have logs with that output."""
    return any(wanted.is_in(WorkerLog(one, name)) for one in group for name in one.workers())


def lines(group: list[LogSession], wanted: Wanted) -> Iterator[LogLine]:
    """The lines of sessions in the order of time, as far as known: a part of a log is at most a second long."""
    logs = [WorkerLog(one, name) for one in group for name in one.workers()]
    streams = [_chosen(log, wanted, is_last=True) for log in logs if wanted.is_in(log)]
    return heapq.merge(*streams, key=lambda line: line.time)


def follow(
    group: list[LogSession],
    wanted: Wanted,
    tail: int | None = None,
    is_chosen: Callable[[LogLine], bool] = lambda line: True,
) -> Iterator[LogLine]:
    """The lines of sessions, and further lines until the sessions end.

    tail: of the lines that are there, so many, the last ones; None: all.
    """
    logs: dict[str, WorkerLog] = {}
    while True:
        is_last = not any([one.is_running for one in group])
        for one in group:
            for name in one.workers():
                path = os.path.join(one.folder, name)
                if path not in logs:
                    logs[path] = WorkerLog(one, name)
        found = [line for log in logs.values() for line in _chosen(log, wanted, is_last=is_last) if is_chosen(line)]
        yield from deque(sorted(found, key=lambda line: line.time), maxlen=tail)
        tail = None
        if is_last:
            return
        time.sleep(LOOK_SECONDS)


def _chosen(log: WorkerLog, wanted: Wanted, *, is_last: bool) -> Iterator[LogLine]:
    if wanted.is_whole(log):
        return log.read(is_last=is_last)
    return (line for line in log.read(is_last=is_last) if wanted.takes(line))


def lines_of_file(path: str) -> Iterator[str]:
    """The lines of a log file, without marks, and without the zeros of a part that was given back."""
    with open(path, encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        for line in file:
            if text := unmarked(line).lstrip("\0"):
                yield text
