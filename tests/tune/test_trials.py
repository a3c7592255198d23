"""Trials as processes: their resources, their ends, their failures, their reuse."""

import os
import signal
import threading
import time
import warnings

import pytest

import zray
from tests.gates import Tally, nothing_is_held, until, until_ended
from zray import tune
from zray.tune import runner
from zray.tune.resources import Resources
from zray.tune.schedulers import FIFOScheduler, TrialScheduler

pytestmark = pytest.mark.usefixtures("session")


def run(trainable, folder, **options):
    return tune.run(trainable, name="trials", storage_path=str(folder), raise_on_failed_trial=False, **options).trials


def is_free():
    until(nothing_is_held, 10)
    return True


@zray.remote
class Doubler:
    def double(self, value):
        return 2 * value


def with_an_actor(config):
    tune.report({"doubled": zray.get(Doubler.options(num_cpus=1).remote().double.remote(21))})


# --- resources ---


@pytest.mark.parametrize(
    "resources",
    [
        tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}]),
        tune.PlacementGroupFactory([{}, {"CPU": 1}]),
        {"cpu": 1, "extra_cpu": 1},
        tune.ScalingConfig(num_workers=1),
    ],
    ids=["bundles", "head without resources", "extra_cpu", "ScalingConfig"],
)
def test_actors_of_a_trial_run_in_its_bundles(resources, tmp_path):
    trials = run(with_an_actor, tmp_path, resources_per_trial=resources, num_samples=2)
    assert [trial.last_result["doubled"] for trial in trials] == [42, 42]
    assert is_free()


def test_trials_with_fractions_of_a_cpu_run_side_by_side(tmp_path):
    tally = Tally(tmp_path / "tally")

    def meet(config):
        tally.visit()
        until(lambda: tally.count() == 4)
        return {"met": True}

    trials = run(meet, tmp_path, resources_per_trial={"cpu": 0.5}, num_samples=4)
    assert all(trial.last_result["met"] for trial in trials)


def test_resources_are_a_function_of_the_configuration(tmp_path):
    def train(config):
        return {"cpus": tune.get_trial_resources().required_resources["CPU"]}

    trainable = tune.with_resources(train, lambda config: {"cpu": config["n"]})
    trials = run(trainable, tmp_path, config={"n": tune.grid_search([1, 2, 99])})
    assert [trial.last_result.get("cpus") for trial in trials] == [1, 2, None]
    assert [trial.status for trial in trials] == ["TERMINATED", "TERMINATED", "ERROR"]
    assert "it asks for {CPU: 99}, and the largest of 1 nodes has {CPU: 2}" in trials[2].error
    assert is_free()


def test_class_says_its_resources_as_in_2018(tmp_path):
    class WithActor(tune.Trainable):
        @classmethod
        def default_resource_request(cls, config):
            return Resources(cpu=1, gpu=0, extra_cpu=config["workers"])

        def step(self):
            return {"doubled": zray.get(Doubler.options(num_cpus=1).remote().double.remote(21)), "done": True}

    (trial,) = run(WithActor, tmp_path, config={"workers": 1})
    assert trial.last_result["doubled"] == 42


@pytest.mark.parametrize(
    "resources, message",
    [
        ({"cpu": 99}, r"it asks for \{CPU: 99\}, and the largest of 1 nodes has \{CPU: 2\}"),
        ({"gpu": 1}, r"it asks for \{GPU: 1\}, and the largest of 1 nodes has \{GPU: 0\}"),
        (tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 3}]), r"a bundle of a trial, \{CPU: 3\}: .* has \{CPU: 2\}"),
        (
            tune.PlacementGroupFactory([{"CPU": 1}] * 3),
            r"its bundles ask for \{CPU: 3\}, and the 1 nodes have \{CPU: 2\}",
        ),
    ],
)
def test_trial_that_can_never_fit_is_an_error_at_once(resources, message, tmp_path):
    began = time.monotonic()
    with pytest.raises(tune.TuneError, match=message):
        tune.Tuner(
            tune.with_resources(with_an_actor, resources), run_config=tune.RunConfig(storage_path=str(tmp_path))
        ).fit()
    assert time.monotonic() - began < 2


def test_no_more_trials_than_asked_for_run_at_once(tmp_path):
    trials = run(lambda config: {"y": 1}, tmp_path, num_samples=4, max_concurrent_trials=1)
    for former, later in zip(trials, trials[1:], strict=False):
        assert former.ended_at <= later.started_at


# --- ends ---


