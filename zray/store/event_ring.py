"""Ring of event records in shared memory: the latest runs, waits and spans of one process.

A process writes its own ring, and never waits for a reader.  The ring outlives a kill -9 of its process: the node
copies the ring, and removes its name.  The layout, little-endian:

    0        magic, pid, offset from the monotonic to the wall clock (seconds), records with pages, length of the label,
             label
    4088     when the main thread began to wait in `get` or `wait` (monotonic clock); 0.0: it does not wait
    4096     names: 2 bytes of length each, UTF-8, in the order of their numbers from 1 on; a length of 0 ends them
    65536    records of RECORD.size bytes, by their serial number modulo their count

A record has a task id, four times on the monotonic clock, two numbers of names, a kind, an outcome, an attempt, a lane,
and its serial number.  Pages are reserved before they are written: a
full machine ends the recording, not the process.  Readers of an older version leave out kinds that they do not know.

The name of a function may be followed by a zero byte and what its runs request, as "CPU:20000,GPU:5000", in units of
wire/task_spec.py.  Without it, a task requests one CPU.  Marks of runs stand there too, as "CPU:10000,streams".

The ring of a node's process has the waits of tasks at the node, and the ways of values to it (Kind.STAGE, Kind.FETCH).
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from ..ids import (
    COUNTER_BYTES,
    PARENT_HASH_BYTES,
    PUT_INDEX_FIRST,
    TASK_ID_BYTES,
    counter_of,
    index_of,
    task_of,
)
from .segment import Segment, event_ring_name, unlink

__all__ = [
    "ATTEMPT_MAX",
    "RECORDS_AT",
    "Event",
    "EventRing",
    "Kind",
    "Need",
    "Outcome",
    "RingContent",
    "names_of",
    "place_of",
    "read_ring",
    "reserved_bytes",
]

MAGIC = b"zray-ev1"
HEADER = struct.Struct("<8sQdIH")
RESERVED_AT = 24  # in the header
RECORD = struct.Struct("<16sddddHHBBBBQ")
DEPENDENCIES = struct.Struct(
    "<16s16s16sHHBBHQ"
)  # of a record of the same size: kind and serial number at the same places
# The same record, with the fields from the name to the lane in one number.  Native numbers are packed sooner.
_IS_NATIVE = sys.byteorder == "little" and struct.calcsize("L") == 8
WHOLE = struct.Struct("16sddddLL" if _IS_NATIVE else "<16sddddQQ")
KIND_AT, SERIAL_AT = 52, 56  # in a record
LENGTH = struct.Struct("<H")
WAIT = struct.Struct("<d")
WAIT_AT, NAMES_AT = 4088, 4096
RECORDS_AT = 65536
# The latest records of a process: 1 MiB, as much as it writes of them.
COUNT_MAX = 16_384
SIZE = RECORDS_AT + COUNT_MAX * RECORD.size
# Records whose pages are reserved together.
STEP = 1_024
NAME_BYTES_MAX = 120
NODE_LABEL = "node waits"  # of the ring of a node's process
OTHER = 0  # the number of names beyond those that fit
LABEL_BYTES_MAX = 1_000
# Longer times are no times; a process submits fewer tasks at a time.
SECONDS_MAX = 1e12
# Dependencies that are recorded of one run, and needs of one wait.
DEPENDENCIES_MAX = NEEDS_MAX = 64
# Objects of a wait that are looked at one by one; of more, the first and the last one stand for what is between them.
LOOKS_MAX = 256
ATTEMPT_MAX = 255
REQUEST_MARK = "\0"  # between a name and a request
# Marks of a run: it yields items one by one; it is in a placement group; its options say where it runs.
STREAMS, GROUPED, PLACED = "streams", "group", "place"
# Places of objects among those of their task: numbers of returns from 1 on, and of puts, with this bit.
PUT_BIT, NUMBER_MAX = 0x8000, 0x7FFF


class Kind(IntEnum):
    """The kind of a record."""

    NONE = 0
    TASK = 1
    CALL = 2
    CONSTRUCTOR = 3
    GET = 4
    WAIT = 5
    PUT = 6
    SPAN = 7  # of the program: `zray.profile(name)`
    SUBMIT = 8  # of tasks with consecutive ids; `read` is their number
    DEPENDENCIES = 9  # of the run before
    NEEDS = 10  # what the wait before has waited for: returns of tasks with consecutive ids; `read` is their number
    SIZE = 11  # of a value in the store: `read` is its bytes, `end` its place
    # Of tasks with consecutive ids, at a node, until `end`: `begin` and `read` are the begins of the first and the last
    # one's waits, `stored` their number, the attempt what they waited for (wire/events.py, Stage), the lane the number
    # of the attempt that follows, if the tasks run again.
    STAGE = 12
    FETCH = 13  # of a value, to a node: `begin` to `end`, `read` is its bytes, `stored` its place
    # Something enters a state at `begin`: the attempt says what, the lane the state (wire/events.py, Thing and State),
    # `read` its pid; the id has its own, padded.  Its name may be none, and the error is the reason.
    CHANGE = 14


SIZED, LAST_KIND = frozenset((Kind.SIZE, Kind.FETCH)), max(Kind)
_NEEDS, _DEPENDENCIES = int(Kind.NEEDS), int(Kind.DEPENDENCIES)  # writers do not wait for an enum


class Outcome(IntEnum):
    """The outcome of a run."""

    FINISHED = 0
    FAILED = 1
    CANCELLED = 2
    RUNNING = 3  # of a reader alone: processes write a record at the end


class Need(NamedTuple):
    """Objects that a wait has waited for: those at one place of so many tasks with consecutive ids."""

    first: bytes
    place: int
    tasks: int


class Event(NamedTuple):
    """A record of a ring, with its names.

    begin, read, end, stored: seconds, on the monotonic clock of the machine; of a run: when it began, had its
    arguments, had run, and had stored its results.  tasks: of submissions: the number of tasks.  dependencies: ids of
    the tasks that made its arguments.  places: of these arguments among the objects of their tasks (place_of); 0:
    unknown.  needs: what a wait has waited for.  wanted: how many of them.  request: resources of a run, as text; "":
    the default.  size, place: of a value in the store, or on its way to a node.  stage: what tasks have waited for;
    `read` is when the wait of the last one began.  attempt: 0 for a first run; of a wait, that of the run behind it.
    thing, state, pid: of a change of state, what has entered which state; its id is in task_id, the reason in error.
    """

    kind: Kind
    task_id: bytes
    begin: float
    read: float
    end: float
    stored: float
    name: str
    error: str
    outcome: Outcome
    attempt: int
    lane: int
    tasks: int = 0
    dependencies: tuple[bytes, ...] = ()
    places: tuple[int, ...] = ()
    needs: tuple[Need, ...] = ()
    wanted: int = 0
    request: str = ""
    size: int = 0
    place: int = 0
    stage: int = 0
    thing: int = 0
    state: int = 0
    pid: int = 0


class RingContent(NamedTuple):
    """Content of a ring.

    offset: seconds from the monotonic clock to 1970.  lost: number of records that later ones have replaced.
    waits_since: when its main thread began to wait; 0.0: it does not wait, or that is unknown.
    """

    pid: int
    offset: float
    label: str
    events: list[Event]
    lost: int
    waits_since: float = 0.0


def reserved_bytes(head: bytes) -> int:
    """The length of the part of a ring that has records, behind its first RECORDS_AT bytes."""
    if len(head) < RECORDS_AT or head[:8] != MAGIC:
        return 0
    (count,) = struct.unpack_from("<I", head, RESERVED_AT)
    return int(min(count, COUNT_MAX)) * RECORD.size


class EventRing:
    """The writing end of a ring.

    Records are written by `add`, or by a caller that cannot wait for a further call: with WHOLE, at the next place of
    `records` with a serial number below `limit`, else at `reserved`.

    Args:
        session: name of the session.
        label: of the process, for readers, as "worker 3".

    Raises:
        OSError: the ring cannot be made.
    """

    def __init__(self, session: str, label: str) -> None:
        self.name = event_ring_name(session, os.getpid())
        unlink(self.name)  # of a former process with the same pid
        self._segment = Segment.create(self.name, SIZE)
        self.memory = memoryview(self._segment.mapping)
        places = range(RECORDS_AT, SIZE, RECORD.size)
        # The serial number and the place of each record.  The next one is one call, which no other thread interrupts.
        # The places are made anew each time: those that a cycle keeps would have left the processor's caches.
        cycle = itertools.chain.from_iterable(itertools.repeat(places))
        self.records: Iterator[tuple[int, int]] = zip(itertools.count(), cycle)
        self.limit = 0  # records with lower serial numbers have pages; sys.maxsize: all have
        self._short_count = COUNT_MAX  # of records, before one replaces another; lower where memory was short
        self._lock = threading.Lock()
        self._is_closed = False
        self._names_end = NAMES_AT
        self._numbers: dict[str, int] = {}
        try:
            self._segment.reserve(0, RECORDS_AT)
        except OSError:
            unlink(self.name)
            raise
        text = label.encode("utf-8", "replace")[:LABEL_BYTES_MAX]
        offset = time.time() - time.perf_counter()
        HEADER.pack_into(self.memory, 0, MAGIC, os.getpid(), offset, 0, len(text))
        self.memory[HEADER.size : HEADER.size + len(text)] = text

    def number_of(self, name: str) -> int:
        """The number of a name.  OTHER: no further names fit."""
        found = self._numbers.get(name)
        if found is None:
            with self._lock:
                found = self._numbers.get(name)
                if found is None:
                    found = self._add_name(name)
        return found

    def has(self, name: str) -> bool:
        """Whether a name has a number."""
        return name in self._numbers

    def _add_name(self, name: str) -> int:
        text = name.encode("utf-8", "replace")[:NAME_BYTES_MAX] or b"?"
        end = self._names_end + LENGTH.size + len(text)
        if end + LENGTH.size > RECORDS_AT:
            return OTHER
        self.memory[self._names_end + LENGTH.size : end] = text
        LENGTH.pack_into(self.memory, self._names_end, len(text))
        self._names_end = end
        number = self._numbers[name] = len(self._numbers) + 1
        return number

    def add(
        self,
        kind: int,
        task_id: bytes,
        begin: float,
        read: float,
        end: float,
        stored: float,
        name: int,
        error: int = 0,
        outcome: int = 0,
        attempt: int = 0,
        lane: int = 0,
    ) -> None:
        """Write a record.  Times are of time.perf_counter()."""
        facts = name | error << 16 | kind << 32 | outcome << 40 | attempt << 48 | lane << 56
        serial, place = next(self.records)
        if serial < self.limit or (place := self.reserved(serial, place)):
            WHOLE.pack_into(self.memory, place, task_id, begin, read, end, stored, facts, serial)

    def waits(self, since: float) -> None:
        """Say when the main thread began to wait; 0.0: it goes on."""
        WAIT.pack_into(self.memory, WAIT_AT, since)

    def add_dependencies(self, object_ids: Sequence[bytes]) -> None:
        """Write the arguments of the run that was recorded last by this thread."""
        for begin in range(0, min(len(object_ids), DEPENDENCIES_MAX), 3):
            some = object_ids[begin : begin + 3]
            serial, place = next(self.records)
            if serial < self.limit or (place := self.reserved(serial, place)):
                ids = (*some, b"", b"")[:3]  # their first bytes are those of their tasks
                first, second, third = (place_of(object_id) if object_id else 0 for object_id in ids)
                facts = first, second, _DEPENDENCIES, len(some), third, serial
                DEPENDENCIES.pack_into(self.memory, place, *ids, *facts)

    def add_needs(self, object_ids: Sequence[bytes], wanted: int) -> None:
        """Write what the wait that was recorded last by this thread has waited for."""
        # Records of a few objects are written sooner than consecutive ones are found.
        needs = needs_of(object_ids) if len(object_ids) > 3 else [(each, place_of(each), 1) for each in object_ids]
        for first, place, count in needs:
            self.add(_NEEDS, first, wanted, count, place, 0.0, 0)  # of an id, a record has the task's

    def reserved(self, serial: int, place: int) -> int:
        """Return the place of a record, with reserved pages; 0: there are none.

        Without memory for further pages, the ring stays as short as it is.
        """
        with self._lock:
            if serial < self.limit:
                return place
            if self._is_closed:
                return 0
            if self._short_count == COUNT_MAX:
                count = min(serial + STEP, COUNT_MAX)
                try:
                    self._segment.reserve(RECORDS_AT, count * RECORD.size)
                except OSError:
                    self._short_count = int(self.limit)
                else:
                    self.limit = count if count < COUNT_MAX else sys.maxsize
                    struct.pack_into("<I", self.memory, RESERVED_AT, count)
                    return place
            return RECORDS_AT + serial % self._short_count * RECORD.size if self._short_count else 0

    def close(self) -> None:
        """Reserve no further pages.  The memory goes with the last reference to the ring; the node removes the name."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._segment.close_descriptor()


