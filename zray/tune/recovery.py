"""Completes an experiment's folder after a kill: the journal has decisions that may not have acted.

Events are written before their actions are carried out.  A kill between both leaves checkpoints that were not copied or
deleted, and lines that decisions.jsonl lacks.  All these actions may be carried out again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable
from typing import Any

from . import events as ev
from . import naming
from .checkpoint import TEMPORARY, persist
from .durability import digest_of, size_of
from .errors import warn_program
from .records.files import FORMATS, RecordsRepair
from .storage import sync_tree
from .trial import SavedCheckpoint, Trial, TrialState

__all__ = ["DECISIONS", "CheckpointRepair", "CheckpointWarning", "FolderRepair", "decision_line"]

DECISIONS = "decisions.jsonl"


class CheckpointWarning(UserWarning):
    """A checkpoint is damaged."""


def decision_line(action: ev.Explained) -> str:
    """A decision, as decisions.jsonl has it."""
    record = {
        "trial_id": action.trial_id,
        "iteration": action.iteration,
        "action": action.action,
        "reason": action.reason,
    }
    return json.dumps(record) + "\n"


class CheckpointRepair:
    """Carries out actions missed because of a kill: copies and deletions recorded in the journal."""

    def __init__(self) -> None:
        self._copies: dict[str, str] = {}  # target -> source
        self._deleted: set[str] = set()
        self._kept: dict[str, list[SavedCheckpoint]] = {}  # trial -> all that it ever had

    def note(self, action: Any, trials: dict[str, Trial] | None = None) -> None:
        """Note an action of a replayed journal.  trials: as of that moment."""
        if isinstance(action, ev.Copy):
            self._copies[action.target] = action.source
        elif isinstance(action, ev.Delete):
            self._deleted.add(action.path)
        elif isinstance(action, ev.BegunAnew):
            self._kept.pop(action.trial_id, None)
        elif isinstance(action, ev.Kept) and trials is not None:
            checkpoints = trials[action.trial_id].checkpoints
            self._kept.setdefault(action.trial_id, []).extend(
                saved for saved in checkpoints if saved.path == action.path
            )

    def write(self, trials: Iterable[Trial]) -> None:
        """Complete the trials' folders, and forget checkpoints without a folder."""
        kept: set[str] = set()
        for trial in trials:
            for saved in trial.checkpoints:
                source = self._copies.get(saved.path, "")
                if not os.path.isdir(saved.path) and os.path.isdir(source):
                    persist(source, saved.path)
            newest = [saved.path for saved in trial.checkpoints[-1:]]
            trial.checkpoints = [saved for saved in trial.checkpoints if os.path.isdir(saved.path)]
            if trial.state is not TrialState.TERMINATED or trial.is_cut_off:  # one with an error may go on
                _remove_unfinished(trial.path)
                problems = _put_damaged_aside(trial)
                if newest and newest != [saved.path for saved in trial.checkpoints[-1:]]:
                    self._take_back(trial)
                former = trial.saved
                start = f"the one before, of iteration {former.iteration}" if former is not None else "the beginning"
                for problem in problems:
                    warn_program(f"{problem}, and the trial goes on from {start}.", CheckpointWarning)
            kept.update(saved.path for saved in trial.checkpoints)
        doomed = {path for path in self._deleted - kept if os.path.isdir(path)}
        for path in kept:  # before those that they replace go
            if os.path.dirname(path) in map(os.path.dirname, doomed):
                sync_tree(path)
        for path in doomed:
            shutil.rmtree(path, ignore_errors=True)

    def _take_back(self, trial: Trial) -> None:
        """Restore the former checkpoint, not deleted yet, because the newest is not on the disk."""
        left = trial.checkpoints[-1].iteration if trial.checkpoints else 0
        for saved in reversed(self._kept.get(trial.trial_id, [])):
            if saved.iteration > left and saved.path in self._deleted and not _problem_of(saved):
                trial.checkpoints.append(saved)
                return


def _put_damaged_aside(trial: Trial) -> list[str]:
    """Put a trial's damaged checkpoints aside until the newest is intact; return the problem of each, in words."""
    found = []
    while trial.checkpoints and (problem := _problem_of(saved := trial.checkpoints[-1])):
        aside = f"{saved.path}.damaged"
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(saved.path, aside)
        trial.checkpoints.pop()
        found.append(
            f"The newest checkpoint of trial {trial}, {saved.path}, is damaged: {problem}.  It is kept as {aside}"
        )
    return found


def _problem_of(saved: SavedCheckpoint) -> str:
    """The damage of a checkpoint's files, in words; empty: none."""
    if not os.path.isdir(saved.path):
        return "its folder is not there"
    size = size_of(saved.path)
    if saved.size not in (-1, size):
        return f"its files have {size} bytes, and had {saved.size}"
    if saved.digest and digest_of(saved.path) != saved.digest:
        return "the checksum of its files is wrong"
    return ""


def _remove_unfinished(folder: str) -> None:
    """Remove checkpoints that were being written when a process was killed."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(TEMPORARY) or (name.startswith("checkpoint_") and name.endswith(".unfinished")):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


class FolderRepair:
    """The actual or intended effects of a replayed journal's actions.

    Args:
        path: the experiment's folder.
        formats: what it writes of each trial, as of `RecordsRepair`.
    """

    def __init__(self, path: str, formats: Collection[str] = FORMATS) -> None:
        self.path = path
        self._records = RecordsRepair(formats)
        self._checkpoints = CheckpointRepair()
        self._decisions: list[str] = []

    def note(self, action: Any, trials: dict[str, Trial]) -> None:
        """An action that follows from the journal."""
        if isinstance(action, ev.Logged):
            self._records.note(trials[action.trial_id], action.result)
        elif isinstance(action, ev.BegunAnew):
            self._records.begun_anew(trials[action.trial_id])
            self._checkpoints.note(action, trials)
        elif isinstance(action, ev.Explained):
            self._decisions.append(decision_line(action))
        else:
            self._checkpoints.note(action, trials)

    def _sweep(self, trial: Trial, kept: set[str]) -> None:
        """Delete checkpoints that a process had written and not reported."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(trial.path):
                if naming.checkpoint_number(entry.name) >= trial.saves and entry.path not in kept:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def write(self, trials: list[Trial]) -> None:
        """Carry out what a kill has prevented."""
        self._records.write()
        self._checkpoints.write(trials)
        kept = {saved.path for trial in trials for saved in trial.checkpoints}
        for trial in trials:
            if not trial.is_over:
                self._sweep(trial, kept)
        unfinished = os.path.join(self.path, f"{DECISIONS}.unfinished")
        with open(unfinished, "w") as file:
            file.writelines(self._decisions)
        os.rename(unfinished, os.path.join(self.path, DECISIONS))