def test_time_budget_ends_the_experiment(tmp_path):
    def endless(config):
        while True:
            tune.report({"y": 1})

    trials = run(endless, tmp_path, num_samples=3, time_budget_s=0.5)
    assert all(trial.status == "TERMINATED" for trial in trials)
    assert "the time budget of 0.5 s is over" in (tmp_path / "trials" / "decisions.jsonl").read_text()
    assert is_free()


def test_process_of_a_trial_that_never_reports_ends_with_the_budget(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "END_SECONDS", 0.3)
    monkeypatch.setattr(runner, "NODES_SECONDS", 0.1)
    tally = Tally(tmp_path / "tally")

    def silent(config):
        tally.visit()
        threading.Event().wait()

    class Silent(tune.Trainable):
        def step(self):
            silent(self.config)

    run(silent, tmp_path, time_budget_s=2)
    run(Silent, tmp_path, time_budget_s=2)
    until_ended(tally.pids())
    assert tally.count() == 2 and is_free()


def test_interrupted_experiment_returns_what_there_is_and_goes_on_later(tmp_path):
    class Interrupter(tune.Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["training_iteration"] == 2:
                signal.raise_signal(signal.SIGINT)

    def train(config):
        found = tune.get_checkpoint()
        for step in range(found.to_dict()["step"] + 1 if found else 0, 4):
            tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step}))

    tuner = tune.Tuner(
        train, run_config=tune.RunConfig(name="cut", storage_path=str(tmp_path), callbacks=[Interrupter()])
    )
    with pytest.warns(UserWarning, match=r"was interrupted; go on with Tuner.restore\('.*cut'") as told:
        results = tuner.fit()
    assert [each.filename for each in told] == [__file__]
    assert results[0].metrics["training_iteration"] == 2 and is_free()
    results = tune.Tuner.restore(str(tmp_path / "cut"), train).fit()
    assert [row["step"] for row in results[0].rows()] == [0, 1, 2, 3]


@pytest.mark.parametrize("fail_fast", [True, "raise"])
def test_first_failure_ends_all_where_it_is_wanted(fail_fast, tmp_path):
    def train(config):
        if config["x"] == 1:
            raise ValueError("x is 1")
        while True:
            tune.report({"y": 1})

    tuner = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([0, 1, 2, 3])},
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), failure_config=tune.FailureConfig(fail_fast=fail_fast), name="fast"
        ),
    )
    if fail_fast == "raise":
        with pytest.raises(ValueError, match="x is 1"):
            tuner.fit()
    else:
        results = tuner.fit()
        assert results.num_errors == 1 and results.num_terminated == len(results) - 1
    assert is_free()


# --- failures ---


@pytest.mark.parametrize("max_failures, status", [(1, "TERMINATED"), (0, "ERROR")])
def test_killed_process_goes_on_from_the_last_checkpoint(max_failures, status, tmp_path):
    def train(config):
        found = tune.get_checkpoint()
        start = found.to_dict()["step"] + 1 if found else 0
        for step in range(start, 4):
            tune.report({"step": step, "start": start}, checkpoint=tune.Checkpoint.from_dict({"step": step}))
            if step == 1 and not start:
                os.kill(os.getpid(), signal.SIGKILL)

    (trial,) = run(train, tmp_path, max_failures=max_failures)
    assert trial.status == status
    assert trial.num_failures == 1
    # The program may not have heard of the newest checkpoint; it has of the one before.
    assert trial.last_result["start"] in ((1, 2) if max_failures else (0,))
    assert trial.last_result["training_iteration"] in ((4,) if max_failures else (1, 2))


# --- reuse ---


class Counting(tune.Trainable):
    def setup(self, config):
        self.setups = 1

    def step(self):
        return {"x": self.config["x"], "setups": self.setups, "done": True}


class Resettable(Counting):
    def reset_config(self, new_config):
        self.setups += 10
        return True


@pytest.mark.parametrize("trainable, setups", [(Counting, [1, 1, 1]), (Resettable, [1, 11, 21])])
def test_processes_of_classes_are_used_again(trainable, setups, tmp_path):
    trials = run(
        trainable, tmp_path, config={"x": tune.grid_search([1, 2, 3])}, reuse_actors=True, max_concurrent_trials=1
    )
    assert [trial.last_result["x"] for trial in trials] == [1, 2, 3]
    assert [trial.last_result["setups"] for trial in trials] == setups
    assert len({trial.last_result["pid"] for trial in trials}) == 1


def test_processes_are_not_used_again_unless_asked_for(tmp_path):
    trials = run(Resettable, tmp_path, config={"x": tune.grid_search([1, 2])}, max_concurrent_trials=1)
    assert len({trial.last_result["pid"] for trial in trials}) == 2


