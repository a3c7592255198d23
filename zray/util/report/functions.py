"""Table of a run's functions: how often each ran, how long, what it waited for, and how often it failed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...store.event_ring import Kind, Outcome
from .runs import Runs

__all__: list[str] = []  # for `zray report`

# Errors that are named in a row.
ERRORS_MAX = 3


class Function(NamedTuple):
    """The runs of a function or method.  Times are in seconds.

    waits_arguments: the mean time from the submission until all arguments were made.  waits_turn: the mean time from
    then to the begin.  reads: the total of reading arguments.  errors: kinds of errors, the most frequent first.
    retries: runs of tasks that had run before.
    """

    name: str
    is_call: bool
    runs: int
    total: float
    mean: float
    p50: float
    p99: float
    longest: float
    waits_arguments: float
    waits_turn: float
    reads: float
    failed: int
    cancelled: int
    errors: tuple[str, ...]
    retries: int = 0


def functions_of(runs: Runs) -> list[Function]:
    """Return a row for each function, those with the longest total first."""
    groups: dict[str, list[int]] = {}
    for place, run in enumerate(runs.runs):
        groups.setdefault(run.name, []).append(place)
    return sorted((_function(runs, name, places) for name, places in groups.items()), key=lambda row: -row.total)


def _function(runs: Runs, name: str, places: list[int]) -> Function:
    own = [runs.runs[place] for place in places]
    seconds = np.array([run.seconds for run in own])
    arguments, turns = [], []
    errors: dict[str, int] = {}
    for run in own:
        ready = runs.ready_at(run)
        if ready is not None and run.submitted is not None:
            arguments.append(ready - run.submitted)
            turns.append(max(run.begin - ready, 0.0))
        if run.outcome == Outcome.FAILED:
            errors[run.error or "error"] = errors.get(run.error or "error", 0) + 1
    return Function(
        name,
        own[0].kind != Kind.TASK,
        len(own),
        float(seconds.sum()),
        float(seconds.mean()),
        float(np.quantile(seconds, 0.5)),
        float(np.quantile(seconds, 0.99)),
        float(seconds.max()),
        float(np.mean(arguments)) if arguments else 0.0,
        float(np.mean(turns)) if turns else 0.0,
        sum(run.read - run.begin for run in own),
        sum(run.outcome == Outcome.FAILED for run in own),
        sum(run.outcome == Outcome.CANCELLED for run in own),
        tuple(sorted(errors, key=lambda error: -errors[error])[:ERRORS_MAX]),
        sum(run.attempt > 0 for run in own),
    )
