"""The recorder of an experiment: files of trials, decisions.jsonl, and calls of the callbacks."""

from __future__ import annotations

import os
from typing import Any

from . import events as ev
from .callback import CallbackList
from .checkpoint import Checkpoint, persist
from .controller import Controller
from .durability import Durability
from .errors import warn_program
from .journal import Journal
from .logger import formats_of, writes_events
from .records.files import FilesOfTrials
from .recovery import DECISIONS, decision_line
from .trial import Trial, TrialState
from .trial_results import missing_score, missing_time

__all__ = ["Recorder"]

# Trials with TensorBoard's events: TensorBoard itself takes minutes to open more runs than that.
EVENTS_TRIALS_MAX = 1000


class Recorder:
    """Records the events of trials.

    Args:
        controller: whose trials they are.
        callbacks: called with what happens.
        path: the experiment's folder.
        journal: what names the checkpoints, for their deletions.
    """

    def __init__(self, controller: Controller, callbacks: CallbackList, path: str, journal: Journal) -> None:
        self.controller, self.callbacks = controller, callbacks
        known = (saved.path for trial in controller.get_trials() for saved in trial.checkpoints)
        self.durability = Durability(journal, known)
        self.iteration = 0  # of the loop
        self._told_at = -1  # the iteration of the last result that was handed on
        self._files = FilesOfTrials(formats_of(callbacks.callbacks))
        self._files.events_max = EVENTS_TRIALS_MAX if writes_events(callbacks.callbacks) else 0
        self._kept: list[ev.Kept] = []  # checkpoints of which the callbacks do not know yet
        self._trials: list[Trial] = []  # what callbacks get; made anew when there are more
        self._has_explained = False
        self._has_looked_at_time = self._has_looked_at_score = False
        self._decisions = open(os.path.join(path, DECISIONS), "a", errors="backslashreplace")  # noqa: SIM115

    def handlers(self) -> dict[type, Any]:
        """Return the actions handled by the recorder."""
        return {
            ev.Copy: self.copy,
            ev.Delete: self.delete,
            ev.Kept: self.kept,
            ev.Logged: self.logged,
            ev.Ended: self.ended,
            ev.Explained: self.explained,
            ev.Added: self.added,
            ev.BegunAnew: self.begun_anew,
        }

    def write_parameters(self, trial: Trial) -> None:
        """Write the parameters of a trial anew."""
        self._files.of(trial).write_parameters()

    def flush(self) -> None:
        """Hand over to the operating system what is new."""
        self._files.flush()
        if self._has_explained:
            self._decisions.flush()
            self._has_explained = False

    def close(self) -> Exception | None:
        """Close all files.

        Returns:
            The error of a file that could not be written to its end.
        """
        self.durability.close()
        problem: Exception | None = None
        files: list[Any] = [*self._files.all(), self._decisions]
        for file in files:
            try:
                file.close()
            except OSError as error:
                problem = problem or error
        return problem

    def copy(self, action: ev.Copy) -> None:
        """Copy the folder of a checkpoint."""
        persist(action.source, action.target)

    def kept(self, action: ev.Kept) -> None:
        """Take a new checkpoint of the trial."""
        self._look_at_score(action)
        self._kept.append(action)
        self.durability.keep(action.path)

    def _look_at_score(self, action: ev.Kept) -> None:
        """Warn once if the first checkpoint with a result has no score; copies for other trials have none."""
        key = self.controller.settings.score_key
        if self._has_looked_at_score or not key:
            return
        self._has_looked_at_score = True
        for saved in self.controller.trials[action.trial_id].checkpoints:
            if saved.path == action.path and (words := missing_score(saved, key)):
                warn_program(words)

    def delete(self, action: ev.Delete) -> None:
        """Delete the folder of a checkpoint, when its replacement is on the disk."""
        self.durability.delete(action.path)

    def sealed(self, now: float) -> list[ev.Sealed]:
        """The events of checkpoints that the disk has."""
        found = self.durability.take_digests()
        if not found:
            return []
        folders = {trial.path: trial.trial_id for trial in self.controller.get_trials()}
        places = ((folders.get(os.path.dirname(path)), path, digest) for path, digest in found.items())
        return [ev.Sealed(now, trial_id, path, digest) for trial_id, path, digest in places if trial_id]

    def added(self, action: ev.Added) -> None:
        """Write the parameters of a new trial."""
        trial = self.controller.trials[action.trial_id]
        self._files.of(trial).add()

    def begun_anew(self, action: ev.BegunAnew) -> None:
        """Remove what is written of the former results of a trial."""
        self._files.of(self.controller.trials[action.trial_id]).begin_anew()

    def logged(self, action: ev.Logged) -> None:
        """Write a result, and tell the callbacks."""
        trial = self.controller.trials[action.trial_id]
        if not self._has_looked_at_time:
            self._has_looked_at_time = True
            if words := missing_time(action.result, self.controller.scheduler):
                warn_program(words)
        self._files.log(trial, action.result)
        if self._told_at == self.iteration:  # several results of one turn: each has an iteration of its own, as in Ray
            self.iteration += 1
        self._told_at = self.iteration
        self.notify("on_trial_result", trial, result=action.result)
        self.notify_kept()

    def notify_kept(self) -> None:
        """Report new checkpoints, after their results."""
        kept, self._kept = self._kept, []
        for action in kept:
            trial = self.controller.trials[action.trial_id]
            self.notify("on_trial_save", trial)
            self.notify("on_checkpoint", trial, checkpoint=Checkpoint(action.path))

    def ended(self, action: ev.Ended) -> None:
        """Write the end of a trial, and tell the callbacks."""
        trial = self.controller.trials[action.trial_id]
        files = self._files.end(trial)
        files.finish()
        self.notify("on_trial_error" if trial.state is TrialState.ERROR else "on_trial_complete", trial)

    def explained(self, action: ev.Explained) -> None:
        """Write a decision."""
        self._decisions.write(decision_line(action))
        self._has_explained = True
        if action.action == "RESTART":
            trial = self.controller.trials[action.trial_id]
            self._files.of(trial).write_error()
            self.notify("on_trial_recover", trial)

    def notify(self, name: str, trial: Trial, **arguments: Any) -> None:
        """Call a method of the callbacks about a trial."""
        if self.callbacks.methods(name):
            self.callbacks.call(name, iteration=self.iteration, trials=self._all_trials(), trial=trial, **arguments)

    def notify_step(self, name: str) -> None:
        """Call a method of the callbacks about a turn of the loop."""
        if self.callbacks.methods(name):
            self.callbacks.call(name, iteration=self.iteration, trials=self._all_trials())

    def _all_trials(self) -> list[Trial]:
        if len(self._trials) != len(self.controller.trials):
            self._trials = self.controller.get_trials()
        return self._trials
