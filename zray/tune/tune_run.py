"""`tune.run`: an experiment as it was written from 2019 to 2023."""

from __future__ import annotations

import inspect
from typing import Any

from .beginning import ExperimentWarning
from .config import CheckpointConfig, SyncConfig
from .errors import warn_program
from .restoring import samples_to_add, take_trainable
from .results import ExperimentAnalysis, error_of
from .running_experiment import RunningExperiment
from .spellings import configs_of, translated
from .tuner import Tuner, begin_from, experiment_of

__all__ = ["run"]

# Ways to say that an experiment goes on where it was: these go on if there is one, ...
_IF_THERE = ("AUTO", "PROMPT")
# ... and those warn if there is none.
_MUST = ("LOCAL", "REMOTE")
# What follows, behind a "+": what happens to failed trials, and whether others are left as they are.
_ERRORED = {
    "ERRORED": {"resume_errored": True},
    "ERRORED_ONLY": {"resume_errored": True, "resume_unfinished": False},
    "RESTART_ERRORED": {"restart_errored": True},
    "RESTART_ERRORED_ONLY": {"restart_errored": True, "resume_unfinished": False},
}
# Arguments that also count for descriptions of experiments; the others are theirs.
_OF_ALL = (
    *("metric", "mode", "scheduler", "search_alg", "callbacks", "progress_reporter", "verbose", "resume", "seed"),
    *("time_budget_s", "fail_fast", "max_concurrent_trials", "reuse_actors", "raise_on_failed_trial"),
)


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: Any = None,
    config: dict[str, Any] | None = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    storage_filesystem: Any = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: CheckpointConfig | None = None,
    sync_config: SyncConfig | None = None,
    verbose: Any = None,
    progress_reporter: Any = None,
    log_to_file: Any = False,
    trial_name_creator: Any = None,
    trial_dirname_creator: Any = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: Any = None,
    resume: Any = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: list[Any] | None = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    local_dir: str | None = None,
    seed: int | None = None,
    **others: Any,
) -> ExperimentAnalysis:
    """Run an experiment.

    Args:
        run_or_experiment: a function, a subclass of Trainable, a registered name, an `Experiment`, or a list of these.
        name: the experiment's name.
        metric, mode, seed, reuse_actors, max_concurrent_trials: as in `TuneConfig`.
        trial_name_creator, trial_dirname_creator: as in `TuneConfig`.
        stop: a dict of thresholds, a function of (trial_id, result), or a Stopper.
        time_budget_s: seconds after which the experiment ends.
        config: the search space.
        resources_per_trial: as {"cpu": 1, "gpu": 0.5}, or a PlacementGroupFactory.
        num_samples: how often the search space is sampled.
        storage_path, local_dir, storage_filesystem: the folder of experiments, or a URL, or a path in a file system.
        sync_config: its upload_dir is a URL where a copy of the experiment is kept.
        search_alg, scheduler: the searcher and the trial scheduler, or their names.
        checkpoint_config, keep_checkpoints_num, checkpoint_score_attr, checkpoint_freq, checkpoint_at_end: checkpoints.
        max_failures, fail_fast: restarts of each trial; stop all trials at the first error; "raise": and raise it.
        restore: a checkpoint with which every trial starts, or its path; iterations are counted on.
        resume: go on with the experiment of this name: True, "AUTO", "AUTO+ERRORED", ... (see `resume_options`).
        raise_on_failed_trial: raise `TuneError` at the end if trials have failed.
        callbacks, progress_reporter, log_to_file: as in `RunConfig`.
        verbose: 0: nothing is shown; 1: a table; 2: ends of trials too; 3: results too.
        others: arguments of former years, without effect here.

    Returns:
        The outcome, as `ExperimentAnalysis`; of several experiments, with the trials of all.

    Raises:
        TuneError: trials have failed, or the experiment cannot be run.
        TypeError: an unknown argument.
    """
    return _run(dict(locals()))


