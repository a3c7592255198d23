"""Mistakes of programs that are errors before the first trial."""

import functools

import pytest

from zray import tune
from zray.tune.errors import TuneError
from zray.tune.stoppers import MaximumIterationStopper, stopper_of


class Plain:
    """A class that is no trainable."""


class Good(tune.Trainable):
    def step(self):
        return {"loss": 1}

    def save_checkpoint(self, folder):
        return {}


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
        (
            train,
            {"checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=2)},
            ValueError,
            "checkpoint_frequency .* is for class trainables",
        ),
        (
            train,
            {"checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True)},
            ValueError,
            "checkpoint_at_end is for class trainables",
        ),
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


class Unsaving(tune.Trainable):
    def step(self):
        return {"loss": 1}


@pytest.mark.parametrize("options", [{"checkpoint_at_end": True}, {"checkpoint_frequency": 1}])
@pytest.mark.parametrize("trainable", [Unsaving, tune.with_resources(Unsaving, {"cpu": 1})])
def test_class_that_cannot_save_is_refused_where_it_is_to(trainable, options):
    checkpoint_config = tune.CheckpointConfig(**options)
    words = rf"^{next(iter(options))}.* needs a method save_checkpoint, which Unsaving does not have: define it"
    with pytest.raises(ValueError, match=words):
        tune.Tuner(trainable, run_config=tune.RunConfig(checkpoint_config=checkpoint_config))


async def later(config):
    return {"loss": 1}


async def items(config):
    yield {"loss": 1}


class Later:
    async def __call__(self, config):
        return {"loss": 1}


async def later_with(config, data):
    return {"loss": data}


@pytest.mark.parametrize(
    "make",
    [
        lambda: later,
        lambda: items,
        lambda: Later(),
        lambda: functools.partial(later),
        lambda: tune.with_parameters(later_with, data=1),
        lambda: tune.with_resources(later, {"cpu": 1}),
    ],
    ids=["function", "generator", "object", "partial", "with_parameters", "with_resources"],
)
def test_async_function_is_refused_before_the_first_trial(make):
    with pytest.raises(TuneError, match=r"no async function, as \w+ is: give a function that calls asyncio.run\("):
        tune.Tuner(make())


@pytest.mark.parametrize("make", [tune.randint, tune.lograndint, tune.qrandint])
@pytest.mark.parametrize("bounds", [(0.5, 3), (1, 2.5)])
def test_integers_between_fractions_are_refused(make, bounds):
    with pytest.raises(ValueError, match="The bounds of a range of integers are integers, not .*: use tune.uniform"):
        make(*bounds, *((2,) if make is tune.qrandint else ()))
    assert make(1.0, 9.0, *((2,) if make is tune.qrandint else ())).lower == 1  # as programs write 1e3


def test_choice_of_no_list_is_refused():
    with pytest.raises(TypeError, match=r"takes a list of values, as tune.choice\(\[1, 2\]\), not 5"):
        tune.choice(5)
