"""What schedulers that were written for Ray ask of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .trial import Trial, TrialState

if TYPE_CHECKING:
    from .controller import Controller

__all__ = ["ControllerNames"]


class ControllerNames:
    """Ray's names of the controller's methods."""

    def get_live_trials(self: Controller) -> list[Trial]:  # type: ignore[misc]
        """The trials that have not ended."""
        return self.live_trials()

    def has_resources_for_trial(self: Controller, trial: Trial) -> bool:  # type: ignore[misc]
        """Whether a trial could start now."""
        return len(self.running) + len(self.halting) < self._limit()

    def pause_trial(self: Controller, trial: Trial, should_checkpoint: bool = True) -> None:  # type: ignore[misc]
        """Pause a running trial that is not the one whose result is being handled."""
        if trial.state is TrialState.RUNNING and trial.trial_id not in self.halting:
            self._halt(trial, "pause", save=should_checkpoint and not trial.has_newest)
            self._move(trial, TrialState.PAUSED)

    def chosen_trial(self: Controller) -> Trial | None:  # type: ignore[misc]
        """The trial that the scheduler wants to run, if it can start; a paused one goes on."""
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is None or trial.trial_id in self.halting:
            return None
        if trial.state is TrialState.PAUSED:
            self._move(trial, TrialState.PENDING)
        return trial if trial.state is TrialState.PENDING else None
