"""E7 (OSDI Fig 10a): how long clients are without an answer when a member of a shard's chain is killed."""

from __future__ import annotations

from ..chain_failover import ENDS, LIMIT_MS, MIDDLE, failovers
from ..chain_reads import COUNTERS
from ..timing import Effort
from .results import EMULATED, MEASURED, TIME, Figure, Plot, Series


def measure(figure: Figure, effort: Effort) -> None:
    """Chain of two; the head and the tail are killed by turns; a new member catches up before the next kill.  Then a
    chain of three, and its middle.
    """
    runs, middle_runs = (4, 2) if effort.quick else (20, 5)
    for count, victims, is_remote, where, kind in (
        (runs, ENDS, False, "both replicas on the head", MEASURED),
        (runs, ENDS, True, "one on a node", EMULATED),
        (middle_runs, MIDDLE, False, "of three replicas on the head", MEASURED),
    ):
        result = failovers(count, is_remote=is_remote, victims=victims)
        for name, found in result.silences.items():
            figure.keep(f"{name} killed, {where}: the longest time without an answer", found, "ms", kind)
            figure.add(
                f"{name} killed {len(found)} times, {where}: the longest time without an answer",
                max(found),
                "ms",
                kind,
                paper="< 30 ms with detection",
                at_most=LIMIT_MS,
                scales=TIME,
            )
        words = f"{result.acknowledged:,} requests acknowledged, {result.lost} of their records lost"
        figure.add_fact(f"nothing acknowledged is lost, {where}", result.lost == 0, words, kind)
        words = f"{result.reads:,} reads of {COUNTERS} counters that only grow, {result.backwards} went backwards"
        is_right = result.reads > 0 and not result.backwards
        figure.add_fact(f"reads never go backwards, {where}", is_right, words, kind)
        lines = [
            Series(f"{name} killed", kind, [(float(i), value) for i, value in enumerate(found, 1)])
            for name, found in result.silences.items()
        ]
        figure.plots.append(Plot(f"Longest time without an answer, {where}", "kill", "ms", lines, is_line=False))
    figure.notes.append(
        "What is asked every millisecond is a write, and the longest time without an answer is that of writes. Beside "
        "it a client of its own reads, one question under way, each millisecond at most: what was read once, or "
        "acknowledged before the question, must not be followed by anything older."
    )
