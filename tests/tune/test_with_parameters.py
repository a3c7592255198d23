"""Tests of `tune.with_parameters`: forms of trainables, and errors before the first trial."""

import functools

import numpy as np
import pytest

from zray import tune
from zray.tune import TuneError

pytestmark = pytest.mark.usefixtures("session")


def two(config, train_data, test_data):
    return {"sum": float(np.sum(train_data) + np.sum(test_data)) + config["a"]}


def old_checkpoint(config, checkpoint_dir=None, train_data=None, *, test_data):
    return two(config, train_data, test_data) if checkpoint_dir is None else {}


def old_reporter(config, reporter, train_data, test_data):
    reporter(**two(config, train_data, test_data))


def reporter_last(config, train_data, test_data, reporter):
    reporter(**two(config, train_data, test_data))


def keywords(config, **data):
    return two(config, **data)


def four(config, train_data, scale, test_data):
    return two(config, train_data * scale, test_data)


class Trainer:
    def __init__(self):
        self.function, self.parameters = None, 7

    def method(self, config, train_data, test_data):
        return two(config, train_data, test_data)

    __call__ = method


class WithSetup(tune.Trainable):
    def setup(self, config, train_data, *, test_data):
        self.result = two(config, train_data, test_data)

    def step(self):
        return {**self.result, "done": True}


class OfOldTimes(tune.Trainable):
    def _setup(self, config, train_data, test_data):
        self.result = two(config, train_data, test_data)

    def _train(self):
        return {**self.result, "done": True}


DATA = {"train_data": np.arange(4.0), "test_data": np.ones(3)}
FORMS = {
    "two": lambda: tune.with_parameters(two, **DATA),
    "checkpoint_dir": lambda: tune.with_parameters(old_checkpoint, **DATA),
    "reporter": lambda: tune.with_parameters(old_reporter, **DATA),
    "reporter that is the last argument": lambda: tune.with_parameters(reporter_last, **DATA),
    "keywords": lambda: tune.with_parameters(keywords, **DATA),
    "four": lambda: tune.with_parameters(four, scale=1, **DATA),
    "lambda": lambda: tune.with_parameters(
        lambda config, train_data, test_data: two(config, train_data, test_data), **DATA
    ),
    "partial": lambda: tune.with_parameters(functools.partial(four, scale=1), **DATA),
    "method": lambda: tune.with_parameters(Trainer().method, **DATA),
    "object": lambda: tune.with_parameters(Trainer(), **DATA),
    "class": lambda: tune.with_parameters(WithSetup, **DATA),
    "class of old times": lambda: tune.with_parameters(OfOldTimes, **DATA),
    "partial of with_parameters": lambda: functools.partial(
        tune.with_parameters(two, train_data=DATA["train_data"]), test_data=DATA["test_data"]
    ),
    "outside of with_resources": lambda: tune.with_parameters(tune.with_resources(two, {"cpu": 0.5}), **DATA),
    "inside of with_resources": lambda: tune.with_resources(tune.with_parameters(two, **DATA), {"cpu": 0.5}),
    "class and resources": lambda: tune.with_resources(
        tune.with_parameters(tune.with_resources(WithSetup, {"cpu": 0.5}), **DATA), {"cpu": 0.5}
    ),
}


def nested(trainable, between=lambda found: found):
    inner = between(tune.with_parameters(trainable, train_data=DATA["train_data"]))
    return tune.with_parameters(inner, test_data=DATA["test_data"])


for name, found in (
    ("function", two), ("old function", old_checkpoint), ("keywords", keywords), ("object", Trainer()),
    ("class", WithSetup), ("class of old times", OfOldTimes),
):  # fmt: skip
    FORMS[f"nested {name}"] = functools.partial(nested, found)
    FORMS[f"nested {name} with resources"] = functools.partial(
        nested, found, lambda inner: tune.with_resources(inner, {"cpu": 0.5})
    )


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_values_reach_each_form_of_trainable(make, tmp_path):
    grid = tune.Tuner(
        make(),
        param_space={"a": tune.grid_search([1, 2])},
        run_config=tune.RunConfig(name="forms", storage_path=str(tmp_path), verbose=0),
    ).fit()
    assert not grid.errors, grid.errors
    assert [result.metrics["sum"] for result in grid] == [10, 11]