def _run(given: dict[str, Any]) -> ExperimentAnalysis:
    """`run`, with its arguments by name."""
    from .experiments import Experiment as Spec

    wanted = given["run_or_experiment"]
    if isinstance(wanted, (list, tuple, Spec)):
        return _run_specs(wanted, given)
    options = {key: value for key, value in given.items() if key not in ("run_or_experiment", "others")}
    options = translated({**options, **given["others"]}, "tune.run", "argument", TypeError)
    experiment = experiment_of(wanted, *configs_of(options))
    experiment.run_options["resources"] = options.get("resources_per_trial")
    if "restore" in options:
        begin_from(experiment.settings, options["restore"])
    asked = experiment.settings.metric, experiment.settings.mode
    run_or_resume(experiment, given["resume"])
    settings = experiment.settings
    if asked != (settings.metric, settings.mode) and asked[0] is not None:
        warn_program(
            f"The scheduler and the searcher of {settings.path} go on with the metric of the first run, "
            f"{settings.metric!r} ({settings.mode}); the best trial is the one by {asked[0]!r} ({asked[1]}).",
            ExperimentWarning,
        )
    _raise_errors(experiment, given)
    return ExperimentAnalysis(experiment, *asked)


def _run_specs(specs: Any, given: dict[str, Any]) -> ExperimentAnalysis:
    """`run` of experiments that describe themselves; the outcome has the trials of all."""
    from .experiments import joined, run_specs

    usual = {name: each.default for name, each in inspect.signature(run).parameters.items()}
    unused = [name for name, value in given.items() if name in usual and name not in _OF_ALL and value != usual[name]]
    unused = [*(name for name in unused if name not in ("run_or_experiment", "others")), *given["others"]]
    if unused:
        warn_program(
            f"tune.run: {', '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect beside an Experiment: "
            "pass such arguments to the Experiment.",
            ExperimentWarning,
        )
    options = {name: given[name] for name in _OF_ALL if name not in ("resume", "raise_on_failed_trial")}
    experiment = joined(run_specs(specs, options, given["resume"]))
    _raise_errors(experiment, given)
    return ExperimentAnalysis(experiment, given["metric"], given["mode"])


def _raise_errors(experiment: RunningExperiment, given: dict[str, Any]) -> None:
    """Raise the first error of a trial, or one that names the failed trials, as `run` was asked to."""
    if given["fail_fast"] == "raise":
        for error in map(error_of, experiment.controller.get_trials()):
            if error is not None:
                raise error
    if given["raise_on_failed_trial"]:
        experiment.raise_for_failures()


def resume_options(resume: Any) -> tuple[bool, dict[str, bool]]:
    """Return the meaning of a value of `resume`: whether an experiment must exist, and the options of a restore.

    True goes on with the experiment, and "AUTO" does so if there is one.  "AUTO+ERRORED" goes on with failed trials
    too, "AUTO+RESTART_ERRORED" begins those anew, and with "_ONLY" behind, other trials stay as they are.  With more
    num_samples, more trials follow; the search space and `stop` are those of the first run.

    Raises:
        ValueError: Ray knows no such value.
    """
    # The form of 2020: failed trials alone, from their beginning.
    text = "LOCAL" if resume is True else "LOCAL+RESTART_ERRORED_ONLY" if resume == "ERRORED_ONLY" else resume
    first, _, second = text.partition("+") if isinstance(text, str) else ("", "", "")
    if first not in (*_IF_THERE, *_MUST) or (second and second not in _ERRORED):
        raise ValueError(
            f"resume is True, False or one of {', '.join(map(repr, (*_IF_THERE, *_MUST)))}, with "
            f"{', '.join(repr('+' + each) for each in _ERRORED)} or nothing behind, not {resume!r}."
        )
    return first in _MUST, dict(_ERRORED.get(second, {}))


def run_or_resume(experiment: RunningExperiment, resume: Any) -> None:
    """Run an experiment, or continue the experiment in its folder.

    Raises:
        ValueError: `resume` is something else than Ray knows, the trainable is of another kind, or the space has
            other keys than at first.
    """
    if not resume:
        experiment.fit()
        return
    must, options = resume_options(resume)
    place = experiment.url or experiment.path
    if not Tuner.can_restore(place, experiment.filesystem):
        if must:
            warn_program(f"{place} holds no experiment: it begins.")
        experiment.fit()
        return
    found = RunningExperiment.load(
        place, replays=False, storage_filesystem=experiment.filesystem, space=experiment.space
    )
    take_trainable(found, experiment.trainable_name, experiment.trainable, may_be_other=True)
    num_samples = samples_to_add(found, experiment)
    found.run_options = experiment.run_options
    experiment.__dict__.update(found.__dict__)
    experiment.resume(**options, num_samples=num_samples)
