"""Input that makes no sense: an error at the call that says what to do, and nothing is left behind."""

import importlib
import os
import threading

import pytest

from tests.gates import nothing_is_held, until
from zray import tune
from zray.ray_names import absent
from zray.tune import schedulers, search
from zray.tune.schedulers import ASHAScheduler
from zray.tune.search import BasicVariantGenerator
from zray.tune.trial_results import missing_metric, missing_time
from zray.tune.variants import RecursiveDependencyError

pytestmark = pytest.mark.usefixtures("session")


def train(config):
    tune.report({"loss": 1.0})


class NoTrainable:
    def step(self):
        return {}


class Unpicklable(tune.Trainable):
    def step(self):
        return {"lock": threading.Lock(), "done": True}


LOCK = threading.Lock()


@pytest.fixture
def folder(tmp_path):
    """A folder of experiments.  No resources are held, and no experiment is in it, behind the test."""
    yield str(tmp_path)
    assert os.listdir(tmp_path) == []
    until(nothing_is_held, 10)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: tune.TuneConfig(num_sample=3), TypeError, "no argument 'num_sample'.  Did you mean 'num_samples'"),
        (lambda: tune.RunConfig(storage="x"), TypeError, "Did you mean 'storage_path'"),
        (lambda: tune.RunConfig(metric="x"), TypeError, "Write it in TuneConfig"),
        (lambda: tune.CheckpointConfig(num_keep=1), TypeError, "Did you mean 'num_to_keep'"),
        (lambda: tune.Tuner(train, config={}), TypeError, "Write param_space=..."),
        (lambda: tune.Tuner(train, run_conf=None), TypeError, "Did you mean 'run_config'"),
        (lambda: tune.run(train, num_sample=3), TypeError, "tune.run has no argument 'num_sample'"),
        (lambda: tune.run_experiments({"e": {"run": train, "sto": {}}}), tune.TuneError, "'sto'.  Did you mean 'stop'"),
        (lambda: tune.run_experiments({"e": {"stop": {}}}), tune.TuneError, "has no 'run'"),
        (lambda: tune.run_experiments({"e": train}), tune.TuneError, "is described by a dict, not by function"),
        (lambda: tune.run_experiments({"e": {"run": train}}, num_cpu=2), TypeError, "Did you mean 'num_cpus'"),
        (lambda: tune.run_experiments(train), tune.TuneError, "not function"),
        (lambda: tune.Experiment("e", train, nam_samples=2), tune.TuneError, "Did you mean 'num_samples'"),
    ],
)  # fmt: skip
def test_unknown_names_are_errors_that_name_the_nearest_one(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: ASHAScheduler(grace_perid=3), "ASHAScheduler has no argument 'grace_perid'.*mean 'grace_period'"),
        (lambda: tune.create_scheduler("asha", max=3), "ASHAScheduler has no argument 'max'.*mean 'max_t'"),
        (lambda: schedulers.HyperBandScheduler(maxt=3), "HyperBandScheduler has no argument.*mean 'max_t'"),
        (lambda: schedulers.MedianStoppingRule(grace_perio=3), "MedianStoppingRule has no.*mean 'grace_period'"),
        (lambda: schedulers.PopulationBasedTraining(interval=3), "PopulationBasedTraining has no argument 'interval'"),
        (lambda: BasicVariantGenerator(seed=3), "BasicVariantGenerator has no argument.*It has: points_to_evaluate"),
        (lambda: tune.create_searcher("optuna", sed=1), "OptunaSearch has no argument 'sed'.*mean 'seed'"),
        (lambda: tune.create_searcher("hyperopt", seed=1), "HyperOptSearch has no argument 'seed'"),
        (lambda: search.ConcurrencyLimiter(None, concurrent=1), "mean 'max_concurrent'"),
        (lambda: search.Repeater(None, repeats=1), "mean 'repeat'"),
        (lambda: search.AskTellSearch(None, metrics=1), "mean 'metric'"),
    ],
)
def test_unknown_arguments_of_schedulers_and_searchers_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    "name, part",
    [
        *((name, f"search.{name}") for name in ("ax", "bayesopt", "bohb", "dragonfly", "hebo", "nevergrad", "sigopt")),
        *((name, f"search.{name}") for name in ("skopt", "zoopt", "flaml")),
        *((name, "search.flaml") for name in ("blendsearch", "cfo", "CFO")),
        *((name, f"schedulers.{name}") for name in ("pb2", "hb_bohb")),
        ("pbt_replay", "schedulers.PopulationBasedTrainingReplay"),
        ("resource_changing", "schedulers.resource_changing_scheduler"),
    ],
)
def test_searcher_or_scheduler_of_ray_that_is_not_there_is_refused_with_the_advice_of_its_module(name, part):
    kind, create = ("searcher", tune.create_searcher) if "search." in part else ("scheduler", tune.create_scheduler)
    with pytest.raises(ValueError) as raised:
        create(name)
    assert str(raised.value) == f"zray does not have the {kind} {name!r} yet.  {absent.NAMES[f'zray.tune.{part}']}"
    with pytest.raises(ValueError, match="zray does not have"):
        tune.Tuner(train, tune_config=tune.TuneConfig(**{"search_alg" if kind == "searcher" else kind: name})).fit()


