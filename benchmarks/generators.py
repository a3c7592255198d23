"""Rates of generators: `python -m benchmarks.generators` prints medians over some turns, on two CPUs.

Each turn has the peer of a figure beside it: one task for the first item, `put` of a large array for large items.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import zray

SMALL_COUNT = 20_000
LARGE_COUNT, LARGE_BYTES = 1_000, 1 << 20
PUT_BYTES = 100_000_000
LONE_COUNT = 200
REST_SECONDS = 0.3


@zray.remote
def numbers(count: int) -> Iterator[int]:
    """Yield small items."""
    yield from range(count)


@zray.remote
def arrays(count: int) -> Iterator[Any]:
    """Yield an array of 1 MB again and again, as its peer puts an array that is there."""
    array: Any = np.full(LARGE_BYTES, 7, np.uint8)
    for _ in range(count):
        yield array


@zray.remote
def new_arrays(count: int) -> Iterator[Any]:
    """Yield arrays of 1 MB, each of them made and filled for its item."""
    for number in range(count):
        yield np.full(LARGE_BYTES, number % 256, np.uint8)


@zray.remote
def one() -> int:
    """Return at once."""
    return 1


def small_rate() -> float:
    """Small items per second, drawn and fetched."""
    began = time.perf_counter()
    for ref in numbers.remote(SMALL_COUNT):
        zray.get(ref)
    return SMALL_COUNT / (time.perf_counter() - began)


def _drawn_rate(stream: Any) -> float:
    began = time.perf_counter()
    for ref in stream:
        zray.get(ref)[0]
    return LARGE_COUNT * LARGE_BYTES / (time.perf_counter() - began) / 1e9


def large_rate() -> float:
    """GB per second of arrays of 1 MB, drawn and read."""
    return _drawn_rate(arrays.remote(LARGE_COUNT))


def new_rate() -> float:
    """GB per second of arrays of 1 MB that the generator makes, drawn and read."""
    return _drawn_rate(new_arrays.remote(LARGE_COUNT))


def put_rate() -> float:
    """GB per second of `put` of 100 MB."""
    array: Any = np.full(PUT_BYTES, 7, np.uint8)  # `zeros` would be read from one page, in a cache
    began = time.perf_counter()
    zray.put(array)
    return PUT_BYTES / (time.perf_counter() - began) / 1e9


def _median_us(run: Callable[[], Any]) -> float:
    times = []
    for _ in range(LONE_COUNT):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def first_us() -> float:
    """Median time to the first item, in microseconds."""
    return _median_us(lambda: zray.get(next(numbers.remote(1))))


def task_us() -> float:
    """Median time of a task, in microseconds."""
    return _median_us(lambda: zray.get(one.remote()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="turns of each figure; default 5")
    turns = parser.parse_args().turns
    zray.init(num_cpus=2, log_to_driver=False)
    figures = (small_rate, large_rate, new_rate, put_rate, first_us, task_us)
    for run in figures:
        run()  # workers, functions and pages of the arena are there from now on
    found: dict[str, list[float]] = {run.__name__: [] for run in figures}
    for _ in range(turns):
        for run in figures:
            time.sleep(REST_SECONDS)  # the node frees the 20,000 items of the figure before
            found[run.__name__].append(run())
    middle = {name: statistics.median(values) for name, values in found.items()}
    print("| figure | measured | needed |\n|---|---:|---:|")
    print(f"| small items | {middle['small_rate']:,.0f}/s | 50,000/s |")
    ratio = middle["large_rate"] / middle["put_rate"]
    print(f"| arrays of 1 MB, of `put` of 100 MB | {ratio:.2f} ({middle['large_rate']:.1f} GB/s) | 0.5 |")
    ratio = middle["new_rate"] / middle["put_rate"]
    print(f"| the same, each array made anew | {ratio:.2f} ({middle['new_rate']:.1f} GB/s) | |")
    ratio = middle["first_us"] / middle["task_us"]
    print(f"| first item, of one task | {ratio:.2f} ({middle['first_us']:.0f} us) | 1.5 |")


if __name__ == "__main__":
    main()
