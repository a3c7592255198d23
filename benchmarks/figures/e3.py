"""E3 (OSDI Fig 9): one client of the object store: bytes and calls per second by the size of an object."""

from __future__ import annotations

import functools
import statistics

import zray

from ..floors import measure_memory
from ..objects import STORE_BYTES, array_of
from ..timing import Effort, samples
from .results import MEASURED, Figure, Plot, Series

SIZES = [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 64 << 20, 256 << 20]
LARGE = 64 << 20
WARM_UP_BYTES = 2_000_000_000


def measure(figure: Figure, effort: Effort) -> None:
    """Arrays whose pages are touched; refs are dropped, so that room is used again."""
    sizes = [size for size in SIZES if size <= LARGE or not effort.quick]
    calls, rates, shares = [], [], []
    with zray.init(num_cpus=1, object_store_memory=STORE_BYTES):
        for size in sizes:
            seconds = put_seconds(size, effort)
            calls.append((float(size), 1 / seconds))
            rates.append((float(size), size / seconds / 1e9))
        for _ in range(1 if effort.quick else 5):  # in turns: the machine may be twice as fast a minute later
            floor = measure_memory(LARGE >> 20)
            shares.append(LARGE / put_seconds(LARGE, effort) / 1e9 / floor["mapped_copy"])
        small = b"x" * 100
        puts = 1_000 / statistics.median(samples(lambda: [zray.put(small) for _ in range(1_000)] and None, effort))
        ref = zray.put(array_of(100_000_000))
        get = statistics.median(samples(functools.partial(zray.get, ref), effort))
    paper = "> 15 GB/s, 16 cores"
    figure.add("put of 64 MB", dict(rates)[LARGE], "GB/s", MEASURED, paper=paper)
    label = "the same / a bare copy into mapped memory, in turns"
    figure.add(label, statistics.median(shares), "", MEASURED, at_least=0.8)
    figure.add("put of 100 bytes", puts, "1/s", MEASURED, paper="18,000 per second", at_least=18_000)
    figure.add("get of 100 MB, in place", get * 1e6, "us", MEASURED, at_most=200)
    mapped = [(float(min(sizes)), floor["mapped_copy"]), (float(max(sizes)), floor["mapped_copy"])]
    unmapped = [(float(min(sizes)), floor["fresh_copy"]), (float(max(sizes)), floor["fresh_copy"])]
    lines = [
        Series("zray put", MEASURED, rates),
        Series("copy, mapped (64 MB)", MEASURED, mapped),
        Series("copy, fresh (64 MB)", MEASURED, unmapped),
    ]
    figure.plots.append(Plot("Bytes put by one client", "object size in bytes", "GB/s", lines, log_x=True))
    line = [Series("zray put", MEASURED, calls)]
    figure.plots.append(Plot("Puts by one client", "object size in bytes", "1/s", line, log_x=True, log_y=True))


def put_seconds(size: int, effort: Effort) -> float:
    """Of one put, in a steady state."""
    array = array_of(size)
    batch = max(1, min(200, 10_000_000 // size))

    def put() -> None:
        for _ in range(batch):
            zray.put(array)

    for _ in range(min(200, WARM_UP_BYTES // size // batch)):
        put()
    return statistics.median(samples(put, effort, at_least=5)) / batch
