"""Tests of experiments with several objectives: the best trial is that of one of them, which the user chooses."""

import os

import pytest
from click.testing import CliRunner

from cli.main import main
from zray import tune
from zray.tune.recorded import read_experiment
from zray.tune.search.optuna import OptunaSearch
from zray.tune.state_file import STATE

pytestmark = pytest.mark.usefixtures("session")

SEVERAL = r"several objectives, 'a' and 'b', .*Choose one: pass "


def fit(folder, samples=2, **searcher):
    given = {} if searcher else {"metric": ["a", "b"], "mode": ["min", "max"]}
    return tune.Tuner(
        lambda config: {"a": config["x"], "b": 1 - config["x"]},
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=samples, search_alg=OptunaSearch(**searcher), **given),
        run_config=tune.RunConfig(name="several", storage_path=str(folder), verbose=0),
    ).fit()


@pytest.mark.parametrize("searcher", [{}, {"metric": ["a", "b"], "mode": ["min", "max"]}], ids=["config", "searcher"])
def test_best_result_says_that_there_are_several_objectives(searcher, tmp_path):
    found = fit(tmp_path, **searcher)
    analysis = tune.ExperimentAnalysis(found.experiment_path)
    trial = analysis.trials[0]
    for ask in (
        found.get_best_result,
        lambda: found.get_best_result(["a", "b"], ["min", "max"]),
        analysis.get_best_trial,
        lambda: analysis.get_best_checkpoint(trial, metric=["a", "b"]),
        lambda: analysis.get_trial_checkpoints_paths(trial, metric=["a", "b"]),
    ):
        with pytest.raises(ValueError, match=SEVERAL + "metric='a' and its mode"):
            ask()
    least = min(result.config["x"] for result in found)
    assert found.get_best_result("a").config["x"] == found.get_best_result("b").config["x"] == least
    assert found.get_best_result("a", "max").config["x"] != least
    if not searcher:
        assert "<th>a</th><th>b</th>" in found._repr_html_()


def test_only_trial_is_the_best_by_several_objectives(tmp_path):
    found = fit(tmp_path, samples=1)
    assert found.get_best_result().config == found[0].config


@pytest.mark.parametrize("has_state", [True, False])
def test_commands_say_that_there_are_several_objectives(has_state, tmp_path):
    path = fit(tmp_path).experiment_path
    if not has_state:
        os.remove(os.path.join(path, STATE))
    found = CliRunner().invoke(main, ["tune", "plot", path])
    assert found.exit_code == 1 and "several objectives, 'a' and 'b'" in found.output
    assert "Choose one: pass --metric 'a', and --mode" in found.output
    assert CliRunner().invoke(main, ["tune", "plot", path, "--metric", "a"]).exit_code == 0
    assert read_experiment(path, "a").mode == "min" and read_experiment(path, "b").mode == "max"
    assert "The objectives are a, b." in CliRunner().invoke(main, ["tune", "simulate", path]).output
