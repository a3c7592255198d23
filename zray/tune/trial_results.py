"""Results of a trial: added keys, required metrics, kept checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import naming
from .events import Report
from .objective import LAST, Objective, number_of
from .records.files import flattened
from .result import DEFAULT_METRIC
from .trial import SavedCheckpoint, Trial, has_key, value_of
from .unknown import nearest

if TYPE_CHECKING:
    from .settings import Settings

__all__ = [
    "copied",
    "filled_result",
    "is_own",
    "missing_metric",
    "missing_time",
    "overwritten_keys",
    "missing_score",
    "result_for",
    "superfluous",
    "with_times",
]


def filled_result(trial: Trial, event: Report, experiment_id: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The whole result: the user's metrics, and the keys that are filled in."""
    metrics = event.metrics
    former = trial.last_result
    result = {
        "done": False,
        **metrics,
        "training_iteration": event.iteration,
        "trial_id": trial.trial_id,
        "experiment_id": experiment_id,
        "experiment_tag": trial.experiment_tag,
        "time_this_iter_s": event.time_this_iter_s,
        "time_total_s": event.time_total_s,
        "timestamp": int(event.now),
        "date": naming.date_of(event.now),
        **facts,
        "config": trial.config,
        "iterations_since_restore": event.iteration - trial.started_iteration,
        "time_since_restore": event.time_total_s - trial.started_time_s,
    }
    if _COUNTED.isdisjoint(metrics):
        return result
    numbers = {key: value for key in _COUNTED if isinstance(value := metrics.get(key), (int, float))}
    if "timesteps_this_iter" in numbers and "timesteps_total" not in metrics:
        result["timesteps_total"] = _former(former, "timesteps_total") + numbers["timesteps_this_iter"]
    elif "timesteps_total" in numbers and "timesteps_this_iter" not in metrics:
        result["timesteps_this_iter"] = numbers["timesteps_total"] - _former(former, "timesteps_total")
    if "episodes_this_iter" in numbers and "episodes_total" not in metrics:
        result["episodes_total"] = _former(former, "episodes_total") + numbers["episodes_this_iter"]
    if "mean_loss" in numbers and "neg_mean_loss" not in metrics:
        result["neg_mean_loss"] = -numbers["mean_loss"]
    return result


# Metrics from which others are computed.
_COUNTED = frozenset(("timesteps_this_iter", "timesteps_total", "episodes_this_iter", "mean_loss"))


def _former(result: dict[str, Any], key: str) -> int | float:
    """A number of the result before; 0: there is none."""
    value = result.get(key, 0)
    return value if isinstance(value, (int, float)) else 0


def missing_metric(result: dict[str, Any], wanted: Mapping[str, str | None]) -> str:
    """Return the error for a first result without a required metric; empty: all are present.

    wanted: metrics by what needs them.
    """
    for user, key in wanted.items():
        if isinstance(key, str) and key not in ("", DEFAULT_METRIC) and value_of(result, key) is None:
            if has_key(result, key):
                return (
                    f"The trial reported None as {key!r}, where {user} needs a number.  Report one in each result, "
                    "float('nan') for a value that is not known, or name another metric."
                )
            own = [name for name in result if name not in naming.AUTO_KEYS]
            return (
                f"The trial reported no {key!r}, which {user} needs: it reported {', '.join(own) or 'nothing'}.  "
                f"Report {key!r} in each result, or name another metric.  With the environment variable "
                "TUNE_DISABLE_STRICT_METRIC_CHECKING=1 of the program, the metric may come in a later result."
            )
    return ""


def missing_time(result: Mapping[str, Any], scheduler: Any) -> str:
    """Return a warning about a first result without the number by which a scheduler measures time; empty: it is there.

    Later results may have the number, so that the experiment goes on.
    """
    key = getattr(scheduler, "time_attr", None) or getattr(scheduler, "_time_attr", None)  # of programs for Ray
    if not isinstance(key, str) or number_of(value_of(dict(result), key)) is not None:
        return ""
    name = type(scheduler).__name__
    found = value_of(dict(result), key)
    lack = f"no {key!r}" if not has_key(dict(result), key) else f"{found!r:.40} as {key!r}, which is no number"
    return (
        f"The first result has {lack}, by which {name} measures time (time_attr): {name} does not look at such results."
        f"  The result has {', '.join(map(str, result))}.  Report {key!r}, or pass another time_attr to {name}."
    )


def result_for(user: Any, result: dict[str, Any]) -> dict[str, Any]:
    """A result as a callback, stopper, scheduler or searcher of the program gets it: a copy, which may be changed.

    Dicts and lists are copied, at any depth; other values are the same objects.  Parts of Tune change no result, and
    get the result itself.
    """
    return result if _is_own_class(type(user)) else copied(result)  # type: ignore[arg-type]


def is_own(user: Any) -> bool:
    """Whether a part of an experiment is one of Tune, and not of the program."""
    return _is_own_class(type(user))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=256)  # asked for each result
def _is_own_class(kind: type) -> bool:
    return kind.__module__.startswith(_OWN)


_OWN = __name__.rpartition(".")[0] + "."


def copied(value: Any) -> Any:
    """Return a dict or list, copied at any depth of dicts and lists."""
    if isinstance(value, dict):
        return {key: copied(each) if isinstance(each, (dict, list)) else each for key, each in value.items()}
    return [copied(each) if isinstance(each, (dict, list)) else each for each in value]


def with_times(event: Report) -> dict[str, Any]:
    """The metrics of a result, with its iteration and its time, as they are kept beside its checkpoint."""
    return {**event.metrics, "training_iteration": event.iteration, "time_total_s": event.time_total_s}


def overwritten_keys(keys: list[str]) -> str:
    """Return a warning about metrics of a program that its results do not keep."""
    names = " and ".join(map(repr, keys))
    return (
        f"Results have {names} of their own, which Tune fills in: the reported values are not kept.  Report them under "
        "another name."
    )


def missing_score(saved: SavedCheckpoint, key: str) -> str:
    """Return a warning about a checkpoint whose result lacks the number by which checkpoints are kept; empty: none."""
    if number_of(value := value_of(saved.metrics, key)) is not None:
        return ""
    names = [name for name in flattened(saved.metrics) if not name.startswith("config/")]
    lack = f"no {key!r}" if value is None else f"{value!r:.40} as {key!r}"
    return (
        f"The first result with a checkpoint has {lack}, by which the best checkpoints are kept "
        f"(checkpoint_score_attribute): without such numbers the newest are kept."
        f"{nearest(key, names)}  The result has {', '.join(map(str, names))}."
    )


def superfluous(trial: Trial, settings: Settings) -> list[SavedCheckpoint]:
    """Return the surplus checkpoints.  The best ones stay, and the newest, from which the trial goes on."""
    limit = settings.keep
    if limit is None or len(trial.checkpoints) <= limit:
        return []
    found = trial.checkpoints
    if settings.score_key:
        objective = Objective(settings.score_key, settings.score_order)
        scores = [objective.score_of(each.score) for each in found]
        # Of equal ones the earlier stays, since it is the best one; of those without a value the newer.
        places = [place if score in (None, LAST) else -place for place, score in enumerate(scores)]
        keys = [(LAST if score is None else score, place) for score, place in zip(scores, places, strict=True)]
        found = [found[place] for place in sorted(range(len(found)), key=keys.__getitem__)]
    newest = trial.checkpoints[-1]
    return [each for each in found[: len(found) - limit] if each is not newest]
