"""Mistakes of programs that are errors before the first trial."""

import pytest

from zray import tune
from zray.tune.errors import TuneError
from zray.tune.stoppers import MaximumIterationStopper, stopper_of


class Plain:
    """A class that is no trainable."""


class Good(tune.Trainable):
    def step(self):
        return {"loss": 1}


def train(config):
    tune.report({"loss": 1})


def test_thresholds_may_be_nested():
    stopper = stopper_of({"test": {"acc": 6, "deep": {"x": 9}}, "training_iteration": 100})
    assert stopper.thresholds == {"test/acc": 6, "test/deep/x": 9, "training_iteration": 100}
    assert stopper("a", {"test": {"acc": 6.5, "deep": {"x": 1}}, "training_iteration": 1})
    assert not stopper("a", {"test": {"acc": 5.5, "deep": {"x": 1}}, "training_iteration": 1})


@pytest.mark.parametrize(
    "stop, error, message",
    [
        ({"loss": "0.1"}, TypeError, "The stop criterion 'loss' is a number that the result has to reach, not '0.1'"),
        ({"test": {"acc": None}}, TypeError, "The stop criterion 'test/acc' is a number"),
        ({"test": {3: 1}}, TypeError, "The keys of stop are names of results, not 3"),
        (MaximumIterationStopper, TypeError, "stop is the class MaximumIterationStopper: make an instance"),
        (5, TypeError, "stop is a dict, a function of \\(trial_id, result\\) or a Stopper, not int"),
        (lambda result: True, TuneError, "is called with \\(trial_id, result\\): too many positional arguments"),
        ([{"loss": "x"}], TypeError, "The stop criterion 'loss'"),
    ],
)
def test_stop_criterion_of_a_wrong_kind_is_an_error(stop, error, message):
    with pytest.raises(error, match=message):
        stopper_of(stop)
    with pytest.raises(error, match=message):
        tune.Experiment("a", train, stop=stop)
    with pytest.raises(error, match=message):
        tune.Tuner(train, run_config=tune.RunConfig(stop=stop))


def test_class_that_is_no_trainable_is_not_registered():
    with pytest.raises(TypeError, match="'plain' is registered as no trainable: The class Plain is no trainable"):
        tune.register_trainable("plain", Plain)
    tune.register_trainable("good", Good)


@pytest.mark.parametrize(
    "run, spec, error, message",
    [
        (Good.__new__(Good), {}, TuneError, "A trainable is a function, a class or a registered name, not Good"),
        (Plain, {}, TypeError, "The class Plain is no trainable"),
        (train, {"config": [1]}, ValueError, "The config of experiment 'a' is a dict, not list"),
        (train, {"checkpoint_at_end": True}, ValueError, "checkpoint_at_end is for class trainables"),
        (train, {"checkpoint_freq": 3}, ValueError, "checkpoint_frequency .* is for class trainables"),
        (train, {"stopp": {}}, TuneError, "has no key 'stopp'.  Did you mean 'stop'"),
    ],
)
def test_experiment_is_checked_at_once(run, spec, error, message):
    with pytest.raises(error, match=message):
        tune.Experiment("a", run, **spec)
    tune.Experiment("a", Good, checkpoint_at_end=True, checkpoint_freq=3, config={"x": 1})


@pytest.mark.parametrize(
    "give, name",
    [
        (lambda: tune.SyncConfig(syncer=print), "syncer"),
        (lambda: tune.Experiment("a", train, trial_executor=object()), "trial_executor"),
        (lambda: tune.run_experiments([], with_server=True), "with_server"),
    ],
)
def test_option_without_effect_is_said(give, name, monkeypatch):
    monkeypatch.setattr("zray.is_initialized", lambda: True)
    with pytest.warns(UserWarning, match=f"{name} has no effect here: "):
        give()


def test_options_that_ask_for_what_is_so_anyway_are_taken_in_silence():
    tune.Experiment("a", train, queue_trials=True, sync_to_driver=True)
