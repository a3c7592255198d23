"""The best of an experiment's trials, and a row of each: the common base of the classes of `results`."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any

from . import events as ev
from .journal import JOURNAL
from .objective import Objective, number_of
from .output import printed_aside
from .records.files import flattened, read_results
from .result import DEFAULT_METRIC
from .settings import Settings
from .trial import Trial, value_of

__all__ = ["analysis_of", "best_trial_of", "history", "refuse_several", "rows_of", "settle_metric", "value_in_scope"]

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")


def history(trial: Trial) -> list[dict[str, Any]]:
    """All results of a trial: from its result.json, or from the journal of an experiment without result files."""
    if not trial.iteration or os.path.exists(os.path.join(trial.path, "result.json")):
        return read_results(trial.path)
    folder = os.path.dirname(trial.path)
    try:
        state = os.stat(os.path.join(folder, JOURNAL))
    except OSError:
        return []
    found = _results_of_journal(folder, state.st_mtime_ns, state.st_size).get(trial.trial_id, [])
    return [dict(result) for result in found]


def analysis_of(trial: Trial) -> dict[str, dict[str, float]]:
    """Smallest, largest, mean and last values of each metric of a trial, and the means of its last 5 and 10 values."""
    values: dict[str, list[float]] = {}
    for result in history(trial):
        for key, value in flattened({key: value for key, value in result.items() if key != "config"}).items():
            if not isinstance(value, bool) and (number := number_of(value)) is not None:
                values.setdefault(key, []).append(number)
    return {key: _analysed(each) for key, each in values.items()}


def _analysed(values: list[float]) -> dict[str, float]:
    means = {"avg": values, "last-5-avg": values[-5:], "last-10-avg": values[-10:]}
    found = {"max": max(values), "min": min(values), "last": values[-1]}
    return {**found, **{name: sum(each) / len(each) for name, each in means.items()}}


class _Results(dict[str, list[dict[str, Any]]]):
    """The results of a journal that is replayed, by trial."""

    def note(self, action: Any, trials: dict[str, Trial]) -> None:
        """An action that follows from the journal."""
        if isinstance(action, ev.Logged):
            self.setdefault(action.trial_id, []).append(dict(action.result))
        elif isinstance(action, ev.BegunAnew):
            self.pop(action.trial_id, None)


@functools.lru_cache(maxsize=1)
def _results_of_journal(folder: str, modified_at: int, size: int) -> _Results:
    """All results of an experiment.  modified_at, size: of the journal, which is read anew after a change."""
    from .running_experiment import RunningExperiment

    found = _Results()
    with printed_aside():
        RunningExperiment.load(folder, replays=False).replay(found)
    return found


def value_in_scope(trial: Trial, objective: Objective, scope: str, *, filter_nan_and_inf: bool = True) -> float | None:
    """Return the value by which a trial is compared; None: no value.

    Args:
        scope: "last": the last value that it has reported; "all": its best one; "avg": their mean; "last-5-avg",
            "last-10-avg".
        filter_nan_and_inf: values that are NaN or infinite are left out.

    Raises:
        ValueError: an unknown scope.
    """
    if scope not in SCOPES:
        raise ValueError(f"scope is one of {', '.join(map(repr, SCOPES))}, not {scope!r}.")
    results = [trial.latest_result] if scope == "last" else history(trial)
    values = [value for result in results if (value := objective.value(result)) is not None]
    if filter_nan_and_inf:
        values = [value for value in values if math.isfinite(value)]
    if not values:
        return None
    if scope in ("last", "all"):
        return objective.best(((value, value) for value in values), filter_nan_and_inf=filter_nan_and_inf)
    window = values if scope == "avg" else values[-int(scope.split("-")[1]) :]
    return sum(window) / len(window)


def best_trial_of(
    trials: Sequence[Trial], metric: str | None, mode: str | None, scope: str = "last", filter_nan_and_inf: bool = True
) -> Trial:
    """The best trial; without a metric or a mode the only one.

    Raises:
        ValueError: no metric or mode is known.
        RuntimeError: no trial has reported the metric.
    """
    if len(trials) == 1 and (not isinstance(metric, str) or mode is None):
        return trials[0]
    refuse_several(metric)
    if metric is None or mode not in ("min", "max"):
        raise ValueError(
            f'The best trial needs a metric and a mode ("min" or "max"): pass them here or to TuneConfig; now they '
            f"are {metric!r} and {mode!r}."
        )
    objective = Objective(metric, mode)
    best = objective.best(
        ((value_in_scope(trial, objective, scope, filter_nan_and_inf=filter_nan_and_inf), trial) for trial in trials),
        filter_nan_and_inf=filter_nan_and_inf,
    )
    if best is None:
        values = (value_of(trial.latest_result, metric) for trial in trials)
        found = next((value for value in values if value is not None), None)
        if found is not None:
            raise RuntimeError(f"No value of {metric!r} is a finite number, as {found!r:.40}: there is no best trial.")
        raise RuntimeError(f"No trial has reported {metric!r}: there is no best one.")
    return best


def refuse_several(metric: Any, how: str = "metric={!r} and its mode") -> None:
    """Refuse a list of metrics where one metric is needed.

    Args:
        metric: the metric, or those of an experiment with several objectives.
        how: the way to choose one, with a place for the name.

    Raises:
        ValueError: there are several.
    """
    if metric is not None and not isinstance(metric, str):
        names = [str(name) for name in metric]
        raise ValueError(
            f"The experiment has several objectives, {' and '.join(map(repr, names))}, and no trial is the best by all "
            f"of them.  Choose one: pass {how.format(*names)}."
        )


def rows_of(trials: Sequence[Trial], metric: str | None = None, mode: str | None = None) -> list[dict[str, Any]]:
    """Return a row for each trial, a dict: the last result, or the result with the best value of a metric."""
    if mode and mode not in ("min", "max"):
        raise ValueError(f'mode is "min" or "max", not {mode!r}.')
    if mode and not metric:
        raise ValueError(f"The mode {mode!r} stands without a metric: pass the metric too, or neither.")
    rows = []
    for trial in trials:
        result: dict[str, Any] | None = trial.last_result
        if metric and mode:
            result = Objective(metric, mode).best((value_of(each, metric), each) for each in history(trial))
        if result:
            row = flattened({key: value for key, value in result.items() if key != "config"})
            row.update(flattened(trial.config, "config/"))
            row["logdir"] = trial.path
            rows.append(row)
    return rows


def settle_metric(settings: Settings, searcher: Any, scheduler: Any) -> None:
    """Complete metric and mode of an experiment before its first trial.

    A mode alone is that of the bare number that trials report.  A metric alone takes the mode of the scheduler or the
    searcher.

    Raises:
        ValueError: a metric stands without a mode.
    """
    parts = (scheduler, searcher)
    own = [name for part in parts if isinstance(name := getattr(part, "metric", None), str)]
    modes = [name for part in parts if (name := getattr(part, "mode", None)) in ("min", "max")]
    if settings.mode is not None and settings.metric is None and not own:
        settings.metric = DEFAULT_METRIC
    elif isinstance(settings.metric, str) and settings.mode is None:
        if not modes:
            raise ValueError(
                f"The metric {settings.metric!r} has no mode: without one the best trial is not known.  Pass "
                f'mode="min" or mode="max" beside metric={settings.metric!r}.'
            )
        settings.mode = modes[0]
