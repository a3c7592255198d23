"""Experiments of a program whose trainable, stopper and space are defined in its own file (`__main__`)."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from cli.tune import tune as command
from tests.scripts import environment
from zray import tune

PROGRAM = """
import sys
from zray import tune

class Coin:
    def __init__(self, side):
        self.side = side

def train(config):
    if config["x"] == 2:
        raise ValueError("two")
    for step in range(5):
        tune.report({"loss": config["x"] + step})

def stopper(trial_id, result):
    return result["training_iteration"] >= 3

if __name__ == "__main__":
    tune.Tuner(
        train,
        param_space={"x": tune.grid_search([3, 2, 1]), "coin": Coin("head")},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(name="own", storage_path=sys.argv[1], stop=stopper, verbose=0),
    ).fit()
"""
ANOTHER = """
import sys
from zray import tune
import program

def stopper(trial_id, result):
    return False

def Coin(side):
    return None

found = tune.Tuner.restore(sys.argv[1] + "/own", program.train, restart_errored=True)
results = found.fit()
print("counts", sorted(len(result.metrics_dataframe) for result in results if result.metrics_dataframe is not None))
print("coin", found.get_results()[0].config["coin"].side)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    for name, text in (("program.py", PROGRAM), ("another.py", ANOTHER)):
        (folder / name).write_text(text)
    run(folder, "program.py")
    return folder


def run(folder, name):
    done = subprocess.run(
        [sys.executable, folder / name, folder], capture_output=True, text=True, env=environment(), timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands_show_all_trials_the_best_first(folder):
    done = CliRunner(env={"COLUMNS": "300"}).invoke(command, ["ls", str(folder / "own")])
    assert done.exit_code == 0 and "could be read" not in done.output, done.output
    rows = [line for line in done.output.splitlines() if "_0000" in line]
    assert len(rows) == 3 and sum("ERROR" in row for row in rows) == 1
    assert "_00002" in rows[0]  # x = 1


def test_results_are_read_by_another_program(folder):
    results = tune.ExperimentAnalysis(str(folder / "own"), default_metric="loss", default_mode="min")
    assert results.best_config["x"] == 1 and results.best_config["coin"].side == "head"


def test_another_program_goes_on_with_the_recorded_stopper(folder):
    said = run(folder, "another.py")
    assert "counts [0, 3, 3]" in said and "coin head" in said
