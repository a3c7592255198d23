"""`run_experiments`: experiments as they were written in 2017 and 2018, as dicts."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import zray

from .errors import TuneError
from .registry import check_saving
from .result import EPISODE_REWARD_MEAN
from .running_experiment import JOURNAL, STATE, RunningExperiment
from .schedulers.trial_scheduler import TrialScheduler
from .spellings import checkpoint_config_of, configs_of, tell_ignored, translated
from .stoppers import stopper_of
from .trainable import Trainable
from .trial import Trial, TrialState
from .tune_run import run, run_or_resume
from .tuner import begin_from, experiment_of
from .unknown import shown, unknown_name

__all__ = ["JOURNAL", "STATE", "Experiment", "Trial", "joined", "run", "run_experiments", "run_specs"]

# Arguments of `init` in former years.
_FORMER_INIT = ("redis_address", "redis_password", "redis_max_memory", "huge_pages", "plasma_directory", "webui_host")


class Experiment:
    """The description of an experiment, as a name and keywords, for `run_experiments` and `tune.run`.

    Args:
        name: the experiment's name.
        run: a function, a class, or a registered name.
        spec: the other keys of an experiment: stop, config, resources_per_trial, num_samples, ...

    Raises:
        TuneError: an unknown key, or `run` is an instance.
        TypeError: `run` is a class that is no Trainable, or `stop` is of a wrong kind.
        ValueError: `config` is no dict, or checkpoint options are given for a function.
    """

    def __init__(self, name: str, run: Any, **spec: Any) -> None:
        self.name, self.run = name, run
        self.spec = translated(spec, f"Experiment {name!r}", "key", TuneError, extra=("run",))
        if isinstance(run, type) and not issubclass(run, Trainable):
            raise TypeError(
                f"The class {run.__name__} is no trainable: derive it from tune.Trainable, and define setup and step."
            )
        if not isinstance(run, str) and not callable(run):
            raise TuneError(f"A trainable is a function, a class or a registered name, not {shown(run)}.")
        config = self.spec.get("config")
        if config is not None and not isinstance(config, Mapping) and not hasattr(config, "to_dict"):
            raise ValueError(f"The config of experiment {name!r} is a dict, not {shown(config)}.")
        saving = checkpoint_config_of(self.spec)
        check_saving(run, saving.checkpoint_frequency, saving.checkpoint_at_end)
        stopper_of(self.spec.get("stop"))

    @staticmethod
    def load(path: str, trainable: Any = None, *, replays: bool = True) -> RunningExperiment:
        """Return the experiment in a folder, with its trials."""
        return RunningExperiment.load(path, trainable, replays=replays)

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """The experiment that a dict describes.

        Raises:
            TuneError: an unknown key, or no `run`.
        """
        if not isinstance(spec, Mapping):
            raise TuneError(f"Experiment {name!r} is described by a dict, not by {type(spec).__name__}.")
        if "run" not in spec:
            raise TuneError(f"Experiment {name!r} has no 'run': name a trainable.")
        rest = {key: value for key, value in spec.items() if key not in ("run", "name")}
        return cls(name, spec["run"], **rest)


def _build(each: Experiment, scheduler: Any, search_alg: Any, run: dict[str, Any]) -> RunningExperiment:
    options = {**run, "scheduler": scheduler, "search_alg": search_alg, **each.spec, "name": each.name}
    chosen = options["scheduler"]
    if isinstance(chosen, TrialScheduler) and chosen.needs_metric and not (chosen.metric or options.get("metric")):
        chosen.metric, chosen.mode = EPISODE_REWARD_MEAN, chosen.mode or "max"  # the default of 2018
    experiment = experiment_of(
        each.run, *configs_of({key: value for key, value in options.items() if value is not None})
    )
    experiment.run_options["resources"] = options.get("resources_per_trial")
    if options.get("restore"):
        begin_from(experiment.settings, options["restore"])
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
    """Run experiments that are described by dicts, one after the other.

        trials = tune.run_experiments({"first": {"run": train, "config": {"lr": tune.grid_search([0.1, 0.01])}}})

    Args:
        experiments: {name: {"run": ..., "stop": ..., "config": ..., "resources": ..., "repeat": ...}}.
        scheduler, search_alg: the trial scheduler, which decides about each experiment by itself; the searcher.
        verbose: 0: nothing is shown; 1: a table; 2: the status block of 2018; 3: results too.
        progress_reporter: what shows the state, whatever verbose says.
        resume: go on with experiments of these names.
        reuse_actors: run trials one after the other in the same processes.
        callbacks: a list of `Callback`.
        raise_on_failed_trial: raise `TuneError` at the end if trials have failed.
        concurrent, queue_trials, server_port, trial_executor, with_server: accepted for programs of former years; a
            warning names those that ask for something.
        ray_args: arguments of `zray.init`, which is called if no session runs, as in 2018.

    Returns:
        The trials of all experiments, in order.

    Raises:
        TuneError: an unknown key, or trials have failed.
        TypeError: an argument that neither this function nor `zray.init` has.
    """
    del queue_trials, concurrent
    former = {"server_port": server_port, "trial_executor": trial_executor, "with_server": with_server}
    for name, value in former.items():
        tell_ignored("run_experiments", name, value)
    specs = _specs(experiments)
    _check_init_arguments(ray_args)
    if not zray.is_initialized():
        if "redis_address" in ray_args:
            ray_args["address"] = ray_args.pop("redis_address")
        zray.init(**ray_args)
    run = {"callbacks": callbacks, "progress_reporter": progress_reporter, "verbose": verbose}
    run.update(scheduler=scheduler, search_alg=search_alg, reuse_actors=reuse_actors)
    done = run_specs(specs, run, resume, is_block=True)
    if raise_on_failed_trial:
        for experiment in done:
            experiment.raise_for_failures()
    return [trial for experiment in done for trial in experiment.controller.get_trials()]


def _check_init_arguments(ray_args: Mapping[str, Any]) -> None:
    """Refuse a name that neither run_experiments nor init has, also where a session runs already."""
    known = (*inspect.signature(zray.init).parameters, *_FORMER_INIT)
    own = tuple(inspect.signature(run_experiments).parameters)
    for name in ray_args:
        if name not in known:
            raise TypeError(unknown_name("run_experiments", "argument", name, (*own[:-1], *known)))


def run_specs(
    specs: Any, run: dict[str, Any], resume: Any = False, *, is_block: bool = False
) -> list[RunningExperiment]:
    """Run experiments, one after the other, up to one that is interrupted, or that fail_fast has ended.

    Args:
        run: options for all of them, as scheduler, search_alg, callbacks and verbose.
        resume: go on with experiments of these names.
        is_block: show the status block of 2018.
    """
    specs = _specs(specs)
    done: list[RunningExperiment] = []
    for each in specs:
        own = copy.deepcopy(run.get("scheduler")) if len(specs) > 1 else run.get("scheduler")
        experiment = _build(each, own, run.get("search_alg"), run)
        experiment.run_options["is_block"] = is_block
        run_or_resume(experiment, resume)
        done.append(experiment)
        has_failed = any(trial.state is TrialState.ERROR for trial in experiment.controller.get_trials())
        if experiment.is_interrupted or (has_failed and run.get("fail_fast")):
            break
    return done


def _metrics_of(experiment: RunningExperiment) -> tuple[str, ...]:
    """The metrics and modes of an experiment and its parts, as texts."""
    controller = experiment.controller
    parts = (experiment.settings, controller.scheduler, controller.searcher)
    return tuple(repr(getattr(part, name, None)) for part in parts for name in ("metric", "mode"))


def joined(done: list[RunningExperiment]) -> RunningExperiment:
    """Several experiments as one, whose trials are those of all: for an analysis, and not to be run.

    The folder is that of the last one.  A metric is kept that all experiments have.

    Raises:
        TuneError: there are none.
    """
    if not done:
        raise TuneError("There is no experiment to run.")
    if len(done) == 1:
        return done[0]
    found = copy.copy(done[-1])
    found.controller, found.settings = copy.copy(found.controller), copy.copy(found.settings)
    found.controller.settings = found.settings
    if len(set(map(_metrics_of, done))) > 1:
        found.settings.metric = found.settings.mode = None
        found.controller.scheduler = found.controller.searcher = None  # type: ignore[assignment]
    # By folder: experiments with one seed have the same ids.
    found.controller.trials = {trial.path: trial for each in done for trial in each.controller.get_trials()}
    return found
