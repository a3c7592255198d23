"""E2 (arXiv v1): tasks submitted on one of 21 nodes spread over all of them."""

from __future__ import annotations

import collections
import statistics
import time

import zray

from ..timing import Effort
from .emulated import emulated
from .results import EMULATED, Figure, Plot, Series

NODES = 21
CPUS = 2
TASK_SECONDS = 0.005
EVENNESS = 1.15  # the busiest node's tasks / the mean
LEAST = 0.85
ROUNDS = 3  # each with nodes of its own


def measure(figure: Figure, effort: Effort) -> None:
    """All from one driver on the head, which is one of the nodes."""
    tasks, rounds = (20_000, 1) if effort.quick else (100_000, ROUNDS)
    mean = tasks / NODES
    counted = [tasks_by_node(tasks) for _ in range(rounds)]
    runs = sorted((in_order(counts) for counts, _ in counted), key=lambda run: run[0])
    values = runs[rounds // 2]
    label = f"{tasks:,} tasks of 5 ms, submitted on one of {NODES} nodes"
    if rounds > 1:
        label += f", median of {rounds} runs"
        each = ", ".join(f"{run[0] / mean:.2f} and {run[-1] / mean:.2f}" for run in runs)
        figure.notes.append(f"21 nodes share one machine's CPUs, which decides how fast each is. Each run: {each}.")
    paper = "100,000 tasks evenly over 21 nodes"
    figure.add(f"{label}: most on one node / mean", values[0] / mean, "", EMULATED, paper=paper, at_most=EVENNESS)
    fewest = statistics.median(run[-1] for run in runs) / mean
    figure.add(f"{label}: fewest on one node / mean", fewest, "", EMULATED, at_least=LEAST)
    others = statistics.median(max(counts[node] for node in counts if node != own) for counts, own in counted) / mean
    figure.add(f"{label}: most on one of the other 20 / mean", others, "", EMULATED)
    if effort.quick:
        figure.notes.append("A quick run submits 20,000 tasks, not 100,000: the ends of the run weigh more.")
    line = [Series("tasks", EMULATED, [(float(i), float(value)) for i, value in enumerate(values, 1)])]
    figure.plots.append(Plot("Tasks by node", "node, the busiest first", "tasks", line, is_line=False))


def in_order(counts: dict[str, int]) -> list[int]:
    """The tasks of each node, the busiest first."""
    return sorted(counts.values(), reverse=True) + [0] * (NODES - len(counts))


def tasks_by_node(tasks: int) -> tuple[dict[str, int], str]:
    """How many ran where; and which node has submitted them: it may run more, since it has them first."""

    @zray.remote
    def nap(seconds: float) -> str:
        time.sleep(seconds)
        return zray.get_runtime_context().get_node_id()

    with emulated(NODES - 1, cpus=CPUS, head_cpus=CPUS):
        zray.get([nap.remote(0.05) for _ in range(2 * NODES * CPUS)])  # every node has its workers
        counts = collections.Counter(zray.get([nap.remote(TASK_SECONDS) for _ in range(tasks)]))
        return dict(counts), zray.get_runtime_context().get_node_id()
