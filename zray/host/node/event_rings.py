"""Event rings of a node's processes: those that live, and copies of those that ended; and the ring of the node's own.

A ring that is read while its process writes may have a torn record; the reader leaves such records out.
"""

from __future__ import annotations

from collections import deque

from ...ids import TASK_ID_BYTES
from ...roles.work_effects import RecordChange, RecordFetch, RecordWait
from ...store.event_ring import ATTEMPT_MAX, NODE_LABEL, RECORDS_AT, EventRing, Kind, place_of, reserved_bytes
from ...store.segment import event_ring_name, event_rings_of, read_start, unlink

# Bytes of the copies that are kept of ended processes; the oldest go.
COPIES_BYTES_MAX = 16 << 20
# Reasons of changes of state that are named; they take a quarter of the room for names.
REASONS_MAX = 128


class EventRings:
    """Reads the rings of a session on this machine."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.copies: deque[bytes] = deque()
        self.bytes = 0

    def process_ended(self, pid: int) -> None:
        """Copy the ring of a process that has ended, and remove it."""
        name = event_ring_name(self.session, pid)
        data = read_start(name, RECORDS_AT, reserved_bytes)
        if data is None:
            return
        unlink(name)
        self.copies.append(data)
        self.bytes += len(data)
        while self.bytes > COPIES_BYTES_MAX:
            self.bytes -= len(self.copies.popleft())

    def read(self, bytes_max: int) -> tuple[list[bytes], int]:
        """The rings, as many as fit into so many bytes, and the number of the others."""
        found, left_out, size = [], 0, 0
        living = (read_start(name, RECORDS_AT, reserved_bytes) for name in event_rings_of(self.session))
        for data in (*filter(None, living), *reversed(self.copies)):
            if size + len(data) > bytes_max:
                left_out += 1
            else:
                found.append(data)
                size += len(data)
        return found, left_out


_STAGE, _FETCH, _CHANGE = int(Kind.STAGE), int(Kind.FETCH), int(Kind.CHANGE)  # writers do not wait for an enum


class WaitRecords:
    """Writes records of waits and of changes of state into a ring of the node's process, made for the first of them."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.ring: EventRing | None = None
        self.has_failed = False
        self.reasons = 0  # different ones that have a place among the names

    def wait(self, role: str, effect: RecordWait) -> None:
        """RecordWait."""
        if ring := self.ring or self._new_ring():
            times = effect.begin, effect.last_begin, effect.end, float(effect.count)
            facts = 0, 0, effect.stage, min(effect.attempts, ATTEMPT_MAX)
            ring.add(_STAGE, effect.task_id, *times, ring.number_of(effect.name), *facts)

    def fetch(self, role: str, effect: RecordFetch) -> None:
        """RecordFetch."""
        if ring := self.ring or self._new_ring():
            place = float(place_of(effect.object_id))
            task_id = effect.object_id[:TASK_ID_BYTES]
            ring.add(_FETCH, task_id, effect.begin, float(effect.size), effect.end, place, 0)

    def change(self, role: str, effect: RecordChange) -> None:
        """RecordChange."""
        if ring := self.ring or self._new_ring():
            name = ring.number_of(effect.name) if effect.name else 0
            reason = self._reason(ring, effect.reason) if effect.reason else 0
            thing = effect.number.ljust(TASK_ID_BYTES, b"\0")
            times = effect.time, float(effect.pid), 0.0, 0.0
            ring.add(_CHANGE, thing, *times, name, reason, 0, effect.thing, effect.state)

    def _reason(self, ring: EventRing, reason: str) -> int:
        """The number of a reason; 0: too many others have a place, and names of functions need theirs."""
        if not ring.has(reason):
            if self.reasons >= REASONS_MAX:
                return 0
            self.reasons += 1
        return ring.number_of(reason)

    def _new_ring(self) -> EventRing | None:
        if not self.has_failed:
            try:
                self.ring = EventRing(self.session, NODE_LABEL)
            except OSError:
                self.has_failed = True  # the session goes on without these records
        return self.ring