def test_scheduler_of_a_program_has_arguments_of_its_own():
    class Own(ASHAScheduler):
        def __init__(self, patience, **options):
            super().__init__(**options)
            self.patience = patience

    assert Own(patience=3, max_t=9, reward_attr="r").metric == "r"
    with pytest.raises(TypeError, match="ASHAScheduler has no argument 'maxt'"):
        Own(patience=3, maxt=9)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"mode": "minimum"}, ValueError, 'mode is "min" or "max", not \'minimum\''),
        ({"scheduler": ASHAScheduler()}, ValueError, "needs a metric and a mode"),
        ({"scheduler": ASHAScheduler}, TypeError, "not the class AsyncHyperBandScheduler"),
        ({"scheduler": "ashha"}, ValueError, "No scheduler is called 'ashha'.  Did you mean 'asha'"),
        ({"search_alg": BasicVariantGenerator}, TypeError, "not the class BasicVariantGenerator"),
        ({"search_alg": "optunna"}, ValueError, "No searcher is called 'optunna'.  Did you mean 'optuna'"),
        ({"config": [1]}, TypeError, "The search space is a dict, not list"),
        ({"config": {"x": tune.grid_search([])}}, ValueError, "The grid of x is a list of at least one value"),
        ({"config": {"lock": LOCK}}, tune.TuneError, r"cannot be pickled.*the search space: 'lock'"),
        ({"num_samples": "3"}, TypeError, "num_samples is a whole number"),
        ({"num_samples": -2}, ValueError, "num_samples is at least 0, or -1"),
        ({"stop": 3}, TypeError, "stop is a dict, a function of"),
        ({"resources_per_trial": {"cpu": "two"}}, tune.TuneError, "The amount of 'cpu' of a trial is a number"),
        ({"resources_per_trial": {"cpus": 2}}, tune.TuneError, "Did you mean 'cpu'"),
        ({"resources_per_trial": {"gpu": 999}}, tune.TuneError, r"has {GPU: \d+}\.  Ask for less"),
        ({"callbacks": tune.Callback()}, TypeError, "callbacks is a list of tune.Callback, not Callback"),
        ({"keep_checkpoints_num": -1}, ValueError, "num_to_keep is at least 1"),
        ({"resume": "maybe"}, ValueError, "resume is True, False or one of"),
        ({"max_failures": 1, "fail_fast": True}, ValueError, "max_failures is then 0"),
    ],
)  # fmt: skip
def test_wrong_values_are_errors_at_the_call(options, error, message, folder):
    with pytest.raises(error, match=message):
        tune.run(train, name="bad", local_dir=folder, **options)


@pytest.mark.parametrize("name", ["../evil", "..", ".", "a/../../b", "a/..", "./", "a/../..", "a\0b"])
def test_name_that_leads_out_of_the_folder_of_experiments_is_refused(name, folder):
    inner = os.path.join(folder, "inner")
    for door in (
        lambda: tune.run(train, name=name, local_dir=inner),
        lambda: tune.run_experiments({name: {"run": train, "local_dir": inner}}),
        lambda: tune.Tuner(train, run_config=tune.RunConfig(name=name, storage_path=inner)),
    ):
        with pytest.raises(ValueError, match=r"a folder below the folder of experiments, not .*storage_path"):
            door()


def test_absolute_name_is_refused_beside_a_url_alone(folder):
    run = tune.RunConfig(name="/tmp/own", storage_path="memory://experiments")
    with pytest.raises(ValueError, match="not '/tmp/own'"):
        tune.Tuner(train, run_config=run)
    tuner = tune.Tuner(train, run_config=tune.RunConfig(name=f"{folder}/own", storage_path="/elsewhere"))
    assert tuner._experiment.path == f"{folder}/own"


def test_name_may_have_several_parts(tmp_path):
    tuner = tune.Tuner(train, run_config=tune.RunConfig(name="team/./one/", storage_path=str(tmp_path), verbose=0))
    assert tuner.fit().experiment_path == str(tmp_path / "team" / "one")


@pytest.mark.parametrize(
    "trainable, message",
    [
        (3, "A trainable is a function, a class or a registered name, not int"),
        (None, "A trainable is a function, a class or a registered name, not NoneType"),
        ("nobody", "No trainable is registered as 'nobody'"),
        (NoTrainable, "The class NoTrainable is no trainable: derive it from tune.Trainable"),
        (lambda: None, "takes \\(config\\)"),
        (lambda a, b, c: None, "takes \\(config\\)"),
        (lambda config: LOCK.locked(), "cannot be pickled.*the trainable"),
    ],
)
def test_what_cannot_be_run_is_an_error_at_the_call(trainable, message, folder):
    for door in (
        lambda: tune.run(trainable, name="bad", local_dir=folder),
        lambda: tune.run_experiments({"bad": {"run": trainable, "local_dir": folder}}),
        lambda: tune.Tuner(trainable, run_config=tune.RunConfig(name="bad", storage_path=folder)).fit(),
    ):
        with pytest.raises((tune.TuneError, TypeError), match=message):
            door()


