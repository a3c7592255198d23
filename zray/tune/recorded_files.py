"""Trials of an experiment whose state cannot be loaded, read from its other files.

The journal names the trials, and has their starts, results and ends; decisions.jsonl has what was decided about them.
Without a journal, as in folders that Ray has written, each folder with the files of a trial is one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from . import events as ev
from .journal import JOURNAL, read_journal
from .records.files import flattened, json_lines, read_results
from .recovery import DECISIONS
from .trial import Trial, TrialState

__all__ = ["read_decisions", "trials_of_files"]

# Files by which a folder is that of a trial.
OF_TRIALS = ("result.json", "params.json", "error.txt")
# Ids of experiments that a note names.
IDS_MAX = 3
# Without a journal, nothing else says that a trial has ended.
NO_END = "no file says that it has ended"
# The state that follows from the last decision, when the trial's process has stopped.
_DECIDED = {
    "STOP": TrialState.TERMINATED,
    "ERROR": TrialState.ERROR,
    "PAUSE": TrialState.PAUSED,
    "UNPAUSE": TrialState.PENDING,
    "EXPLOIT": TrialState.PENDING,
    "RESTART": TrialState.PENDING,
}

_ENDS = (TrialState.TERMINATED, TrialState.ERROR)


def read_decisions(path: str, trial_id: str = "") -> list[dict[str, Any]]:
    """Return the recorded decisions of an experiment, of all trials or of one."""
    file = os.path.join(path, DECISIONS)
    records = json_lines(file) if os.path.exists(file) else []
    return [record for record in records if not trial_id or record.get("trial_id") == trial_id]


def trials_of_files(path: str) -> tuple[list[Trial], str]:
    """Return the trials in an experiment's folder, and a note about trials of other experiments; empty: none."""
    events: list[ev.Event] = []
    problem = ""
    if os.path.exists(os.path.join(path, JOURNAL)):
        events, _, problem = read_journal(os.path.join(path, JOURNAL))
    folders = list(folders_of_trials(path))
    if any(isinstance(event, ev.Suggested) for event in events):
        trials = _trials_of_journal(path, events)
        others = set(folders) - {os.path.basename(trial.path) for trial in trials}
        of = "earlier experiments, or the damaged journal lacks them" if problem else "earlier experiments"
        note = f"{len(others)} folders of trials are left out: they are of {of}." if others else ""
    else:
        trials = [_trial_of_folder(path, folder, index) for index, folder in enumerate(folders)]
        note = _several(trials)
    _note_what_differs(trials)
    return trials, note


def folders_of_trials(path: str) -> Iterator[str]:
    """The names of the folders of trials in an experiment's folder."""
    for name in sorted(os.listdir(path)):
        if any(os.path.isfile(os.path.join(path, name, each)) for each in OF_TRIALS):
            yield name


def _several(trials: list[Trial]) -> str:
    """Return a note about ids of several experiments; empty: the ids are of one, or do not say."""
    ids = dict.fromkeys(start for trial in trials if (start := trial.trial_id.rpartition("_")[0]))
    known = [each for each in ids if len(each) <= 8]  # an id is as short; a folder's name is not
    if len(known) < 2:
        return ""
    some = ", ".join(known[:IDS_MAX]) + ", ..." * (len(known) > IDS_MAX)
    return f"The folder has trials of {len(known)} experiments, by the beginnings of their ids: {some}."


def _trials_of_journal(path: str, events: Iterable[ev.Event]) -> list[Trial]:
    """Return the trials that a journal names, in their order."""
    trials: dict[str, Trial] = {}
    stopped: dict[str, str] = {}  # trial -> the event with which its process has stopped
    began: dict[str, int] = {}  # trial -> its iteration when its newest process began
    resumes, again = False, dict[str, int]()  # trial -> its iteration when it began after the last resumption
    reports: dict[str, ev.Report] = {}
    for event in events:
        if isinstance(event, ev.Suggested):
            place = os.path.join(path, event.folder)
            trials[event.trial_id] = Trial(
                event.trial_id, "trainable", {}, {}, index=len(trials), name=event.name, path=place
            )
            trials[event.trial_id].state = TrialState.RUNNING  # it is suggested when there is room for it
        elif isinstance(event, ev.Resumed):
            resumes, again = True, {}
            for trial in trials.values():
                if event.restart_errored and stopped.get(trial.trial_id) == "Failed":
                    trial.iteration = 0
                if trial.state is TrialState.RUNNING and trial.trial_id not in stopped:
                    trial.state = TrialState.PENDING
        elif (found := trials.get(getattr(event, "trial_id", ""))) is None:
            continue
        elif isinstance(event, ev.Began):
            stopped.pop(found.trial_id, None)
            found.state = TrialState.RUNNING
            began[found.trial_id] = found.iteration
            if resumes:
                again.setdefault(found.trial_id, found.iteration)
        elif isinstance(event, ev.Report):
            found.iteration = max(found.iteration, event.iteration)
            reports[found.trial_id] = event
        elif isinstance(event, (ev.Halted, ev.Finished, ev.Failed)):
            stopped[found.trial_id] = type(event).__name__
            if isinstance(event, ev.Failed):
                found.error = event.error
    decisions: dict[str, dict[str, Any]] = {}
    for record in read_decisions(path):
        if record.get("action") in _DECIDED:
            decisions[str(record.get("trial_id"))] = record
    for trial in trials.values():
        key = trial.trial_id
        _settle(trial, began.get(key, 0), again.get(key, -1), stopped.get(key, ""), decisions.get(key, {}))
        _take_files(trial, read_results(trial.path), reports.get(trial.trial_id))
    return list(trials.values())


