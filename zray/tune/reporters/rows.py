"""Rows of the reporters' tables: choice of trials, columns and cells.  Text only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zray.exceptions.printable import printable

from ..metrics import text_of
from ..naming import AUTO_KEYS
from ..objective import Objective
from ..trial import Trial, TrialState, value_of

__all__ = ["Columns", "best_of", "cell", "cells", "columns_of", "counts", "counts_in_words", "duration", "picked"]

# Metrics that a table shows where the user names none.
DEFAULT_METRICS = {
    "mean_accuracy": "acc",
    "mean_loss": "loss",
    "training_iteration": "iter",
    "time_total_s": "total time (s)",
    "timesteps_total": "ts",
    "episode_reward_mean": "reward",
}
# Parameters without a name of the user's are shown up to this number.
PARAMETERS_MAX = 6
_ORDER = (TrialState.RUNNING, TrialState.PENDING, TrialState.PAUSED, TrialState.ERROR, TrialState.TERMINATED)


class Columns(NamedTuple):
    """The columns of a table, as headings by key."""

    parameters: dict[str, str]
    metrics: dict[str, str]


def counts(trials: Iterable[Trial]) -> dict[str, int]:
    """The number of trials in each state; states without trials are left out."""
    found = dict.fromkeys((state.value for state in _ORDER), 0)
    for trial in trials:
        found[trial.state.value] += 1
    return {name: count for name, count in found.items() if count}


def counts_in_words(found: Mapping[str, int]) -> str:
    """Counts as text: `2 RUNNING, 8 TERMINATED`."""
    return ", ".join(f"{count} {name}" for name, count in found.items()) or "none"


def best_of(trials: Iterable[Trial], metric: str | None, mode: str | None) -> Trial | None:
    """The trial whose last value of the metric is the best; None: none has the metric."""
    if not isinstance(metric, str) or mode not in ("min", "max"):
        return None
    return Objective(metric, mode).best((value_of(trial.latest_result, metric), trial) for trial in trials)


def picked(
    trials: Sequence[Trial], limit: int | None, metric: str | None, mode: str | None, *, by_metric: bool = False
) -> list[Trial]:
    """Return the trials for a table: the best first, then running, waiting, failed and ended trials.

    Args:
        limit: rows at most; None: all.
        by_metric: the order is that of the metric alone.
    """
    if by_metric and isinstance(metric, str):
        valued = [(value_of(trial.latest_result, metric), trial) for trial in trials]
        return Objective(metric, mode).ranked(valued)[:limit]
    best = best_of(trials, metric, mode)
    found: list[Trial] = [best] if best is not None else []
    by_state: dict[TrialState, list[Trial]] = {state: [] for state in _ORDER}
    for trial in reversed(trials):  # the newest first
        if trial is not best:
            by_state[trial.state].append(trial)
    for state in _ORDER:
        if limit is not None and len(found) >= limit:
            break
        found += by_state[state]
    return found[:limit]


def columns_of(
    trials: Sequence[Trial],
    parameters: Sequence[str] | Mapping[str, str] | None,
    metrics: Sequence[str] | Mapping[str, str] | None,
    metric: str | None = None,
    infer_limit: int = 3,
) -> Columns:
    """Return the columns: named by the user, or else the searched parameters and reported metrics."""
    if parameters:
        headings = _headings(parameters)
    else:
        names: dict[str, str] = {}
        for trial in trials[:20]:
            names.update((key, key.rpartition("/")[2]) for key in trial.chosen)
        headings = dict(list(names.items())[:PARAMETERS_MAX])
    if metrics:
        return Columns(headings, _headings(metrics))
    results = [trial.latest_result for trial in trials if trial.last_result][:20]
    shown = {key: name for key, name in DEFAULT_METRICS.items() if any(key in result for result in results)}
    for each in [metric] if isinstance(metric, str) else metric or ():  # several objectives have several
        shown[each] = each
    own = {
        key: None
        for result in results
        for key, value in result.items()
        if key not in AUTO_KEYS and key not in shown and key != "neg_mean_loss"
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    shown.update({key: key for key in list(own)[:infer_limit]})
    return Columns(headings, shown)


def _headings(names: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(names) if isinstance(names, Mapping) else {name: name for name in names}


def cell(value: Any, width: int = 20) -> str:
    """A value as text of a bounded width."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else text_of(getattr(value, "__name__", value))
    text = printable(" ".join(text.split()))
    return text if len(text) <= width else f"{text[: max(1, width - 3)]}..."


def cells(trial: Trial, columns: Columns, width: int = 20) -> list[str]:
    """Return the cells of a trial: parameters, then metrics."""
    row = [cell(_parameter(trial, key), width) for key in columns.parameters]
    return row + [cell(value_of(trial.latest_result, key), width) for key in columns.metrics]


def _parameter(trial: Trial, key: str) -> Any:
    found = trial.parameters
    return found[key] if key in found else value_of(trial.config, key)


def duration(seconds: float) -> str:
    """A time in words: `7 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in ASCII, as lines."""
    widths = [max(len(row[place]) for row in (headings, *rows)) for place in range(len(headings))]
    rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"

    def line(row: Sequence[str], pad: Callable[[str, int], str] = str.ljust) -> str:
        return f"| {' | '.join(pad(text, width) for text, width in zip(row, widths, strict=True))} |"

    return [rule, line(headings), rule.replace("-+-", "-+-"), *(line(row) for row in rows), rule]
