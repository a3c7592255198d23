"""Event rings of a node's processes: those that live, and copies of those that ended.

A ring that is read while its process writes may have a torn record; the reader leaves such records out.
"""

from __future__ import annotations

from collections import deque

from ...store.event_ring import RECORDS_AT, reserved_bytes
from ...store.segment import event_ring_name, event_rings_of, read_start, unlink

# Bytes of the copies that are kept of ended processes; the oldest go.
COPIES_BYTES_MAX = 16 << 20


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
