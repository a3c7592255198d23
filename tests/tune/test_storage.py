"""Where experiments are kept: folders with odd names, folders that move, full disks, and storage by URL."""

import contextlib
import csv
import os
import re
import resource
import shutil

import pytest

from tests.gates import Gate, nothing_is_held, until
from zray import tune
from zray.tune import mirror
from zray.tune.errors import StorageError
from zray.tune.journal import JOURNAL, Journal, read_journal
from zray.tune.mirror import LISTING, Mirror, MirrorWarning

pytestmark = pytest.mark.usefixtures("session")


def once(config):
    return {"y": config.get("x", 0)}


# --- names of folders ---


@pytest.mark.parametrize(
    "x", ["a/../b", "long " * 100, "\u4e16\u754c" * 100, "nul\0newline\n", "..", {"nested": "\U0001f600" * 80}]
)
def test_folder_of_a_trial_is_a_name_that_file_systems_take(tmp_path, x):
    (trial,) = tune.run(once, name="odd", config={"x": tune.grid_search([x])}, local_dir=str(tmp_path)).trials
    assert os.path.dirname(trial.path) == str(tmp_path / "odd")
    assert os.path.exists(os.path.join(trial.path, "result.json"))
    assert len(os.path.basename(trial.path).encode()) <= 255


def test_names_of_the_user_are_used_and_folders_of_two_trials_differ(tmp_path):
    results = tune.Tuner(
        once,
        param_space={"x": tune.grid_search([1, 2])},
        tune_config=tune.TuneConfig(
            trial_name_creator=lambda trial: "n/" * 200, trial_dirname_creator=lambda trial: "same " * 100
        ),
        run_config=tune.RunConfig(name="named", storage_path=str(tmp_path)),
    ).fit()
    first, second = (os.path.basename(result.path) for result in results)
    assert ("same " * 100).startswith(first) and second.startswith(first[:100]) and second != first
    assert 100 < len(first) <= 143 and 100 < len(second) <= 143  # bytes, as encrypted homes allow
    assert [result.metrics["y"] for result in results] == [1, 2]


def test_folder_outside_of_the_experiment_is_refused(tmp_path):
    with pytest.raises(ValueError, match="names one folder below the experiment's"):
        tune.run(once, trial_dirname_creator=lambda trial: "../other", local_dir=str(tmp_path))
    assert not (tmp_path / "other").exists()


# --- folders that move ---


def counting(config):
    start = 0
    if checkpoint := tune.get_checkpoint():
        start = checkpoint.to_dict()["step"]
    for step in range(start, start + 2):
        tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1}))
        if step == config["fails_at"]:
            raise ValueError("fails once")


def run_until_error(storage_path, name, **options):
    tune.Tuner(
        counting,
        param_space={"fails_at": 1},
        tune_config=tune.TuneConfig(trial_name_creator=lambda trial: f"t{os.urandom(4).hex()}"),
        run_config=tune.RunConfig(name=name, storage_path=storage_path, **options),
    ).fit()


def test_experiment_goes_on_in_a_folder_that_was_moved(tmp_path):
    run_until_error(str(tmp_path), "before")
    shutil.move(tmp_path / "before", tmp_path / "after")
    (result,) = tune.Tuner.restore(str(tmp_path / "after"), counting, resume_errored=True).fit()
    assert [row["step"] for row in result.rows()] == [0, 1, 2, 3]
    assert result.error is None and result.checkpoint.path.startswith(str(tmp_path / "after"))
    assert len([name for name in os.listdir(tmp_path / "after") if name.startswith("t")]) == 1
    assert not os.path.exists(tmp_path / "before")


def test_results_of_an_experiment_are_read_without_going_on(tmp_path):
    run_until_error(str(tmp_path), "read")
    (result,) = tune.Tuner.restore(str(tmp_path / "read"), counting).get_results()
    assert [row["step"] for row in result.rows()] == [0, 1] and isinstance(result.error, ValueError)


# --- full disks ---


