"""E6 (arXiv v1): what a second replica of a GCS shard costs in tasks per second."""

from __future__ import annotations

import statistics

from ..chain_throughput import LIMIT, cost
from ..chain_throughput import measure as measure_rates
from ..timing import Effort
from .results import EMULATED, MEASURED, Figure, Plot, Series


def measure(figure: Figure, effort: Effort) -> None:
    """No-op tasks whose refs are kept, by turns on a cluster of one replica and on one of two (and one of three)."""
    for is_remote, where, kind in ((False, "on the head", MEASURED), (True, "on another node", EMULATED)):
        rounds, tasks = (3, 10_000) if effort.quick else (7, 20_000)
        rates = measure_rates(rounds, tasks, is_remote=is_remote, replicas=(1, 2) if is_remote else (1, 2, 3))
        medians = {count: statistics.median(found) for count, found in rates.items()}
        figure.add(
            f"task throughput lost to the second replica, {where}",
            cost(rates) * 100,
            "%",
            kind,
            paper="< 10 %",
            at_most=LIMIT * 100,
        )
        if 3 in rates:
            figure.add(f"the same to two more replicas, {where}", cost(rates, 3) * 100, "%", kind)
        for count, found in rates.items():
            figure.keep(f"no-op tasks kept, {count} replica(s), the others {where}", found, "tasks/s", kind)
        points = [(float(count), value) for count, found in rates.items() for value in found]
        line = [
            Series("each run", kind, points),
            Series("median", kind, [(float(count), value) for count, value in medians.items()]),
        ]
        title = f"No-op tasks kept, all replicas but the first {where}"
        figure.plots.append(Plot(title, "replicas of the shard", "tasks/s", line, is_line=False))
    figure.notes.append("The other node is on this machine too, and takes its share of the same cores.")