def read_ring(data: bytes) -> RingContent | None:
    """The content of a ring, oldest records first.  None: the bytes are no ring.

    Records that are being written are left out, or have a wrong number: the reader looks at each value.
    """
    if len(data) < RECORDS_AT:
        return None
    magic, pid, offset, _, length = HEADER.unpack_from(data)
    if magic != MAGIC or not 0 <= offset <= SECONDS_MAX:
        return None
    label = data[HEADER.size : HEADER.size + min(length, LABEL_BYTES_MAX)].decode("utf-8", "replace")
    texts = ["(other)", *_texts_of(data)]
    records = sorted(_records(data))
    events: list[Event] = []
    before = -2
    for serial, place in records:
        kind = data[place + KIND_AT]
        if kind in (Kind.DEPENDENCIES, Kind.NEEDS):
            if serial == before + 1 and events:
                events[-1] = _with_part(events[-1], kind, data, place)
                before = serial
            continue
        before = serial
        task_id, *times, name, error, _, outcome, attempt, lane, _ = RECORD.unpack_from(data, place)
        if not all(0 <= each <= SECONDS_MAX for each in times):  # a record that is being written
            continue
        begin, read, end, stored = times
        if kind == Kind.CHANGE:
            events.append(_change_of(data, place, texts))
            continue
        plain, _, request = (texts[name] if name < len(texts) else texts[0]).partition(REQUEST_MARK)
        events.append(
            Event(
                Kind(kind),
                task_id,
                *_times_of(kind, begin, read, end, stored),
                name=plain or texts[0],
                error=texts[error] if 0 < error < len(texts) else "",
                outcome=Outcome(outcome) if outcome <= Outcome.CANCELLED else Outcome.FAILED,
                attempt=lane if kind == Kind.STAGE else attempt,
                lane=0 if kind == Kind.STAGE else lane,
                tasks=int(stored) if kind == Kind.STAGE else int(read) if kind == Kind.SUBMIT else 0,
                request=request,
                size=int(read) if kind in SIZED else 0,
                place=int(stored if kind == Kind.FETCH else end) & 0xFFFF if kind in SIZED else 0,
                stage=attempt if kind == Kind.STAGE else 0,
            )
        )
    lost = max(records[-1][0] + 1 - len(records), 0) if records else 0
    (since,) = WAIT.unpack_from(data, WAIT_AT)
    return RingContent(pid, offset, label, events, lost, since if 0 <= since <= SECONDS_MAX else 0.0)


