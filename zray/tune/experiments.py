"""`run_experiments`: experiments as they were written in 2017 and 2018, as dicts."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any

import zray

from .config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig, TuneConfig
from .errors import TuneError
from .experiment import Experiment as RunningExperiment
from .results import ExperimentAnalysis
from .trial import Trial
from .tune_run import run_or_resume
from .tuner import experiment_of

__all__ = ["Experiment", "run_experiments", "run_specs"]

# Keys of an experiment, in all their spellings.
_KEYS = (
    "run",
    "stop",
    "config",
    "env",
    "resources",
    "trial_resources",
    "resources_per_trial",
    "repeat",
    "num_samples",
    "local_dir",
    "storage_path",
    "upload_dir",
    "checkpoint_freq",
    "checkpoint_at_end",
    "keep_checkpoints_num",
    "checkpoint_score_attr",
    "max_failures",
    "restore",
    "name",
    "time_budget_s",
    "trial_name_creator",
    "sync_function",
    "loggers",
    "custom_loggers",
    "export_formats",
    "max_concurrent_trials",
)


class Experiment:
    """One experiment, for `run_experiments`; as a name and keywords.

    Args:
        name: the experiment's name.
        run: a function, a class, or a registered name.
        spec: the other keys of an experiment: stop, config, resources_per_trial, num_samples, ...

    Raises:
        TuneError: an unknown key.
    """

    def __init__(self, name: str, run: Any, **spec: Any) -> None:
        self.name, self.run, self.spec = name, run, spec
        unknown = sorted(set(spec) - set(_KEYS))
        if unknown:
            raise TuneError(
                f"Experiment {name!r} has the unknown key {unknown[0]!r}.  The keys are: {', '.join(_KEYS)}."
            )

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """The experiment that a dict describes.

        Raises:
            TuneError: an unknown key, or no `run`.
        """
        if "run" not in spec:
            raise TuneError(f"Experiment {name!r} has no 'run': name a trainable.")
        rest = {key: value for key, value in spec.items() if key not in ("run", "name")}
        return cls(name, spec["run"], **rest)


def _build(each: Experiment, scheduler: Any, search_alg: Any, run: dict[str, Any]) -> RunningExperiment:
    spec = each.spec
    config = dict(spec.get("config") or {})
    if "env" in spec:
        config["env"] = spec["env"]
    samples = spec.get("num_samples", spec.get("repeat", 1))
    resources = next(
        (spec[key] for key in ("resources_per_trial", "trial_resources", "resources") if spec.get(key) is not None),
        None,
    )
    score = spec.get("checkpoint_score_attr")
    experiment = experiment_of(
        each.run,
        config,
        TuneConfig(
            search_alg=search_alg,
            scheduler=scheduler,
            num_samples=samples,
            time_budget_s=spec.get("time_budget_s"),
            max_concurrent_trials=spec.get("max_concurrent_trials"),
            trial_name_creator=spec.get("trial_name_creator"),
        ),
        RunConfig(
            name=each.name,
            storage_path=spec.get("storage_path") or spec.get("local_dir"),
            sync_config=SyncConfig(upload_dir=spec.get("upload_dir")),
            stop=spec.get("stop"),
            failure_config=FailureConfig(spec.get("max_failures", run.get("max_failures", 0))),
            checkpoint_config=CheckpointConfig(
                spec.get("keep_checkpoints_num"),
                score.removeprefix("min-") if score else None,
                "min" if score and score.startswith("min-") else "max",
                spec.get("checkpoint_freq", 0),
                spec.get("checkpoint_at_end", False),
            ),
            callbacks=run.get("callbacks"),
            progress_reporter=run.get("progress_reporter"),
            verbose=run.get("verbose"),
        ),
    )
    experiment.run_options.update(resources=resources, is_block=True)
    if spec.get("restore"):
        experiment.settings.restore = os.path.abspath(os.path.expanduser(spec["restore"]))
    return experiment


def _specs(experiments: Any) -> list[Experiment]:
    if isinstance(experiments, Experiment):
        return [experiments]
    if isinstance(experiments, Mapping):
        return [Experiment.from_json(name, spec) for name, spec in experiments.items()]
    if isinstance(experiments, (list, tuple)):
        return [each for item in experiments for each in _specs(item)]
    raise TuneError(f"Experiments are a dict of dicts, an Experiment or a list, not {type(experiments).__name__}.")


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    server_port: Any = None,
    verbose: Any = None,
    progress_reporter: Any = None,
    resume: Any = False,
    reuse_actors: bool = False,
    trial_executor: Any = None,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: list[Any] | None = None,
    *,
    search_alg: Any = None,
    with_server: Any = None,
    queue_trials: Any = None,
    **ray_args: Any,
) -> list[Trial]:
    """Run experiments, and return their trials.

    Args:
        experiments: {name: {"run": ..., "stop": ..., "config": ..., "resources": ..., "repeat": ...}}.
        scheduler: the trial scheduler; it decides about each experiment by itself.
        verbose: 0: nothing is shown; 1: a table; 2: the status block of 2018; 3: results too.
        progress_reporter: what shows the state, whatever verbose says.
        resume: go on with experiments of these names.
        raise_on_failed_trial: raise `TuneError` at the end if trials have failed.
        ray_args: arguments of `zray.init`, which is called if no session runs, as in 2018.

    Raises:
        TuneError: an unknown key, or trials have failed.
    """
    del server_port, trial_executor, with_server, queue_trials, concurrent
    specs = _specs(experiments)
    if not zray.is_initialized():
        if "redis_address" in ray_args:
            ray_args["address"] = ray_args.pop("redis_address")
        zray.init(**ray_args)
    run = {"callbacks": callbacks, "progress_reporter": progress_reporter, "verbose": verbose}
    done: list[RunningExperiment] = []
    for each in specs:
        own = copy.deepcopy(scheduler) if len(specs) > 1 else scheduler
        experiment = _build(each, own, search_alg, run)
        experiment.run_options["reuses"] = reuse_actors
        run_or_resume(experiment, resume)
        done.append(experiment)
    if raise_on_failed_trial:
        for experiment in done:
            experiment.raise_for_failures()
    return [trial for experiment in done for trial in experiment.controller.get_trials()]


def run_specs(
    specs: Any, scheduler: Any = None, search_alg: Any = None, run: dict[str, Any] | None = None
) -> ExperimentAnalysis:
    """Run experiments, and return the outcome of the last one.

    Args:
        run: callbacks, progress_reporter and verbose, for all of them.
    """
    last: RunningExperiment | None = None
    for each in _specs(specs):
        last = _build(each, scheduler, search_alg, run or {})
        last.run_options["is_block"] = False
        last.fit()
        last.raise_for_failures()
    if last is None:
        raise TuneError("There is no experiment to run.")
    return ExperimentAnalysis(last)
