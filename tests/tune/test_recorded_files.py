"""Experiments whose state cannot be loaded: their other files say the same as the state, at each moment of a run."""

import json
import os
import shutil

import pytest
from click.testing import CliRunner

import zray
from cli.tune import tune as command
from zray import tune
from zray.tune.listing import listed, state_of
from zray.tune.recorded import read_experiment

SHOWN = ("status", "iteration", "time_total_s", "loss", "x")


class Copies(tune.Callback):
    """Copies the experiment's folder after each result and each end of a trial: a kill could come there."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        os.makedirs(target)

    def on_step_end(self, iteration, trials, **info):
        place = os.path.join(self.target, f"{len(os.listdir(self.target)):03}")
        shutil.copytree(self.source, place, ignore=shutil.ignore_patterns("checkpoint_*", "*.unfinished", "made_*"))


def descend(config):
    found = tune.get_checkpoint()
    if config["x"] == 7:
        raise ValueError("first line\nsecond line")
    for step in range(found.to_dict()["step"] + 1 if found else 0, 4):
        if config["x"] == 8 and step == 2:
            raise RuntimeError("late")
        tune.report({"loss": config["x"] / (step + 1)}, checkpoint=tune.Checkpoint.from_dict({"step": step}))


WAYS = {
    "ends": {},
    "asha": {"scheduler": tune.schedulers.ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)},
    "hyperband": {"scheduler": tune.schedulers.HyperBandScheduler(max_t=4, reduction_factor=2)},
    "pbt": {
        "scheduler": tune.schedulers.PopulationBasedTraining(
            "training_iteration", perturbation_interval=1, hyperparam_mutations={"x": tune.uniform(1, 9)}
        )
    },
}
RUNS = {
    "retry": {"failure_config": tune.FailureConfig(max_failures=1)},
    "fast": {"failure_config": tune.FailureConfig(fail_fast=True)},
    "stop": {"stop": {"training_iteration": 2}},
}


@pytest.fixture(scope="module")
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def run(tmp_path, way, copies="copies", seed=3):
    space = {"x": tune.grid_search([4.0, 7, 8, 6.0, 1.0])}
    source, target = str(tmp_path / "exp"), str(tmp_path / copies)
    options = {"name": "exp", "storage_path": str(tmp_path), "verbose": 0, **RUNS.get(way, {})}
    tune.Tuner(
        descend,
        param_space=space,
        tune_config=tune.TuneConfig(metric="loss", mode="min", seed=seed, reuse_actors=True, **WAYS.get(way, {})),
        run_config=tune.RunConfig(callbacks=[Copies(source, target)], **options),
    ).fit()
    return source, target


def seen(path):
    recorded = read_experiment(path)
    rows = {row["trial"]: [row.get(key) for key in SHOWN] for row in listed(recorded)}
    for row in rows.values():
        if row[0] in ("PENDING", "PAUSED", "RUNNING"):
            # A waiting trial is RUNNING as soon as there is room, and the files say so when its process has begun.
            row[0], row[-1] = "RUNNING", None
    return recorded, list(rows.items())


def both(path):
    """The rows by the state, and by the other files."""
    recorded, by_state = seen(path)
    assert recorded.experiment is not None
    words = recorded.total(), recorded.metric, recorded.mode
    is_interrupted = bool(recorded.interrupted())
    os.rename(os.path.join(path, "experiment.pkl"), os.path.join(path, "kept"))
    with open(os.path.join(path, "experiment.pkl"), "wb") as file:
        file.write(b"cabsent_module\nState\n.")
    recorded, by_files = seen(path)
    assert recorded.experiment is None and "absent_module" in recorded.note
    assert (recorded.total(), recorded.metric, recorded.mode) == words
    has_all_ended = all(trial.is_over for trial in recorded.trials)  # perhaps their processes have not
    assert bool(recorded.interrupted()) == (is_interrupted and not has_all_ended)
    os.rename(os.path.join(path, "kept"), os.path.join(path, "experiment.pkl"))
    return by_state, by_files


@pytest.mark.parametrize("way", [*WAYS, *RUNS])
def test_files_say_what_the_state_says(session, way, tmp_path):
    source, copies = run(tmp_path, way)
    moments = [os.path.join(copies, name) for name in sorted(os.listdir(copies))]
    assert len(moments) > (0 if way == "fast" else 2)  # the first failure ends that one, however early it comes
    states = set()
    for path in [*moments[:: max(1, len(moments) // 12)], source]:
        by_state, by_files = both(path)
        states |= {row[0] for _, row in by_state}
        assert by_files == by_state, path
    assert way == "fast" or {"RUNNING", "TERMINATED"} <= states


def damaged(path):
    with open(os.path.join(path, "experiment.pkl"), "wb") as file:
        file.write(b"cabsent_module\nState\n.")
    return path


def output(*words):
    done = CliRunner(env={"COLUMNS": "300"}).invoke(command, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_commands_work_without_the_state(session, tmp_path):
    source, _ = run(tmp_path, "ends")
    damaged(source)
    rows = json.loads(output("ls", source, "--format", "json"))
    assert [row["loss"] for row in rows[:3]] == [0.25, 1.0, 1.5] and len(rows) == 5
    assert "5 of 5 trials" in output("ls", source)
    (failed,) = [row for row in rows if row["iteration"] == 0]
    assert failed["status"] == "ERROR" and failed["why"] == "ValueError: first line ..."
    assert "ERROR after 0 results" in output("why", source, failed["trial"])
    assert os.path.exists(output("plot", source).strip())
    assert output("simulate", source)


def test_trials_of_an_earlier_run_are_left_out(session, tmp_path):
    run(tmp_path, "ends")
    source, _ = run(tmp_path, "stop", copies="later", seed=4)
    recorded = read_experiment(damaged(source))
    assert len(recorded.trials) == 5 and "5 folders of trials are left out" in recorded.note
    assert {trial.iteration for trial in recorded.trials} == {0, 2}
    os.remove(os.path.join(source, "journal.zray"))
    recorded = read_experiment(source)
    assert len(recorded.trials) == 10


def test_files_name_paused_trials(session, tmp_path):
    _, copies = run(tmp_path, "hyperband")
    moments = [read_experiment(damaged(os.path.join(copies, name))).trials for name in sorted(os.listdir(copies))]
    assert any(trial.status == "PAUSED" and "has reached" in trial.reason for trials in moments for trial in trials)


def test_resumed_trials_are_not_over(session, tmp_path):
    source, _ = run(tmp_path, "fast")
    tune.Tuner.restore(source, descend, resume_errored=True).fit()
    by_state, by_files = both(source)
    assert by_files == by_state


def folder_of(path, name, *results, error=""):
    (path / name).mkdir()
    (path / name / "params.json").write_text('{"x": 1}')
    if results:
        (path / name / "result.json").write_text("".join(json.dumps(each) + "\n" for each in results))
    if error:
        (path / name / "error.txt").write_text(error)


def test_folders_alone_say_who_has_ended(tmp_path):
    folder_of(tmp_path, "a", {"training_iteration": 1, "done": True, "trial_id": "aaaaa_00000"})
    folder_of(tmp_path, "b", {"training_iteration": 2, "done": False, "trial_id": "bbbbb_00000"})
    folder_of(tmp_path, "c", error="Traceback (most recent call last):\nValueError: bad")
    folder_of(tmp_path, "d")
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("")
    recorded = read_experiment(str(tmp_path))
    found = {trial.name: (trial.status, trial.iteration) for trial in recorded.trials}
    assert found == {"a": ("TERMINATED", 1), "b": ("RUNNING", 2), "c": ("ERROR", 0), "d": ("RUNNING", 0)}
    assert "trials of 2 experiments, by the beginnings of their ids: aaaaa, bbbbb" in recorded.note
    assert [row.get("why") for row in listed(recorded)][1:3] == ["no file says that it has ended", "ValueError: bad"]
    assert "no file says that it has ended" in state_of(recorded, recorded.trials[1])
    assert recorded.interrupted() == "" and recorded.total() == 4


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"metric": 3, "mode": "up", "num_samples": "x"}', b"\xff", b"null"]
)
def test_summary_of_another_form_says_nothing(data, tmp_path):
    folder_of(tmp_path, "a", {"training_iteration": 1, "done": True})
    (tmp_path / "experiment.json").write_bytes(data)
    recorded = read_experiment(str(tmp_path))
    assert (recorded.metric, recorded.mode, recorded.total()) == (None, None, 1)
