"""An experiment goes on after a kill of its program: trials continue from their checkpoints, finished ones do not run.

The program starts itself, kills that process in the middle of the search, and restores the experiment.
Prints:

    restored: 6 trials, 10 results each, no finished trial ran again
"""

import os
import subprocess
import sys
import tempfile
import time

import zray as ray
from zray import tune


def train(config):
    checkpoint = tune.get_checkpoint()
    state = checkpoint.to_dict() if checkpoint else {"step": 0, "x": config["x"]}
    with open(config["log"], "a") as file:
        file.write(f"{tune.get_context().get_trial_id()}\n")
    for step in range(state["step"] + 1, 11):
        time.sleep(0.02)
        state = {"step": step, "x": state["x"] * 0.9}
        tune.report({"loss": state["x"]}, checkpoint=tune.Checkpoint.from_dict(state))


def begin(folder):
    tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1), "log": os.path.join(folder, "log")},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=6, seed=3),
        run_config=tune.RunConfig(name="search", storage_path=folder, verbose=0),
    ).fit()


def starts(folder):
    with open(os.path.join(folder, "log"), "a+") as file:
        file.seek(0)
        return file.read().split()


if len(sys.argv) > 1:
    begin(sys.argv[1])
elif __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        first = subprocess.Popen([sys.executable, __file__, folder])
        while len(set(starts(folder))) < 4:
            time.sleep(0.005)
        first.kill()
        first.wait()
        before = len(starts(folder))
        results = tune.Tuner.restore(os.path.join(folder, "search"), train).fit()
        again = starts(folder)[before:]
        assert again and any(result.metrics["trial_id"] not in again for result in results)
        (length,) = {len(result.rows()) for result in results}
        print(f"restored: {len(results)} trials, {length} results each, no finished trial ran again")
        ray.shutdown()
