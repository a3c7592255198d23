"""An experiment goes on after a kill of its program: trials continue from their checkpoints, finished ones do not run.

The program starts itself, kills that process with SIGKILL in the middle of the search, and restores the experiment.

Prints:

    killed: some trials had ended, others had not
    restored: 6 trials, 10 results each, no finished trial ran again
"""

import os
import signal
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
        file.write(f"{tune.get_context().get_trial_id()} from step {state['step']}\n")
    for step in range(state["step"] + 1, 11):
        time.sleep(0.02)
        state = {"step": step, "x": state["x"] * 0.9}
        tune.report({"loss": state["x"]}, checkpoint=tune.Checkpoint.from_dict(state))


def search(folder):
    return tune.Tuner(
        train,
        param_space={"x": tune.uniform(0, 1), "log": os.path.join(folder, "log")},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=6, seed=3),
        run_config=tune.RunConfig(name="search", storage_path=folder, verbose=0),
    )


def read(path):
    with open(path) as file:
        return file.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        first = subprocess.Popen([sys.executable, __file__, folder])
        while not os.path.exists(log) or "_00003 " not in read(log):
            time.sleep(0.005)
        first.send_signal(signal.SIGKILL)
        first.wait()
        with ray.init(num_cpus=2):
            tuner = tune.Tuner.restore(os.path.join(folder, "search"), train)
            before = read(log).count("\n")
            results = tuner.fit()
            print("killed: some trials had ended, others had not")
            lines = read(log).splitlines()
            again = [line.split()[0] for line in lines[before:]]
            finished = [result for result in results if result.metrics["trial_id"] not in again]
            assert finished and again
            lengths = {len(result.rows()) for result in results}
            print(f"restored: {len(results)} trials, {lengths.pop()} results each, no finished trial ran again")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ray.init(num_cpus=2)
        search(sys.argv[1]).fit()
    else:
        main()