def _change_of(data: bytes, place: int, texts: Sequence[str]) -> Event:
    """The record of a change of state."""
    number, time, pid, _, _, name, error, _, _, thing, state, _ = RECORD.unpack_from(data, place)
    called, reason = (texts[each] if 0 < each < len(texts) else "" for each in (name, error))
    times = time, time, time, time
    return Event(
        Kind.CHANGE, number, *times, called, reason, Outcome.FINISHED, 0, 0, thing=thing, state=state, pid=int(pid)
    )


def _times_of(kind: int, begin: float, read: float, end: float, stored: float) -> tuple[float, float, float, float]:
    """The times of a record, in which other numbers may stand in their place."""
    if kind in (Kind.SUBMIT, Kind.SIZE):
        return begin, begin, begin, begin
    if kind == Kind.STAGE:
        return begin, min(read, end), end, end
    return (begin, begin, end, end) if kind == Kind.FETCH else (begin, read, end, stored)


def _with_part(event: Event, kind: int, data: bytes, place: int) -> Event:
    """The event before, with a record that goes on with it."""
    if kind == Kind.NEEDS:
        first, wanted, count, index, *_ = RECORD.unpack_from(data, place)
        if not (0 <= wanted <= SECONDS_MAX and 0 <= count <= SECONDS_MAX and 0 <= index <= SECONDS_MAX):
            return event
        needs = (*event.needs, Need(first, int(index) & 0xFFFF, int(count)))
        return event._replace(needs=needs, wanted=int(wanted))
    *ids, first, second, _, count, third, _ = DEPENDENCIES.unpack_from(data, place)
    return event._replace(
        dependencies=(*event.dependencies, *ids[:count]), places=(*event.places, *(first, second, third)[:count])
    )


