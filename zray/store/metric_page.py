"""Page of metrics in shared memory: the counters, gauges and histograms of one process.

A process writes its own page, and sends no message for it.  The page outlives a kill -9 of its process: the node adds
the page up, and removes its name.  The layout, little-endian:

    0     magic, bytes in use behind the header, updates that are left out
    24    entries: length of the facts, count of the numbers, facts as JSON up to a multiple of 8 bytes, the numbers

A page is made at the first metric of its process.  An entry is complete before the bytes in use include it.  A number
has 8 bytes at a multiple of 8, so that no reader sees a half of it.  Pages are reserved before they are written.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from .segment import Segment, metric_page_name, unlink

__all__ = ["Facts", "MetricPage", "Sums", "entry_of", "left_out_of", "page_of", "series_of"]

MAGIC = b"zray-me1"
HEADER = struct.Struct("<8sQQ")
IN_USE_AT, LEFT_OUT_AT = 8, 16
LENGTHS = struct.Struct("<II")
NUMBER = struct.Struct("<d")
# Some 5,000 series of 200 bytes: five metrics with the most series that a metric may have.
SIZE = 1 << 20
# Bytes that are reserved together.
STEP = 16 << 10
# Different sets of tags of a metric.  More are ids of some kind, which no board can draw.
SERIES_MAX = 1_000
FACTS_BYTES_MAX = 2_048
GAUGE = "gauge"
_GAUGE_FACTS = b'["gauge",'


class Facts(NamedTuple):
    """Facts that tell a series from others.

    Numbers of a "counter": its sum.  Of a "gauge": the value, and seconds since 1970.  Of a "histogram": the counts of
    its buckets, one more than boundaries, and the sum.
    """

    kind: str
    name: str
    description: str
    tags: tuple[tuple[str, str], ...] = ()
    boundaries: tuple[float, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers the series has."""
        return {"counter": 1, GAUGE: 2}.get(self.kind, len(self.boundaries) + 2)


class MetricPage:
    """The writing end of a page.

    Args:
        session: name of the session.

    Raises:
        OSError: the page cannot be made.
    """

    def __init__(self, session: str) -> None:
        self.name = metric_page_name(session, os.getpid())
        unlink(self.name)  # of a former process with the same pid
        self._segment = Segment.create(self.name, SIZE)
        self._memory = memoryview(self._segment.mapping)
        self._places: dict[Facts, int] = {}  # 0: left out
        self._counts: dict[str, int] = {}  # series by metric
        self._lock = threading.RLock()  # a finalizer may count, too
        self._end, self._reserved = HEADER.size, 0
        self._is_closed = False
        try:
            self._has_room(STEP)
        except OSError:
            unlink(self.name)
            raise
        HEADER.pack_into(self._memory, 0, MAGIC, 0, 0)

    def add(self, facts: Facts, *changes: tuple[int, float]) -> bool:
        """Add to numbers of a series, by their indexes.  False: the series is left out."""
        with self._lock:
            if place := self._place_of(facts):
                for index, amount in changes:
                    at = place + NUMBER.size * index
                    NUMBER.pack_into(self._memory, at, NUMBER.unpack_from(self._memory, at)[0] + amount)
        return bool(place)

    def set(self, facts: Facts, *numbers: float) -> bool:
        """Set the first numbers of a series.  False: the series is left out."""
        with self._lock:
            if place := self._place_of(facts):
                for index, number in enumerate(numbers):
                    NUMBER.pack_into(self._memory, place + NUMBER.size * index, number)
        return bool(place)

    def _place_of(self, facts: Facts) -> int:
        place = self._places.get(facts, 0) or self._append(facts)
        if not place:
            (count,) = struct.unpack_from("<Q", self._memory, LEFT_OUT_AT)
            struct.pack_into("<Q", self._memory, LEFT_OUT_AT, count + 1)
        return place

    def _append(self, facts: Facts) -> int:
        count = self._counts.get(facts.name, 0)
        tags = [(key, value.encode("utf-8", "replace").decode()) for key, value in facts.tags]
        description = facts.description.encode("utf-8", "replace").decode()
        text = msgspec.json.encode(facts._replace(description=description, tags=tuple(tags)))
        entry = entry_of(text, (0.0,) * facts.numbers)
        end = self._end + len(entry)
        if count >= SERIES_MAX or len(text) > FACTS_BYTES_MAX or self._is_closed or not self._can_reach(end):
            return 0
        self._memory[self._end : end] = entry
        self._end = end
        struct.pack_into("<Q", self._memory, IN_USE_AT, end - HEADER.size)
        self._counts[facts.name] = count + 1
        place = self._places[facts] = end - NUMBER.size * facts.numbers
        return place

    def _can_reach(self, end: int) -> bool:
        try:
            return self._has_room(end)
        except OSError:
            return False

    def _has_room(self, end: int) -> bool:
        if end > self._reserved and end <= SIZE:
            self._segment.reserve(self._reserved, end + STEP - self._reserved)
            self._reserved = min(end + STEP, SIZE)
        return end <= self._reserved

    def close(self) -> None:
        """Take no further series.  The memory goes with the last reference to the page; the node removes the name."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._segment.close_descriptor()


def entry_of(facts: bytes, numbers: tuple[float, ...] | list[float]) -> bytes:
    """The bytes of a series, from its facts as JSON."""
    text = facts.ljust(-(-len(facts) // 8) * 8)
    return LENGTHS.pack(len(facts), len(numbers)) + text + struct.pack(f"<{len(numbers)}d", *numbers)


def page_of(entries: list[bytes], left_out: int = 0) -> bytes:
    """A page with these entries."""
    body = b"".join(entries)
    return HEADER.pack(MAGIC, len(body), left_out) + body


def left_out_of(data: bytes) -> int:
    """The number of updates that a page leaves out."""
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return 0
    return int(HEADER.unpack_from(data)[2])


def series_of(data: bytes) -> Iterator[tuple[bytes, tuple[float, ...]]]:
    """Yield the facts, as JSON, and the numbers of each series.  Bytes that are no page have none."""
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        return
    place, end = HEADER.size, min(HEADER.size + HEADER.unpack_from(data)[1], len(data))
    while place + LENGTHS.size <= end:
        length, count = LENGTHS.unpack_from(data, place)
        begin = place + LENGTHS.size
        numbers = begin + -(-length // 8) * 8
        place = numbers + NUMBER.size * count
        if place > end:
            return
        yield data[begin : begin + length], struct.unpack_from(f"<{count}d", data, numbers)


class Sums:
    """The sums of pages of ended processes: counters and histograms stay, gauges go.

    Args:
        bytes_max: the size of a page of these sums.  Further series are left out.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.series: dict[bytes, list[float]] = {}
        self.bytes = HEADER.size
        self.left_out = 0

    def add(self, data: bytes) -> None:
        """Add a page."""
        self.left_out += left_out_of(data)
        for facts, numbers in series_of(data):
            if facts.startswith(_GAUGE_FACTS):
                continue
            sums = self.series.get(facts)
            if sums is not None and len(sums) == len(numbers):
                sums[:] = map(float.__add__, sums, numbers)
                continue
            size = len(entry_of(facts, numbers))
            if sums is not None or self.bytes + size > self.bytes_max:
                self.left_out += 1
                continue
            self.series[facts] = list(numbers)
            self.bytes += size

    def page(self) -> bytes:
        """The sums as a page."""
        return page_of([entry_of(facts, numbers) for facts, numbers in self.series.items()], self.left_out)
