"""Restores: trials that were cut off, failed or lost their last checkpoint; budgets; what may be asked anew."""

import contextlib
import os
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import zray
from tests.gates import Tally
from zray import tune
from zray.tune import clock, running_experiment
from zray.tune import events as ev
from zray.tune.beginning import ExperimentWarning
from zray.tune.controller import Controller
from zray.tune.folder_lock import JournalInUse, is_running
from zray.tune.journal import JOURNAL, Journal
from zray.tune.refs import LostRef, dumps, loads, refs_in
from zray.tune.reporters.view import view_of
from zray.tune.runner import Runner
from zray.tune.running_experiment import RunningExperiment
from zray.tune.schedulers import FIFOScheduler
from zray.tune.search.basic_variant import BasicVariantGenerator
from zray.tune.search.searcher import Searcher
from zray.tune.settings import Settings
from zray.tune.trial import Trial, TrialState
from zray.tune.tune_run import resume_options
from zray.tune.worker import TrialActor


class Noting(Searcher):
    """A searcher that fails if it hears of a trial after its end."""

    def __init__(self):
        super().__init__("x", "min")
        self.ended, self.results = [], []

    def suggest(self, trial_id):
        return {"x": 1}

    def on_trial_result(self, trial_id, result):
        assert trial_id not in self.ended
        self.results.append(trial_id)

    def on_trial_complete(self, trial_id, result=None, error=False):
        assert trial_id not in self.ended
        self.ended.append(trial_id)


class Replayed:
    """A controller with the journal of its events, from which it is made again."""

    def __init__(self, samples=3, searcher=BasicVariantGenerator, **options):
        self.make, self.samples, self.options, self.journal = searcher, samples, options, []
        self.controller = self.fresh()
        self(ev.Capacity(100.0, 2))

    def fresh(self):
        searcher = self.make()
        searcher.set_search_properties("x", "min", {"x": 1}, num_samples=self.samples)
        settings = Settings(path="/e", metric="x", mode="min", num_samples=self.samples, **self.options)
        return Controller(settings, searcher, FIFOScheduler())

    def __call__(self, *events):
        for event in events:
            self.controller.handle(event)
            self.journal += [*self.controller.events, event]
            self.controller.events.clear()
            self.controller.actions.clear()

    def again(self, event=None):
        """Kill the program, and go on."""
        controller = self.fresh()
        controller.replayed = {each.trial_id: each for each in self.journal if isinstance(each, ev.Suggested)}
        for each in self.journal:
            controller.handle(each)
            controller.actions.clear()
        controller.events.clear()
        controller.replayed = None
        self.controller = controller
        if event is not None:
            controller.handle(event)
            self.journal += [*controller.events, event]
            controller.events.clear()
        return controller

    @property
    def states(self):
        return [trial.state.value for trial in self.controller.get_trials()]

    @property
    def ids(self):
        return list(self.controller.trials)


def test_trials_that_fail_fast_has_cut_off_go_on_with_the_failed_one():
    world = Replayed(fail_fast=True)
    first, second = world.ids
    world(ev.Report(101.0, second, 1, {"x": 1}), ev.Failed(102.0, first, "broken"), ev.Halted(103.0, second, 0))
    assert world.states == ["ERROR", "TERMINATED"]
    world.again(ev.Resumed(200.0, resume_errored=True))
    assert world.states == ["RUNNING", "RUNNING"] and not world.controller.is_ending
    world(ev.Finished(201.0, first), ev.Finished(202.0, second))
    world(ev.Finished(203.0, world.ids[2]))
    assert world.states == ["TERMINATED"] * 3 and world.controller.is_done


def test_trials_that_the_budget_has_cut_off_go_on_with_a_new_budget():
    world = Replayed(time_budget_s=10.0)
    world(ev.TimedOut(105.0))
    assert not world.controller.is_ending  # the controller alone decides
    world(ev.TimedOut(110.0), *[ev.Halted(111.0, trial_id, 0) for trial_id in world.ids])
    assert world.states == ["TERMINATED"] * 2 and world.controller.is_done
    controller = world.again(ev.Resumed(500.0))
    assert world.states == ["RUNNING"] * 2 and controller.budget_left(500.0) == 10.0


