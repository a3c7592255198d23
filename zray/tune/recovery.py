"""Completes an experiment's folder after a kill: the journal has decisions that may not have acted.

Events are written before their actions are carried out.  A kill between both leaves checkpoints that were not copied or
deleted, and lines that decisions.jsonl lacks.  All these actions may be carried out again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any

from . import events as ev
from . import naming
from .checkpoint import CheckpointRepair
from .records.files import RecordsRepair
from .trial import Trial

__all__ = ["DECISIONS", "FolderRepair", "decision_line"]

DECISIONS = "decisions.jsonl"


def decision_line(action: ev.Explained) -> str:
    """A decision, as decisions.jsonl has it."""
    record = {
        "trial_id": action.trial_id,
        "iteration": action.iteration,
        "action": action.action,
        "reason": action.reason,
    }
    return json.dumps(record) + "\n"


class FolderRepair:
    """What the actions of a replayed journal have done, or should have done.

    Args:
        path: the experiment's folder.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._records = RecordsRepair()
        self._checkpoints = CheckpointRepair()
        self._decisions: list[str] = []

    def note(self, action: Any, trials: dict[str, Trial]) -> None:
        """An action that follows from the journal."""
        if isinstance(action, ev.Logged):
            self._records.note(trials[action.trial_id], action.result)
        elif isinstance(action, ev.Explained):
            self._decisions.append(decision_line(action))
        else:
            self._checkpoints.note(action)

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
