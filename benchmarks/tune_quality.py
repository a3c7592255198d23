"""Loads of Tune's figures that need zray's own parts: virtual time, recorded curves, processes that are measured."""

from __future__ import annotations

import glob
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zray import tune
from zray.tune import events as ev
from zray.tune.journal import Journal
from zray.tune.runner import Runner
from zray.tune.running_experiment import RunningExperiment
from zray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    PopulationBasedTraining,
    TrialScheduler,
)
from zray.tune.settings import Settings

RUNNING = 10
STEPS = 81


class Unmanned(Runner):
    """The program's half of an experiment: decisions, journal and files are real, and no processes run."""

    def _start(self, action: ev.Start) -> None:
        pass

    def _proceed(self, action: ev.Proceed) -> None:
        pass

    def _halt(self, action: ev.Halt) -> None:
        self._late.append(ev.Halted(time.time(), action.trial_id, 0))

    def seconds_per_report(self, count: int) -> float:
        """Let the trials that run report in turns."""
        running = list(self.controller.running.values())
        start = time.perf_counter()
        for number in range(count):
            trial = running[number % len(running)]
            self.apply([ev.Report(time.time(), trial.trial_id, trial.iteration + 1, {"loss": trial.index}, 1.0, 1.0)])
        return (time.perf_counter() - start) / count


def unmanned(path: str, trials: int, scheduler: str) -> Unmanned:
    """An experiment in which ten trials run, and all others have ended after a report."""
    settings = Settings(metric="loss", mode="min", num_samples=trials)
    schedulers: dict[str, TrialScheduler] = {
        "FIFO": FIFOScheduler(),
        "ASHA": ASHAScheduler(max_t=10**9, reduction_factor=2),
    }
    found = RunningExperiment(
        tune_trainable,
        {"x": tune.uniform(0, 1)},
        settings,
        scheduler=schedulers[scheduler],
        name="unmanned",
        storage_path=path,
        seed=1,
    )
    os.makedirs(found.path)
    runner = Unmanned(found.controller, Journal(os.path.join(found.path, "journal.zray")), None, name="", identity="")
    runner.apply([ev.Capacity(time.time(), RUNNING)])
    while len(found.controller.trials) < trials:
        trial = next(iter(found.controller.running.values()))
        # The trials that go on are better than these, so that no rung stops them.
        loss = 1.0e9 + trial.index
        runner.apply([ev.Report(time.time(), trial.trial_id, 1, {"loss": loss}, 1.0, 1.0)])
        if trial.trial_id in found.controller.running:
            runner.apply([ev.Finished(time.time(), trial.trial_id)])
    return runner


def tune_trainable(config: dict[str, Any]) -> None:
    """Nothing: its processes do not run."""


# --- search ---


def surface(config: dict[str, float]) -> float:
    """A function of two parameters."""
    return math.sin(5 * config["x"]) + (config["y"] - 0.4) ** 2


def sequences(count: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """The parameters that OptunaSearch and Optuna try."""
    import optuna

    from zray.tune.search.optuna import OptunaSearch

    def train(config: dict[str, float]) -> dict[str, float]:
        return {"loss": surface(config)}

    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        results = tune.Tuner(
            train,
            param_space={"x": tune.uniform(0, 1), "y": tune.uniform(-1, 1)},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=count,
                search_alg=OptunaSearch(seed=3),
                max_concurrent_trials=1,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(name="sequence", storage_path=folder, verbose=0),
        ).fit()
        ours = [dict(result.config or {}) for result in results]
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=3))
    study.optimize(
        lambda trial: surface({"x": trial.suggest_float("x", 0, 1), "y": trial.suggest_float("y", -1, 1)}),
        n_trials=count,
    )
    return ours, [dict(trial.params) for trial in study.trials]


# --- schedulers ---


class Outcome(NamedTuple):
    """The cost and the outcome of a search."""

    steps: int
    best: float


