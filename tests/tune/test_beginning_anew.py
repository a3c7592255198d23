"""A restore with restart_errored: a failed trial begins anew, without what is left of its former attempt."""

import os

import pytest

from zray import tune
from zray.tune import events as ev
from zray.tune.outcomes import history
from zray.tune.records.files import TrialFiles, read_results
from zray.tune.recovery import FolderRepair
from zray.tune.running_experiment import RunningExperiment
from zray.tune.trial import Trial


def failing_at_first(config):
    is_mended = os.path.exists(config["mended"])
    for i in range(1, 6):
        score = i if is_mended else 90 + i
        checkpoint = tune.Checkpoint.from_dict({"score": score}) if i <= config["saves"] or not is_mended else None
        tune.report({"score": score}, checkpoint=checkpoint)
        if i == 4 and not is_mended:
            raise RuntimeError("the scores are wrong too")


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("saves", [0, 5])
@pytest.mark.parametrize("has_files", [True, False])
def test_a_trial_that_begins_anew_has_its_new_results_and_checkpoints_alone(tmp_path, monkeypatch, saves, has_files):
    if not has_files:
        monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    mended, path = tmp_path / "mended", str(tmp_path / "anew")
    checkpoints = tune.CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score")
    config = tune.RunConfig(name="anew", storage_path=str(tmp_path), verbose=0, checkpoint_config=checkpoints)
    space, objective = {"mended": str(mended), "saves": saves}, tune.TuneConfig(metric="score", mode="max")
    tune.Tuner(failing_at_first, param_space=space, run_config=config, tune_config=objective).fit()
    mended.touch()
    tune.Tuner.restore(path, failing_at_first, restart_errored=True).fit()
    for _ in range(2):  # a further restore repairs the files by the journal
        experiment = RunningExperiment.load(path)
        (trial,) = experiment.controller.get_trials()
        assert [row["score"] for row in history(trial)] == [1, 2, 3, 4, 5]
        assert trial.best == 5 and experiment.controller.best_ever is trial
        assert {saved.metrics["score"] for saved in trial.checkpoints} == ({4, 5} if saves else set())
        folders = [name for name in os.listdir(trial.path) if name.startswith("checkpoint_")]
        assert sorted(folders) == sorted(os.path.basename(saved.path) for saved in trial.checkpoints)
        files = set(os.listdir(trial.path))
        assert "error.txt" not in files and has_files == ("progress.csv" in files)
        assert sum(name.startswith("events.") for name in files) == has_files
        (result,) = tune.Tuner.restore(path, failing_at_first, restart_errored=True).fit()
        assert [row["training_iteration"] for row in result.rows()] == [1, 2, 3, 4, 5]


def test_files_of_a_trial_that_begins_anew_are_repaired_after_a_kill(tmp_path):
    trial = Trial("t", "f", {}, {}, path=str(tmp_path))
    former, later = [{"score": 90 + i} for i in range(3)], [{"score": i} for i in range(4)]
    for on_disk in (former, [], later[:2], later):
        TrialFiles(trial).replace(on_disk)
        repair = FolderRepair(str(tmp_path))
        for action in (
            *(ev.Logged("t", result) for result in former),
            ev.BegunAnew("t"),
            *(ev.Logged("t", result) for result in later),
        ):
            repair.note(action, {"t": trial})
        repair.write([trial])
        assert read_results(str(tmp_path)) == later
