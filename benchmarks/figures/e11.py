"""E11 (OSDI Fig 12b): what an allreduce of actor calls takes when each call is dispatched later.

A ring of n ranks has 2 (n - 1) steps that wait for each other, and each of them is dispatched once: so the delay counts
2 (n - 1) times.  A group asks no scheduler.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import zray
from zray.util import collective

from ..timing import Effort
from . import ring_calls
from .results import MEASURED, Figure, Plot, Series
from .slow_dispatch import slow_nodes

DELAYS_MS = (0.0, 1.0, 5.0, 10.0)
SIZE = 10_000_000
CALLS = 9
GROUP_CALLS = 60
NEAR, GROUP_NEAR = 0.25, 0.05
PAPER = "16 nodes, 100 MB: nearly twice as slow with some ms"
ByDelay = dict[float, list[float]]  # ms of delay -> ms, one of each round


def measure(figure: Figure, effort: Effort) -> None:
    """All parts."""
    from . import on_four_nodes  # which has our rows

    two_ranks(figure, effort)
    on_four_nodes.delays(figure, effort)


def two_ranks(figure: Figure, effort: Effort) -> None:
    """Two ranks on one node: the ring, and the group in the same sessions."""
    rounds = 3 if effort.quick else 9
    ring: ByDelay = {delay: [] for delay in DELAYS_MS}
    group: ByDelay = {delay: [] for delay in (DELAYS_MS[0], DELAYS_MS[-1])}
    with slow_nodes() as hook, zray.init(num_cpus=2):
        members = ring_calls.members_of(2)
        for number in range(rounds):
            for delay in DELAYS_MS if number % 2 else DELAYS_MS[::-1]:
                hook.seconds = delay / 1e3
                ring[delay].append(ring_calls.measure(members, [SIZE], ring_calls.ONE_PIECE, CALLS)[SIZE])
                if delay in group:
                    group[delay] += of_group(SIZE, GROUP_CALLS)
    judge_ring(figure, ring, ranks=2, kind=MEASURED)
    judge_group(figure, group)
    figure.notes.append(
        f"Measured: two ranks on one machine, {SIZE // 10**6} MB, medians of {rounds} rounds, each with all delays. "
        "A hook of this benchmark holds each order to a worker back, between the local scheduler and the socket; zray "
        "has no such option. The members of a group are told their peers once, and then share memory: no later call "
        "asks a scheduler, so the delay does not reach them."
    )


class Rank:
    """Member of a group of two."""

    def times(self, rank: int, size: int, calls: int) -> list[float]:
        """Return the milliseconds of each call."""
        collective.init_collective_group(2, rank)
        array: Any = np.zeros(size // 4, np.float32)
        times = []
        for _ in range(calls):
            collective.barrier()
            started = time.perf_counter()
            collective.allreduce(array)
            times.append((time.perf_counter() - started) * 1e3)
        collective.destroy_collective_group()
        return times


def of_group(size: int, calls: int) -> list[float]:
    """Milliseconds of each call of a group of two actors of this session."""
    rank: Any = zray.remote(num_cpus=0)(Rank)
    found: list[list[float]] = zray.get([rank.remote().times.remote(number, size, calls) for number in range(2)])
    return found[0]


def expected(delay: float, start: float, ranks: int) -> float:
    """Milliseconds with that delay, where it takes `start` without."""
    return start + 2 * (ranks - 1) * delay


def judge_ring(figure: Figure, ring: ByDelay, *, ranks: int, kind: str) -> None:
    """Rows and the plot of a ring, held against T0 + 2 (n - 1) x delay."""
    where = f"{ranks} ranks"
    medians = {delay: statistics.median(times) for delay, times in ring.items()}
    start = medians[0.0]
    errors = []
    for delay, times in ring.items():
        figure.add(f"{where}, +{delay:g} ms: ring", medians[delay], "ms", kind, paper=PAPER, runs=times)
        figure.keep(f"{where}, +{delay:g} ms: ring", times, "ms", kind)
        errors.append(abs(medians[delay] / expected(delay, start, ranks) - 1))
    label = f"{where}: ring, to T0 + {2 * (ranks - 1)} x delay: farthest apart"
    figure.add(label, 100 * max(errors), "%", kind, at_most=100 * NEAR)
    points: list[tuple[float, float]] = [(delay, medians[delay]) for delay in ring]
    line = [(delay, expected(delay, start, ranks)) for delay in ring]
    lines = [Series("ring", kind, points), Series("T0 + 2 (n - 1) x delay", kind, line)]
    figure.plots.append(Plot(f"Allreduce of {where}, by the delay of dispatch", "ms added", "ms", lines))


def judge_group(figure: Figure, group: ByDelay) -> None:
    """The row of the group.  Only the fastest calls are compared: other work on the machine makes single ones slower by
    more than the limit, and none faster.
    """
    for delay, times in group.items():
        figure.add(f"2 ranks, +{delay:g} ms: group", statistics.median(times), "ms", MEASURED, runs=times)
        figure.keep(f"2 ranks, +{delay:g} ms: group", times, "ms", MEASURED)
    slowest = max(group)
    slower = min(group[slowest]) / min(group[0.0]) - 1
    label = f"2 ranks: group, with +{slowest:g} ms, to without, fastest of {len(group[0.0])} calls: slower by"
    figure.add(label, 100 * slower, "%", MEASURED, at_most=100 * GROUP_NEAR)