class Pausing(FIFOScheduler):
    def on_trial_result(self, controller, trial, result):
        return TrialScheduler.PAUSE


class Noting(tune.Callback):
    def __init__(self):
        self.processes = []

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.processes.append((trial.index, result["pid"]))


class Stepping(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        if self.config["x"] == 1:
            raise ValueError("no")
        self.n += 1
        return {"n": self.n, "done": self.n == 2}

    def save_checkpoint(self, folder):
        return {"n": self.n}

    def load_checkpoint(self, state):
        self.n = state["n"]

    def reset_config(self, config):
        self.setup(config)
        return True


def stepping(config):
    checkpoint = tune.get_checkpoint()
    for n in range(checkpoint.to_dict()["n"] + 1 if checkpoint else 1, 3):
        if config["x"] == 1:
            raise ValueError("no")
        tune.report({"n": n}, checkpoint=tune.Checkpoint.from_dict({"n": n}))


@pytest.mark.parametrize("trainable", [Stepping, stepping])
def test_paused_trial_leaves_its_process_to_the_next_one_and_a_failed_trial_does_not(trainable, tmp_path):
    noting = Noting()
    trials = run(
        trainable,
        tmp_path,
        config={"x": tune.grid_search([0, 1, 2])},
        scheduler=Pausing(),
        callbacks=[noting],
        reuse_actors=True,
        max_concurrent_trials=1,
    )
    assert [trial.status for trial in trials] == ["TERMINATED", "ERROR", "TERMINATED"]
    assert [trial.last_result["n"] for trial in trials if trial.index != 1] == [2, 2]
    (first, before), *others = noting.processes
    assert first == 0 and [index for index, _ in others] == [2, 0, 2]
    assert {pid for _, pid in others} == {others[0][1]} and before != others[0][1]


# --- large data ---


def test_large_data_is_stored_once_for_all_trials(tmp_path):
    import numpy as np

    def train(config, data, scale=1):
        return {"sum": float(data.sum()) * scale, "is_shared": not data.flags.writeable}

    class Summing(tune.Trainable):
        def setup(self, config, data=None):
            self.data = data

        def step(self):
            return {"sum": float(self.data.sum()) * 2, "is_shared": not self.data.flags.writeable, "done": True}

    data = np.ones(1_000_000)
    for trainable in (tune.with_parameters(train, data=data, scale=2), tune.with_parameters(Summing, data=data)):
        trials = run(trainable, tmp_path, config={"x": tune.grid_search([1, 2])})
        assert [trial.last_result["sum"] for trial in trials] == [2e6, 2e6]
        assert all(trial.last_result["is_shared"] for trial in trials)
        assert os.path.getsize(tmp_path / "trials" / "experiment.pkl") < 100_000


def test_large_data_and_resources_go_together(tmp_path):
    def train(config, checkpoint_dir=None, data=None):
        return {"sum": sum(data), "cpus": tune.get_trial_resources().required_resources["CPU"]}

    wanted = {"cpu": 0.5}
    for trainable in (
        tune.with_resources(tune.with_parameters(train, data=[1, 2]), wanted),
        tune.with_parameters(tune.with_resources(train, wanted), data=[1, 2]),
    ):
        (trial,) = run(trainable, tmp_path)
        assert (trial.last_result["sum"], trial.last_result["cpus"]) == (3, 0.5)
        assert trial.trainable_name == "train"


def test_experiment_with_parameters_goes_on_with_the_trainable_given_again(tmp_path):
    def train(config, data):
        return {"sum": sum(data) + config["x"]}

    tune.Tuner(
        tune.with_parameters(train, data=[1, 2]),
        param_space={"x": tune.grid_search([0])},
        run_config=tune.RunConfig(name="data", storage_path=str(tmp_path)),
    ).fit()
    path = str(tmp_path / "data")
    assert tune.Tuner.restore(path, tune.with_parameters(train, data=[1, 2])).fit()[0].metrics["sum"] == 3
    from zray.tune.running_experiment import RunningExperiment

    with pytest.raises(tune.TuneError, match=r"with_parameters \(data\) are not kept.*Tuner.restore"):
        RunningExperiment.load(path).trainable({"x": 1})


def test_parameters_that_the_trainable_does_not_take_are_an_error():
    with pytest.raises(TypeError, match=r"passes 'date', and with_an_actor takes \(config\)"):
        tune.with_parameters(with_an_actor, date=1)


def test_no_warning_is_given_for_plain_programs(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(lambda config: {"y": 1}, tmp_path)
