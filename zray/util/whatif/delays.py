"""Delays of a recorded run: how long a task took to begin on an idle machine, behind another one, in a new process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...store.event_ring import Kind
from ..report.runs import Runs, waits_by_owner

__all__: list[str] = []  # for `zray whatif`

# A slower begin has another reason than its messages.
HOP_SECONDS_MAX = 5e-3
START_SECONDS_MAX = 2.0


class Delays(NamedTuple):
    """Seconds: between two processes of a node, of a worker for each task, until a worker has started, and from the
    start of the program until the first worker of each node has.
    """

    hop: float
    task: float
    start: float
    boots: tuple[float, ...]


def delays_of(runs: Runs, cores: float, nodes: Sequence[str] = ()) -> Delays:
    """Return the delays of a record.

    Args:
        cores: of the recorded machine.
        nodes: the ids of its nodes.
    """
    idle, behind, first = _samples(runs, cores)
    task = float(np.mean(behind)) if behind else 0.0  # all that others had to wait for counts, rare long ones too
    begin = float(np.median(idle)) if idle else task
    task = min(task, HOP_SECONDS_MAX)
    hop = min(max(begin - task, begin / 3) / 2, HOP_SECONDS_MAX)
    messages = 2 * hop + task
    boots: dict[str, float] = {}
    starts: list[float] = []
    for began, ready, node in sorted(first):
        if node not in boots:
            boots[node] = max(began - messages, 0.0) if began - ready > messages else 0.0
        else:  # the other workers of a new session wait for the first one, and then for their own start
            starts.append(began - max(ready, boots[node]) - messages)
    start = min(max(min(starts, default=0.0), 0.0), START_SECONDS_MAX)
    return Delays(hop, task, start, tuple(boots.get(node, 0.0) for node in nodes))


def corrected(delays: Delays, recorded: Runs, predicted: Runs, cores: float) -> Delays:
    """Delays with which tasks of a prediction follow each other as closely as the recorded ones.

    A message that the worker waits for between two tasks is in the time between them too.
    """
    _, wanted, _ = _samples(recorded, cores)
    _, found, _ = _samples(predicted, cores)
    if not wanted or not found:
        return delays
    return delays._replace(task=max(delays.task + float(np.mean(wanted)) - float(np.mean(found)), 0.0))


def _samples(runs: Runs, cores: float) -> tuple[list[float], list[float], list[tuple[float, float, str]]]:
    """Times to begin on idle cores in a process that has run others, and behind another task; and the moments at which
    tasks of new processes began and could begin, with their nodes.
    """
    idle: list[float] = []
    behind: list[float] = []
    first: list[tuple[float, float, str]] = []
    ended: dict[tuple[str, int], float] = {}  # the end of the last run of a process
    waits = waits_by_owner(runs)
    working = [run for run in runs.runs if run.task_id not in waits]  # one that waits has its core lent to others
    begins = np.sort([run.begin for run in working])
    ends = np.sort([run.stored for run in working])
    is_cluster = len({run.process[0] for run in runs.runs}) > 1
    for run in runs.runs:  # in the order of their begins
        ready, before = runs.ready_at(run), ended.get(run.process)
        # Between nodes, arguments come before the begin: their time is that of their bytes.
        if run.kind == Kind.TASK and ready is not None and not (is_cluster and run.dependencies):
            count = np.searchsorted(begins, ready, "right") - np.searchsorted(ends, ready, "right")
            if before is None:
                first.append((run.begin, ready, run.process[0]))
            elif before <= ready and count < cores:
                idle.append(run.begin - ready)
            elif ready < before <= run.begin:
                behind.append(run.begin - before)
        ended[run.process] = max(run.stored, before or 0.0)
    return idle, behind, first
