"""Experiments that describe themselves, in `tune.run`: the analysis has the trials of all."""

import warnings

import pytest

from zray import tune
from zray.tune.beginning import ExperimentWarning
from zray.tune.results import ResultGrid
from zray.tune.schedulers import ASHAScheduler


def train(config):
    for i in range(2):
        tune.report(score=config["x"] + i, loss=-config["x"])
    if config["x"] < 0:
        raise ValueError("negative")


@pytest.fixture
def specs(session, tmp_path):
    def made(first=100, **options):
        options["local_dir"] = str(tmp_path)
        space = {"x": tune.grid_search([2, 3])}
        return [
            tune.Experiment("e1", train, config={"x": first}, **options),
            tune.Experiment("e2", train, config=space, **options),
        ]

    return made


def test_the_analysis_has_the_trials_of_all_experiments(specs):
    analysis = tune.run(specs(), verbose=0)
    assert [trial.config["x"] for trial in analysis.trials] == [100, 2, 3]
    assert analysis.get_best_config("score", "max") == {"x": 100}
    assert analysis.get_best_config("loss", "max") == {"x": 2}
    assert len(analysis.rows()) == len(analysis.trial_dataframes) == 3
    grid = ResultGrid(analysis)
    assert grid.get_best_result("score", "max").config == {"x": 100} and len(grid.rows()) == 3


@pytest.mark.parametrize("scheduler", [None, ASHAScheduler()])
def test_the_metric_of_the_call_is_that_of_all_experiments(specs, scheduler):
    analysis = tune.run(specs(seed=1), metric="score", mode="max", scheduler=scheduler, verbose=0)
    assert analysis.best_config == {"x": 100} and len(analysis.trials) == 3  # ids may be the same
    assert analysis.default_metric == "score"


def test_experiments_with_metrics_of_their_own_have_no_common_one(session, tmp_path):
    each = {"local_dir": str(tmp_path), "mode": "max"}
    first = tune.Experiment("a", train, config={"x": 1}, metric="score", **each)
    second = tune.Experiment("b", train, config={"x": 2}, metric="loss", **each)
    analysis = tune.run([first, second], verbose=0)
    with pytest.raises(ValueError, match="needs a metric"):
        _ = analysis.best_trial
    assert analysis.get_best_config("score", "max") == {"x": 2}


def test_a_failed_trial_keeps_no_later_experiment_from_its_run(specs):
    with pytest.raises(tune.TuneError, match="1 of 3 have failed"):
        tune.run(specs(first=-1), verbose=0)
    analysis = tune.run(specs(first=-1), resume="AUTO", raise_on_failed_trial=False, verbose=0)
    assert [trial.status for trial in analysis.trials] == ["ERROR", "TERMINATED", "TERMINATED"]


def test_fail_fast_ends_the_list(specs, tmp_path):
    with pytest.raises(ValueError, match="negative"):
        tune.run(specs(first=-1), fail_fast="raise", verbose=0)
    assert not (tmp_path / "e2").exists()


def test_arguments_of_an_experiment_that_the_call_has_are_named(specs):
    with pytest.warns(ExperimentWarning, match="stop, num_samples have no effect beside an Experiment"):
        tune.run(specs()[0], num_samples=3, stop={"score": 1}, verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExperimentWarning)
        tune.run(specs()[1:], max_concurrent_trials=1, reuse_actors=True, time_budget_s=60, verbose=0)


def test_an_empty_list_is_an_error(session):
    with pytest.raises(tune.TuneError, match="no experiment to run"):
        tune.run([])