def digits_trainable(config: dict[str, Any]) -> None:
    """A small network learns to read digits, an epoch a step."""
    import warnings

    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    data, target = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(data / 16, target, random_state=0)
    network = MLPClassifier(
        (config["units"],), learning_rate_init=config["rate"], alpha=config["alpha"], random_state=config["seed"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(config["steps"]):
            network.partial_fit(train_x, train_y, classes=range(10))
            tune.report({"accuracy": float(network.score(test_x, test_y))})


def digits(scheduler: str, trials: int = 30, steps: int = 27) -> Outcome:
    """A search on digits with one of two schedulers."""
    chosen = {"asha": ASHAScheduler(max_t=steps, reduction_factor=3, grace_period=1), "fifo": FIFOScheduler()}
    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        results = tune.Tuner(
            digits_trainable,
            param_space={
                "rate": tune.loguniform(1e-4, 1e-1),
                "units": tune.choice([8, 32, 128]),
                "alpha": tune.loguniform(1e-5, 1e-1),
                "seed": tune.randint(0, 100),
                "steps": steps,
            },
            tune_config=tune.TuneConfig(
                metric="accuracy",
                mode="max",
                num_samples=trials,
                scheduler=chosen[scheduler],
                seed=4,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(name="digits", storage_path=folder, verbose=0),
        ).fit()
        rows = [result.rows() for result in results]
    return Outcome(sum(map(len, rows)), max(row["accuracy"] for own in rows for row in own))


class Toy(tune.Trainable):
    """The toy of Jaderberg et al. 2017: Q = 1.2 - (t0^2 + t1^2) is climbed by a surrogate with h0 and h1."""

    def setup(self, config: dict[str, float]) -> None:
        self.t = np.array([0.9, 0.9])
        self.h = np.array([config["h0"], config["h1"]])

    def step(self) -> dict[str, float]:
        self.t = self.t - 0.02 * self.h * self.t
        return {"q": float(1.2 - (self.t**2).sum())}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"t": self.t.tolist()}

    def load_checkpoint(self, state: dict[str, Any]) -> None:
        self.t = np.array(state["t"])


def toy(*, exploits: bool) -> float:
    """The best Q of two workers with h = (1, 0) and (0, 1)."""
    return max(q for row in toy_curves(exploits=exploits) for q in row)


def toy_curves(*, exploits: bool) -> list[list[float]]:
    """Q of each of the two workers after each step."""
    interval = 10 if exploits else 10**9

    # One takes over the other's weights, and keeps its own direction.
    def swapped(config: dict[str, float]) -> dict[str, float]:
        return {"h0": config["h1"], "h1": config["h0"]}

    scheduler = PopulationBasedTraining(
        "training_iteration",
        perturbation_interval=interval,
        custom_explore_fn=swapped,
        quantile_fraction=0.5,
        synch=True,
    )
    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        results = tune.Tuner(
            Toy,
            param_space={"h0": tune.grid_search([1.0, 0.0]), "h1": tune.sample_from(lambda spec: 1.0 - spec.config.h0)},
            tune_config=tune.TuneConfig(metric="q", mode="max", scheduler=scheduler, reuse_actors=True),
            run_config=tune.RunConfig(name="toy", storage_path=folder, verbose=0, stop={"training_iteration": 400}),
        ).fit()
        return [[row["q"] for row in result.rows()] for result in results]


def toy_population(*, exploits: bool) -> tuple[list[float], int]:
    """Last Q of each of eight workers that take turns on two CPUs, and the number of exploits."""
    space = {"h0": tune.uniform(0, 1), "h1": tune.uniform(0, 1)}
    scheduler = PopulationBasedTraining(
        "training_iteration",
        perturbation_interval=10 if exploits else 10**9,
        hyperparam_mutations=space,
        quantile_fraction=0.25,
    )
    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        results = tune.Tuner(
            Toy,
            param_space=space,
            tune_config=tune.TuneConfig(
                metric="q", mode="max", num_samples=8, scheduler=scheduler, reuse_actors=True, seed=1
            ),
            run_config=tune.RunConfig(name="turns", storage_path=folder, verbose=0, stop={"training_iteration": 100}),
        ).fit()
        return [result.metrics["q"] for result in results], scheduler.num_perturbations


# --- at rest ---


class Large(tune.Trainable):
    """A trainable whose state is an array of `megabytes`."""

    def setup(self, config: dict[str, Any]) -> None:
        self.data = np.random.default_rng(0).random(config["megabytes"] * 125_000)

    def step(self) -> dict[str, float]:
        return {"loss": 0.0}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"data": self.data}

    def load_checkpoint(self, state: dict[str, Any]) -> None:
        self.data = state["data"]

    def reset_config(self, config: dict[str, Any]) -> bool:
        return True


class Turns(FIFOScheduler):
    """Each result pauses its trial, and lets the other one go on."""

    def on_trial_result(self, controller: Any, trial: Any, result: dict[str, Any]) -> Any:
        for other in list(controller.paused.values()):
            controller.unpause(other)
        return "PAUSE"


def pause_and_resume(megabytes: int, place: str | None = None, steps: int = 30) -> float:
    """Seconds of one pause and the resume of another trial, of two that take turns in one process."""
    with tempfile.TemporaryDirectory(prefix="tune-", dir=place) as folder:
        tuner = tune.Tuner(
            Large,
            param_space={"number": tune.grid_search([1, 2]), "megabytes": megabytes},
            tune_config=tune.TuneConfig(
                metric="loss", mode="min", scheduler=Turns(), reuse_actors=True, max_concurrent_trials=1
            ),
            run_config=tune.RunConfig(
                name="turns",
                storage_path=folder,
                verbose=0,
                stop={"training_iteration": steps},
                checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            ),
        )
        start = time.perf_counter()
        tuner.fit()
        return (time.perf_counter() - start) / (2 * steps)


class Rest(NamedTuple):
    """The resources of an experiment at rest."""

    cpu_percent: float
    megabytes_per_trial: float


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process, to the nanosecond: the usual counters have steps of 10 ms, which are 0.2 % of 5 s."""
    paths = glob.glob(f"/proc/{pid}/task/*/schedstat")
    return sum(int(Path(path).read_text().split()[0]) for path in paths) / 1e9


class PauseAll(FIFOScheduler):
    """Each trial pauses after its first result, but the last one, which goes on."""

    def on_trial_result(self, controller: Any, trial: Any, result: dict[str, Any]) -> Any:
        is_last = trial.index == controller.settings.num_samples - 1
        return self.CONTINUE if is_last else self.PAUSE


def paused(trials: int, seconds: float = 10.0) -> Rest:
    """Measure an experiment whose trials are paused while one sleeps."""
    import threading

    import psutil

    def processes() -> list[Any]:
        own = psutil.Process()
        return [own, *own.children(recursive=True)]

    def memory() -> float:
        return float(sum(process.memory_full_info().pss for process in processes())) / 1e6

    def cpu() -> float:
        return sum(_cpu_seconds(process.pid) for process in processes())

    def train(config: dict[str, Any]) -> None:
        tune.report({"loss": 0.0}, checkpoint=tune.Checkpoint.from_dict({"x": config["x"]}))
        if config["sleeps"]:
            time.sleep(seconds + 5)

    with tempfile.TemporaryDirectory(prefix="tune-") as folder:
        before = memory()
        found: list[float] = []

        def look() -> None:
            time.sleep(3.0)  # the trials have paused
            # Memory comes first: to ask for it costs this process 0.2 % of the CPU time that follows.
            found.append(memory())
            found.append(cpu())
            time.sleep(seconds)
            found.append(cpu())

        last = trials  # one more trial, which sleeps
        tuner = tune.Tuner(
            train,
            param_space={"x": tune.grid_search(list(range(last + 1))), "sleeps": tune.sample_from(_is_last(last))},
            tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=PauseAll(), reuse_actors=True),
            run_config=tune.RunConfig(name="paused", storage_path=folder, verbose=0),
        )
        watcher = threading.Thread(target=look)
        watcher.start()
        tuner.fit()
        watcher.join()
    after, start, end = found
    return Rest((end - start) / seconds * 100, max(0.0, after - before) / trials)


def _is_last(last: int) -> Any:
    return lambda spec: spec.config.x == last
