"""Checkpoints: which ones are kept, which ones are gone, and how they reach machines without a shared folder."""

import glob
import os
import pickle
import shutil
import tempfile
import tracemalloc

import numpy as np
import pytest

from tests.gates import Tally
from zray import tune
from zray.tune import storage
from zray.tune.pickles import dump
from zray.tune.running_experiment import RunningExperiment


def names(trial):
    return sorted(name for name in os.listdir(trial.path) if "checkpoint" in name)


def scored(config):
    start = tune.get_checkpoint().to_dict()["step"] if tune.get_checkpoint() else 0
    for step in range(start, len(config["scores"])):
        score = config["scores"][step]
        tune.report(
            {"nested": {"score": score}, "start": start}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1})
        )
        if step == config.get("fails_at"):
            raise ValueError("fails once")


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "options, kept",
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"num_to_keep": 1}, [4]),
        ({"num_to_keep": 2}, [3, 4]),
        ({"num_to_keep": 1, "checkpoint_score_attribute": "nested/score"}, [1, 4]),
        ({"num_to_keep": 2, "checkpoint_score_attribute": "nested/score"}, [1, 3, 4]),
        ({"num_to_keep": 3, "checkpoint_score_attribute": "nested/score"}, [1, 3, 4]),
        ({"num_to_keep": 2, "checkpoint_score_attribute": "nested/score", "checkpoint_score_order": "min"}, [0, 4]),
        pytest.param(
            {"num_to_keep": 2, "checkpoint_score_attribute": "unknown"},
            [3, 4],
            marks=pytest.mark.filterwarnings("ignore:The first result with a checkpoint has no 'unknown'"),
        ),
    ],
)
def test_newest_and_best_checkpoints_are_kept(tmp_path, options, kept):
    (result,) = tune.Tuner(
        scored,
        param_space={"scores": [1.0, 5.0, float("nan"), 4.0, 2.0]},
        run_config=tune.RunConfig(storage_path=str(tmp_path), checkpoint_config=tune.CheckpointConfig(**options)),
    ).fit()
    assert names(result) == [f"checkpoint_{number:06d}" for number in kept]
    assert [checkpoint.to_dict()["step"] for checkpoint, _ in result.best_checkpoints] == [each + 1 for each in kept]
    assert result.checkpoint.to_dict() == {"step": 5}
    if 1 in kept:
        assert result.get_best_checkpoint("nested/score", "max").to_dict() == {"step": 2}


class Stepping(tune.Trainable):
    def setup(self, config):
        self.x = 0

    def step(self):
        self.x += 1
        return {"x": self.x}

    def save_checkpoint(self, folder):
        return {"x": self.x}

    def load_checkpoint(self, state):
        self.x = state["x"]


@pytest.mark.usefixtures("session")
def test_best_checkpoint_of_a_class_stays_beside_the_newest(tmp_path):
    keeps = {"checkpoint_freq": 1, "keep_checkpoints_num": 1, "checkpoint_score_attr": "min-x"}
    analysis = tune.run(Stepping, stop={"x": 4}, local_dir=str(tmp_path), metric="x", mode="min", **keeps)
    assert names(analysis.trials[0]) == ["checkpoint_000000", "checkpoint_000003"]
    best = analysis.get_best_checkpoint(analysis.trials[0], "x", "min")
    assert best.path.endswith("checkpoint_000000")


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("form", [str, lambda path: tune.Checkpoint(path), lambda path: {"restore": path}])
def test_trials_count_on_from_the_checkpoint_they_begin_with(tmp_path, form):
    options = {"local_dir": str(tmp_path), "checkpoint_at_end": True}
    (first,) = tune.run(Stepping, stop={"training_iteration": 3}, name="first", **options).trials
    given = form(first.checkpoint.path)
    if isinstance(given, dict):
        spec = {"run": Stepping, "stop": {"training_iteration": 5}, **options, **given}
        (trial,) = tune.run_experiments({"then": spec})
    else:
        (trial,) = tune.run(Stepping, stop={"training_iteration": 5}, name="then", restore=given, **options).trials
    result = trial.last_result
    assert (result["training_iteration"], result["x"], result["iterations_since_restore"]) == (5, 5, 2)
    assert result["time_total_s"] > result["time_since_restore"] and trial.checkpoint.path.endswith("checkpoint_000000")


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("is_file", [False, True])
def test_function_that_begins_with_a_checkpoint_needs_its_folder(tmp_path, is_file):
    place = tmp_path / "given"
    if is_file:
        place.touch()
    options = {"local_dir": str(tmp_path), "raise_on_failed_trial": False}
    (trial,) = tune.run(lambda config: {"x": 1}, name="then", restore=str(place), **options).trials
    assert trial.status == "ERROR" and "FileNotFoundError" in trial.error and str(place) in trial.error