def test_reports_count_the_running_time_of_all_runs():
    world = Replayed(time_budget_s=10.0)
    world(ev.TimedOut(110.0), *[ev.Halted(111.0, trial_id, 0) for trial_id in world.ids])
    assert view_of(world.controller, "", 111.0).elapsed_s == 11.0
    controller = world.again(ev.Resumed(500.0))
    assert view_of(controller, "", 500.0).elapsed_s == 11.0
    world(ev.TimedOut(510.0), *[ev.Halted(512.0, trial_id, 0) for trial_id in world.ids])
    controller = world.again(ev.Resumed(900.0))
    assert view_of(controller, "", 901.0).elapsed_s == 24.0 and controller.budget_left(901.0) == 9.0


class Enough(tune.Stopper):
    """The end of all trials, from the first result on."""

    is_over = False

    def __call__(self, trial_id, result):
        self.is_over = True
        return False

    def stop_all(self):
        return self.is_over


def test_trials_that_a_stopper_of_all_has_ended_stay_so():
    class World(Replayed):
        def fresh(self):
            made = super().fresh()
            return Controller(made.settings, made.searcher, made.scheduler, Enough())

    world = World()
    first, second = world.ids
    world(ev.Report(101.0, first, 1, {"x": 1}), *[ev.Halted(102.0, trial_id, 0) for trial_id in (first, second)])
    assert world.states == ["TERMINATED"] * 2 and world.controller.is_done
    controller = world.again(ev.Resumed(200.0))
    assert world.states == ["TERMINATED"] * 2 and controller.is_done and not controller.actions


def test_interrupted_experiment_has_the_rest_of_its_budget():
    world = Replayed(time_budget_s=10.0)
    world(ev.Report(104.0, world.ids[0], 1, {"x": 1}))
    controller = world.again(ev.Resumed(5000.0))
    assert controller.budget_left(5000.0) == 6.0


def test_clock_of_an_experiment_does_not_jump(monkeypatch):
    clock.set_clock()
    before = clock.now()
    monkeypatch.setattr("time.time", lambda: before + 3600)
    assert clock.now() - before < 60
    clock.set_clock()
    assert clock.now() - before >= 3600
    monkeypatch.setattr("time.time", lambda: before)
    clock.set_clock(at_least=before + 7200)
    assert clock.now() - before >= 7200
    monkeypatch.undo()
    clock.set_clock()


@pytest.mark.parametrize("option", ["resume_errored", "restart_errored"])
def test_searcher_hears_of_the_end_of_a_trial_once(option):
    world = Replayed(searcher=Noting)
    first, second = world.ids
    world(ev.Report(101.0, first, 1, {"x": 1}), ev.Failed(102.0, first, "broken"))
    world.again(ev.Resumed(200.0, **{option: True}))
    world(ev.Report(201.0, first, 2, {"x": 1}), ev.Finished(202.0, first))
    assert world.controller.searcher.ended == [first] and world.controller.trials[first].state is TrialState.TERMINATED


def test_restore_of_failed_trials_alone_ends_the_others():
    world = Replayed(samples=5)
    first, second = world.ids
    world(ev.Failed(101.0, first, "broken"))
    world.again(ev.Resumed(200.0, restart_errored=True, resume_unfinished=False))
    assert world.controller.trials[second].state is TrialState.TERMINATED
    assert world.controller.trials[first].state is TrialState.RUNNING


def test_more_samples_follow_those_of_the_first_run():
    world = Replayed(samples=2)
    world(*[ev.Finished(101.0, trial_id) for trial_id in world.ids])
    assert world.controller.is_done
    world.again(ev.Resumed(200.0, num_samples=4))
    assert world.states == ["TERMINATED"] * 2 + ["RUNNING"] * 2
    world.again()
    assert world.states == ["TERMINATED"] * 2 + ["RUNNING"] * 2