def test_values_reach_a_function_of_tune_run(tmp_path):
    analysis = tune.run(FORMS["two"](), config={"a": 1}, storage_path=str(tmp_path), verbose=0)
    assert analysis.trials[0].last_result["sum"] == 10 and analysis.trials[0].trainable_name == "two"


def test_later_value_of_a_name_counts(tmp_path):
    inner = tune.with_parameters(keywords, train_data=1, test_data=1)
    (trial,) = tune.run(
        tune.with_parameters(inner, test_data=5), config={"a": 1}, storage_path=str(tmp_path), verbose=0
    ).trials
    assert trial.last_result["sum"] == 7


@pytest.mark.parametrize("trainable", [Trainer(), functools.partial(four, scale=1)], ids=["object", "partial"])
def test_trials_have_the_name_of_the_trainable(trainable, tmp_path):
    made = tune.with_parameters(trainable, **DATA)
    (trial,) = tune.run(made, config={"a": 1}, storage_path=str(tmp_path), verbose=0).trials
    assert trial.trainable_name == ("Trainer" if isinstance(trainable, Trainer) else "four")


LACKING = {
    "nothing passed": (lambda: four, r"four takes .*Pass train_data and scale and test_data too: tune.with_parameters"),
    "one of two passed": (lambda: tune.with_parameters(two, train_data=1), "two takes .*Pass test_data too"),
    "by keyword alone": (lambda: old_checkpoint, "Pass test_data too: tune.with_parameters"),
    "partial": (lambda: functools.partial(two, train_data=1), "two takes .*Pass test_data too"),
    "reporter": (lambda: tune.with_parameters(old_reporter, train_data=1), "Pass test_data too"),
    "nested": (lambda: tune.with_parameters(tune.with_parameters(four, scale=1), train_data=1), "Pass test_data too"),
    "resources": (
        lambda: tune.with_resources(tune.with_parameters(two, test_data=1), {"cpu": 1}),
        "Pass train_data too",
    ),
    "class": (lambda: WithSetup, "setup of a class trainable .*Pass train_data and test_data too"),
    "class with one": (lambda: tune.with_parameters(WithSetup, train_data=1), "WithSetup .*Pass test_data too"),
    "no argument": (lambda: lambda: 1, r"takes \(\)\.$"),
}


@pytest.mark.parametrize(("make", "words"), LACKING.values(), ids=LACKING)
def test_missing_argument_is_refused_before_the_first_trial(make, words):
    with pytest.raises(TuneError, match=words):
        tune.Tuner(make())


def positional(config, data, /):
    return data


def data_first(data, config):
    return data


@pytest.mark.parametrize(
    ("trainable", "values", "words"),
    [
        (two, {"date": 1}, r"passes 'date', and two takes \(config, train_data, test_data\)"),
        (two, {"config": 1}, "behind \\(config\\), and two takes .*multiple values for argument 'config'"),
        (positional, {"data": 1}, "by name .*positional"),
        (data_first, {"data": 1}, "multiple values for argument 'data'"),
        (WithSetup, {"config": 1}, "behind \\(self, config\\), and WithSetup takes .*'config'"),
        (WithSetup, {"date": 1}, "passes 'date', and WithSetup takes"),
        (tune.with_parameters(two, train_data=1), {"train_data": 2}, "passes 'train_data', and two takes"),
    ],
)
def test_value_that_cannot_be_passed_is_refused(trainable, values, words):
    with pytest.raises(TypeError, match="with_parameters passes .*" + words.removeprefix("passes ")):
        tune.with_parameters(trainable, **values)
