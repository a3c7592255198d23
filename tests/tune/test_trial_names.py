"""Trials as programs and callbacks see them: names, folders, checkpoints, the last result, the working directory."""

import os
import warnings
from pathlib import Path

import pytest

from zray import tune
from zray.tune import events as ev
from zray.tune import naming
from zray.tune.beginning import ExperimentWarning, begin_folder
from zray.tune.naming import FOLDER_MAX, name_trial
from zray.tune.running_experiment import RunningExperiment
from zray.tune.settings import Settings
from zray.tune.state_file import pickle_of
from zray.tune.trial import SavedCheckpoint, Trial
from zray.tune.worker import TrialActor


@pytest.mark.parametrize("creator", [None, lambda trial: "ü" * 200], ids=["own", "of the program"])
def test_folders_have_names_that_every_file_system_takes(creator):
    chosen = {"k" * 60: 0.5, "p/ath": "日本語" * 60, "dots": "..", "lines": "a\nb"}
    taken = set()
    for index in range(3):
        trial = Trial(f"abcde_{index:05d}", "trainable" * 20, {}, {**chosen, "n": index}, index=index)
        name_trial(trial, Settings(path="/results", folder_of=creator), 1e9, taken)
        assert os.path.dirname(trial.path) == "/results" and trial.path not in taken
        assert len(os.path.basename(trial.path).encode()) <= FOLDER_MAX <= 143
        taken.add(trial.path)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"env": "CartPole-v1"}, "PPO_CartPole-v1_abcde_00000"),
        ({"env": "ALE/Pong-v5"}, "PPO_ALE_Pong-v5_abcde_00000"),
        ({"env": Path}, "PPO_Path_abcde_00000"),
        ({"env": "e" * 200}, f"PPO_{'e' * 64}_abcde_00000"),
        ({"env": lambda config: None}, "PPO_abcde_00000"),
        ({"env": None}, "PPO_abcde_00000"),
        ({}, "PPO_abcde_00000"),
    ],
)
def test_name_of_a_trial_has_its_environment_as_in_ray(config, name):
    trial = Trial("abcde_00000", "PPO", config, {})
    name_trial(trial, Settings(path="/results"), 1e9, ())
    assert trial.name == name and os.path.basename(trial.path).startswith(f"{name}_0_")


def test_checkpoint_of_a_trial_is_that_of_ray():
    trial = Trial("t", "train", {}, {})
    assert trial.checkpoint is None and not trial.has_checkpoint()
    trial.checkpoints.append(SavedCheckpoint("/results/checkpoint_000000", 3))
    assert trial.has_checkpoint() and trial.checkpoint == tune.Checkpoint("/results/checkpoint_000000")
    with trial.checkpoint.as_directory() as folder:
        assert folder == "/results/checkpoint_000000"


class Seen(tune.Callback):
    """Notes the iterations, and the resources of the first trial."""

    def __init__(self):
        self.iterations, self.resources = [], None

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.iterations.append(iteration)
        self.resources = self.resources or trial.placement_group_factory


def train(config):
    where = os.getcwd()
    with open("model.txt", "w") as file:
        file.write(str(config["x"]))
    for step in range(config["x"]):
        tune.report({"step": step, "where": where, "home": os.environ.get("TUNE_ORIG_WORKING_DIR", "")})


@pytest.mark.usefixtures("session")
def test_trial_runs_in_its_own_folder_and_its_last_result_is_done(tmp_path):
    seen = Seen()
    outcome = tune.run(
        train,
        config={"x": tune.grid_search([3, 0, 5])},
        resources_per_trial={"cpu": 2},
        reuse_actors=True,
        callbacks=[seen],
        storage_path=str(tmp_path),
        verbose=0,
    )
    assert all(trial.last_result["done"] is True for trial in outcome.trials)
    for trial in outcome.trials:
        assert Path(trial.path, "model.txt").read_text() == str(trial.config["x"])
    first = outcome.trials[0]
    assert first.last_result["where"] == first.path and first.last_result["home"] == os.getcwd()
    assert seen.iterations == sorted(set(seen.iterations)) and len(seen.iterations) == 8
    assert seen.resources == tune.PlacementGroupFactory([{"CPU": 2.0}])


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("way", ["variable", "option"])
def test_working_directory_stays_where_the_program_says_so(tmp_path, monkeypatch, way):
    options = {"chdir_to_trial_dir": False} if way == "option" else {}
    if way == "variable":
        monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    outcome = tune.run(report_folder, storage_path=str(tmp_path), verbose=0, **options)
    assert outcome.trials[0].last_result["where"] == os.getcwd()


def report_folder(config):
    tune.report({"where": os.getcwd()})


def test_actor_of_a_trial_is_labelled_by_the_trial():
    actor = TrialActor()
    assert repr(actor) == "TrialActor"
    actor._assignment = {"facts": {"trial_name": "train_abcde_00001"}}
    assert repr(actor) == "train_abcde_00001"


def test_trial_that_is_ended_by_others_is_done():
    from tests.tune.test_reporters import experiment, report

    controller = experiment(2, 2)
    trial = report(controller, 0, 1, 0.5)
    controller.handle(ev.TimedOut(1020.0, "the time budget is over"))
    assert trial.last_result["done"] is True


def test_trial_that_fails_is_done():
    from tests.tune.test_reporters import experiment, report

    controller = experiment(2, 2)
    trial = report(controller, 0, 1, 0.5)
    first = trial.last_result
    controller.handle(ev.Failed(1020.0, trial.trial_id, "wrong"))
    assert trial.is_over and trial.last_result["done"] is True
    assert first["done"] is False  # the result as it is recorded


@pytest.mark.parametrize("name", ["mine", None])
def test_runs_of_one_name_and_seed_in_one_second_share_no_folder(tmp_path, monkeypatch, name):
    """Ids of trials follow from the seed, and names of folders have whole seconds."""
    monkeypatch.setattr(naming, "date_of", lambda now: "2026-01-01_00-00-00")
    found, places = [], []
    for _ in range(3):
        made = RunningExperiment(
            train, {"x": tune.grid_search([1, 2])}, Settings(), name=name, storage_path=str(tmp_path), seed=1
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentWarning)
            journal = begin_folder(made, pickle_of(made))
        made.controller.handle(ev.Capacity(1.0, 2))
        journal.append([*made.controller.events, ev.Capacity(1.0, 2)])
        journal.close()
        places.append(made.path)
        for trial in made.controller.get_trials():
            os.makedirs(trial.path)  # fails where it is there
            found.append(trial.path)
        again = RunningExperiment.load(made.path)
        assert [trial.path for trial in again.controller.get_trials()] == found[-2:]
    assert len(set(found)) == 6 and len(set(places)) == (1 if name else 3)
