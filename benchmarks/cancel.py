"""Times of `cancel`: `python -m benchmarks.cancel` prints the median of each over some turns, on two CPUs."""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import zray
from zray.exceptions import TaskCancelledError

QUEUED = 10_000


class Counter:
    """Number of tasks that have begun."""

    def __init__(self) -> None:
        self.count = 0

    def begin(self) -> None:
        """Count one more."""
        self.count += 1

    def begun(self) -> int:
        """Return how many have begun."""
        return self.count


COUNTER: Any = zray.remote(num_cpus=0)(Counter)


@zray.remote
def waits(counter: Any) -> None:
    """Block until it is cancelled."""
    zray.get(counter.begin.remote())
    threading.Event().wait()


@zray.remote
def loops(counter: Any) -> None:
    """Run Python code until it is cancelled."""
    zray.get(counter.begin.remote())
    while True:
        sum(range(1_000))


@zray.remote
def nothing() -> None:
    """End at once."""


def begun(function: Any) -> Any:
    """A task of this function that runs."""
    counter = COUNTER.remote()
    ref = function.remote(counter)
    while not zray.get(counter.begun.remote()):
        pass
    return ref


def seconds_to_cancel(refs: list[Any], **options: bool) -> float:
    """From the first `cancel` until each ref has raised."""
    start = time.perf_counter()
    for ref in refs:
        zray.cancel(ref, **options)
    for ref in refs:
        try:
            zray.get(ref)
        except TaskCancelledError:
            continue
        raise AssertionError("a value of a cancelled task")
    return time.perf_counter() - start


def queued() -> float:
    """Tasks behind others that block the CPUs."""
    blockers = [begun(waits) for _ in range(2)]
    took = seconds_to_cancel([nothing.remote() for _ in range(QUEUED)])
    seconds_to_cancel(blockers)
    return took


FIGURES: dict[str, Callable[[], float]] = {
    f"{QUEUED:,} queued tasks": queued,
    "a task that runs Python code": lambda: seconds_to_cancel([begun(loops)]),
    "a task that waits in a lock": lambda: seconds_to_cancel([begun(waits)]),
    "a task, by force": lambda: seconds_to_cancel([begun(waits)], force=True),
}


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=11, help="of each figure (default: 11)")
    turns = parser.parse_args().turns
    with zray.init(num_cpus=2):
        zray.get([nothing.remote() for _ in range(100)])
        for name, measure in FIGURES.items():
            times = sorted(measure() for _ in range(turns))
            print(f"{name:32} {statistics.median(times) * 1e3:8.1f} ms   (at most {times[-1] * 1e3:.1f} ms)")


if __name__ == "__main__":
    main()
