"""The floor of the object store: how fast this machine copies into memory of four kinds.

    python floor_memory.py [--mebibytes 100]        one JSON line, GB/s (1e9 bytes), the best of five

heap_copy        between two arrays on the heap, both touched before
mapped_copy      into a shared-memory segment that this process has mapped and touched before
remapped_copy    into a segment whose pages exist, through a new mapping each time
fresh_copy       into a new segment each time: the kernel finds and zeroes every page

Stands alone (no import of this package), so that it can be run in a clean process.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import time
from collections.abc import Callable
from typing import Any

import numpy
import posix_ipc

REPEATS = 5


def new_segment(size: int) -> int:
    """A nameless POSIX shared-memory segment of `size` bytes, as a file descriptor."""
    segment = posix_ipc.SharedMemory(None, posix_ipc.O_CREX, size=size)
    posix_ipc.unlink_shared_memory(segment.name)
    return segment.fd


def copy_through_new_mapping(descriptor: int, source: numpy.ndarray) -> None:
    mapping = mmap.mmap(descriptor, source.nbytes)
    target = numpy.frombuffer(mapping, dtype=numpy.uint8)
    numpy.copyto(target, source)
    del target
    mapping.close()


def copy_into_new_segment(source: numpy.ndarray) -> None:
    descriptor = new_segment(source.nbytes)
    copy_through_new_mapping(descriptor, source)
    os.close(descriptor)


def best_rate(size: int, copy: Callable[[], None]) -> float:
    """GB/s of the fastest of a few copies of `size` bytes."""
    fastest = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        copy()
        fastest = min(fastest, time.perf_counter() - start)
    return round(size / fastest / 1e9, 2)


def measure(mebibytes: int) -> dict[str, float]:
    size = mebibytes << 20
    source: Any = numpy.ones(size, dtype=numpy.uint8)
    heap: Any = numpy.ones(size, dtype=numpy.uint8)
    descriptor = new_segment(size)
    mapped = numpy.frombuffer(mmap.mmap(descriptor, size), dtype=numpy.uint8)
    numpy.copyto(mapped, source)
    return {
        "heap_copy": best_rate(size, lambda: numpy.copyto(heap, source)),
        "mapped_copy": best_rate(size, lambda: numpy.copyto(mapped, source)),
        "remapped_copy": best_rate(size, lambda: copy_through_new_mapping(descriptor, source)),
        "fresh_copy": best_rate(size, lambda: copy_into_new_segment(source)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=100)
    print(json.dumps(measure(parser.parse_args().mebibytes)))


if __name__ == "__main__":
    main()