@pytest.mark.usefixtures("session")
def test_first_result_behind_a_checkpoint_has_the_metric(tmp_path):
    options = {"local_dir": str(tmp_path), "checkpoint_at_end": True, "stop": {"training_iteration": 3}}
    (first,) = tune.run(Stepping, name="first", **options).trials
    options.update(restore=first.checkpoint, raise_on_failed_trial=False, stop={"training_iteration": 5})
    (trial,) = tune.run(Stepping, name="then", metric="absent", mode="min", **options).trials
    assert "reported no 'absent'" in trial.error


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("options, kept", [({}, 0), ({"checkpoint_at_end": True}, 1), ({"checkpoint_freq": 2}, 2)])
def test_class_is_saved_at_its_end_or_as_often_as_asked(tmp_path, options, kept):
    (trial,) = tune.run(Stepping, stop={"x": 5}, local_dir=str(tmp_path), **options).trials
    assert len(names(trial)) == kept
    if kept:
        restored = Stepping()
        restored.restore(trial.checkpoint.path)
        assert restored.x == restored.iteration == (5 if "checkpoint_at_end" in options else 4)


@pytest.mark.parametrize("options", [{"checkpoint_at_end": True}, {"checkpoint_freq": 1}])
def test_function_that_is_to_be_saved_like_a_class_is_refused(options):
    with pytest.raises(ValueError, match="is for class trainables: a function saves when it reports"):
        tune.run(scored, **options)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("deleted, start", [((), 3), ((2,), 2), ((1, 2), 1), ((0, 1, 2), 0)])
def test_trial_goes_on_from_the_newest_checkpoint_that_is_there(tmp_path, deleted, start):
    config = {"scores": [1, 2, 3, 4], "fails_at": 2}
    (trial,) = tune.run(
        scored, name="deleted", config=config, raise_on_failed_trial=False, local_dir=str(tmp_path)
    ).trials
    for number in deleted:
        shutil.rmtree(os.path.join(trial.path, f"checkpoint_{number:06d}"))
    (tmp_path / "deleted" / os.path.basename(trial.path) / "checkpoint_000009.unfinished").mkdir()

    def go_on(config):
        config.pop("fails_at")
        scored(config)

    go_on.__name__ = scored.__name__
    (result,) = tune.Tuner.restore(str(tmp_path / "deleted"), go_on, resume_errored=True).fit()
    assert [row["nested"]["score"] for row in result.rows()] == [1, 2, 3, 4]
    assert [row["start"] for row in result.rows()] == [0, 0, 0, start]
    assert result.checkpoint.to_dict() == {"step": 4} and not glob.glob(result.path + "/*.unfinished")


