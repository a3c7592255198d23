"""Callbacks of experiments: what is called when, and errors in them."""

import os
import stat
import threading
import warnings

import pytest

from tests.gates import nothing_is_held, until
from zray import tune
from zray.tune import storage
from zray.tune.callback import STATES, CallbackList

pytestmark = pytest.mark.usefixtures("session")

NAMES = [name for name in vars(tune.Callback) if name.startswith("on_") or name == "setup"]


class Recorder(tune.Callback):
    """Notes each call; may fail at one."""

    def __init__(self, fails_at=""):
        self.calls, self.fails_at = [], fails_at


def _noting(name):
    def note(self, **arguments):
        self.calls.append((name, arguments))
        if name == self.fails_at:
            raise ValueError("wrong callback")

    note.__name__ = name
    return note


for each in NAMES:
    setattr(Recorder, each, _noting(each))


def train(config):
    start = tune.get_checkpoint().to_dict()["step"] if tune.get_checkpoint() else 0
    for step in range(start, 2):
        tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1}))
        if config.get("fails") and start == 0:
            raise RuntimeError("fails once")


def of_trials(recorder):
    return [name for name, _ in recorder.calls if "trial" in name or name == "on_checkpoint"]


def test_calls_of_a_trial_are_in_order(tmp_path):
    recorder = Recorder()
    tune.run(train, callbacks=[recorder], stop={"step": 1}, local_dir=str(tmp_path))
    saved = ["on_trial_result", "on_trial_save", "on_checkpoint"]
    assert of_trials(recorder) == ["on_trial_start", *saved, *saved, "on_trial_complete"]
    names = [name for name, _ in recorder.calls]
    assert names[0] == "setup" and names[-1] == "on_experiment_end"
    steps = [name for name in names if name.startswith("on_step")]
    assert steps and steps == ["on_step_begin", "on_step_end"] * (len(steps) // 2)


def test_failed_trial_is_recovered_and_restored_or_ends_with_its_error(tmp_path):
    recorder = Recorder()
    tune.run(train, config={"fails": True}, callbacks=[recorder], max_failures=1, local_dir=str(tmp_path))
    saved = ["on_trial_result", "on_trial_save", "on_checkpoint"]
    again = ["on_trial_recover", "on_trial_start", "on_trial_restore"]
    assert of_trials(recorder) == ["on_trial_start", *saved, *again, *saved, "on_trial_complete"]
    recorder = Recorder()
    tune.run(train, config={"fails": True}, callbacks=[recorder], raise_on_failed_trial=False, local_dir=str(tmp_path))
    assert of_trials(recorder) == ["on_trial_start", *saved, "on_trial_error"]


def test_calls_have_the_arguments_of_ray(tmp_path):
    recorder = Recorder()
    tune.run(train, callbacks=[recorder], num_samples=2, stop={"step": 1}, local_dir=str(tmp_path))
    arguments = {name: given for name, given in recorder.calls}
    assert arguments["setup"] == {"stop": {"step": 1}, "num_samples": 2, "total_num_samples": 2}
    assert set(arguments["on_step_end"]) == {"iteration", "trials"}
    assert set(arguments["on_trial_start"]) == {"iteration", "trials", "trial"}
    assert set(arguments["on_trial_result"]) == {"iteration", "trials", "trial", "result"}
    assert set(arguments["on_checkpoint"]) == {"iteration", "trials", "trial", "checkpoint"}
    assert set(arguments["on_experiment_end"]) == {"trials"} and len(arguments["on_experiment_end"]["trials"]) == 2
    assert arguments["on_trial_result"]["result"]["training_iteration"] == 2
    checkpoint = arguments["on_checkpoint"]["checkpoint"]
    assert checkpoint.to_dict() == {"step": 2}


@pytest.mark.parametrize(
    "name", ["setup", "on_step_begin", "on_trial_start", "on_trial_result", "on_checkpoint", "on_trial_complete"]
)
def test_error_in_a_callback_stops_the_experiment_and_leaves_nothing_behind(tmp_path, name):
    failing, other = Recorder(fails_at=name), Recorder()
    with pytest.raises(tune.TuneError, match=f"The callback Recorder.{name} failed with ValueError: wrong callback"):
        tune.run(train, name="failed", callbacks=[failing, other], num_samples=3, local_dir=str(tmp_path))
    assert other.calls[-1][0] == "on_experiment_end"
    until(nothing_is_held)
    with warnings.catch_warnings():
        # Nothing had begun when `setup` failed: no folder is left, and the experiment begins.
        warnings.simplefilter("ignore" if name == "setup" else "error")
        analysis = tune.run(train, name="failed", resume=True, num_samples=3, local_dir=str(tmp_path))
    assert [trial.last_result["step"] for trial in analysis.trials] == [1, 1, 1]


def test_error_at_the_end_comes_after_all_callbacks(tmp_path):
    failing, other = Recorder(fails_at="on_experiment_end"), Recorder()
    with pytest.raises(tune.TuneError, match="on_experiment_end failed with ValueError"):
        tune.run(train, callbacks=[failing, other], local_dir=str(tmp_path))
    assert other.calls[-1][0] == "on_experiment_end"


class Counting(tune.Callback):
    """Counts results over all runs of an experiment, and fails once."""

    def __init__(self, folder, fails_at=0):
        self.count, self.folder, self.fails_at = 0, folder, fails_at

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.count += 1
        if self.count == self.fails_at and not (self.folder / "failed").exists():
            (self.folder / "failed").touch()
            raise ValueError("wrong callback")

    def on_experiment_end(self, trials, **info):
        (self.folder / "count").write_text(str(self.count))

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


def test_restored_experiment_has_its_callbacks_with_their_states(tmp_path):
    class Unpicklable(tune.Callback):
        def __reduce__(self):
            raise TypeError("no")

    callbacks = [Unpicklable(), Counting(tmp_path, fails_at=3)]
    config = tune.RunConfig(name="counted", storage_path=str(tmp_path), callbacks=callbacks)
    tune_config = tune.TuneConfig(num_samples=3, max_concurrent_trials=1)
    with pytest.raises(tune.TuneError, match="Counting.on_trial_result failed"):
        tune.Tuner(train, tune_config=tune_config, run_config=config).fit()
    assert (tmp_path / "count").read_text() == "3"
    tune.Tuner.restore(str(tmp_path / "counted"), train).fit()
    assert (tmp_path / "count").read_text() == "6"


class Keeping(tune.Callback):
    """A callback whose state is wrong in one way."""

    def __init__(self, wrong):
        self.wrong = wrong

    def get_state(self):
        if self.wrong == "get_state":
            raise OSError("wrong callback")
        return {"lock": threading.Lock()} if self.wrong == "pickle" else {"n": 1}

    def set_state(self, state):
        if self.wrong == "set_state":
            raise ValueError("wrong callback")


@pytest.mark.parametrize(
    "wrong, words", [("get_state", "OSError: wrong callback"), ("pickle", "TypeError: cannot pickle")]
)
def test_error_in_the_state_of_a_callback_names_it_and_keeps_the_results(tmp_path, wrong, words):
    with pytest.raises(tune.TuneError, match=f"The callback Keeping.get_state failed with {words}"):
        tune.run(train, name="kept", callbacks=[Keeping(wrong)], local_dir=str(tmp_path))
    until(nothing_is_held)
    analysis = tune.run(train, name="kept", resume=True, local_dir=str(tmp_path))
    assert [trial.last_result["step"] for trial in analysis.trials] == [1]


def test_error_of_a_callback_that_gets_its_state_back_names_it(tmp_path):
    tune.run(train, name="kept", callbacks=[Keeping("")], local_dir=str(tmp_path))
    with pytest.raises(tune.TuneError, match="The callback Keeping.set_state failed with ValueError: wrong callback"):
        tune.run(train, name="kept", resume=True, callbacks=[Keeping("set_state")], local_dir=str(tmp_path))


def test_states_of_callbacks_are_for_their_user_alone_and_synced_before_they_replace_others(tmp_path, monkeypatch):
    steps = []
    sync, rename = os.fsync, os.rename
    monkeypatch.setattr(storage.os, "fsync", lambda number: steps.append("sync") or sync(number))
    monkeypatch.setattr(storage.os, "rename", lambda *paths: steps.append("rename") or rename(*paths))
    counting = Counting(tmp_path)
    callbacks = CallbackList([counting])
    callbacks.begin(str(tmp_path), goes_on=False)
    callbacks.save(str(tmp_path))
    assert stat.S_IMODE(os.stat(tmp_path / STATES).st_mode) == 0o600
    assert steps[:2] == ["sync", "rename"] and set(os.listdir(tmp_path)) == {STATES}
    done = len(steps)
    callbacks.save(str(tmp_path))
    assert len(steps) == done  # there is nothing new to keep
    counting.count = 7
    callbacks.save(str(tmp_path))
    again = Counting(tmp_path)
    CallbackList([again]).begin(str(tmp_path), goes_on=True)
    assert again.count == 7


@pytest.mark.parametrize(
    "data",
    [b"", b"\x80\x04]", b"hello", b"\x80\x04}\x94.", b"\x80\x04]\x94K\x01a."],
    ids=["empty", "cut", "text", "another pickle", "another list"],
)
def test_damaged_states_of_callbacks_are_named_and_stay(tmp_path, data):
    (tmp_path / STATES).write_bytes(data)
    callbacks = CallbackList([Counting(tmp_path)])
    with pytest.raises(tune.TuneError, match=rf"{STATES}.*The file is damaged: remove it"):
        callbacks.begin(str(tmp_path), goes_on=True)
    callbacks.save(str(tmp_path))  # as the experiment does at its end
    assert (tmp_path / STATES).read_bytes() == data


def test_states_of_callbacks_from_a_module_that_is_absent_ask_for_the_module(tmp_path):
    (tmp_path / STATES).write_bytes(b"cabsent_module\nState\n.")
    with pytest.raises(tune.TuneError, match=rf"{STATES}.*absent_module.*Make the module importable"):
        CallbackList([Counting(tmp_path)]).begin(str(tmp_path), goes_on=True)


def test_states_of_callbacks_survive_a_restore_whose_setup_fails(tmp_path):
    callbacks = CallbackList([Counting(tmp_path)])
    callbacks.begin(str(tmp_path), goes_on=False)
    callbacks.save(str(tmp_path))
    before = (tmp_path / STATES).read_bytes()
    failing = CallbackList([Recorder(fails_at="setup"), Counting(tmp_path)])
    failing.callbacks[1].count = 9
    with pytest.raises(tune.TuneError, match="setup failed"):
        failing.begin(str(tmp_path), goes_on=True)
    failing.save(str(tmp_path))
    assert (tmp_path / STATES).read_bytes() == before
