"""Delays of a recorded run: how long a task took to begin on an idle machine, behind another one, in a new process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...store.event_ring import Kind
from ..report.runs import Runs, waits_by_owner

__all__: list[str] = []  # for `zray whatif`

# A slower begin has another reason than its messages.
DELAY_SECONDS_MAX = 0.1
START_SECONDS_MAX = 2.0


class Delays(NamedTuple):
    """Seconds: between two processes of a node, of a worker for each task and each call, until a worker has started,
    and from the start of the program until the first worker of each node has.
    """

    hop: float
    task: float
    call: float
    start: float
    boots: tuple[float, ...]


class Samples(NamedTuple):
    """Times to begin.

    idle: of tasks on idle cores.  tasks, calls: of all in processes that have run others before, also behind another
    one.  first: when tasks of new processes began, when they could have, and on which node.
    """

    idle: list[float]
    tasks: list[float]
    calls: list[float]
    first: list[tuple[float, float, str]]


def delays_of(
    runs: Runs, cores: float, nodes: Sequence[str] = (), actors: Iterable[tuple[float, float]] = ()
) -> Delays:
    """Return the delays of a record.

    Args:
        cores: of the recorded machine.
        nodes: the ids of its nodes.
        actors: when each was created, and when its constructor began.
    """
    found = samples_of(runs, cores)
    # All that tasks have waited counts, rare long waits too.
    task, call = (min(_mean(waits), DELAY_SECONDS_MAX) for waits in (found.tasks, found.calls))
    idle = float(np.median(found.idle)) if found.idle else task
    hop = min(idle, task or idle) / 3
    task, call, messages = max(task - 2 * hop, 0.0), max(call - 2 * hop, 0.0), idle
    boots: dict[str, float] = {}
    starts: list[float] = []
    for began, ready, node in sorted(found.first):
        if node not in boots:
            boots[node] = max(began - messages, 0.0) if began - ready > messages else 0.0
        else:  # the other workers of a new session wait for the first one, and then for their own start
            starts.append(began - max(ready, boots[node]) - messages)
    booted = max(boots.values(), default=0.0)
    starts += [began - created - messages for created, began in actors if created > booted]
    start = min(max(float(np.median(starts)), 0.0), START_SECONDS_MAX) if starts else 0.0
    return Delays(hop, task, call, start, tuple(boots.get(node, 0.0) for node in nodes))


def corrected(delays: Delays, recorded: Runs, predicted: Runs, cores: float) -> Delays:
    """Delays with which tasks of a prediction follow each other as closely as the recorded ones.

    A message that the worker waits for between two tasks is in the time between them too.
    """
    wanted, found = samples_of(recorded, cores), samples_of(predicted, cores)
    task, call = delays.task, delays.call
    if wanted.tasks and found.tasks:
        task = max(task + _mean(wanted.tasks) - _mean(found.tasks), 0.0)
    if wanted.calls and found.calls:
        call = max(call + _mean(wanted.calls) - _mean(found.calls), 0.0)
    return delays._replace(task=min(task, DELAY_SECONDS_MAX), call=min(call, DELAY_SECONDS_MAX))


def samples_of(runs: Runs, cores: float) -> Samples:
    """The times to begin of tasks and calls."""
    found = Samples([], [], [], [])
    ended: dict[tuple[str, int, int], float] = {}  # the end of the last run of a process, or of a thread of it
    waits = waits_by_owner(runs)
    working = [run for run in runs.runs if run.task_id not in waits]  # one that waits has its core lent to others
    begins = np.sort([run.begin for run in working])
    ends = np.sort([run.stored for run in working])
    is_cluster = len({run.process[0] for run in runs.runs}) > 1
    for run in runs.runs:  # in the order of their begins
        row = (*run.process, run.row)
        ready, before = runs.ready_at(run), ended.get(row)
        ended[row] = max(run.stored, before or 0.0)
        # Between nodes, arguments come before the begin: their time is that of their bytes.
        if ready is None or (is_cluster and run.dependencies):
            continue
        count = np.searchsorted(begins, ready, "right") - np.searchsorted(ends, ready, "right")
        is_free = count < cores
        if before is None:
            if run.kind == Kind.TASK and (is_free or not found.first):  # else it may have waited for a core
                found.first.append((run.begin, ready, run.process[0]))
        elif run.kind == Kind.CALL:
            found.calls.append(max(run.begin - max(ready, before), 0.0))
        elif run.kind == Kind.TASK and (is_free or ready < before):
            found.tasks.append(max(run.begin - max(ready, before), 0.0))
            if is_free and before <= ready:
                found.idle.append(run.begin - ready)
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0