def place_of(object_id: bytes) -> int:
    """The place of an object among those of its task: the number of a return or of a put, with PUT_BIT."""
    number = index_of(object_id)
    if number >= PUT_INDEX_FIRST:
        return min(number - PUT_INDEX_FIRST, NUMBER_MAX) | PUT_BIT
    return min(number, NUMBER_MAX)


def needs_of(object_ids: Sequence[bytes]) -> list[Need]:
    """The objects of a wait, those of consecutive tasks together.

    Of very many, tasks between the first and the last one may be among them that the wait was not for.
    """
    first, last = object_ids[0], object_ids[-1]
    count = counter_of(task_of(last)) - counter_of(task_of(first)) + 1
    is_alike = first[:PARENT_HASH_BYTES] == last[:PARENT_HASH_BYTES] and index_of(first) == index_of(last)
    # Returns of a loop, as they nearly always are; or those of a long one that are still missing.
    if is_alike and (count == len(object_ids) or LOOKS_MAX < len(object_ids) < count < 2 * len(object_ids)):
        return [Need(task_of(first), place_of(first), count)]
    found: list[Need] = []
    following = b""
    for object_id in object_ids[:LOOKS_MAX]:
        if object_id == following:
            found[-1] = found[-1]._replace(tasks=found[-1].tasks + 1)
        elif len(found) == NEEDS_MAX:
            break
        else:
            found.append(Need(task_of(object_id), place_of(object_id), 1))
        number = (counter_of(task_of(object_id)) + 1) % (1 << 8 * COUNTER_BYTES)
        following = object_id[:PARENT_HASH_BYTES] + number.to_bytes(COUNTER_BYTES, "big") + object_id[TASK_ID_BYTES:]
    return found


def names_of(data: bytes) -> Iterator[str]:
    """The names of a ring, in the order of their numbers from 1 on."""
    return (text.partition(REQUEST_MARK)[0] for text in _texts_of(data))


def _texts_of(data: bytes) -> Iterator[str]:
    """The names of a ring, with requests."""
    place = NAMES_AT
    while place + LENGTH.size < RECORDS_AT:
        (length,) = LENGTH.unpack_from(data, place)
        if not length:
            return
        place += LENGTH.size + length
        yield data[place - length : place].decode("utf-8", "replace")


def _records(data: bytes) -> Iterator[tuple[int, int]]:
    """The serial number and the place of each record."""
    for place in range(RECORDS_AT, len(data) - RECORD.size + 1, RECORD.size):
        if Kind.NONE < data[place + KIND_AT] <= LAST_KIND:
            yield int.from_bytes(data[place + SERIAL_AT : place + RECORD.size], "little"), place
