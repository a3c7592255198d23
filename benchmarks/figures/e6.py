"""E6 (arXiv v1): what a second replica of a GCS shard costs in tasks per second; and how many writes a shard takes."""

from __future__ import annotations

import statistics

from ..chain_throughput import LIMIT, cost
from ..chain_throughput import measure as measure_rates
from ..chain_writes import Rate
from ..chain_writes import measure as measure_writes
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
    for is_remote, where, kind in ((False, "on the head", MEASURED), (True, "on other nodes", EMULATED)):
        rounds, seconds = (1, 1.0) if effort.quick else (3, 2.0)
        counts = (2, 3) if is_remote else (1, 2, 3)
        add_writes(figure, [measure_writes(counts, seconds, is_remote=is_remote) for _ in range(rounds)], where, kind)
    figure.notes.append(
        "Writes are what tasks are not: the shard is given one after the other and does nothing else, and each is "
        "acknowledged when all replicas have it. One replica is a role in the process of the head's node; more are "
        "processes of their own. What the busiest of them takes of a core beside the writer says that it is what all "
        "wait for; where other programs run on these cores, it is what they leave."
    )


def add_writes(figure: Figure, rounds: list[dict[int, Rate]], where: str, kind: str) -> None:
    """Rows without a limit: the paper's limit is about tasks."""
    points = []
    for count in rounds[0]:
        found = [by_count[count] for by_count in rounds]
        writes = statistics.median(rate.writes for rate in found)
        what = f"{count} replicas, all but the first {where}" if count > 1 else "1 replica"
        label = f"writes per second of one shard that does nothing else, {what}"
        figure.add(label, writes, "1/s", kind)
        figure.keep(label, [rate.writes for rate in found], "1/s", kind)
        points.append((float(count), writes))
        busiest, writer = (statistics.median(getattr(rate, name) for rate in found) for name in ("busiest", "writer"))
        figure.notes.append(
            f"Writes, {what}: the busiest replica takes {busiest:.0%} of a core, the writer {writer:.0%}."
        )
    title = f"Writes to one shard, all replicas but the first {where}"
    line = [Series("median", kind, points)]
    figure.plots.append(Plot(title, "replicas of the shard", "writes/s", line, is_line=False))