def test_checkpoint_at_the_end_before_which_a_kill_came_is_made():
    world = Replayed(samples=1, checkpoint_at_end=True, saves_when_paused=True)
    (trial_id,) = world.ids
    world(ev.Report(101.0, trial_id, 1, {"x": 1}), ev.Report(102.0, trial_id, 2, {"x": 1, "done": True}))
    controller = world.again(ev.Resumed(200.0))
    assert ev.Start(trial_id) in controller.actions and not controller.is_done
    controller.actions.clear()
    controller.handle(ev.Report(201.0, trial_id, 1, {"x": 1}))
    assert controller.actions == [ev.Proceed(trial_id)]
    controller.actions.clear()
    controller.handle(ev.Report(202.0, trial_id, 2, {"x": 1, "done": True}))
    assert controller.actions == [ev.Halt(trial_id, True)]
    controller.handle(ev.Halted(203.0, trial_id, 2, "/e/t/checkpoint_000000"))
    assert controller.is_done and controller.trials[trial_id].saved.iteration == 2


def test_reason_for_which_a_checkpoint_could_not_be_saved_is_replayed():
    world = Replayed(samples=1)
    world(
        ev.Report(101.0, world.ids[0], 1, {"x": 1, "done": True}), ev.Halted(102.0, world.ids[0], 0, reason="no space")
    )
    assert world.again().trials[world.ids[0]].reason == "no space"


# --- what a program asks for ---


@pytest.mark.parametrize(
    "resume, must, options",
    [
        (True, True, {}),
        ("AUTO", False, {}),
        ("PROMPT", False, {}),
        ("REMOTE", True, {}),
        ("AUTO+ERRORED", False, {"resume_errored": True}),
        ("LOCAL+ERRORED_ONLY", True, {"resume_errored": True, "resume_unfinished": False}),
        ("AUTO+RESTART_ERRORED", False, {"restart_errored": True}),
        ("AUTO+RESTART_ERRORED_ONLY", False, {"restart_errored": True, "resume_unfinished": False}),
        ("ERRORED_ONLY", True, {"restart_errored": True, "resume_unfinished": False}),
    ],
)
def test_each_word_for_a_resume_is_known(resume, must, options):
    assert resume_options(resume) == (must, options)


@pytest.mark.parametrize("resume", ["maybe", "AUTO+ALL", "ERRORED", 3])
def test_other_word_for_a_resume_is_an_error(resume):
    with pytest.raises(ValueError, match=r"resume is True, False or one of 'AUTO'"):
        resume_options(resume)


def reporting(config):
    tune.report({"x": config["x"]})


class Other(tune.Trainable):
    pass


@pytest.fixture
def ended(session, tmp_path):
    """The folder of an experiment of two trials."""
    space = {"x": tune.uniform(0, 1), "nested": {"y": 2}}
    tune.run(reporting, config=space, num_samples=2, name="ended", local_dir=str(tmp_path), stop={"x": 2})
    return tmp_path / "ended"


@pytest.mark.parametrize(
    "trainable, space, words",
    [
        (lambda config: None, None, "has the trainable reporting, and is to go on with lambda"),
        (Other, None, "has a function as trainable, reporting, and is to go on with a class, Other"),
        (reporting, {"x": 1}, "it lacks 'nested/y', and has none too many"),
        (reporting, {"x": 1, "nested": {"y": 2}, "z": 3}, "and has 'z' too many"),
    ],
)
def test_restore_with_another_trainable_or_space_is_refused(ended, trainable, space, words):
    with pytest.raises(ValueError, match=words):
        tune.Tuner.restore(str(ended), trainable, param_space=space)


