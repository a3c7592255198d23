"""How long things take: repeats, medians, deadlines."""

from __future__ import annotations

import compileall
import contextlib
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How much time a figure may take."""

    seconds: float = 2.0  # each figure is repeated for about as long
    repeats: int = 3  # and at least so often
    quick: bool = False


QUICK = Effort(seconds=0.4, repeats=1, quick=True)
FULL = Effort()
ROUND = Effort(seconds=0.5, repeats=1)  # of several


def compile_zray() -> None:
    """Its modules, as pip leaves them: what is measured starts processes, and each would compile what it imports where
    Python was told not to write that down.
    """
    import zray

    compileall.compile_dir(os.path.dirname(zray.__file__), quiet=1)


def samples(action: Callable[[], Any], effort: Effort, at_least: int | None = None) -> list[float]:
    """Seconds of each of many runs of `action`, after one run that does not count."""
    action()
    wanted = effort.repeats if at_least is None else at_least
    times: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(times) < wanted or time.perf_counter() < end:
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return times


def median_seconds(action: Callable[[], Any], effort: Effort) -> float:
    return statistics.median(samples(action, effort))


def rate(count: float, action: Callable[[], Any], effort: Effort) -> float:
    """`count` per second, where one run of `action` does `count`: the median."""
    return count / median_seconds(action, effort)


def percentile(times: list[float], percent: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextlib.contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Raise TimeoutError in the main thread when the block takes longer than `seconds`."""

    def expire(number: int, frame: Any) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:.0f} s")

    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
