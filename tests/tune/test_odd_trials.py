"""Experiments go on beside an odd trial: texts and names that cannot be written, and odd values at limits."""

import numpy as np
import pytest

from zray import tune
from zray.tune.recorded import read_experiment

pytestmark = pytest.mark.usefixtures("session")
SURROGATE = "caf\udce9"  # as os.listdir gives for the name of a file that is no UTF-8


class Mute:
    def __repr__(self):
        raise RuntimeError("no words")


def fit(trainable, tmp_path, space=None, name="odd", tune_config=None, **options):
    config = tune.RunConfig(storage_path=str(tmp_path), name=name, verbose=0, **options)
    config_of_tune = tune.TuneConfig(metric="loss", mode="min", reuse_actors=True, **(tune_config or {}))
    space = space or {"x": tune.grid_search([0, 1, 2])}
    tuner = tune.Tuner(trainable, param_space=space, tune_config=config_of_tune, run_config=config)
    return tuner.fit()


def is_failed(results):
    return [result.error is not None for result in results]


def test_error_with_a_text_that_is_no_utf8_is_its_trials_own(tmp_path):
    def train(config):
        if config["x"] == 1:
            raise ValueError(SURROGATE)
        tune.report({"loss": 1.0})

    assert is_failed(fit(train, tmp_path)) == [False, True, False]
    again = tune.Tuner.restore(str(tmp_path / "odd"), train).fit()
    assert is_failed(again) == [False, True, False] and "caf" in str(again[1].error)


@pytest.mark.parametrize("value", [SURROGATE, Mute(), 10**5000], ids=["no-utf8", "no-repr", "long-number"])
def test_parameter_without_a_text_is_recorded_and_found_by_a_restore(tmp_path, value):
    results = fit(lambda config: tune.report({"loss": 1.0}), tmp_path, {"x": tune.grid_search([0, value, 2])})
    assert is_failed(results) == [False] * 3
    assert len(read_experiment(str(tmp_path / "odd")).trials) == 3


def test_parameter_whose_name_is_no_utf8_is_recorded(tmp_path):
    results = fit(lambda config: tune.report({"loss": 1.0}), tmp_path, {SURROGATE: tune.grid_search([0, 1])})
    assert is_failed(results) == [False] * 2


@pytest.mark.parametrize("creator", ["trial_name_creator", "trial_dirname_creator"])
def test_name_of_a_trial_that_is_no_utf8_is_written_with_escapes(tmp_path, creator):
    options = {creator: lambda trial: f"{SURROGATE}-{trial.trial_id}"}
    results = fit(lambda config: tune.report({"loss": 1.0}), tmp_path, tune_config=options)
    assert is_failed(results) == [False] * 3
    again = tune.Tuner.restore(str(tmp_path / "odd"), lambda config: None).fit()
    assert [result.path for result in again] == [result.path for result in results]


def raises(trial):
    raise ZeroDivisionError("no name")


@pytest.mark.parametrize("creator", ["trial_name_creator", "trial_dirname_creator"])
@pytest.mark.parametrize(
    "function, words", [(raises, "failed with ZeroDivisionError: no name"), (lambda trial: None, "returned None")]
)
def test_function_that_gives_a_trial_no_name_is_named(tmp_path, creator, function, words):
    with pytest.raises(tune.TuneError, match=f"^{creator} {words}"):
        fit(lambda config: tune.report({"loss": 1.0}), tmp_path, tune_config={creator: function})


ODD = {
    "text": lambda: "diverged",
    "list": lambda: [1.0],
    "dict": lambda: {"a": 1},
    "complex": lambda: 1j,
    "array": lambda: np.arange(3.0),
    "no-time": lambda: np.datetime64("nat"),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_value_at_a_limit_is_an_error_of_its_trial(tmp_path, kind):
    def train(config):
        tune.report({"loss": 1.0, "level": ODD[kind]() if config["x"] == 1 else 1.0})

    results = fit(train, tmp_path, stop={"level": 5})
    assert is_failed(results) == [False, True, False]
    assert "level" in str(results[1].error)


def test_stop_function_that_raises_at_one_result_fails_that_trial_alone(tmp_path):
    def train(config):
        tune.report({"loss": 1.0} if config["x"] == 1 else {"loss": 1.0, "level": 1})

    results = fit(train, tmp_path, stop=lambda trial_id, result: result["level"] > 5)
    assert is_failed(results) == [False, True, False]
    assert "KeyError" in str(results[1].error)


def test_population_goes_on_with_a_trial_whose_metric_is_a_text(tmp_path):
    def train(config):
        for step in range(6):
            tune.report({"loss": "diverged" if config["x"] > 0.9 else config["x"] + step})

    scheduler = tune.schedulers.PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": [0.1, 0.2]}
    )
    space = {"x": tune.grid_search([0.5, 1.0])}
    results = fit(train, tmp_path, space, tune_config={"scheduler": scheduler})
    assert is_failed(results) == [False, False]