@pytest.mark.usefixtures("session")
def test_deletions_and_copies_before_which_a_kill_came_are_carried_out(tmp_path, monkeypatch):
    """The journal has them: the folders are put back as they were before."""
    keep = tune.CheckpointConfig(num_to_keep=1)
    tuner = tune.Tuner(
        scored,
        param_space={"scores": [1, 2, 3]},
        run_config=tune.RunConfig(name="killed", storage_path=str(tmp_path), checkpoint_config=keep),
    )
    (result,) = tuner.fit()
    shutil.copytree(result.checkpoint.path, os.path.join(result.path, "checkpoint_000000"))
    (result,) = tune.Tuner.restore(str(tmp_path / "killed"), scored).fit()
    assert names(result) == ["checkpoint_000002"]


@pytest.mark.usefixtures("session")
def test_copy_of_another_trial_before_which_a_kill_came_is_made(tmp_path):
    from zray.tune import events as ev
    from zray.tune.recovery import CheckpointRepair

    tune.run(scored, name="donor", config={"scores": [1]}, num_samples=2, local_dir=str(tmp_path))
    first, second = RunningExperiment.load(str(tmp_path / "donor")).controller.get_trials()
    repair = CheckpointRepair()
    repair.note(ev.Copy(first.checkpoint.path, second.checkpoint.path))
    shutil.rmtree(second.checkpoint.path)
    repair.write([first, second])
    assert tune.Checkpoint(second.checkpoint.path).to_dict() == {"step": 1}


# --- machines that do not share the folder ---


@pytest.fixture
def apart(monkeypatch):
    """Workers do not find the mark of the program in the experiment's folder."""
    monkeypatch.setattr(storage, "mark", lambda path, identity: None)
    yield
    storage.sweep()
    assert not glob.glob(os.path.join(tempfile.gettempdir(), f"{storage.prefix()}*"))


def failing_once(config):
    print("begins")
    with open(os.path.join(tune.get_trial_dir(), "own"), "w") as file:
        file.write("a file of the trial")
    start = tune.get_checkpoint().to_dict()["step"] if tune.get_checkpoint() else 0
    for step in range(start, 3):
        tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1}))
        if step == 1 and Tally(config["tally"]).visit() == 1:
            os._exit(1)


@pytest.mark.usefixtures("session")
def test_checkpoints_of_a_function_travel_as_bytes(apart, tmp_path):
    (trial,) = tune.run(
        failing_once,
        config={"tally": str(tmp_path / "tally")},
        max_failures=1,
        log_to_file=True,
        local_dir=str(tmp_path),
    ).trials
    assert names(trial) == ["checkpoint_000000", "checkpoint_000001", "checkpoint_000002"]
    assert tune.Checkpoint(trial.checkpoint.path).to_dict() == {"step": 3}
    assert [row["step"] for row in tune.Result.from_path(trial.path).rows()] == [0, 1, 2]
    with open(os.path.join(trial.path, "stdout")) as file:
        assert file.read() == "begins\n" * 2


@pytest.mark.usefixtures("session")
def test_checkpoints_of_a_class_travel_as_bytes(apart, tmp_path):
    (trial,) = tune.run(
        Stepping, stop={"x": 3}, checkpoint_freq=2, checkpoint_at_end=True, local_dir=str(tmp_path)
    ).trials
    restored = Stepping()
    restored.restore(trial.checkpoint.path)
    assert restored.x == 3 and names(trial) == ["checkpoint_000000", "checkpoint_000001"]


def test_checkpoint_of_a_large_array_takes_no_copy_of_it(tmp_path):
    state = {"weights": np.ones(4_000_000, np.uint8)}
    tracemalloc.start()
    try:
        with open(tmp_path / "state", "wb") as file:
            dump(state, file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert (pickle.loads((tmp_path / "state").read_bytes())["weights"] == 1).all()


def test_checkpoint_that_pickle_refuses_in_the_middle_is_written_by_value(tmp_path):
    with open(tmp_path / "state", "wb") as file:
        dump({"first": bytes(200_000), "second": lambda: 5}, file)
    state = pickle.loads((tmp_path / "state").read_bytes())
    assert state["first"] == bytes(200_000) and state["second"]() == 5
