"""E6 (arXiv v1): what a second replica of a GCS shard costs in tasks per second."""

from __future__ import annotations

import statistics

from ..chain_throughput import LIMIT
from ..chain_throughput import measure as measure_rates
from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series


def measure(figure: Figure, effort: Effort) -> None:
    """No-op tasks whose refs are kept, by turns on a cluster of one replica and on one of two."""
    rates = measure_rates(3 if effort.quick else 7, 10_000 if effort.quick else 20_000)
    medians = {count: statistics.median(found) for count, found in rates.items()}
    figure.add(
        "task throughput lost to the second replica",
        (1 - medians[2] / medians[1]) * 100,
        "%",
        MEASURED,
        paper="< 10 %",
        at_most=LIMIT * 100,
    )
    points = [(float(count), value) for count, found in rates.items() for value in found]
    line = [
        Series("each run", MEASURED, points),
        Series("median", MEASURED, [(float(count), value) for count, value in medians.items()]),
    ]
    figure.plots.append(Plot("No-op tasks kept", "replicas of the shard", "tasks/s", line, is_line=False))
