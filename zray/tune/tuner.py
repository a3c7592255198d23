"""`Tuner`: an experiment as it is written today."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from .config import CheckpointConfig, FailureConfig, RunConfig, TuneConfig
from .mirror import has_experiment
from .numbers import seconds
from .output import names_of
from .pickles import load
from .registry import trainable_of
from .restoring import OfClass, check_space, refuse_arguments, take_trainable
from .results import ResultGrid, error_of
from .running_experiment import STATE, RunningExperiment
from .settings import Settings
from .trainable import METADATA
from .unknown import checks_names, shown

__all__ = ["Tuner"]


Options = TypeVar("Options", TuneConfig, RunConfig, FailureConfig, CheckpointConfig)


def experiment_of(
    trainable: Any, space: dict[str, Any] | None, tune_config: TuneConfig | None, run_config: RunConfig | None
) -> RunningExperiment:
    """The experiment that the options describe."""
    tune = _checked("tune_config", tune_config, TuneConfig)
    run = _checked("run_config", run_config, RunConfig)
    failure = _checked("failure_config", run.failure_config, FailureConfig)
    saving = _checked("checkpoint_config", run.checkpoint_config, CheckpointConfig)
    settings = Settings(
        metric=tune.metric,  # type: ignore[arg-type]
        mode=tune.mode,
        num_samples=tune.num_samples,
        max_concurrent=tune.max_concurrent_trials or 0,
        max_failures=failure.max_failures,
        fail_fast=bool(failure.fail_fast),
        keep=saving.num_to_keep,
        score_key=saving.checkpoint_score_attribute or "",
        score_order=saving.checkpoint_score_order or "max",
        checkpoint_at_end=bool(saving.checkpoint_at_end),
        time_budget_s=seconds("time_budget_s", tune.time_budget_s or 0),
        name_of=tune.trial_name_creator,
        folder_of=tune.trial_dirname_creator,
    )
    return RunningExperiment(
        trainable,
        space or {},
        settings,
        searcher=tune.search_alg,
        scheduler=tune.scheduler,
        stop=run.stop,
        name=run.name,
        storage_path=run.storage_path or run.local_dir,
        storage_filesystem=run.storage_filesystem,
        upload_url=(run.sync_config.upload_dir or "") if run.sync_config is not None else "",
        seed=tune.seed,
        run={
            "reuses": tune.reuse_actors,
            "frequency": saving.checkpoint_frequency or 0,
            "callbacks": run.callbacks,
            "reporter": run.progress_reporter,
            "outputs": names_of(run.log_to_file),
            "changes_folder": tune.chdir_to_trial_dir,
            "verbose": run.verbose,
        },
    )


def _checked(name: str, given: Options | None, kind: type[Options]) -> Options:
    """The options given, or the default ones.

    Raises:
        TypeError: they are something else, or one of them is.
        ValueError: one of them is out of its range.
    """
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise TypeError(f"{name} is a tune.{kind.__name__}, not {shown(given)}.")
    given.__post_init__()  # attributes may have been set since
    return given


def begin_from(settings: Settings, checkpoint: Any) -> None:
    """Let every trial begin with a checkpoint, and count on from where it was saved.

    Args:
        checkpoint: a path, or a `Checkpoint`.
    """
    given = os.fspath(getattr(checkpoint, "path", checkpoint))
    settings.restore = os.path.abspath(os.path.expanduser(given))
    folder = settings.restore if os.path.isdir(settings.restore) else os.path.dirname(settings.restore)
    if os.path.exists(path := os.path.join(folder, METADATA)):  # absent in those of functions
        metadata = load(path)
        settings.restored_iteration = int(metadata.get("iteration") or 0)
        settings.restored_time_s = float(metadata.get("time_total_s") or 0.0)


# Options of former front doors, and where they stand today.
_HINTS = {
    "config": "param_space=...",
    "resources_per_trial": "tune.with_resources(trainable, {...})",
    **dict.fromkeys(
        ("metric", "mode", "num_samples", "scheduler", "search_alg", "max_concurrent_trials", "reuse_actors"),
        "tune_config=tune.TuneConfig(...)",
    ),
    **dict.fromkeys(
        ("name", "stop", "storage_path", "local_dir", "callbacks", "verbose", "progress_reporter", "log_to_file"),
        "run_config=tune.RunConfig(...)",
    ),
}


@checks_names("tune.Tuner", _HINTS)
class Tuner:
    """A hyper-parameter search.

    Args:
        trainable: a function of the configuration, a subclass of Trainable, or a registered name.
        param_space: the search space, as a nested dict.
        tune_config: what is searched, and how.
        run_config: where results are kept, when trials stop, and what is shown.

    Example:
        def train(config):
            for step in range(10):
                tune.report({"loss": (config["x"] - 3) ** 2 / (step + 1)})

        results = tune.Tuner(
            train,
            param_space={"x": tune.uniform(0, 10)},
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=20),
        ).fit()
        print(results.get_best_result().config)
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: dict[str, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        _experiment: RunningExperiment | None = None,
        _resume: dict[str, bool] | None = None,
    ) -> None:
        self._resume = _resume
        self._run_config = run_config
        self._given = trainable, param_space, tune_config, run_config
        self._has_run = False
        self._experiment = _experiment or experiment_of(trainable, param_space, tune_config, run_config)

    def fit(self) -> ResultGrid:
        """Run the experiment, and return the outcomes.  Failed trials raise nothing: see `ResultGrid.errors`.

        A second call runs a new experiment in a new folder.  That of `restore` goes on in the same folder.

        Raises:
            TuneError: the experiment cannot be run.
        """
        if self._has_run:
            self._experiment = self._anew()
        experiment = self._experiment
        try:
            if self._resume is not None:
                experiment.resume(**self._resume)
            else:
                experiment.fit()
        finally:
            self._has_run = bool(experiment.controller.trials)
        failure = self._run_config.failure_config if self._run_config is not None else None
        if failure is not None and failure.fail_fast == "raise":
            for error in map(error_of, experiment.controller.get_trials()):
                if error is not None:
                    raise error
        return ResultGrid(experiment)

    def _anew(self) -> RunningExperiment:
        """The experiment of a further `fit`."""
        former = self._experiment
        if self._resume is not None:
            return RunningExperiment.load(
                former.url or former.path,
                former.trainable,
                replays=False,
                storage_filesystem=former.filesystem,
                space=former.space,
            )
        experiment = experiment_of(*self._given)
        experiment.take_new_name()
        return experiment

    def get_results(self) -> ResultGrid:
        """Return the outcomes so far, of a run or restored experiment."""
        experiment = self._experiment
        if self._resume is not None and not experiment.controller.trials:
            experiment = RunningExperiment.load(experiment.path, experiment.trainable)
        return ResultGrid(experiment)

    @OfClass
    def restore(
        cls: type[Tuner],  # type: ignore[misc]
        path: str,
        trainable: Any = None,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: dict[str, Any] | None = None,
        storage_filesystem: Any = None,
        **others: Any,
    ) -> Tuner:
        """Restore an experiment from its folder; `fit` goes on with it.

        Args:
            path: the experiment's folder; or the URL of its copy, which is fetched first.
            trainable: the function or class; None: as it was.
            resume_unfinished: go on with trials that had not ended, from their last checkpoint.
            resume_errored: go on with failed trials, from their last checkpoint.
            restart_errored: begin failed trials anew.
            param_space: the space of the first run, made anew: its refs (`zray.put`) are used, and otherwise the
                recorded configurations.
            storage_filesystem: the file system of fsspec or pyarrow in which the path is.
            others: none; those of `Tuner` are refused with a sentence.

        Raises:
            TypeError: an argument is unknown, or belongs to the first run.
            FileNotFoundError: the folder holds no experiment.
            ValueError: the trainable is of another kind or name, or the space has other keys.
        """
        refuse_arguments(others)
        experiment = RunningExperiment.load(
            path, replays=False, storage_filesystem=storage_filesystem, space=param_space
        )
        if param_space is not None:
            check_space(experiment, param_space)
        if trainable is not None:
            take_trainable(experiment, *trainable_of(trainable))
        resume = {
            "resume_unfinished": resume_unfinished,
            "resume_errored": resume_errored,
            "restart_errored": restart_errored,
        }
        tuner = cls(_experiment=experiment, _resume=resume)
        return tuner

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """Whether a folder, or a URL, holds an experiment.

        Args:
            path: the experiment's folder, or the URL of its copy.
            storage_filesystem: the file system of fsspec or pyarrow in which the path is; None: none.
        """
        url, local = RunningExperiment.locate(path, storage_filesystem)
        if url:
            return has_experiment(url, storage_filesystem)
        return os.path.exists(os.path.join(local, STATE))
