"""Trials of a recorded experiment as rows, and the state of one in a sentence."""

from __future__ import annotations

from typing import Any

from .child_waits import OWN_TASK
from .naming import AUTO_KEYS
from .objective import Objective, number_of
from .recorded import Recorded
from .records.files import flattened
from .reporters.rows import DEFAULT_METRICS, PARAMETERS_MAX
from .trial import Trial, TrialState, headline, value_of
from .waits import state_in_words, why_waiting

__all__ = ["listed", "metric_columns", "parameter_columns", "state_of", "usual_columns"]

# A table with more columns than these has the usual ones alone.
COLUMNS_MAX = 16

# Usual metrics that say how far a trial is, and not how good.
_COUNTS = ("training_iteration", "time_total_s", "timesteps_total")

# Of a trial that ran when its program ended.
INTERRUPTED = "interrupted: no program runs the experiment"


def row_of(recorded: Recorded, trial: Trial) -> dict[str, Any]:
    """Return a trial as one flat dict: state, parameters, last metrics."""
    result = trial.latest_result
    row: dict[str, Any] = {
        "trial": str(trial),
        "status": trial.status,
        "iteration": trial.iteration,
        "time_total_s": result.get("time_total_s"),
    }
    row.update((name, values) for name, values in flattened(trial.parameters).items())
    for name, value in flattened({key: value for key, value in result.items() if key not in AUTO_KEYS}).items():
        if isinstance(value, (int, float, str, bool)):
            row.setdefault(name, value)
    reason = why_of(recorded, trial)
    if reason:
        row["why"] = reason
    return row


def why_of(recorded: Recorded, trial: Trial) -> str:
    """The reason for which a trial waits or has ended; empty: nothing is known."""
    if trial.state is TrialState.ERROR:
        return headline(trial.error) if trial.error.strip() else ""
    if trial.is_over or recorded.experiment is None:
        is_cut = trial.state is TrialState.RUNNING and recorded.interrupted()
        return INTERRUPTED if is_cut else trial.reason
    wait = recorded_wait(recorded, trial)
    if not wait and trial.state is TrialState.RUNNING and recorded.interrupted():
        return INTERRUPTED
    return wait or why_waiting(recorded.experiment.controller, trial)


def recorded_wait(recorded: Recorded, trial: Trial) -> str:
    """The program's record about a process that does not begin, or a task of it that waits; empty: nothing."""
    assert recorded.experiment is not None
    if trial.state is not TrialState.RUNNING:
        return ""
    has_begun = trial.trial_id in recorded.experiment.controller.facts
    waits = [record for record in recorded.decisions(trial.trial_id) if record.get("action") == "WAIT"]
    if not waits or (has_begun and waits[-1].get("iteration") != trial.iteration):
        return ""
    reason = str(waits[-1].get("reason", ""))
    return reason if reason.startswith(OWN_TASK) == has_begun else ""


def state_of(recorded: Recorded, trial: Trial) -> str:
    """The state of a trial in one sentence."""
    if recorded.experiment is None:
        why = f": {why}" if (why := why_of(recorded, trial)) else ""
        words = f"{trial.status} after {trial.iteration} results{why}; its state was read from its files."
        return f"{words}  The experiment is {how}." if (how := recorded.interrupted()) else words
    controller = recorded.experiment.controller
    wait = recorded_wait(recorded, trial)
    if wait:
        controller.waits[trial.trial_id] = wait
    words = state_in_words(controller, trial)
    if not trial.is_over and (how := recorded.interrupted()):
        words = f"{words}  The experiment is {how}."
    return words


def usual_columns(recorded: Recorded, headings: list[str]) -> list[str]:
    """The columns of a table: all of a few; of many the state, the parameters, the metric and what reporters show.

    Args:
        headings: all columns, in their order.
    """
    if len(headings) <= COLUMNS_MAX:
        return headings
    kept = {"trial", "status", "iteration", "time_total_s", "why", *parameter_columns(recorded), *DEFAULT_METRICS}
    kept.add(recorded.metric or "")
    counted = {recorded.metric, *DEFAULT_METRICS} - {"time_total_s"}
    if counted.isdisjoint(headings):
        kept.update(headings[:COLUMNS_MAX])  # nothing says which metrics count
    return [heading for heading in headings if heading in kept]


def parameter_columns(recorded: Recorded) -> list[str]:
    """The columns of the first parameters."""
    names = dict.fromkeys(name for trial in recorded.trials for name in flattened(trial.parameters))
    return list(names)[:PARAMETERS_MAX]


def metric_columns(recorded: Recorded, headings: list[str]) -> list[str]:
    """The column of the experiment's metric, in a list; without one that of a usual metric, as the return of RLlib.

    Args:
        headings: all columns.
    """
    names = [recorded.metric] if recorded.metric else [name for name in DEFAULT_METRICS if name not in _COUNTS]
    return [name for name in names if name in headings][:1]


def listed(
    recorded: Recorded,
    *,
    sort: str | None = None,
    descending: bool = False,
    limit: int = 0,
    columns: list[str] | None = None,
) -> list[dict[str, Any]]:
    """The trials as rows.

    Args:
        sort: the column; None: that of the metric, the best first, or else the order of the trials.
        limit: rows at most; 0: all.
        columns: the columns that are kept; None: all.

    Raises:
        ValueError: no trial has a column.
    """
    rows = [row_of(recorded, trial) for trial in recorded.trials]
    known = list(dict.fromkeys(name for row in rows for name in row))
    for name in [*(columns or ()), *([sort] if sort else [])]:
        if rows and name not in known:
            raise ValueError(f"No trial has a column {name!r}.  The columns are: {', '.join(known)}.")
    if sort is not None:
        rows = _sorted_by(sort, rows, descending)
    elif recorded.metric is not None:
        # The results themselves: a parameter may have the metric's name, and rows have no values but numbers and texts.
        values = [value_of(trial.latest_result, recorded.metric) for trial in recorded.trials]
        rows = Objective(recorded.metric, recorded.mode).ranked(zip(values, rows, strict=True))
    if limit:
        rows = rows[:limit]
    if columns:
        rows = [{name: row.get(name) for name in columns} for row in rows]
    return rows


def _sorted_by(key: str, rows: list[dict[str, Any]], descending: bool) -> list[dict[str, Any]]:
    """Return rows by a column: numbers, then NaN and infinite values, then texts, then rows without a value."""
    ranked = Objective(key, "max" if descending else "min").ranked((row.get(key), row) for row in rows)
    count = sum(number_of(row.get(key)) is not None for row in rows)
    texts = [row for row in ranked[count:] if row.get(key) is not None]
    texts.sort(key=lambda row: str(row[key]), reverse=descending)
    return ranked[:count] + texts + [row for row in ranked[count:] if row.get(key) is None]
