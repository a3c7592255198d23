"""Idle cores of a run, and the reasons: a step function over all begins and ends of runs, waits and submissions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...store.event_ring import Kind
from .runs import PROGRAM, Runs

__all__: list[str] = []  # for `zray report`

# What cores did: the first is work.  A core that is idle has the first reason that holds at the moment.
REASONS = {
    "busy": "ran tasks",
    "ready": "idle while tasks with all arguments waited to begin",
    "arguments": "idle while the tasks that waited lacked arguments",
    "actors": "idle while calls waited behind others of their actor",
    "program": "idle while the program itself computed",
    "few": "idle since too few tasks ran at once",
}


class Usage(NamedTuple):
    """Core-seconds of a run by what the cores did, and the same over time.

    seconds: by REASONS.  bins: shares of the cores from 0 to 1, a row for each reason, over equal parts of the run.
    """

    cores: float
    seconds: dict[str, float]
    bins: Any


def usage_of(runs: Runs, cores: float, bins: int = 400) -> Usage:
    """Return what the cores did.

    Args:
        cores: how many there are.
        bins: the number of parts of the run.
    """
    duration = max(runs.end, 1e-9)
    times, counts = _counts(runs)
    times = np.clip(np.append(times, duration), 0.0, duration)
    lengths = np.diff(times)
    busy = np.clip(counts["running"], 0, cores)
    left = cores - busy
    shares = {"busy": busy}
    for reason in ("ready", "arguments", "actors"):
        shares[reason] = np.clip(counts[reason], 0, left)
        left = left - shares[reason]
    computes = counts["program waits"] <= 0
    shares["program"] = np.where(computes, left, 0.0)
    shares["few"] = left - shares["program"]
    edges = np.linspace(0.0, duration, bins + 1)
    seconds, rows = {}, []
    for reason in REASONS:
        sums = np.concatenate(([0.0], np.cumsum(shares[reason] * lengths)))
        seconds[reason] = float(sums[-1])
        rows.append(np.diff(np.interp(edges, times, sums)) / (duration / bins * max(cores, 1e-9)))
    return Usage(cores, seconds, np.clip(np.array(rows), 0.0, 1.0))


def _counts(runs: Runs) -> tuple[Any, dict[str, Any]]:
    """Moments at which something changes, and what goes on from each of them on."""
    spans: dict[str, tuple[list[float], list[float]]] = {
        name: ([], []) for name in ("running", "blocked", "ready", "arguments", "actors", "program waits")
    }

    def add(name: str, begin: float, end: float) -> None:
        if end > begin:
            spans[name][0].append(begin)
            spans[name][1].append(end)

    for run in runs.runs:
        add("running", run.begin, run.stored)
        ready = runs.ready_at(run)
        if ready is not None and run.submitted is not None:
            add("arguments", run.submitted, ready)
            add("actors" if run.kind == Kind.CALL else "ready", ready, run.begin)
    for wait in runs.waits:
        add("program waits" if wait.owner == PROGRAM else "blocked", wait.begin, wait.end)
    everything = np.unique(np.concatenate([[0.0], *(np.array(each) for pair in spans.values() for each in pair)]))
    found = {}
    for name, (begins, ends) in spans.items():
        begun = np.searchsorted(np.sort(np.array(begins)), everything, side="right")
        ended = np.searchsorted(np.sort(np.array(ends)), everything, side="right")
        found[name] = (begun - ended).astype(float)
    found["running"] = found["running"] - found.pop("blocked")  # a task that waits gives its core back
    return everything, found
