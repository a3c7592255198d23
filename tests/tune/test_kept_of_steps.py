"""Results of a trial's steps that are kept: whose checkpoint fails, dicts of classes, and keys that are filled in."""

import os
import warnings

import numpy as np
import pytest

from zray import tune
from zray.tune import search

pytestmark = pytest.mark.usefixtures("session")


class Steps(tune.Trainable):
    """Three steps; notes its ends in a file."""

    def setup(self, config):
        self.x = 0

    def step(self):
        self.x += 1
        own = self.config.get("own", {})
        return {"x": self.x, "done": self.x == 3, **own}

    def save_checkpoint(self, folder):
        if self.x == self.config.get("fails_at"):
            raise RuntimeError("no checkpoint")
        return {"x": self.x}

    def load_checkpoint(self, state):
        self.x = state["x"]

    def reset_config(self, config):
        if config.get("is_refused"):
            raise RuntimeError("no reset")
        return False

    def cleanup(self):
        if "log" in self.config:
            with open(self.config["log"], "a") as file:
                file.write(f"{self.config['id']}\n")


def run(trainable, folder, config, **options):
    options = {"verbose": 0, "raise_on_failed_trial": False, **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = tune.run(trainable, config=config, storage_path=str(folder), **options).trials
    told = [each for each in caught if "of their own" in str(each.message)]
    assert {each.filename for each in told} <= {__file__}  # the line that runs the experiment
    return found, [str(each.message) for each in told]


def test_result_of_a_step_whose_checkpoint_fails_is_kept(tmp_path):
    (trial,), _ = run(Steps, tmp_path, {"fails_at": 2}, checkpoint_freq=1)
    assert trial.status == "ERROR" and "no checkpoint" in trial.error
    assert trial.last_result["x"] == 2 and trial.last_result["training_iteration"] == 2
    with open(os.path.join(trial.path, "result.json")) as file:
        assert len(file.readlines()) == 2


@pytest.mark.parametrize("options", [{"stop": {"x": 3}}, {"stop": {"x": 2}}, {}])
def test_failure_of_the_last_checkpoint_is_one_of_the_trial(options, tmp_path):
    last = options["stop"]["x"] if options else 3
    (trial,), _ = run(Steps, tmp_path, {"fails_at": last}, checkpoint_freq=1, **options)
    assert trial.status == "ERROR" and "no checkpoint" in trial.error and trial.last_result["x"] == last


def test_last_step_is_repeated_where_its_checkpoint_has_failed(tmp_path):
    class Once(Steps):
        def save_checkpoint(self, folder):
            if self.x == 2 and not os.path.exists(self.config["flag"]):
                open(self.config["flag"], "w").close()
                raise RuntimeError("no checkpoint")
            return {"x": self.x}

    config, options = {"flag": str(tmp_path / "flag")}, {"checkpoint_freq": 1, "max_failures": 1}
    (trial,), _ = run(Once, tmp_path, config, stop={"training_iteration": 2}, **options)
    assert (trial.status, trial.last_result["x"], trial.num_failures) == ("TERMINATED", 2, 1)
    assert trial.checkpoint.to_dict() == {"x": 2}


def test_trial_whose_checkpoint_fails_goes_on_from_the_one_before(tmp_path):
    flag = tmp_path / "flag"

    class Once(Steps):
        def save_checkpoint(self, folder):
            if self.x == 2 and not os.path.exists(self.config["flag"]):
                open(self.config["flag"], "w").close()
                raise RuntimeError("no checkpoint")
            return {"x": self.x}

    (trial,), _ = run(Once, tmp_path, {"flag": str(flag)}, checkpoint_freq=1, max_failures=1)
    assert trial.status == "TERMINATED" and trial.last_result["x"] == 3 and trial.num_failures == 1
    with open(os.path.join(trial.path, "result.json")) as file:
        assert len(file.readlines()) == 3


def test_checkpoint_of_a_class_gives_its_dict(tmp_path):
    (trial,), _ = run(Steps, tmp_path, {}, checkpoint_at_end=True)
    assert trial.checkpoint.to_dict() == {"x": 3}
    made = Steps()
    assert tune.Checkpoint(made.save(str(tmp_path / "own"))).to_dict() == {"x": 0}


def test_object_that_cannot_be_reset_is_cleaned_up_and_its_error_is_said(tmp_path):
    log = str(tmp_path / "log")
    config = {"id": tune.grid_search([1, 2]), "is_refused": tune.sample_from(lambda spec: spec.config.id == 2)}
    options = {"reuse_actors": True, "max_concurrent_trials": 1}
    (_, trial), _ = run(Steps, tmp_path, {**config, "log": log}, **options)
    assert trial.status == "ERROR" and "no reset" in trial.error
    with open(log) as file:
        assert file.read() == "1\n"


def reporting(config):
    for step in range(2):
        tune.report({"x": step, **{key: value[step] for key, value in config["own"].items()}})


TRAINED = {"timestamp": [1, 2], "date": ["a", "b"], "pid": [1, 2], "time_total_s": [5.0, 6.0]}


@pytest.mark.parametrize(
    ("own", "names"),
    [
        ({"training_iteration": [10, 20]}, ["'training_iteration'"]),
        ({"time_total_s": [5.0, 6.0]}, ["'time_total_s'"]),
        ({"training_iteration": [10, 20], "time_total_s": [5.0, 6.0]}, ["'time_total_s' and 'training_iteration'"]),
        ({"training_iteration": [1, 2]}, []),
        ({"trial_id": ["a", "b"], "config": [{}, {}]}, ["'config' and 'trial_id'"]),
        ({"pid": [0, 0], "date": ["a", "b"]}, ["'date' and 'pid'"]),
        ({"experiment_tag": ["a", "b"], "time_since_restore": [1, 2]}, ["'experiment_tag' and 'time_since_restore'"]),
        ({"done": [False, False], "time_this_iter_s": [1.0, 2.0], "timesteps_since_restore": [1, 2]}, []),
        (TRAINED, []),
        ({}, []),
    ],
)
def test_metric_that_is_overwritten_is_one_warning(own, names, tmp_path):
    trials, said = run(reporting, tmp_path, {"own": own, "id": tune.grid_search([1, 2])})
    assert len(said) == len(names) and all(name in text for name, text in zip(names, said, strict=True))
    assert [trial.last_result["training_iteration"] for trial in trials] == [2, 2]


def test_metric_that_is_as_the_result_has_it_is_no_warning(tmp_path):
    def train(config):
        facts = {"pid": os.getpid(), "hostname": os.uname().nodename, "trial_id": tune.get_trial_id()}
        tune.report({"x": 1, "config": config, **facts})

    assert run(train, tmp_path, {"sizes": [1, 2], "array": np.arange(3)})[1] == []


@pytest.mark.parametrize(
    "own",
    [
        {"training_iteration": 99},
        {"time_total_s": 99.0},
        {"trial_id": "mine"},
        {"config": {"x": 1}},
        {"date": "today"},
        {"hostname": "here"},
        {"iterations_since_restore": 99},
    ],
)
def test_metric_of_a_class_that_is_overwritten_is_one_warning(own, tmp_path):
    _, (said,) = run(Steps, tmp_path, {"own": own, "id": tune.grid_search([1, 2])})
    assert f"Results have {next(iter(own))!r} of their own" in said
    assert run(Steps, tmp_path, {"id": 1})[1] == []
    (trial,), said = run(Steps, tmp_path, {"id": 1, "own": {"timesteps_since_restore": 7}})
    assert (trial.last_result["timesteps_since_restore"], said) == (7, [])


class Odd(search.Searcher):
    def __init__(self, suggestion):
        super().__init__()
        self.suggestion = suggestion

    def suggest(self, trial_id):
        if isinstance(self.suggestion, Exception):
            raise self.suggestion
        return self.suggestion


class OddOptimizer:
    def __init__(self, point):
        self.point = point

    def ask(self):
        if isinstance(self.point, Exception):
            raise self.point
        return self.point

    def tell(self, *_):
        pass


WAYS = {
    "plain": Odd,
    "limited": lambda suggestion: search.ConcurrencyLimiter(Odd(suggestion), 2),
    "repeated": lambda suggestion: search.Repeater(search.ConcurrencyLimiter(Odd(suggestion), 2), 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("suggestion", "message"),
    [
        (5, r"Odd.suggest returned 5 \(int\): it returns a dict of parameters, None"),
        ([1], r"Odd.suggest returned \[1\] \(list\)"),
        ("DONE", r"Odd.suggest returned 'DONE' \(str\)"),
        (KeyError("q"), "Odd.suggest failed with KeyError: 'q'.  Correct the searcher"),
    ],
)
def test_searcher_that_suggests_nonsense_is_named(way, suggestion, message, tmp_path):
    with pytest.raises(tune.TuneError, match=message):
        run(reporting, tmp_path, {}, search_alg=WAYS[way](suggestion), metric="x", mode="min")


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (5, r"OddOptimizer.ask returned 5 \(int\), and no dict"),
        (KeyError("q"), "OddOptimizer.ask failed with KeyError"),
    ],
)
def test_optimizer_that_asks_for_nonsense_is_named(point, message, tmp_path):
    with pytest.raises(tune.TuneError, match=message):
        run(reporting, tmp_path, {}, search_alg=OddOptimizer(point), metric="x", mode="min")


@pytest.mark.parametrize("suggestion", [search.Searcher.FINISHED, "FINISHED"])
def test_searcher_that_has_finished_ends_the_experiment(suggestion, tmp_path):
    assert run(reporting, tmp_path, {}, search_alg=Odd(suggestion), metric="x", mode="min")[0] == []
