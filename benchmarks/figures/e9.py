"""E9 (OSDI Fig 8a): a task with a large argument, placed where that lies, and placed without a look at it."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import zray

from ..timing import Effort
from .emulated import emulated, has_policies
from .results import EMULATED, Figure, Plot, Series
from .shaped_link import RATE, latencies_over_it

SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
WAYS = {"locality on": "bottom_up", "locality off": "no_locality"}
NODES = 2
COUNT = 150  # tasks of each size
QUICK_COUNT = 10  # of which some have to be fetched
SHAPED_COUNT = 20  # over a link on which 100 MB take 0.8 s
PAPER = "10 to 100 times slower without, at 10 to 100 MB"


def measure(figure: Figure, effort: Effort) -> None:
    """Mean latency by size, both ways: over loopback as it is, and over a link of a set rate."""
    if not has_policies():
        raise NotImplementedError("a cluster of real nodes cannot be told yet to place tasks without locality")
    count = QUICK_COUNT if effort.quick else COUNT
    _compare(figure, "", {name: latencies(policy, count) for name, policy in WAYS.items()})
    figure.notes.append("Two emulated nodes over loopback, encrypted. Each argument is used once.")
    over = f"over a link of {RATE}"
    try:
        count = QUICK_COUNT if effort.quick else SHAPED_COUNT
        shaped = {name: latencies_over_it(policy, count) for name, policy in WAYS.items()}
    except NotImplementedError as error:
        figure.leave_out(f"the same {over}", str(error))
        return
    _compare(figure, f", {over}", shaped)
    figure.notes.append(f"The same {over}: a network namespace, whose loopback device the kernel shapes.")


def _compare(figure: Figure, over: str, times: dict[str, dict[int, list[float]]]) -> None:
    means = {
        name: {size: statistics.mean(values) for size, values in by_size.items()} for name, by_size in times.items()
    }
    on, off = means["locality on"], means["locality off"]
    large, small = max(on), min(on)
    figure.add(
        f"100 MB: latency without locality / with{over}", off[large] / on[large], "", EMULATED, paper=PAPER, at_least=10
    )
    figure.add(f"with locality: latency at 100 MB / at 100 KB{over}", on[large] / on[small], "", EMULATED, at_most=3)
    lines = [
        Series(name, EMULATED, [(float(size), value * 1e3) for size, value in by_size.items()])
        for name, by_size in means.items()
    ]
    title = f"Latency of a task with one argument{over}"
    figure.plots.append(Plot(title, "bytes of the argument", "ms, mean", lines, log_x=True, log_y=True))
    for name, by_size in times.items():
        for size, values in by_size.items():
            figure.keep(f"{name}, {size:,} bytes{over}", values, "s", EMULATED)


def latencies(policy: str, count: int, sizes: Sequence[int] = SIZES) -> dict[int, list[float]]:
    """Seconds from submission to result, by size.

    Each node makes an argument before any is used, and dice say whose is used first. By turns, three of four tasks
    went to their argument without a look at it, since its node was the one that had just reported.
    """

    @zray.remote
    def make(size: int) -> Any:
        import numpy

        return numpy.ones(size // 8)

    @zray.remote
    def last_of(array: Any) -> float:
        return float(array[-1])

    found: dict[int, list[float]] = {}
    dice = random.Random(9)
    with emulated(NODES, cpus=2, policy=policy):
        for size in sizes:
            times: list[float] = []
            while len(times) < count + NODES:  # the first ones start workers and fetch code
                refs = [make.options(resources={f"node-{number}": 1}).remote(size) for number in range(NODES)]
                zray.wait(refs, num_returns=NODES, fetch_local=False)
                dice.shuffle(refs)
                while refs:
                    started = time.perf_counter()
                    assert zray.get(last_of.remote(refs[-1])) == 1.0
                    times.append(time.perf_counter() - started)
                    refs.pop()
            found[size] = times[NODES : NODES + count]
    return found
