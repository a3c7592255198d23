"""Experiments that are timed, written for Tune's API: zray's and Ray's run the same lines.

As a program it needs neither package but the one that it measures:

    python tune_loads.py ray new_actors 20      prints {"trials/s": ...}
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import shutil
import sys
import time
from typing import Any

WARM_TRIALS = 4


def one_report(config: dict[str, Any]) -> dict[str, Any]:
    """The trivial function: its only result is what it returns."""
    return {"loss": (config["x"] - 0.3) ** 2}


def _folder(place: str | None) -> str:
    """A new folder, which is removed at the end of the program.

    ext4 searches all inodes that were deleted within the last minutes before it gives one to a new file.  A removal in
    between would make the next experiment's files 5 times as slow.
    """
    import tempfile  # not for the processes of trials, which import this module

    folder = tempfile.mkdtemp(prefix="tune-", dir=place)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def files_alone(count: int, place: str | None = None) -> float:
    """Trials per second whose folder and five files are made, and nothing else: the baseline of a disk."""
    folder = _folder(place)
    start = time.perf_counter()
    for trial in range(count):
        here = os.path.join(folder, str(trial))
        os.mkdir(here)
        for name in range(5):
            with open(os.path.join(here, str(name)), "wb", buffering=0) as file:
                file.write(bytes(300))
    return count / (time.perf_counter() - start)


def fit(
    tune: Any, trainable: Any, count: int, *, reuses: bool, searcher: Any = None, place: str | None = None
) -> float:
    """Run an experiment in a new folder, which is below another one: its seconds."""
    folder = _folder(place)
    tuner = tune.Tuner(
        trainable,
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(
            metric="loss", mode="min", num_samples=count, reuse_actors=reuses, search_alg=searcher
        ),
        run_config=tune.RunConfig(name="timed", storage_path=folder, verbose=0),
    )
    start = time.perf_counter()
    results = tuner.fit()
    seconds = time.perf_counter() - start
    assert len(results) == count and not results.errors
    return seconds


def reused_actors(tune: Any, count: int, place: str | None = None) -> float:
    """Trials per second of one report each, one after the other in the same processes."""
    return count / fit(tune, one_report, count, reuses=True, place=place)


def new_actors(tune: Any, count: int) -> float:
    """Trials per second of one report each, a process for each."""
    return count / fit(tune, one_report, count, reuses=False)


def optuna_search(tune: Any, count: int) -> float:
    """Seconds of an experiment with Optuna's TPE."""
    module = importlib.import_module(f"{tune.__name__}.search.optuna")
    return fit(tune, one_report, count, reuses=True, searcher=module.OptunaSearch(seed=1))


def optuna_alone(count: int) -> float:
    """Seconds of the same search in a loop of Optuna's own."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    start = time.perf_counter()
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    study.optimize(lambda trial: one_report({"x": trial.suggest_float("x", 0, 1)})["loss"], n_trials=count)
    return time.perf_counter() - start


def reports(tune: Any, count: int) -> float:
    """Reports per second of one trial, all recorded."""

    def train(config: dict[str, Any]) -> None:
        for step in range(count):
            tune.report({"loss": float(step)})

    return count / fit(tune, train, 1, reuses=False)


LOADS = {load.__name__: load for load in (reused_actors, new_actors, optuna_search, reports)}


def main() -> None:
    """argv: module, load, count."""
    name, load, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    package = importlib.import_module(name)
    tune = importlib.import_module(f"{name}.tune")
    package.init(num_cpus=2, log_to_driver=False)
    fit(tune, one_report, WARM_TRIALS, reuses=False)
    if load == "optuna_search":
        optuna_search(tune, 2)
    print("\n" + json.dumps({"measured": LOADS[load](tune, count)}), flush=True)
    package.shutdown()


if __name__ == "__main__":
    main()
