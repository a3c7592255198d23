"""Options of an experiment, under Ray's names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..on_import import shadows
from .callback import check_callbacks
from .numbers import seconds, whole
from .reporters.progress_reporter import check_reporter
from .resources import PlacementGroupFactory
from .unknown import checks_names, shown

__all__ = [
    "CheckpointConfig",
    "FailureConfig",
    "ResumeConfig",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TuneConfig",
]

# Options of tune.run, and where they stand today.
_OTHER_HOMES = {
    "config": "Tuner(param_space=...)",
    "param_space": "Tuner(param_space=...)",
    "resources_per_trial": "Tuner(tune.with_resources(trainable, {...}))",
    "max_failures": "RunConfig(failure_config=FailureConfig(max_failures=...))",
    "fail_fast": "RunConfig(failure_config=FailureConfig(fail_fast=...))",
    "keep_checkpoints_num": "RunConfig(checkpoint_config=CheckpointConfig(num_to_keep=...))",
    "checkpoint_freq": "RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=...))",
    "checkpoint_at_end": "RunConfig(checkpoint_config=CheckpointConfig(checkpoint_at_end=...))",
    **dict.fromkeys(("metric", "mode", "num_samples", "scheduler", "search_alg"), "it in TuneConfig"),
    **dict.fromkeys(("name", "stop", "storage_path", "callbacks", "verbose"), "it in RunConfig"),
}


@checks_names("tune.CheckpointConfig")
@dataclass
class CheckpointConfig:
    """Options of checkpoints: which ones are made and kept.

    Args:
        num_to_keep: checkpoints kept of each trial; None: all.  With a score: so many best ones, and the newest.
        checkpoint_score_attribute: the result's key by which the best ones are kept; None: the newest ones are.
        checkpoint_score_order: "max" or "min".
        checkpoint_frequency: class trainables save after so many steps; 0: when a scheduler or the end asks for it.
        checkpoint_at_end: class trainables save at the end of the trial.

    Raises:
        ValueError: a number is out of its range, or the order is another word.
        TypeError: a number is none, or not whole.

    Example:
        saving = tune.CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="loss", checkpoint_score_order="min")
        tune.Tuner(train, run_config=tune.RunConfig(checkpoint_config=saving))
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None:
            self.num_to_keep = whole("num_to_keep", self.num_to_keep, 1, "None for all checkpoints")
        if self.checkpoint_frequency is not None:
            self.checkpoint_frequency = whole("checkpoint_frequency", self.checkpoint_frequency)
        if self.checkpoint_score_order not in (None, "max", "min"):
            raise ValueError(f'checkpoint_score_order is "max" or "min", not {self.checkpoint_score_order!r}.')


@checks_names("tune.FailureConfig")
@dataclass
class FailureConfig:
    """Options of failures: what happens when a trial fails.

    Args:
        max_failures: restarts of each trial, from its last checkpoint; -1: without limit.
        fail_fast: stop all trials at the first error; "raise": and raise the trial's error.

    Raises:
        ValueError: a number is out of its range, fail_fast is another word, or stands beside max_failures.
        TypeError: max_failures is no whole number.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        self.max_failures = whole("max_failures", self.max_failures, 0, "-1 for no limit", allowed=(-1,))
        if self.fail_fast not in (True, False, "raise"):
            raise ValueError(f'fail_fast is True, False or "raise", not {self.fail_fast!r}.')
        if self.fail_fast and self.max_failures != 0:
            raise ValueError(f"fail_fast stops at the first failure: max_failures is then 0, not {self.max_failures}.")


@checks_names("tune.SyncConfig")
@dataclass
class SyncConfig:
    """Where a copy of the experiment is kept.  Checkpoints are in the experiment's folder when a report returns.

    Args:
        upload_dir: the URL of the copy, as "s3://bucket/experiments"; None: there is none.
        syncer, sync_period, sync_timeout: accepted for Ray's programs.
        sync_artifacts, sync_artifacts_on_checkpoint, sync_on_checkpoint: accepted for Ray's programs.
    """

    upload_dir: str | None = None
    syncer: Any = None
    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    sync_on_checkpoint: bool = True

    def __post_init__(self) -> None:
        if self.syncer not in (None, "auto"):
            warnings.warn(
                "SyncConfig: syncer has no effect here: name a URL as upload_dir, or a folder that all nodes see as "
                "storage_path.",
                stacklevel=4,
            )


@checks_names("tune.RunConfig", _OTHER_HOMES)
@dataclass
class RunConfig:
    """Options of the run: where an experiment is kept, when it stops, and what is shown.

    Args:
        name: the experiment's name, a folder below storage_path; None: one from the trainable's name and the time.
        storage_path: the folder of experiments; None: ~/ray_results.  With a URL ("s3://bucket/experiments"), the
            experiment runs in a local folder, of which a copy is kept at the URL; it needs fsspec.
        storage_filesystem: a file system of fsspec or pyarrow, in which storage_path is a path.
        failure_config: what happens when a trial fails.
        checkpoint_config: which checkpoints are made and kept.
        sync_config: its upload_dir is a URL where a copy of the experiment is kept.
        stop: a dict of thresholds, a function of (trial_id, result), or a Stopper.
        callbacks: a list of `Callback`.
        progress_reporter: what shows the state of the experiment, whatever verbose says.
        verbose: 0: nothing is shown; 1: a table; 2: ends of trials too; 3: results too, the newest of each trial once
            a second.
        log_to_file: True, a file's name, or two names: standard output and error of trials go there.
        local_dir: the name of storage_path until 2023.

    Raises:
        TypeError: a callback or the progress_reporter is none, or an argument is unknown.
        ValueError: verbose is another number.

    Example:
        tune.RunConfig(name="first", stop={"training_iteration": 20}, verbose=1)
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: SyncConfig | None = None
    verbose: int | None = None
    stop: Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        if self.callbacks is not None and not isinstance(self.callbacks, (list, tuple)):
            raise TypeError(f"callbacks is a list of tune.Callback, not {shown(self.callbacks)}.")
        check_callbacks(self.callbacks or ())
        check_reporter(self.progress_reporter)
        if isinstance(self.verbose, (int, float, str)) and self.verbose not in (0, 1, 2, 3):
            raise ValueError(f"verbose is 0, 1, 2 or 3, not {self.verbose!r}.")


