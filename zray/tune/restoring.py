"""The restore of an experiment: the present arguments, compared with those of its beginning."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

from . import events as ev
from .beginning import ExperimentWarning
from .errors import warn_program
from .journal import JOURNAL, read_journal
from .refs import LostRef, dumps, refs_in
from .schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from .search.basic_variant import BasicVariantGenerator
from .settings import Settings
from .worker import is_class

if TYPE_CHECKING:
    from .running_experiment import RunningExperiment

__all__ = ["OfClass", "check_space", "refuse_arguments", "samples_to_add", "take_trainable"]


class OfClass:
    """A class method that an instance does not have, as `Tuner.restore`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        name = self._function.__name__
        if instance is not None:
            raise AttributeError(f"{name} makes a new {owner.__name__}: call {owner.__name__}.{name}(path, trainable).")
        return MethodType(self._function, owner)


# What a restore has from the first run, and what to do for another one.
_ANOTHER = "the settings of the first run are used, and others need another experiment: Tuner(trainable, ...)"
_OF_FIRST_RUN = {
    "num_samples": "more samples are asked for by "
    "tune.run(trainable, config=space, name=..., storage_path=..., num_samples=n, resume=True), with the total as n",
    "tune_config": _ANOTHER,
    "run_config": _ANOTHER,
    "metric": "results.get_best_result(metric, mode) of what fit() returns takes another one",
    "mode": "results.get_best_result(metric, mode) of what fit() returns takes another one",
    "config": "param_space= is the space of the first run, made anew",
    "name": "the path names the folder of the experiment",
    "storage_path": "the path names the folder of the experiment",
    "resume": "resume_unfinished=, resume_errored= and restart_errored= say which trials go on",
    **dict.fromkeys(("scheduler", "search_alg", "stop", "callbacks", "checkpoint_config", "failure_config"), _ANOTHER),
    **dict.fromkeys(("max_concurrent_trials", "time_budget_s", "verbose", "progress_reporter"), _ANOTHER),
}


def refuse_arguments(others: dict[str, Any]) -> None:
    """Refuse arguments that `Tuner.restore` does not take.

    Raises:
        TypeError: there is one; the text says what to do instead.
    """
    for name in others:
        if name in _OF_FIRST_RUN:
            raise TypeError(f"Tuner.restore takes no {name}: {_OF_FIRST_RUN[name]}.")
        raise TypeError(
            f"Tuner.restore takes no argument {name!r}: it has path, trainable, resume_unfinished, resume_errored, "
            "restart_errored, param_space and storage_filesystem."
        )


def take_trainable(found: RunningExperiment, name: str, made: Any, *, may_be_other: bool = False) -> None:
    """Let an experiment go on with a trainable, made anew.

    Args:
        may_be_other: whether another name than at first is a warning, and no error.

    Raises:
        ValueError: the trainable is of another kind than at first, or has another name.
    """
    kinds = {True: "a class", False: "a function"}
    if is_class(made) != is_class(found.trainable):
        raise ValueError(
            f"The experiment in {found.path} has {kinds[is_class(found.trainable)]} as trainable, "
            f"{found.trainable_name}, and is to go on with {kinds[is_class(made)]}, {name}.  Give the former one."
        )
    if name != found.trainable_name:
        said = f"The experiment in {found.path} has the trainable {found.trainable_name}, and is to go on with {name}."
        if not may_be_other:
            raise ValueError(f"{said}  Give the one of the same name, or begin another experiment.")
        more = f"Trials that have not ended do so, from checkpoints of {found.trainable_name}."
        warn_program(f"{said}  {more}  Another name begins another experiment.", ExperimentWarning)
    found.trainable_name, found.trainable = name, made


def _leaves(space: Any, path: str = "") -> dict[str, Any]:
    """The values of a nested space, by their path."""
    if isinstance(space, dict) and space and "grid_search" not in space:
        return {key: value for name, each in space.items() for key, value in _leaves(each, f"{path}/{name}").items()}
    return {path.removeprefix("/"): space}


def _pickle_of(value: Any) -> bytes | None:
    """Return a value's pickle for comparisons; None: no meaningful pickle."""
    if callable(value) or isinstance(value, LostRef):
        return None
    try:
        return pickle.dumps(pickle.loads(dumps(value, refs_in(value)))) if not refs_in(value) else None
    except Exception:
        return None


