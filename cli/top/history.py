"""Latest runs for `zray top`: the new records of all rings, by process and by function.

A ring is read from the record behind the last one on: a look at a process that did nothing costs two short reads.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from zray.store.event_ring import (
    COUNT_MAX,
    HEADER,
    MAGIC,
    NAMES_AT,
    RECORD,
    RECORDS_AT,
    SECONDS_MAX,
    Kind,
    Outcome,
)
from zray.store.segment import SHARED_MEMORY_FOLDER, event_rings_of

RECORDS = np.dtype(
    {
        "names": ["task", "begin", "end", "name", "error", "kind", "outcome", "serial"],
        "formats": ["V16", "<f8", "<f8", "<u2", "<u2", "u1", "u1", "<u8"],
        "offsets": [0, 16, 40, 48, 50, 52, 53, 56],  # the end is that of storing the results
        "itemsize": RECORD.size,
    }
)
RUNS = (Kind.TASK, Kind.CALL)
BLOCKED = (Kind.GET, Kind.WAIT)
# Records that are read at a time.
STEP = 256
# Seconds that the stream reaches back, and runs of a process that it has at most.
SECONDS_KEPT, RUNS_KEPT = 120.0, 20_000
# Run times of a function from which quantiles are taken, and functions that have a row.
TIMES_KEPT, FUNCTIONS_MAX = 1_000, 1_000
FAILURES_KEPT = 100
OTHER = "(other)"

Read = Callable[[int, int], bytes]


class Piece(NamedTuple):
    """Runs and waits of a process, as columns.  Times are in seconds since 1970.

    functions: numbers in History.names.
    """

    begin: Any
    end: Any
    functions: Any
    is_run: Any
    has_failed: Any


class Failure(NamedTuple):
    """A run that failed."""

    at: float
    task_id: str
    function: str
    error: str
    node: str
    pid: int


class Lane:
    """The runs of one process."""

    def __init__(self, node: str, pid: int, label: str) -> None:
        self.node, self.pid, self.label = node, pid, label
        self.pieces: deque[Piece] = deque()
        self.next = 0  # serial number behind the last record that was read
        self.names = [OTHER]
        self.names_end = NAMES_AT
        self.last_end = 0.0

    @property
    def is_program(self) -> bool:
        """Whether the process is a program."""
        return self.label.startswith("driver")


class Times:
    """The run times of a function."""

    def __init__(self) -> None:
        self.runs = self.failed = self.cancelled = 0
        self.total = 0.0
        self.latest: deque[float] = deque(maxlen=TIMES_KEPT)

    def quantile(self, share: float) -> float | None:
        """A quantile of the latest run times, in seconds; None: nothing has run."""
        return float(np.quantile([*self.latest], share)) if self.latest else None


class History:
    """Runs of the processes of a session."""

    def __init__(self) -> None:
        self.lanes: dict[tuple[str, int, float], Lane] = {}
        self.names: dict[str, int] = {}  # functions, with their numbers
        self.times: dict[str, Times] = {}
        self.failures: deque[Failure] = deque(maxlen=FAILURES_KEPT)
        self.lock = threading.Lock()  # one thread reads records, and another one shows them
        self.lost = 0  # records that were replaced before they were read

    def number_of(self, name: str) -> int:
        """The number of a function, in the order in which functions were seen."""
        if name not in self.names and len(self.names) >= FUNCTIONS_MAX:
            name = OTHER
        return self.names.setdefault(name, len(self.names))

    def read_here(self, node: str, session: str) -> None:
        """Read the new records of the processes of a session on this machine."""
        for name in event_rings_of(session):
            with self.lock, suppress(OSError):
                descriptor = os.open(SHARED_MEMORY_FOLDER + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    self._read(node, lambda place, count, file=descriptor: os.pread(file, count, place))  # type: ignore[misc]
                finally:
                    os.close(descriptor)

    def read_bytes(self, node: str, data: bytes) -> None:
        """Read the new records of a ring that another node has sent."""
        with self.lock:
            self._read(node, lambda place, count: data[place : place + count])

    def forget_old(self, now: float) -> None:
        """Forget the runs that ended long ago."""
        with self.lock:
            for lane in self.lanes.values():
                while lane.pieces and (lane.pieces[0].end.max() < now - SECONDS_KEPT or _count(lane) > RUNS_KEPT):
                    lane.pieces.popleft()

    def forget_processes(self, living: set[tuple[str, int]], now: float) -> None:
        """Forget processes that have ended, and whose runs are forgotten."""
        with self.lock:
            for key, lane in [*self.lanes.items()]:
                if not lane.pieces and (lane.node, lane.pid) not in living and lane.last_end < now - SECONDS_KEPT:
                    del self.lanes[key]

    def _read(self, node: str, read: Read) -> None:
        head = read(0, HEADER.size)
        if len(head) < HEADER.size or head[:8] != MAGIC:
            return
        _, pid, offset, count, length = HEADER.unpack(head)
        if pid == os.getpid() or not 0 <= offset <= SECONDS_MAX:
            return
        key = (node, pid, offset)
        lane = self.lanes.get(key)
        if lane is None:
            label = read(HEADER.size, length).decode("utf-8", "replace")
            lane = self.lanes[key] = Lane(node, pid, label)
        rows = [*_new(read, lane.next, min(count, COUNT_MAX))]
        if not rows:
            return
        found = np.concatenate(rows)
        self.lost += max(0, int(found["serial"].min()) - lane.next) if lane.next else 0
        lane.next = int(found["serial"].max()) + 1
        _read_names(lane, read)
        self._add(lane, found, offset)

    def _add(self, lane: Lane, found: Any, offset: float) -> None:
        is_run = np.isin(found["kind"], RUNS)
        chosen = (is_run | np.isin(found["kind"], BLOCKED)) & (found["end"] >= found["begin"])
        chosen &= (found["begin"] > 0) & (found["end"] < SECONDS_MAX)
        found, is_run = found[chosen], is_run[chosen]
        if not len(found):
            return
        # Names of waits and errors have no numbers: functions take their colours by these.
        numbers = np.zeros(len(lane.names), np.int32)
        places = np.minimum(found["name"], len(numbers) - 1)
        for place in np.unique(places[is_run]):
            numbers[place] = self.number_of(lane.names[place])
        functions = numbers[places]
        begin, end = found["begin"] + offset, found["end"] + offset
        has_failed = is_run & (found["outcome"] == Outcome.FAILED)
        lane.pieces.append(Piece(begin, end, functions, is_run, has_failed))
        lane.last_end = float(end.max())
        names = [*self.names]
        for number in np.unique(functions[is_run]):
            own = is_run & (functions == number)
            times = self.times.setdefault(names[number], Times())
            seconds = (end - begin)[own]
            times.runs += len(seconds)
            times.total += float(seconds.sum())
            times.failed += int(has_failed[own].sum())
            times.cancelled += int((found["outcome"][own] == Outcome.CANCELLED).sum())
            times.latest.extend(seconds[-TIMES_KEPT:].tolist())
        for place in np.flatnonzero(has_failed)[-FAILURES_KEPT:]:
            error = lane.names[found["error"][place]] if found["error"][place] < len(lane.names) else OTHER
            task_id = found["task"][place].tobytes().hex()
            self.failures.append(
                Failure(float(end[place]), task_id, names[functions[place]], error, lane.node, lane.pid)
            )


def _new(read: Read, first: int, count: int) -> Iterator[Any]:
    """Records from a serial number on, as pieces in the order of their places."""
    seen = 0
    while count and seen < count:
        place = (first + seen) % count
        length = min(STEP if first else count, count - place, count - seen)
        data = read(RECORDS_AT + place * RECORD.size, length * RECORD.size)
        rows = np.frombuffer(data[: len(data) // RECORD.size * RECORD.size], RECORDS)
        is_new = (rows["kind"] > 0) & (rows["serial"] >= first)
        if is_new.any():
            yield rows[is_new]
        if len(rows) < length or not is_new.all():
            return
        seen += length


def _read_names(lane: Lane, read: Read) -> None:
    """Read the names that the process has added."""
    data, place = read(lane.names_end, RECORDS_AT - lane.names_end), 0
    while place + 2 <= len(data):
        (length,) = struct.unpack_from("<H", data, place)
        if not length or place + 2 + length > len(data):
            break
        lane.names.append(data[place + 2 : place + 2 + length].decode("utf-8", "replace"))
        place += 2 + length
    lane.names_end += place


def _count(lane: Lane) -> int:
    return sum(len(piece.begin) for piece in lane.pieces)