def _settle(trial: Trial, began: int, again: int, stopped: str, decision: dict[str, Any]) -> None:
    """Derive the state of a trial from its newest process and the last decision.

    Args:
        began: the iteration when the process began.
        again: the iteration when the trial began after the last resumption of the experiment; -1: it did not.
        stopped: the event with which it stopped; empty: none.
        decision: the record; empty: none.
    """
    decided = _DECIDED.get(str(decision.get("action")))
    at = decision.get("iteration")
    if stopped == "Finished" and decided is not TrialState.ERROR:
        trial.state, decided = TrialState.TERMINATED, None
    elif stopped == "Failed":
        trial.state = decided or TrialState.ERROR
    elif stopped:
        trial.state = decided or TrialState.TERMINATED
    elif decided and isinstance(at, int) and (at > again if decided in _ENDS else at > began and at >= trial.iteration):
        trial.state = decided  # its process has not stopped yet
    else:
        decided = None
    if decided is not None:
        trial.reason = str(decision.get("reason", ""))
    if trial.state is TrialState.TERMINATED and decided and isinstance(at, int):
        trial.iteration = min(trial.iteration, at)  # results on their way did not count
    if trial.state is not TrialState.ERROR:
        trial.error = ""
    elif not trial.error:
        trial.error = trial.reason


def _take_files(trial: Trial, results: list[dict[str, Any]], report: ev.Report | None) -> None:
    """Take the parameters, the last result and the error from a trial's folder."""
    for result in results:
        trial.take(result)
    written = trial.last_result.get("training_iteration")
    last = written if isinstance(written, int) else len(results)
    if report is not None and trial.iteration > last and report.iteration == trial.iteration:
        own = {"training_iteration": report.iteration, "time_total_s": report.time_total_s}
        trial.take({**trial.last_result, **report.metrics, **own})
    config = _parameters_of_files(trial.path)
    recorded = trial.last_result.get("config")
    trial.config = config if config is not None else recorded if isinstance(recorded, dict) else {}
    error = os.path.join(trial.path, "error.txt")
    if trial.state is TrialState.ERROR and os.path.exists(error):
        with open(error, encoding="utf-8", errors="replace") as file:
            trial.error = file.read() or trial.error


def _trial_of_folder(path: str, folder: str, index: int) -> Trial:
    """Return a trial of which only the folder is known."""
    place = os.path.join(path, folder)
    results = read_results(place)
    last = results[-1] if results else {}
    iteration = last.get("training_iteration")
    trial = Trial(
        str(last.get("trial_id", folder)),
        "trainable",
        {},
        {},
        index=index,
        name=folder,
        path=place,
        iteration=iteration if isinstance(iteration, int) else len(results),
    )
    if last.get("done") is True:
        trial.state = TrialState.TERMINATED
    elif os.path.exists(os.path.join(place, "error.txt")):
        trial.state = TrialState.ERROR
    else:
        trial.state, trial.reason = TrialState.RUNNING, NO_END
    _take_files(trial, results, None)
    return trial


def _parameters_of_files(folder: str) -> dict[str, Any] | None:
    """Return the configuration in a trial's folder; None: the file is missing or damaged."""
    try:
        with open(os.path.join(folder, "params.json"), encoding="utf-8", errors="replace") as file:
            found = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _note_what_differs(trials: list[Trial]) -> None:
    """Take the parameters that differ between trials as the searched ones."""
    flat = [flattened(trial.config) for trial in trials]
    for name in {name: None for each in flat for name in each}:
        values = [each.get(name) for each in flat]
        if any(value != values[0] for value in values) and all(
            isinstance(value, (int, float, str, bool, type(None))) for value in values
        ):
            for trial, value in zip(trials, values, strict=True):
                trial.chosen[name] = value
