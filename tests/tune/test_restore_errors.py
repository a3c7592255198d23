"""A restore says what to do instead of folders and arguments that are not for it."""

import json
import warnings

import pytest

from zray import tune
from zray.tune.beginning import ExperimentWarning
from zray.tune.errors import NoExperimentError
from zray.tune.registry import trainable_of
from zray.tune.running_experiment import RunningExperiment
from zray.tune.schedulers import ASHAScheduler, MedianStoppingRule
from zray.tune.search.searcher import Searcher
from zray.tune.settings import Settings
from zray.tune.state_file import STATE, how_to_resume, resuming_command


def train(config):
    tune.report({"x": 1})


class Drawing(Searcher):
    def suggest(self, trial_id):
        return {"x": 1}


def test_folder_that_does_not_exist_is_named_beside_near_ones(tmp_path):
    with pytest.raises(NoExperimentError, match=r"search_2 does not exist\.  There is no experiment in .* either\."):
        tune.Tuner.restore(str(tmp_path / "search_2"), train)
    for name in ("search_1", "other", "no_experiment"):
        (tmp_path / name).mkdir()
        if name != "no_experiment":
            (tmp_path / name / STATE).touch()
    with pytest.raises(NoExperimentError, match=r"search_2 does not exist\.  Experiments in .*: search_1\."):
        tune.Tuner.restore(str(tmp_path / "search_2"), train)
    with pytest.raises(NoExperimentError, match=r"x does not exist\.  Experiments in .*: other, search_1\."):
        tune.Tuner.restore(str(tmp_path / "x"), train)
    with pytest.raises(NoExperimentError, match="does not exist, nor can"):
        tune.Tuner.restore(str(tmp_path / "absent" / "x"), train)


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ("num_samples", r"tune\.run\(.*num_samples=n, resume=True\)"),
        ("tune_config", "another experiment"),
        ("metric", "get_best_result"),
        ("sample_count", "restart_errored, param_space and storage_filesystem"),
    ],
)
def test_argument_of_a_first_run_says_at_a_restore_what_to_do_instead(tmp_path, argument, advice):
    with pytest.raises(TypeError, match=f"Tuner.restore takes no .*{argument}.*{advice}"):
        tune.Tuner.restore(str(tmp_path), train, **{argument: 3})


@pytest.mark.usefixtures("session")
def test_argument_that_a_run_which_goes_on_ignores_is_named(tmp_path):
    options = {"config": {"x": 1}, "metric": "x", "mode": "min", "name": "e", "storage_path": str(tmp_path)}
    first = {"scheduler": ASHAScheduler(max_t=9), "max_failures": 1, "time_budget_s": 600}
    tune.run(train, **options, **first)
    for same in ({}, first, {"scheduler": ASHAScheduler(max_t=9)}):  # what is not given is as it was
        with warnings.catch_warnings():
            warnings.simplefilter("error", ExperimentWarning)
            tune.run(train, resume=True, **options, **same)
    for argument, value, words in [
        (
            "scheduler",
            MedianStoppingRule(),
            "scheduler of MedianStoppingRule .* for the former AsyncHyperBandScheduler",
        ),
        ("scheduler", ASHAScheduler(max_t=8), "scheduler of other arguments"),
        ("search_alg", Drawing(), "search_alg of Drawing .*BasicVariantGenerator"),
        ("max_failures", 3, "max_failures=3 is ignored, for 1"),
        ("time_budget_s", 30, "time_budget_s=30.0 is ignored, for 600.0"),
    ]:
        with pytest.warns(ExperimentWarning, match=f"{words}.*first run of .*another experiment"):
            tune.run(train, resume=True, **options, **{argument: value})


def other(config):
    tune.report({"x": 2})


class Training(tune.Trainable):
    def step(self):
        return {"x": 3, "done": True}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("resume", [True, "AUTO", "AUTO+ERRORED"])
def test_run_that_goes_on_with_another_trainable_says_so(tmp_path, resume):
    options = {"config": {"x": 1}, "name": "e", "storage_path": str(tmp_path)}
    tune.run(train, **options)
    with pytest.warns(ExperimentWarning, match="has the trainable train, and is to go on with other.*Another name"):
        tune.run(other, resume=resume, **options)
    with pytest.raises(ValueError, match="has a function as trainable, train, .* a class, Training"):
        tune.run(Training, resume=resume, **options)


@pytest.mark.usefixtures("session")
def test_run_of_a_registered_name_goes_on_under_that_name(tmp_path):
    tune.register_trainable("plant", train)
    options = {"config": {"x": 1}, "name": "e", "storage_path": str(tmp_path)}
    tune.run("plant", **options)
    analysis = tune.run("plant", resume=True, num_samples=2, **options)
    assert [trial.trainable_name for trial in analysis.trials] == ["plant"] * 2
    assert all(str(trial).startswith("plant_") for trial in analysis.trials)


@pytest.mark.parametrize(
    "command",
    ["rm -rf /", "zray tune run a; rm b", "zray tune run 'a", "zray tune run a --resume\nrm b", 5, "zray stop --all"],
)
def test_command_in_the_folder_of_another_user_is_one_of_zray_or_none(tmp_path, command):
    (tmp_path / "experiment.json").write_text(json.dumps({"resume": command, "path": str(tmp_path)}))
    assert resuming_command(str(tmp_path)) == ""
    (tmp_path / "experiment.json").write_text(json.dumps({"resume": "zray tune run a.yaml", "path": str(tmp_path)}))
    assert resuming_command(str(tmp_path)) == "zray tune run a.yaml"


def test_experiment_of_an_algorithm_goes_on_by_its_name(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed here")
    from zray.rllib.algorithms.ppo import PPO

    made = RunningExperiment(PPO, {"env": "CartPole-v1"}, Settings(num_samples=2), storage_path=str(tmp_path))
    assert how_to_resume("/a", made) == "Tuner.restore('/a', 'PPO')"
    assert trainable_of("PPO")[1] is PPO
    made = RunningExperiment(train, {}, Settings(num_samples=2), storage_path=str(tmp_path))
    assert how_to_resume("/a", made) == "Tuner.restore('/a', trainable)"
