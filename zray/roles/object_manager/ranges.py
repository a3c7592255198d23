"""Ranges of a sparse segment: allocated and free bytes, and which of them have pages.

Everything below `top` has pages.  Free ranges below `top` are reused, the most recently freed first.  Their pages are
warm in the caches, and mapped by processes that used them.  `top` rises only when no free range below fits.
Neighbouring free ranges are joined at once, against fragmentation.  Offsets and sizes are in bytes.
"""

from __future__ import annotations

ALIGNMENT = 64  # of every range: what numpy and vector units like
PAGE = 4096  # large ranges begin on a page of their own
PAGE_ALIGN_BYTES = 1 << 16


def aligned(size: int) -> int:
    """Round `size` up to the alignment of a range of `size` bytes."""
    unit = PAGE if size >= PAGE_ALIGN_BYTES else ALIGNMENT
    return max(unit, -(-size // unit) * unit)


def padded(size: int) -> int:
    """Round `size` up to a multiple of ALIGNMENT, all of which lies in the range of `size` bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Ranges:
    """Allocation in [0, capacity)."""

    PASSING = {"used_bytes": "capacity"}
    LASTING = {"size_by_start": None, "start_by_end": "size_by_start"}

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.top = 0
        self.used_bytes = 0
        # Free ranges below top, by start, in the order in which they were freed (the last one is warmest).
        self.size_by_start: dict[int, int] = {}
        self.start_by_end: dict[int, int] = {}

    def take_warm(self, size: int) -> int | None:
        """Take a free range with pages; return the offset, or None."""
        size = aligned(size)
        for start in reversed(self.size_by_start):
            room = self.size_by_start[start]
            if room < size:
                continue
            offset = start
            if size >= PAGE_ALIGN_BYTES and offset % PAGE:
                offset += PAGE - offset % PAGE
                if start + room - offset < size:
                    continue
            self._remove(start)
            if offset > start:
                self._insert(start, offset - start)
            if offset + size < start + room:
                self._insert(offset + size, start + room - offset - size)
            self.used_bytes += size
            return offset
        return None

    def extend(self, size: int) -> tuple[int, int] | None:
        """Raise `top` for a new range.  Returns the offset, and how many bytes have pages already; None: full."""
        size = aligned(size)
        start = self.start_by_end.get(self.top, self.top)  # a free range at the top is extended
        if start % PAGE and size >= PAGE_ALIGN_BYTES:
            start += PAGE - start % PAGE
        if start + size > self.capacity:
            return None
        last = self.start_by_end.get(self.top)
        if last is not None:
            self._remove(last)
            if last < start:
                self._insert(last, start - last)  # with the gap, if any: its page has been there for what is before
        elif start > self.top:
            self._insert(self.top, start - self.top)
        warm = max(0, self.top - start)
        self.top = start + size
        self.used_bytes += size
        return start, warm

    def retract(self, offset: int, size: int, reserved: int) -> None:
        """Undo the latest `extend`: only `reserved` bytes could be reserved."""
        assert offset + aligned(size) == self.top
        self.used_bytes -= aligned(size)
        self.top = offset + reserved
        if reserved:
            self._join(offset, reserved)

    def free(self, offset: int, size: int) -> None:
        """Free a range, which stays warm."""
        size = aligned(size)
        self.used_bytes -= size
        self._join(offset, size)

    def _join(self, start: int, size: int) -> None:
        before = self.start_by_end.get(start)
        if before is not None:
            size += self.size_by_start[before]
            self._remove(before)
            start = before
        after = self.size_by_start.get(start + size)
        if after is not None:
            self._remove(start + size)
            size += after
        self._insert(start, size)

    def _insert(self, start: int, size: int) -> None:
        self.size_by_start[start] = size
        self.start_by_end[start + size] = start

    def _remove(self, start: int) -> None:
        size = self.size_by_start.pop(start)
        del self.start_by_end[start + size]

    def check_everything(self) -> None:
        """Assert that free and used bytes add up, and free ranges neither overlap nor touch."""
        end_before = -1
        for start in sorted(self.size_by_start):
            assert start > end_before, "free ranges overlap or touch"
            end_before = start + self.size_by_start[start]
            assert self.start_by_end[end_before] == start
        assert end_before <= self.top
        assert self.used_bytes + sum(self.size_by_start.values()) == self.top
