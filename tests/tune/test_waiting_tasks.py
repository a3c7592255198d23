"""Trials that hold all CPUs, and wait for tasks of their own: a warning names the remedy, and commands the wait."""

import warnings
from types import SimpleNamespace

import pytest

import zray
from zray import tune
from zray.tune import runner
from zray.tune.beginning import ExperimentWarning
from zray.tune.child_waits import OWN_TASK, reason_of_child
from zray.tune.listing import recorded_wait, state_of
from zray.tune.recorded import read_experiment
from zray.tune.trial import Trial, TrialState


@zray.remote
def child(number):
    return number * 2


@zray.remote(num_cpus=1)
class Child:
    def double(self, number):
        return number * 2


def with_task(config):
    tune.report({"v": zray.get(child.remote(config["a"]))})


def with_actor(config):
    tune.report({"v": zray.get(Child.remote().double.remote(config["a"]))})


class WithTask(tune.Trainable):
    def step(self):
        return {"v": zray.get(child.remote(1)), "done": True}


class UntilNamed(tune.Stopper):
    """Stops the experiment when a file is there."""

    def __init__(self, path):
        self.path = path

    def __call__(self, trial_id, result):
        return False

    def stop_all(self):
        return self.path.exists()


class Watcher(tune.ProgressReporter):
    """Writes the file when the states of both trials name the wait, as another terminal shows them."""

    def __init__(self, path, file):
        self.path, self.file, self.states = path, file, []

    def should_report(self, trials, done=False):
        if not self.file.exists() and (self.path / "decisions.jsonl").read_text():
            recorded = read_experiment(str(self.path))
            self.states = [state_of(recorded, trial) for trial in recorded.trials]
            if len(self.states) == 2 and all(OWN_TASK in state for state in self.states):
                self.file.touch()
        return False


@pytest.mark.parametrize("trainable", [with_task, with_actor])
def test_trials_whose_tasks_find_no_place_say_so(session, tmp_path, monkeypatch, trainable):
    for name, seconds in {"CHILD": 0.1, "NODES": 0.1, "TURN": 0.1, "END": 0.1}.items():
        monkeypatch.setattr(runner, f"{name}_SECONDS", seconds)
    watcher = Watcher(tmp_path / "e", file := tmp_path / "named")
    run = tune.RunConfig(name="e", storage_path=str(tmp_path), stop=UntilNamed(file), progress_reporter=watcher)
    with pytest.warns(ExperimentWarning) as found:
        tune.Tuner(trainable, param_space={"a": tune.grid_search([1, 2])}, run_config=run).fit()
    (warning,) = [str(each.message) for each in found]  # one for the experiment
    assert "waits for 1 CPU" in warning and "tune.PlacementGroupFactory([{" in warning
    for state in watcher.states:
        assert state.startswith(f"RUNNING without a result: {OWN_TASK}") and "0 of 2 CPU free" in state


def test_a_class_whose_first_step_waits_says_so(session, tmp_path, monkeypatch):
    for name, seconds in {"WAIT": 0.1, "NODES": 0.1, "TURN": 0.1, "END": 0.1}.items():
        monkeypatch.setattr(runner, f"{name}_SECONDS", seconds)
    tune_config = tune.TuneConfig(time_budget_s=3)
    run = tune.RunConfig(name="e", storage_path=str(tmp_path), verbose=0)
    with pytest.warns(ExperimentWarning, match=r"task child waits for 1 CPU.*tune\.PlacementGroupFactory"):
        space = {"a": tune.grid_search([1, 2])}
        tune.Tuner(WithTask, param_space=space, tune_config=tune_config, run_config=run).fit()


def test_trials_with_a_place_for_their_tasks_are_not_warned(session, tmp_path, monkeypatch):
    for name in ("CHILD_SECONDS", "NODES_SECONDS"):
        monkeypatch.setattr(runner, name, 0.0)
    request = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])
    run = tune.RunConfig(name="e", storage_path=str(tmp_path), verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ExperimentWarning)
        grid = {"a": tune.grid_search([1, 2])}
        results = tune.Tuner(tune.with_resources(with_task, request), param_space=grid, run_config=run).fit()
    assert [result.metrics["v"] for result in results] == [2, 4]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["task c (1) is PENDING:"], ""),
        (["task c (1) is PENDING:", "  ObjectRef(1): task c waits for 1 CPU: node 1 has 0 free"], ""),
        (
            ["t:", "  ObjectRef(1): task c waits for 1 CPU: node 1 has 0 free", "    held by actor TrialActor x2"],
            "its own task c waits for 1 CPU: node 1 has 0 free, held by trials",
        ),
        (["t:", "  ObjectRef(1): task c waits", "    held by actor TrialActor x2", "    held by task c"], ""),
    ],
)
def test_a_wait_counts_where_trials_alone_hold_the_resource(lines, reason):
    assert reason_of_child(lines) == reason


@pytest.mark.parametrize(
    ("reason", "has_begun", "iteration", "shown"),
    [
        ("its process waits", False, 0, True),
        ("its process waits", True, 0, False),
        ("its own task waits", True, 0, True),
        ("its own task waits", False, 0, False),  # of the process before
        ("its own task waits", True, 2, False),
    ],
)
def test_a_recorded_wait_holds_until_the_trial_goes_on(reason, has_begun, iteration, shown):
    trial = Trial("t", "f", {}, {}, state=TrialState.RUNNING, iteration=iteration)
    controller = SimpleNamespace(facts={"t": {}} if has_begun else {})
    record = {"action": "WAIT", "iteration": 0, "reason": reason}
    recorded = SimpleNamespace(experiment=SimpleNamespace(controller=controller), decisions=lambda trial_id: [record])
    assert recorded_wait(recorded, trial) == (reason if shown else "")