def check_space(found: RunningExperiment, space: Any) -> None:
    """Compare a space given at a restore with the recorded space, which is used.

    Raises:
        ValueError: it has other keys.
    """
    if space is not None and hasattr(space, "to_dict"):  # the configuration of an algorithm
        space = space.to_dict()
    if not isinstance(space, dict):
        raise TypeError(f"param_space is a dict, as in the first run, not {type(space).__name__}.")
    before, now = _leaves(found.space), _leaves(space)
    if before.keys() != now.keys():
        lacks = ", ".join(sorted(map(repr, before.keys() - now.keys()))) or "none"
        more = ", ".join(sorted(map(repr, now.keys() - before.keys()))) or "none"
        raise ValueError(
            f"The search space has other keys than in the first run of {found.path}: it lacks {lacks}, and has {more} "
            "too many.  Give the same space, or begin another experiment."
        )
    changed = []
    for name, value in now.items():
        one, two = _pickle_of(before[name]), _pickle_of(value)
        if one is not None and two is not None and one != two:
            changed.append(name)
    if changed:
        warn_program(
            f"The search space of the first run of {found.path} is used: {', '.join(changed)} differs now, which would "
            "need another experiment.",
            ExperimentWarning,
        )


def _total(found: RunningExperiment) -> int:
    """Return the number of trials of an experiment, including trials added by later runs; -1: no end."""
    events = read_journal(os.path.join(found.path, JOURNAL))[0]
    added = [event.num_samples for event in events if isinstance(event, ev.Resumed) and event.num_samples]
    if not added:
        return found.settings.num_samples
    if not isinstance(found.searcher, BasicVariantGenerator):
        return added[-1]
    searcher = copy.copy(found.searcher)
    searcher.num_samples = added[-1]
    return searcher.total_samples or -1


def samples_to_add(found: RunningExperiment, asked: RunningExperiment) -> int:
    """Return the number of samples for the continued experiment; 0: as before.  Ignored arguments are reported."""
    check_space(found, asked.space)
    before, now = _stop_of(found), _stop_of(asked)
    if before != now:
        warn_program(
            f"`stop` of the first run of {found.path} is used, {before}; {now} would need another experiment, whose "
            "trials start from the checkpoints of this one.",
            ExperimentWarning,
        )
    if ignored := _ignored(found, asked):
        warn_program(
            f"{'; '.join(ignored)}: what the first run of {found.path} was given is used, because its recorded "
            "decisions follow from it.  Another one needs another experiment.",
            ExperimentWarning,
        )
    total, wanted = _total(found), asked.settings.num_samples
    if total < 0 or wanted == total:
        return 0
    if 0 <= wanted < total:
        warn_program(
            f"num_samples of the run in {found.path} is used: it has {total} trials, and {wanted} are asked for.",
            ExperimentWarning,
        )
        return 0
    return asked.searcher.num_samples if isinstance(asked.searcher, BasicVariantGenerator) else wanted


# Fields of `Settings`, and the arguments of `tune.run` that they come from.
_SETTINGS = {
    "max_failures": "max_failures",
    "time_budget_s": "time_budget_s",
    "fail_fast": "fail_fast",
    "max_concurrent": "max_concurrent_trials",
    "keep": "keep_checkpoints_num",
    "checkpoint_at_end": "checkpoint_at_end",
}


def _ignored(found: RunningExperiment, asked: RunningExperiment) -> list[str]:
    """Describe the present arguments that differ from the first run's, in words."""
    ignored = []
    for name in ("scheduler", "searcher"):
        before, now = getattr(found, name), getattr(asked, name)
        is_default = type(now) in (FIFOScheduler, BasicVariantGenerator)
        if not is_default and _facts_of(before) != _facts_of(now):
            argument = "search_alg" if name == "searcher" else name
            same = type(before) is type(now)
            ignored.append(
                f"{argument} of {'other arguments' if same else type(now).__name__} is ignored, for the former "
                f"{type(before).__name__}"
            )
    default = Settings()
    for name, argument in _SETTINGS.items():
        before, now = getattr(found.settings, name), getattr(asked.settings, name)
        if now not in (before, getattr(default, name)):
            ignored.append(f"{argument}={now!r} is ignored, for {before!r}")
    return ignored


def _facts_of(part: Any) -> tuple[str, dict[str, Any]]:
    """The class of a scheduler or searcher, and the plain arguments of a scheduler.

    Numbers of a searcher may follow from num_samples or from its draws.
    """
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    facts = vars(part) if isinstance(part, TrialScheduler) else {}
    return kind, {key: value for key, value in facts.items() if isinstance(value, (bool, int, float, str))}


def _stop_of(experiment: RunningExperiment) -> Any:
    """The stop criteria, if they can be compared: thresholds."""
    return experiment.stop if isinstance(experiment.stop, dict) else None
