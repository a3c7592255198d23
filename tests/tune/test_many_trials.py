"""Work per report that does not grow with the number of trials."""

import json
import os
import sys

import pytest

from benchmarks.tune_quality import unmanned
from tests.tune.event_files import bodies_of
from zray.tune.records import files as records
from zray.tune.records import tensorboard
from zray.tune.trial import Trial


def test_files_of_few_trials_are_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "OPEN_MAX", 3)
    trials = [Trial(str(number), "f", {}, {}, path=str(tmp_path / str(number))) for number in range(8)]
    files = records.FilesOfTrials()
    for trial in trials:
        files.of(trial).add()
    before = len(os.listdir("/proc/self/fd"))
    for iteration in (1, 2):
        for trial in trials:
            files.log(trial, {"training_iteration": iteration, "loss": 0.5})
            assert len(os.listdir("/proc/self/fd")) <= before + 2 * 3
    files.flush()
    for trial in trials:
        lines = (tmp_path / trial.trial_id / "result.json").read_text().splitlines()
        assert [json.loads(line)["training_iteration"] for line in lines] == [1, 2]
        assert (tmp_path / trial.trial_id / "progress.csv").read_text() == "training_iteration,loss\n1,0.5\n2,0.5\n"
    for own in files.all():
        own.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_event_file_of_a_trial_is_continued_after_others_were_open(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "OPEN_MAX", 1)
    monkeypatch.setattr(tensorboard, "FLUSH_SECONDS", 0)
    trials = [Trial(str(number), "f", {"x": number}, {}, path=str(tmp_path / str(number))) for number in range(3)]
    files = records.FilesOfTrials()
    files.events_max = len(trials)
    for trial in trials:
        files.of(trial).add()
    for iteration in (1, 2, 3):
        for trial in trials:
            trial.last_result = {"training_iteration": iteration, "loss": 0.5}
            files.log(trial, trial.last_result)
            files.flush()
    for trial in trials:
        files.end(trial).finish()
        (name,) = (name for name in os.listdir(trial.path) if name.startswith("events"))
        # The version, the parameters, three results, the end.
        assert len(list(bodies_of(os.path.join(trial.path, name)))) == 6


def test_results_are_in_the_files_after_a_flush(tmp_path):
    trial = Trial("0", "f", {}, {}, path=str(tmp_path / "0"))
    files = records.FilesOfTrials()
    files.of(trial).add()
    files.log(trial, {"loss": 1})
    files.flush()
    assert json.loads((tmp_path / "0" / "result.json").read_text()) == {"loss": 1}
    files.log(trial, {"loss": 2, "new": 3})
    files.end(trial).finish()
    assert (tmp_path / "0" / "progress.csv").read_text() == "loss,new\n1,\n2,3\n"


def calls_of(action):
    """The number of calls of functions, as a measure of work that does not depend on the machine."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("scheduler", ["FIFO", "ASHA"])
def test_report_takes_as_much_work_among_many_trials_as_among_few(tmp_path, scheduler):
    few, many = (unmanned(str(tmp_path / str(count)), count, scheduler) for count in (10, 300))
    few.seconds_per_report(20), many.seconds_per_report(20)
    work = [calls_of(lambda: runner.seconds_per_report(200)) for runner in (few, many)]  # noqa: B023
    few.close(), many.close()
    assert work[1] <= 1.05 * work[0]
