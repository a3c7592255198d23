"""E9 (OSDI Fig 8a): a task with a large argument, placed where that lies, and placed without a look at it."""

from __future__ import annotations

import statistics
import time
from typing import Any

import zray

from ..timing import Effort
from .emulated import emulated, has_policies
from .results import EMULATED, Figure, Plot, Series

SIZES = (100_000, 1_000_000, 10_000_000, 100_000_000)
WAYS = {"locality on": "bottom_up", "locality off": "no_locality"}
NODES = 2
COUNT = 150  # tasks of each size
PAPER = "10 to 100 times slower without, at 10 to 100 MB"


def measure(figure: Figure, effort: Effort) -> None:
    """Mean latency by size, both ways."""
    if not has_policies():
        raise NotImplementedError("a cluster of real nodes cannot be told yet to place tasks without locality")
    seconds = {name: latencies(policy, 6 if effort.quick else COUNT) for name, policy in WAYS.items()}
    on, off = seconds["locality on"], seconds["locality off"]
    large, small = SIZES[-1], SIZES[0]
    figure.add(
        "100 MB: latency without locality / with", off[large] / on[large], "", EMULATED, paper=PAPER, at_least=10
    )
    figure.add("with locality: latency at 100 MB / at 100 KB", on[large] / on[small], "", EMULATED, at_most=3)
    lines = [
        Series(name, EMULATED, [(float(size), value * 1e3) for size, value in by_size.items()])
        for name, by_size in seconds.items()
    ]
    title = "Latency of a task with one argument"
    figure.plots.append(Plot(title, "bytes of the argument", "ms, mean", lines, log_x=True, log_y=True))
    figure.notes.append("Two emulated nodes over loopback, encrypted, the link not shaped. Each argument is used once.")


def latencies(policy: str, count: int) -> dict[int, float]:
    """Mean seconds from submission to result, by size; arguments are made on the nodes by turns."""

    @zray.remote
    def make(size: int) -> Any:
        import numpy

        return numpy.ones(size // 8)

    @zray.remote
    def last_of(array: Any) -> float:
        return float(array[-1])

    found = {}
    with emulated(NODES, cpus=2, policy=policy):
        for size in SIZES:
            times = []
            for number in range(count + NODES):  # the first ones start workers and fetch code
                ref = make.options(resources={f"node-{number % NODES}": 1}).remote(size)
                zray.wait([ref], fetch_local=False)
                started = time.perf_counter()
                assert zray.get(last_of.remote(ref)) == 1.0
                times.append(time.perf_counter() - started)
                del ref
            found[size] = statistics.mean(times[NODES:])
    return found
