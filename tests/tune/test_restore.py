"""Experiments whose program is killed go on where they were."""

import os
import signal
import subprocess
import sys
import warnings

import pytest

from tests.gates import until
from zray import tune
from zray.tune.journal import JournalInUse, JournalWarning, read_journal
from zray.tune.running_experiment import JOURNAL

PROGRAM = """
import sys
import zray
from zray import tune

def train(config):
    start, x = 0, config["x"]
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        state = checkpoint.to_dict()
        start, x = state["step"] + 1, state["x"]
    for step in range(start, 12):
        x *= 0.9
        tune.report({"loss": x}, checkpoint=tune.Checkpoint.from_dict({"step": step, "x": x}))

def fit(folder):
    path = folder + "/killed"
    if tune.Tuner.can_restore(path):
        tuner = tune.Tuner.restore(path, train)
    else:
        tuner = tune.Tuner(
            train,
            param_space={"x": tune.uniform(0, 10)},
            tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=6, seed=5),
            run_config=tune.RunConfig(storage_path=folder, name="killed", verbose=0),
        )
    return tuner.fit()

if __name__ == "__main__":
    zray.init(num_cpus=2, log_to_driver=False)
    for result in fit(sys.argv[1]):
        print(result.metrics["trial_id"], [round(row["loss"], 9) for row in result.rows()])
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def start(folder):
        folder.mkdir(exist_ok=True)
        return subprocess.Popen([sys.executable, str(path), str(folder)], stdout=subprocess.PIPE, text=True)

    return start


def kill_when_larger(process, journal, size):
    until(lambda: (journal.exists() and os.path.getsize(journal) > size) or process.poll() is not None, 30)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return os.path.getsize(journal)


@pytest.mark.slow
def test_killed_experiment_ends_as_one_that_was_not(program, tmp_path):
    whole = program(tmp_path / "whole").communicate(timeout=50)[0]
    assert whole.count("\n") == 6
    journal = tmp_path / "parts" / "killed" / JOURNAL
    size = 2000
    for _ in range(3):
        size = kill_when_larger(program(tmp_path / "parts"), journal, size) + 2000
    assert program(tmp_path / "parts").communicate(timeout=50)[0] == whole


@pytest.fixture
def finished(session, tmp_path):
    """The folder of a finished experiment."""
    tune.run(
        lambda config: {"y": config["x"]}, name="done", config={"x": tune.grid_search([1, 2])}, local_dir=str(tmp_path)
    )
    return tmp_path / "done"


def test_finished_trials_do_not_run_twice(finished):
    def fail(config):
        raise AssertionError("It ran twice.")

    fail.__name__ = "<lambda>"
    results = tune.Tuner.restore(str(finished), fail).fit()
    assert [result.metrics["y"] for result in results] == [1, 2]


def test_damaged_journal_names_the_offset_and_keeps_what_is_before(finished):
    path = finished / JOURNAL
    data = bytearray(path.read_bytes())
    events, end, problem = read_journal(str(path))
    assert end == len(data) and not problem
    data[-3] ^= 0xFF
    path.write_bytes(data)
    kept, offset, problem = read_journal(str(path))
    assert kept == events[:-1] and offset < end and problem == "the checksum is wrong"
    with pytest.warns(JournalWarning, match=f"damaged at offset {offset}"):
        tuner = tune.Tuner.restore(str(finished), lambda config: {"y": config["x"]})
        tuner.fit()


@pytest.mark.parametrize("kept", [None, 0, 3], ids=["missing", "empty", "cut"])
def test_journal_without_records_beside_trials_is_named(finished, kept):
    path = finished / JOURNAL
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept])
    with pytest.warns(JournalWarning, match=f"{path} holds no records, though folders of trials are beside it"):
        tune.Tuner.restore(str(finished), lambda config: {"y": config["x"]}).fit()


def test_record_cut_short_is_dropped(finished):
    path = finished / JOURNAL
    events, end, _ = read_journal(str(path))
    path.write_bytes(path.read_bytes()[: end - 3])
    kept, _, problem = read_journal(str(path))
    assert kept == events[:-1] and not problem


def test_experiment_runs_in_one_process_at_a_time(finished):
    from zray.tune.journal import Journal

    journal = Journal(str(finished / JOURNAL))
    with warnings.catch_warnings(), pytest.raises(JournalInUse, match="Another process"):
        tune.Tuner.restore(str(finished), lambda config: None).fit()
    journal.close()
