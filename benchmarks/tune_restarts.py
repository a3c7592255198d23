"""Experiments that are the same each time, as a program that can be killed.  argument: a folder."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from zray import tune
from zray.tune.running_experiment import JOURNAL
from zray.tune.running_experiment import RunningExperiment as Experiment
from zray.tune.schedulers import ASHAScheduler, FIFOScheduler, HyperBandScheduler, PopulationBasedTraining
from zray.tune.search.optuna import OptunaSearch

STEPS = 9
SAMPLES = {"random": 6, "hyperband": 17, "pbt": 4, "asha": 8, "optuna": 12}
# The experiments of a class; the others are of a function.
CLASSES = ("pbt",)
# Decisions of these depend on the order of results: it is fixed for one trial at a time.
AT_ONCE = {"asha": 1, "optuna": 1}


def train(config: dict[str, Any]) -> None:
    """Grows by a rate; the state is in a checkpoint after each step."""
    checkpoint = tune.get_checkpoint()
    state = checkpoint.to_dict() if checkpoint else {"step": 0, "score": config["start"]}
    mark(config["marks"], f"start {tune.get_context().get_trial_id()}")
    for step in range(state["step"] + 1, STEPS + 1):
        state = {"step": step, "score": state["score"] + config["rate"] / step}
        tune.report({"score": state["score"]}, checkpoint=tune.Checkpoint.from_dict(state))


class Grower(tune.Trainable):
    """The same as a class, whose state is in a checkpoint when it pauses alone."""

    def setup(self, config: dict[str, Any]) -> None:
        self.score = config["start"]
        mark(config["marks"], f"start {self.trial_id}")

    def step(self) -> dict[str, Any]:
        self.score += self.config["rate"] / (self.iteration + 1)
        return {"score": self.score, "done": self.iteration + 1 == STEPS}

    def save_checkpoint(self, folder: str) -> dict[str, Any]:
        return {"score": self.score}

    def load_checkpoint(self, state: dict[str, Any]) -> None:
        self.score = state["score"]


def mark(path: str, line: str) -> None:
    """Append a line, whole."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def scheduler_of(name: str) -> Any:
    """The scheduler of an experiment."""
    if name == "hyperband":
        return HyperBandScheduler(max_t=STEPS)
    if name == "asha":
        return ASHAScheduler(max_t=STEPS, reduction_factor=3)
    if name == "pbt":
        mutations = {"rate": tune.uniform(0, 1)}
        return PopulationBasedTraining(
            "training_iteration", perturbation_interval=3, hyperparam_mutations=mutations, synch=True
        )
    return FIFOScheduler()


def fit(name: str, folder: str | os.PathLike[str], at_once: int = 2) -> tune.Tuner:
    """Run an experiment, or go on with the one in the folder."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "search")
    marks = os.path.join(folder, "marks")
    trainable = tune.with_resources(Grower if name in CLASSES else train, {"cpu": 0.25})
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, trainable)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space={"start": tune.uniform(0, 1), "rate": tune.uniform(0, 1), "marks": marks},
            tune_config=tune.TuneConfig(
                metric="score",
                mode="max",
                num_samples=SAMPLES[name],
                seed=5,
                search_alg=OptunaSearch(seed=5) if name == "optuna" else None,
                scheduler=scheduler_of(name),
                max_concurrent_trials=AT_ONCE.get(name, at_once),
            ),
            run_config=tune.RunConfig(
                storage_path=str(folder),
                name="search",
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
            ),
        )
    tuner.fit()
    return tuner


def load(folder: str | os.PathLike[str]) -> tune.ResultGrid:
    """The outcome of the experiment in a folder."""
    return tune.ResultGrid(Experiment.load(os.path.join(folder, "search")))


def table(results: tune.ResultGrid) -> list[tuple[str, dict[str, Any], list[float]]]:
    """The outcome of the experiment, row by row."""
    return [
        (
            result.metrics["trial_id"],
            {key: value for key, value in result.config.items() if key != "marks"},
            [row["score"] for row in result.rows()],
        )
        for result in results
    ]


def checkpoints(folder: str | os.PathLike[str]) -> Counter[str]:
    """How many checkpoints the folder of each of an experiment's trials has."""
    found: Counter[str] = Counter()
    for here, names, _ in os.walk(folder):
        trial_id = os.path.basename(here)[len("train_") :][: len("00005_00000")]
        found[trial_id] += sum(name.startswith("checkpoint") for name in names)
    return +found


def over(path: str) -> list[str]:
    """The trials that have ended by what an experiment's folder says."""
    return [trial.trial_id for trial in Experiment.load(path).controller.get_trials() if trial.is_over]


def run_twice(folder: str | os.PathLike[str]) -> list[str]:
    """The trials that started after their end was recorded."""
    found = []
    for name in SAMPLES:
        ended: set[str] = set()
        with open(os.path.join(folder, name, "marks")) as file:
            for line in file:
                word, *ids = line.split()
                if word == "over":
                    ended.update(ids)
                else:
                    found += [trial_id for trial_id in ids if trial_id in ended]
    return found


class Found(NamedTuple):
    """What kills have changed: equal of the experiments are as those that were not killed."""

    kills: int
    experiments: int
    equal: int
    run_twice: int


def start(folder: Path) -> subprocess.Popen[str]:
    """Run all experiments in a process of its own, or go on with them."""
    return subprocess.Popen([sys.executable, __file__, str(folder)], stdout=subprocess.PIPE, text=True)


def recorded(folder: Path) -> int:
    """Bytes of all journals."""
    return sum(path.stat().st_size for path in folder.glob(f"*/search/{JOURNAL}"))


def outcome(folder: Path, name: str) -> Any:
    """The table of an experiment, and its decisions where their order is fixed."""
    found = table(load(folder / name))
    return found, (folder / name / "search" / "decisions.jsonl").read_text() if name in AT_ONCE else ""


def kills(count: int, rng: random.Random) -> Found:
    """Kill the program at random places of its journals, and let it go on each time."""
    with tempfile.TemporaryDirectory(prefix="tune-") as here:
        whole, parts = Path(here, "whole"), Path(here, "parts")
        with start(whole) as process:
            process.communicate()
        total = recorded(whole)
        for place in sorted(rng.randrange(total) for _ in range(count)):
            with start(parts) as process:
                while process.poll() is None and recorded(parts) <= place:
                    time.sleep(0.002)
                process.kill()
        with start(parts) as process:
            process.communicate()
        equal = sum(outcome(whole, name) == outcome(parts, name) for name in SAMPLES)
        return Found(count, len(SAMPLES), equal, len(run_twice(parts)))


def main() -> None:
    """Run all experiments."""
    import zray

    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    zray.init(num_cpus=2, log_to_driver=False)
    for name in SAMPLES:
        here = os.path.join(folder, name)
        path = os.path.join(here, "search")
        if tune.Tuner.can_restore(path):
            mark(os.path.join(here, "marks"), " ".join(["over", *over(path)]))
        results = fit(name, here).get_results()
        mark(os.path.join(folder, "marks"), f"{name} has ended")
        for row in table(results):
            print(*row)
        if name in AT_ONCE:
            with open(os.path.join(path, "decisions.jsonl")) as file:
                print(file.read())


if __name__ == "__main__":
    main()
