"""The best trial of a controller, and the attributes used by schedulers written for Ray."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .objective import Objective
from .trial import Trial, TrialState

if TYPE_CHECKING:
    from .controller import Controller

__all__ = ["ControllerNames"]


class ControllerNames:
    """The best trial, and Ray's names of the controller's methods."""

    def get_trial(self: Controller, trial_id: str) -> Trial:  # type: ignore[misc]
        """A trial by its id."""
        return self.trials[trial_id]

    def get_trials(self: Controller) -> list[Trial]:  # type: ignore[misc]
        """All trials, in the order of their creation."""
        return list(self.trials.values())

    def live_trials(self: Controller) -> list[Trial]:  # type: ignore[misc]
        """The trials that have not ended."""
        return [*self.running.values(), *self.waiting.values(), *self.paused.values()]

    def resumable(self: Controller) -> Iterator[Trial]:  # type: ignore[misc]
        """Return the paused trials with stopped processes, in the order of their creation."""
        found = (trial for trial in self.paused.values() if trial.trial_id not in self.halting)
        return iter(sorted(found, key=lambda trial: trial.index))

    @property
    def places(self: Controller) -> int:  # type: ignore[misc]
        """The number of trials that may run at once."""
        return self._limit()

    def get_live_trials(self: Controller) -> list[Trial]:  # type: ignore[misc]
        """The trials that have not ended."""
        return self.live_trials()

    def has_resources_for_trial(self: Controller, trial: Trial) -> bool:  # type: ignore[misc]
        """Whether a trial could start now."""
        return len(self.running) + len(self.halting) < self._limit()

    def pause_trial(self: Controller, trial: Trial, should_checkpoint: bool = True) -> None:  # type: ignore[misc]
        """Pause a running trial other than the trial of the current result."""
        if trial.state is TrialState.RUNNING and trial.trial_id not in self.halting:
            self._halt(trial, "pause", save=should_checkpoint and not trial.has_newest)
            self._move(trial, TrialState.PAUSED)

    def chosen_trial(self: Controller) -> Trial | None:  # type: ignore[misc]
        """Return the trial that the scheduler wants to run, if possible; a paused trial continues."""
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is None or trial.trial_id in self.halting:
            return None
        if trial.state is TrialState.PAUSED:
            trial.reason = ""
            self._move(trial, TrialState.PENDING)
        return trial if trial.state is TrialState.PENDING else None

    def note_best(self: Controller, trial: Trial, result: dict[str, Any]) -> None:  # type: ignore[misc]
        """Update the best trial after a result."""
        objective = self.objective
        if objective is None:
            return
        value = objective.finite(result)
        if value is None:
            return  # NaN, infinite values and no values are never the best
        sign = objective.sign
        if trial.best is None or sign * value > sign * trial.best:
            trial.best = value
        ever = self.best_ever
        if ever is None or ever.best is None or sign * trial.best > sign * ever.best:
            self.best_ever: Trial | None = trial

    @property
    def objective(self: Controller) -> Objective | None:  # type: ignore[misc]
        """The objective of the experiment; None: the experiment names no single metric."""
        metric, mode = self.settings.metric, self.settings.mode
        return Objective(metric, mode) if isinstance(metric, str) and metric else None

    @property
    def best(self: Controller) -> Trial | None:  # type: ignore[misc]
        """The trial whose last value of the metric is the best; None: no trial has the metric."""
        objective = self.objective
        if objective is None:
            return None
        return objective.best((objective.value(trial.latest_result), trial) for trial in self.trials.values())
