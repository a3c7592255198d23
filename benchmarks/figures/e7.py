"""E7 (OSDI Fig 10a): how long clients are without an answer when a member of a shard's chain is killed."""

from __future__ import annotations

from ..chain_failover import LIMIT_MS, failovers
from ..timing import Effort
from .results import MEASURED, Figure, Plot, Series


def measure(figure: Figure, effort: Effort) -> None:
    """Chain of two; the head and the tail are killed by turns; a new member catches up before the next kill."""
    silences, acknowledged, lost = failovers(4 if effort.quick else 20)
    for name, found in silences.items():
        figure.add(
            f"{name} killed {len(found)} times: the longest time without an answer",
            max(found),
            "ms",
            MEASURED,
            paper="< 30 ms with detection",
            at_most=LIMIT_MS,
        )
    words = f"{acknowledged:,} requests acknowledged, {lost} of their records lost"
    figure.add_fact("nothing acknowledged is lost", lost == 0, words, MEASURED)
    lines = [
        Series(f"{name} killed", MEASURED, [(float(i), value) for i, value in enumerate(found, 1)])
        for name, found in silences.items()
    ]
    title = "Longest time without an answer"
    figure.plots.append(Plot(title, "kill", "ms", lines, is_line=False))
