"""Parameters that a scheduler has changed: each table, line and page shows the current ones."""

import csv
import io
import json
import os

import pytest
from click.testing import CliRunner

import zray
from cli.tune import tune as command
from zray import tune
from zray.tune.recorded import read_experiment
from zray.tune.reporters.live import table_of
from zray.tune.reporters.rows import cell
from zray.tune.reporters.view import view_of
from zray.tune.trial import Trial


def descend(config):
    start = tune.get_checkpoint().to_dict()["step"] + 1 if tune.get_checkpoint() else 0
    for step in range(start, 4):
        rate = config["opt"]["lr"]
        tune.report({"loss": abs(rate - 0.5)}, checkpoint=tune.Checkpoint.from_dict({"step": step}))


@pytest.fixture(scope="module")
def found(nothing_left, tmp_path_factory):
    """The results of population based training in which some trials have got other parameters."""
    with zray.init(num_cpus=1, log_to_driver=False):
        grid = tune.Tuner(
            descend,
            param_space={"opt": {"lr": tune.grid_search([0.1, 0.2, 0.4])}, "net": {"kind": "plain"}},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                seed=1,
                reuse_actors=True,
                scheduler=tune.schedulers.PopulationBasedTraining(
                    "training_iteration",
                    perturbation_interval=1,
                    hyperparam_mutations={"opt": {"lr": tune.uniform(0.001, 1)}},
                ),
            ),
            run_config=tune.RunConfig(name="pbt", storage_path=str(tmp_path_factory.mktemp("pbt")), verbose=0),
        ).fit()
    trials = grid._trials
    assert any(trial.config["opt"]["lr"] != trial.chosen["opt/lr"] for trial in trials), "nothing has changed"
    return grid


def rates(grid):
    return {str(trial): trial.config["opt"]["lr"] for trial in grid._trials}


def output(*words):
    done = CliRunner(env={"COLUMNS": "300"}).invoke(command, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_results_and_files_have_the_current_ones(found):
    for trial, result in zip(found._trials, found, strict=True):
        with open(os.path.join(trial.path, "params.json")) as file:
            assert json.load(file) == result.config == trial.config


def test_command_shows_the_current_ones(found):
    path, wanted = found.experiment_path, rates(found)
    rows = json.loads(output("ls", path, "--format", "json"))
    assert {row["trial"]: row["opt/lr"] for row in rows} == wanted
    rows = list(csv.DictReader(io.StringIO(output("ls", path, "--format", "csv"))))
    assert {row["trial"]: float(row["opt/lr"]) for row in rows} == wanted
    for trial in found._trials:
        assert f"  opt/lr = {trial.config['opt']['lr']!r}\n" in output("why", path, trial.trial_id)
    recorded = read_experiment(path)
    assert recorded.parameters() == {"opt/lr": list(wanted.values())}
    with open(output("plot", path).strip(), encoding="utf-8") as file:
        page = file.read()
    assert all(f"opt/lr={cell(rate)}" in page for rate in wanted.values())


def test_reporters_show_the_current_ones(found):
    from rich.console import Console

    controller = found._experiment.controller
    best = found.get_best_result().config["opt"]["lr"]
    view = view_of(controller, "")
    assert f"(lr={cell(best)})" in view.best_in_words()
    console = Console(record=True, file=io.StringIO(), width=200)
    console.print(table_of(controller, view))
    text = console.export_text()
    assert all(f" {cell(rate)} " in text for rate in rates(found).values()), text
    reporter = tune.CLIReporter(metric="loss", mode="min")
    text = reporter._progress_str(found._trials, True)
    assert f"'opt/lr': {best!r}" in text
    assert all(f" {cell(rate)} " in text for rate in rates(found).values()), text


def test_searched_values_stay_as_they_were(found):
    assert [trial.evaluated_params["opt/lr"] for trial in found._trials] == [0.1, 0.2, 0.4]


def test_parameters_are_those_of_the_configuration_where_it_has_them():
    config = {"a": {"b": 2}, "c/d": 3, "rest": [{"e": 5}], 7: 8}
    chosen = {"a/b": 1, "c/d": 1, "rest/0/e": 1, "7": 1, "gone": 4, "rest/9/e": 6, "a/b/c": 9}
    current = {"a/b": 2, "c/d": 3, "rest/0/e": 5, "7": 8, "gone": 4, "rest/9/e": 6, "a/b/c": 9}
    assert Trial("t", "f", config, chosen).parameters == current


def test_time_of_a_trial_is_its_own_as_its_iterations_are(found):
    for result in found:
        rows = result.rows()
        assert [row["training_iteration"] for row in rows] == [*range(1, len(rows) + 1)]
        times = [row["time_this_iter_s"] for row in rows]
        assert [row["time_total_s"] for row in rows] == pytest.approx(
            [sum(times[: place + 1]) for place in range(len(times))], abs=1e-12
        )
        assert all(0 <= row["time_since_restore"] <= row["time_total_s"] for row in rows)