def test_space_that_is_the_same_is_accepted_and_another_one_is_not_heeded_silently(ended):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuner = tune.Tuner.restore(str(ended), reporting, param_space={"x": tune.uniform(0, 1), "nested": {"y": 2}})
    with pytest.warns(ExperimentWarning, match="x differs now"):
        tune.Tuner.restore(str(ended), reporting, param_space={"x": tune.uniform(3, 4), "nested": {"y": 2}})
    with pytest.raises(AttributeError, match=r"call Tuner.restore"):
        tuner.restore(str(ended), reporting)


def test_run_that_goes_on_takes_more_samples_and_says_that_it_keeps_stop(ended):
    options = {"name": "ended", "local_dir": str(ended.parent), "resume": True}
    space = {"x": tune.uniform(0, 1), "nested": {"y": 2}}
    with pytest.warns(ExperimentWarning, match="`stop` of the first run"):
        found = tune.run(reporting, config=space, num_samples=3, stop={"x": 5}, **options)
    assert len(found.trials) == 3 and len({trial.config["x"] for trial in found.trials}) == 3
    with pytest.warns(ExperimentWarning, match="num_samples of the run in.*it has 3 trials, and 1 are asked for"):
        tune.run(reporting, config=space, num_samples=1, stop={"x": 2}, **options)
    with pytest.warns(ExperimentWarning, match="it has 3 trials, and 2 are asked for"):  # as many as at first
        found = tune.run(reporting, config=space, num_samples=2, stop={"x": 2}, **options)
    assert len(found.trials) == 3


