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


def measure(figure: Figure, effort: Effort) -> None:
    """All from one driver on the head, which is one of the nodes."""
    tasks = 20_000 if effort.quick else 100_000
    counts = tasks_by_node(tasks)
    values = sorted(counts.values(), reverse=True) + [0] * (NODES - len(counts))
    mean = statistics.mean(values)
    label = f"{tasks:,} tasks of 5 ms, submitted on one of {NODES} nodes"
    paper = "100,000 tasks evenly over 21 nodes"
    figure.add(f"{label}: most on one node / mean", values[0] / mean, "", EMULATED, paper=paper, at_most=EVENNESS)
    figure.add(f"{label}: fewest on one node / mean", values[-1] / mean, "", EMULATED, at_least=LEAST)
    if effort.quick:
        figure.notes.append("A quick run submits 20,000 tasks, not 100,000: the ends of the run weigh more.")
    line = [Series("tasks", EMULATED, [(float(i), float(value)) for i, value in enumerate(values, 1)])]
    figure.plots.append(Plot("Tasks by node", "node, the busiest first", "tasks", line, is_line=False))


def tasks_by_node(tasks: int) -> dict[str, int]:
    """How many ran where."""

    @zray.remote
    def nap(seconds: float) -> str:
        time.sleep(seconds)
        return zray.get_runtime_context().get_node_id()

    with emulated(NODES - 1, cpus=CPUS, head_cpus=CPUS):
        zray.get([nap.remote(0.05) for _ in range(2 * NODES * CPUS)])  # every node has its workers
        return dict(collections.Counter(zray.get([nap.remote(TASK_SECONDS) for _ in range(tasks)])))