@pytest.mark.parametrize("name, meant", [("ppo", "PPO"), ("PPOO", "PPO"), ("DQNN", "DQN"), ("Sac", "SAC")])
def test_algorithm_of_rllib_that_is_nearly_right_is_named_with_those_there_are(name, meant, folder):
    pytest.importorskip("gymnasium")
    message = f"registered as '{name}'.  Did you mean '{meant}'.*Algorithms of RLlib: A2C, A3C, DQN, ES, PPO, SAC"
    for door in (lambda: tune.run(name, local_dir=folder), lambda: tune.Tuner(name).fit()):
        with pytest.raises(tune.TuneError, match=message):
            door()
    with pytest.raises(ValueError, match=f"No algorithm is called '{name}'.  Did you mean '{meant}'"):
        importlib.import_module("zray.rllib.algorithms.registry").get_algorithm_class(name)


def test_registered_name_that_is_nearly_right_is_named(folder):
    tune.register_trainable("my_trainable", train)
    with pytest.raises(tune.TuneError, match="Did you mean 'my_trainable'"):
        tune.run("my_trainible", local_dir=folder)
    with pytest.raises(TypeError, match="'three' is int"):
        tune.register_trainable("three", 3)


def test_parameters_that_depend_on_one_another_are_an_error(folder):
    space = {
        "a": tune.sample_from(lambda spec: spec.config.b + 1),
        "b": tune.sample_from(lambda spec: spec.config.a + 1),
        "c": 1,
    }
    with pytest.raises(RecursiveDependencyError, match="The parameters a, b depend on one another in a circle"):
        tune.run(train, name="cyclic", config=space, local_dir=folder)


def test_metric_that_is_never_reported_is_an_error_of_the_trial(tmp_path):
    with pytest.raises(tune.TuneError, match="reported no 'los', which TuneConfig needs: it reported loss"):
        tune.run(train, metric="los", mode="min", local_dir=str(tmp_path))
    results = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(metric="los", mode="min"),
        run_config=tune.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert "Report 'los' in each result" in str(results.errors[0])
    with pytest.raises(RuntimeError, match="No trial has reported 'los'"):
        results.get_best_result()
    with pytest.raises(ValueError, match="now they are 'loss' and 'maximum'"):
        results.get_best_result("loss", "maximum")
    until(nothing_is_held, 10)


@pytest.mark.parametrize("metric, result", [("loss", {"loss": None}), ("a/b", {"a": {"b": None}})])
def test_none_in_the_place_of_a_metric_is_said(metric, result):
    words = missing_metric(result, {"TuneConfig": metric})
    assert words.startswith(f"The trial reported None as {metric!r}, where TuneConfig needs a number.  Report ")


def test_none_in_the_place_of_a_time_is_said():
    scheduler = tune.schedulers.ASHAScheduler(time_attr="step")
    assert "The first result has None as 'step', which is no number" in missing_time({"step": None}, scheduler)


def test_stop_criterion_that_is_never_reported_is_an_error(tmp_path):
    with pytest.raises(tune.TuneError, match="The stop criterion 'los' is not in the result, which has: .*loss"):
        tune.run(train, stop={"los": 1}, local_dir=str(tmp_path))
    until(nothing_is_held, 10)


def test_result_that_cannot_be_sent_is_an_error_of_the_trial(tmp_path):
    (trial,) = tune.run(Unpicklable, local_dir=str(tmp_path), raise_on_failed_trial=False).trials
    assert trial.status == "ERROR" and "lock" in trial.error
    until(nothing_is_held, 10)


@pytest.mark.parametrize("value", [float("nan"), "high"])
def test_metric_without_a_number_has_no_best_trial_and_is_named(tmp_path, value):
    results = tune.Tuner(
        lambda config: {"loss": value},
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    with pytest.raises(RuntimeError, match=f"No value of 'loss' is a finite number, as {value!r}"):
        results.get_best_result()


@pytest.mark.parametrize(
    "checkpoint, message",
    [
        ({"step": 1}, "checkpoint is a tune.Checkpoint, not dict.  Use Checkpoint.from_dict"),
        (tune.Checkpoint("/not/there"), "The folder of the reported checkpoint is not there: /not/there"),
    ],
)
def test_report_without_a_checkpoint_to_copy_is_an_error_that_names_it(tmp_path, checkpoint, message):
    (result,) = tune.Tuner(
        lambda config: tune.report({"loss": 1.0}, checkpoint=checkpoint),
        run_config=tune.RunConfig(storage_path=str(tmp_path)),
    ).fit()
    assert message in str(result.error)


def test_grid_of_one_number_is_refused():
    with pytest.raises(TypeError, match="grid_search takes a list of values, not int"):
        tune.grid_search(5)