def test_run_that_goes_on_counts_the_trials_of_each_sample(tmp_path):
    options = {"name": "grid", "local_dir": str(tmp_path), "config": {"x": tune.grid_search([0, 1])}, "verbose": 0}
    for samples, count in ((1, 2), (3, 6)):
        assert len(tune.run(reporting, num_samples=samples, resume="AUTO", **options).trials) == count
    with pytest.warns(ExperimentWarning, match="it has 6 trials, and 4 are asked for"):
        tune.run(reporting, num_samples=2, resume=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(tune.run(reporting, num_samples=3, resume=True, **options).trials) == 6


class Unreadable:
    """An object of a class trainable whose checkpoint cannot be read at first."""

    def __init__(self, failures):
        self.failures, self.tries = failures, 0

    def restore(self, path):
        self.tries += 1
        if self.tries <= self.failures:
            raise OSError(f"{path} is not there yet")


@pytest.mark.parametrize(("failures", "retries", "tries"), [(2, 3, 3), (3, 3, 4), (1, 0, 1), (4, 3, 4)])
def test_checkpoint_that_cannot_be_loaded_is_tried_as_often_as_the_program_allows(failures, retries, tries, capsys):
    actor, made = TrialActor(), Unreadable(failures)
    actor._assignment = {"restore_retries": retries}
    with pytest.raises(OSError, match="not there yet") if failures > retries else contextlib.nullcontext():
        actor._restore(made, "/folder")
    assert made.tries == tries
    said = capsys.readouterr().err
    assert said.count("/folder could not be loaded, and is tried") == tries - 1


def test_process_is_told_how_often_a_checkpoint_is_tried(monkeypatch):
    monkeypatch.setenv("TUNE_RESTORE_RETRY_NUM", "3")
    told = []
    ref = zray.ObjectRef(bytes(20))
    begin = SimpleNamespace(remote=lambda assignment, *refs: told.append(assignment) or ref)
    loop = Runner.__new__(Runner)
    loop._processes = {"t": SimpleNamespace(handle=SimpleNamespace(begin=begin), request=None)}
    loop.name, loop.path, loop.identity, loop.frequency, loop.reuses = "e", "/e", "i", 0, False
    loop._outputs = loop._trainable_ref = loop._names_ref = None
    loop._changes_folder, loop._addresses, loop._calls, loop._begun = False, {}, {}, {}
    loop._heard_at = {}
    loop._begin(Trial("t", "train", {}, {}))
    assert [assignment["restore_retries"] for assignment in told] == [3]


@pytest.mark.usefixtures("session")
def test_records_that_another_program_writes_until_its_end_are_read_when_the_folder_is_free(ended, monkeypatch):
    path = str(ended / JOURNAL)
    found = RunningExperiment.load(str(ended), reporting, replays=False)  # as of Tuner.restore
    other = Journal(path)
    with pytest.raises(JournalInUse):
        found.resume()
    other.append([ev.Capacity(1e12, 7)])
    other.close()
    size, held = os.path.getsize(path), []
    read = running_experiment.read_journal
    monkeypatch.setattr(
        running_experiment, "read_journal", lambda *args: held.append(is_running(str(ended))) or read(*args)
    )
    monkeypatch.setattr(RunningExperiment, "_run", lambda self, journal, first: journal.close())
    found.resume()
    assert held == [True] and os.path.getsize(path) == size and found.controller.capacity == 7


# --- processes ---


def failing_twice(config):
    tune.report({"n": 1})
    if Tally(config["tally"]).visit() < 3:
        raise ValueError("bad data")


@pytest.mark.usefixtures("session")
def test_function_that_reports_again_what_is_recorded_has_all_its_attempts(tmp_path):
    space = {"tally": tune.grid_search([str(tmp_path / str(number)) for number in range(3)])}
    failure = tune.FailureConfig(max_failures=2)
    config = tune.RunConfig(storage_path=str(tmp_path), failure_config=failure)
    results = tune.Tuner(failing_twice, param_space=space, run_config=config).fit()
    assert [result.error for result in results] == [None] * 3


def summing(config):
    tune.report({"sum": float(zray.get(config["data"]).sum())})
    if config["fails"]:
        raise ValueError("once")


@pytest.mark.usefixtures("session")
def test_refs_of_a_space_are_used_and_those_of_the_same_space_made_anew_at_a_restore(tmp_path):
    def space(size):
        return {"data": zray.put(np.ones(size)), "fails": True}

    config = tune.RunConfig(name="refs", storage_path=str(tmp_path), verbose=0)
    (result,) = tune.Tuner(summing, param_space=space(10), run_config=config).fit()
    assert result.metrics["sum"] == 10.0
    path = str(tmp_path / "refs")
    with pytest.raises(tune.TuneError, match=r"param_space=\.\.\."):
        tune.Tuner.restore(path, summing, restart_errored=True).fit()
    assert isinstance(RunningExperiment.load(path).controller.get_trials()[0].config["data"], LostRef)
    (result,) = tune.Tuner.restore(path, summing, restart_errored=True, param_space=space(20)).fit()
    assert result.metrics["sum"] == 20.0 and os.path.exists(os.path.join(result.path, "params.pkl"))


@pytest.mark.usefixtures("session")
def test_refs_are_numbers_in_the_order_of_the_space():
    one, two = zray.put(1), zray.put(2)
    refs = refs_in({"a": tune.choice([one, two]), "b": [{"c": one}]})
    assert refs == [one, two, one]
    assert loads(dumps({"c": two}, refs), [5, 6]) == {"c": 6}
    assert isinstance(loads(dumps({"c": zray.put(3)}, refs), [5, 6])["c"], LostRef)


def test_metric_of_the_call_ranks_the_trials_of_a_resumed_run(tmp_path):
    def train(config):
        tune.report({"acc": config["x"], "loss": -config["x"] * (1 if config["x"] < 3 else -1)})

    run = {"name": "m", "storage_path": str(tmp_path), "config": {"x": tune.grid_search([1, 2, 3])}, "verbose": 0}
    assert tune.run(train, metric="acc", mode="min", **run).best_config == {"x": 1}
    with pytest.warns(ExperimentWarning, match="the best trial is the one by 'acc'"):
        analysis = tune.run(train, metric="acc", mode="max", resume=True, **run)
    assert (analysis.best_config, analysis.default_mode) == ({"x": 3}, "max")
    with pytest.warns(ExperimentWarning, match="the best trial is the one by 'loss'"):
        analysis = tune.run(train, metric="loss", mode="min", resume="AUTO", **run)
    assert (analysis.best_config, analysis.default_metric) == ({"x": 2}, "loss")