@checks_names("tune.TuneConfig", _OTHER_HOMES)
@dataclass
class TuneConfig:
    """Options of the search: what is optimised, how the space is searched, and how many trials run.

    Args:
        metric: the result's key that is optimised.
        mode: "min" or "max"; a list for several objectives of Optuna.
        search_alg: the searcher; None: grid and random search.
        scheduler: the trial scheduler; None: first in, first out.
        num_samples: how often the search space is sampled; -1: until something stops the experiment.
        max_concurrent_trials: trials at once; None or 0: as many as there are resources for.
        time_budget_s: seconds, or a `timedelta`, after which all trials end; None: no limit.
        reuse_actors: run trials one after the other in the same processes.
        trial_name_creator, trial_dirname_creator: functions of a trial that return its name, and that of its folder.
        chdir_to_trial_dir: whether a trial runs in its own folder; None: yes, unless RAY_CHDIR_TO_TRIAL_DIR=0.
        seed: of everything that is drawn; None: another one each time.

    Raises:
        ValueError: the mode is another word, or a number is out of its range.
        TypeError: a number is none, or not whole, or an argument is unknown.

    Example:
        tune.TuneConfig(metric="loss", mode="min", num_samples=20, scheduler=tune.schedulers.ASHAScheduler())
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | Any = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Any], str] | None = None
    trial_dirname_creator: Callable[[Any], str] | None = None
    chdir_to_trial_dir: bool | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max") and not isinstance(self.mode, (list, tuple)):
            raise ValueError(f'mode is "min" or "max", not {self.mode!r}.')
        for name in ("trial_name_creator", "trial_dirname_creator"):
            if (creator := getattr(self, name)) is not None and not callable(creator):
                raise TypeError(f"{name} is a function of a trial, not {creator!r}.")
        self.num_samples = whole("num_samples", self.num_samples, 0, "-1 for no limit", allowed=(-1,))
        if self.max_concurrent_trials is not None:
            limit = whole("max_concurrent_trials", self.max_concurrent_trials, 0, "None for no limit")
            self.max_concurrent_trials = limit
        if self.time_budget_s is not None:
            self.time_budget_s = seconds("time_budget_s", self.time_budget_s, "None for no limit")
        if self.seed is not None:
            self.seed = whole("seed", self.seed, 0, "None for another one each time")


@checks_names("tune.ResumeConfig")
@dataclass
class ResumeConfig:
    """Options of a restore: what happens to trials when an experiment is resumed.

    Args:
        unfinished, errored, finished: "resume", "restart" or "skip".
        extra: accepted for Ray's programs.
    """

    unfinished: str = "resume"
    errored: str = "skip"
    finished: str = "skip"
    extra: dict[str, Any] = field(default_factory=dict)


@checks_names("tune.ScalingConfig")
@dataclass
class ScalingConfig:
    """The resources of a trial that starts workers: `tune.with_resources(train, ScalingConfig(num_workers=4))`.

    Args:
        trainer_resources: of the trial itself; None: one CPU.
        num_workers: actors that the trial starts.
        use_gpu: whether each of them has a GPU.
        resources_per_worker: of each of them; None: one CPU, or one CPU and one GPU.
        placement_strategy: how their bundles are placed, as for `placement_group`.
        accelerator_type: accepted for Ray's programs.
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: int | None = None
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            self.num_workers = whole("num_workers", self.num_workers)

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """The bundles of the trial and of its workers."""
        own = {"CPU": 1.0} if self.trainer_resources is None else dict(self.trainer_resources)
        worker = dict(self.resources_per_worker or {"CPU": 1.0})
        if self.use_gpu:
            worker.setdefault("GPU", 1.0)
        return PlacementGroupFactory([own, *([worker] * (self.num_workers or 0))], self.placement_strategy)

    @property
    def total_resources(self) -> dict[str, float]:
        """The sum over the trial and its workers."""
        return self.as_placement_group_factory().required_resources


shadows.name_absent(__name__)