@contextlib.contextmanager
def largest_file(size):
    """No file of this process grows beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def long_results(config):
    for step in range(config["steps"]):
        tune.report({"step": step, "text": "x" * 1000})


@pytest.mark.parametrize("trials, steps", [(1, 30), (30, 1)], ids=["records", "journal"])
def test_full_disk_stops_the_experiment_and_it_goes_on_when_there_is_space(tmp_path, trials, steps):
    tuner = tune.Tuner(
        long_results,
        param_space={"steps": steps},
        tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
        run_config=tune.RunConfig(name="full", storage_path=str(tmp_path)),
    )
    with largest_file(16_000), pytest.raises(StorageError, match=r"File too large.*num_to_keep.*go on with"):
        tuner.fit()
    until(nothing_is_held)
    _, end, problem = read_journal(str(tmp_path / "full" / JOURNAL))
    assert not problem and end == os.path.getsize(tmp_path / "full" / JOURNAL)
    results = tune.Tuner.restore(str(tmp_path / "full"), long_results).fit()
    assert [[row["step"] for row in result.rows()] for result in results] == [list(range(steps))] * trials
    for result in results:
        with open(os.path.join(result.path, "progress.csv"), newline="") as file:
            assert [row["step"] for row in csv.DictReader(file)] == [str(step) for step in range(steps)]


def test_full_device_at_the_first_result_is_named(tmp_path):
    folder = tmp_path / "device" / "trial"
    folder.mkdir(parents=True)
    (folder / "result.json").symlink_to("/dev/full")
    with pytest.raises(StorageError, match="No space left on device"):
        tune.run(once, name="device", trial_dirname_creator=lambda trial: "trial", local_dir=str(tmp_path))
    until(nothing_is_held)
    (folder / "result.json").unlink()
    (result,) = tune.Tuner.restore(str(tmp_path / "device"), once).fit()
    assert len(result.rows()) == 1


def test_folder_that_cannot_be_made_is_an_error_of_fit(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"Not a directory.*choose another storage_path"):
        tune.run(once, storage_path=str(tmp_path / "file"))


def saving(config):
    start = tune.get_checkpoint().to_dict()["step"] if tune.get_checkpoint() else 0
    for step in range(start, 3):
        size = 10 if step < 2 else 100_000
        with largest_file(50_000 if config["is_full"] else 10_000_000):
            tune.report({"step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step + 1, "data": b"x" * size}))


class Saving(tune.Trainable):
    def step(self):
        return {"step": self.iteration}

    def save_checkpoint(self, folder):
        size = 100_000 if self.iteration == 3 and self.config["is_full"] else 10
        with largest_file(50_000), open(os.path.join(folder, "data"), "wb") as file:
            file.write(b"x" * size)

    def load_checkpoint(self, folder):
        assert os.path.getsize(os.path.join(folder, "data")) == 10


@pytest.mark.parametrize("trainable", [saving, Saving])
def test_checkpoint_that_does_not_fit_is_an_error_of_its_trial(tmp_path, trainable):
    results = tune.Tuner(
        trainable,
        param_space={"is_full": tune.grid_search([True, False])},
        run_config=tune.RunConfig(
            name="checkpoints",
            storage_path=str(tmp_path),
            stop={"training_iteration": 3},
            checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1 if trainable is Saving else 0),
        ),
    ).fit()
    failed, good = results
    assert isinstance(failed.error, OSError) and good.error is None
    assert re.search(r"checkpoint_000002 cannot be written: File too large.*num_to_keep", str(failed.error))
    kept = [name for name in os.listdir(failed.path) if "checkpoint" in name]
    assert sorted(kept) == ["checkpoint_000000", "checkpoint_000001"]
    assert failed.checkpoint.path.endswith("checkpoint_000001")


# --- storage by URL ---


@pytest.fixture
def fsspec(tmp_path, monkeypatch):
    """fsspec; local folders of experiments are below tmp_path, and `memory://` is empty."""
    found = pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "local"))
    found.filesystem("memory").store.clear()
    yield found
    found.filesystem("memory").store.clear()


def names_at(filesystem, root):
    return {path.partition(root)[2].strip("/") for path in filesystem.find(root)}


def test_experiment_is_copied_to_its_url_and_restored_from_there(fsspec, tmp_path):
    checkpoints = tune.CheckpointConfig(num_to_keep=1)
    run_until_error("memory://experiments", "far", checkpoint_config=checkpoints)
    memory = fsspec.filesystem("memory")
    names = names_at(memory, "/experiments/far")
    (trial,) = {name.partition("/")[0] for name in names if "/" in name}
    assert {f"{trial}/{name}" for name in ("result.json", "progress.csv", "params.json", "error.txt")} < names
    assert {name for name in names if "checkpoint" in name} == {f"{trial}/checkpoint_000001/dict_checkpoint.pkl"}
    assert tune.Tuner.can_restore("memory://experiments/far")
    assert not tune.Tuner.can_restore("memory://experiments/near")
    shutil.rmtree(tmp_path / "local")
    tuner = tune.Tuner.restore("memory://experiments/far", counting, resume_errored=True)
    (result,) = tuner.fit()
    assert [row["step"] for row in result.rows()] == [0, 1, 2, 3]
    names = names_at(memory, "/experiments/far")
    assert {name for name in names if "checkpoint" in name} == {f"{trial}/checkpoint_000003/dict_checkpoint.pkl"}
    assert memory.cat_file(f"/experiments/far/{trial}/result.json").count(b"\n") == 4


class OpenGate(tune.Callback):
    """Opens a gate when the copy has the first result."""

    def __init__(self, gate, filesystem):
        self.gate, self.filesystem = gate, filesystem

    def on_step_end(self, iteration, trials, **info):
        if any(self.filesystem.glob("/experiments/live/*/result.json")):
            self.gate.open()


def test_records_are_copied_while_the_experiment_runs(fsspec, tmp_path, monkeypatch):
    gate = Gate(tmp_path / "gate")

    def waiting(config):
        tune.report({"y": 1})
        gate.wait()
        tune.report({"y": 2})

    monkeypatch.setattr(mirror, "PASS_SECONDS", 0.01)
    callbacks = [OpenGate(gate, fsspec.filesystem("memory"))]
    tune.run(waiting, name="live", storage_path="memory://experiments", callbacks=callbacks)
    (path,) = fsspec.filesystem("memory").glob("/experiments/live/*/result.json")
    assert fsspec.filesystem("memory").cat_file(path).count(b"\n") == 2


def test_local_folder_that_is_further_than_its_copy_is_used(fsspec, tmp_path):
    run_until_error("memory://experiments", "behind")
    memory = fsspec.filesystem("memory")
    journal = memory.cat_file("/experiments/behind/journal.zray")
    memory.pipe_file("/experiments/behind/journal.zray", journal[: len(journal) // 2])
    (result,) = tune.Tuner.restore("memory://experiments/behind", counting).get_results()
    assert len(result.rows()) == 2


def test_copy_that_is_behind_is_gone_on_with_from_where_it_is(fsspec, tmp_path):
    run_until_error("memory://experiments", "behind")
    memory = fsspec.filesystem("memory")
    events, _, _ = read_journal(str(next((tmp_path / "local").glob("*/behind/journal.zray"))))
    place = next(i for i, event in enumerate(events) if getattr(event, "iteration", 0) == 2)
    journal = Journal(str(tmp_path / "cut"))
    journal.append(events[:place])
    journal.close()
    memory.pipe_file("/experiments/behind/journal.zray", (tmp_path / "cut").read_bytes())
    shutil.rmtree(tmp_path / "local")
    (result,) = tune.Tuner.restore("memory://experiments/behind", counting).fit()
    assert [row["step"] for row in result.rows()] == [0, 1]  # step 1 came from the checkpoint of step 0, once


def test_checkpoint_that_the_copy_has_in_part_is_not_used(fsspec, tmp_path):
    run_until_error("memory://experiments", "part")
    memory = fsspec.filesystem("memory")
    (newest,) = memory.glob("/experiments/part/*/checkpoint_000001/*")
    memory.pipe_file(newest, b"half")
    shutil.rmtree(tmp_path / "local")
    (result,) = tune.Tuner.restore("memory://experiments/part", counting, resume_errored=True).fit()
    assert [row["step"] for row in result.rows()] == [0, 1]
    assert isinstance(result.error, ValueError) and "fails once" in str(result.error)


def test_file_system_of_the_user_is_a_storage(fsspec, tmp_path):
    local = fsspec.filesystem("file")
    place = str(tmp_path / "storage")
    config = tune.RunConfig(name="given", storage_path=place, storage_filesystem=local)
    tune.Tuner(once, run_config=config).fit()
    assert JOURNAL in os.listdir(tmp_path / "storage" / "given")
    assert tune.Tuner.can_restore(place + "/given", storage_filesystem=local)
    shutil.rmtree(tmp_path / "local")
    (result,) = tune.Tuner.restore(place + "/given", once, storage_filesystem=local).fit()
    assert result.metrics["y"] == 0


def test_file_url_is_a_local_folder(tmp_path):
    results = tune.Tuner(once, run_config=tune.RunConfig(name="file", storage_path=f"file://{tmp_path}")).fit()
    assert results.experiment_path == str(tmp_path / "file")
    assert tune.Tuner.can_restore(f"file://{tmp_path}/file")
    (result,) = tune.Tuner.restore(f"file://{tmp_path}/file", once).fit()
    assert result.metrics["y"] == 0


def test_upload_dir_of_2018_keeps_a_copy(fsspec, tmp_path):
    spec = {"run": once, "local_dir": str(tmp_path), "upload_dir": "memory://uploads"}
    (trial,) = tune.run_experiments({"old": spec})
    assert f"{os.path.basename(trial.path)}/result.json" in names_at(fsspec.filesystem("memory"), "/uploads/old")


def test_run_resumes_from_its_url(fsspec, tmp_path):
    options = {"name": "again", "config": {"x": tune.grid_search([1, 2])}, "storage_path": "memory://experiments"}
    tune.run(once, **options)
    shutil.rmtree(tmp_path / "local")

    def fail(config):
        raise AssertionError("It ran twice.")

    fail.__name__ = once.__name__  # another name is a warning
    analysis = tune.run(fail, resume=True, **options)
    assert [trial.last_result["y"] for trial in analysis.trials] == [1, 2]


def test_storage_that_fails_leaves_the_local_folder_and_a_warning(fsspec, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError("denied")

    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "put_file", refuse)
    with pytest.warns(MirrorWarning, match=r"memory://experiments/denied is not complete: PermissionError"):
        analysis = tune.run(once, name="denied", storage_path="memory://experiments")
    assert len(analysis.trials) == 1


@pytest.mark.parametrize("url", ["nosuch://bucket", "abfs://container/x"])
def test_storage_without_its_package_is_an_error_at_once(fsspec, url):
    with pytest.raises(tune.TuneError, match=re.escape(url)):
        tune.Tuner(once, run_config=tune.RunConfig(storage_path=url))


def test_what_goes_during_a_pass_is_kept_until_the_next_one(fsspec, tmp_path):
    (tmp_path / "trial" / "checkpoint_000000").mkdir(parents=True)
    (tmp_path / "trial" / "checkpoint_000000" / "data").write_text("0")
    (tmp_path / JOURNAL).write_text("before")
    copy = Mirror(str(tmp_path), "memory://pass")
    copy.copy(is_last=False)
    names = names_at(fsspec.filesystem("memory"), "/pass")
    assert names == {JOURNAL, LISTING, "trial/checkpoint_000000/data"}
    shutil.rmtree(tmp_path / "trial")
    copy.copy(is_last=False)
    assert names_at(fsspec.filesystem("memory"), "/pass") == names
    copy.copy(is_last=False)
    assert names_at(fsspec.filesystem("memory"), "/pass") == {JOURNAL, LISTING}
