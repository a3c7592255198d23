"""Memory of a training that goes on: how the resident memory of the program, its node and its workers grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .figures.results import linear_fit

SAMPLE_SECONDS = 1.0  # between two looks at the memory
WARM_SHARE = 0.2  # of the time, in which allocators and caches fill


class Growth(NamedTuple):
    """The memory and the iterations of a training.

    iterations: in all.  megabytes: at the end, of all processes.  megabytes_per_hour: slope of the least squares line.
    megabytes_per_1000: the same for 1,000 iterations, which does not depend on the speed of the machine.
    """

    iterations: int
    megabytes: float
    megabytes_per_hour: float
    megabytes_per_1000: float


def family(process: int) -> Iterator[int]:
    """The process and its descendants."""
    yield process
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in file.read_text().split():
            yield from family(int(child))


def resident_bytes(process: int) -> int:
    """Resident memory of a process, and of its part of the object store; 0: the process has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def growth(algo: Any, seconds: float) -> Growth:
    """Train for so long, and look at the memory meanwhile.

    Args:
        algo: an algorithm whose workers have started.
    """
    points: list[tuple[float, float]] = []  # hours, megabytes
    iterations, passed, due = 0, 0.0, seconds * WARM_SHARE
    begun = time.perf_counter()
    while passed < seconds or not points:
        algo.train()
        iterations += 1
        passed = time.perf_counter() - begun
        if passed >= due:
            points.append((passed / 3600, sum(map(resident_bytes, family(os.getpid()))) / 1e6))
            due = passed + SAMPLE_SECONDS
    slope, _, _ = linear_fit(points)
    return Growth(iterations, points[-1][1], slope, slope * passed / 3600 / iterations * 1000)
