"""The base of the schedulers: which trial goes on, pauses, stops, and which one starts next.

A scheduler is pure: it reads results and decides.  No clock, no file, no randomness without a seed.  The controller is
handed in; `controller.trials` has all trials in order, and these methods act on others than the one that reported:

    controller.stop_trial(trial, reason)                  a paused or running trial ends
    controller.unpause(trial, reason)                     a paused trial may start again
    controller.exploit(trial, source, config, reason)     a trial goes on from another one's checkpoint

Subclasses that were written for Ray work: a decision may be plain text, and a paused trial may be chosen to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..decisions import CONTINUE, NOOP, PAUSE, STOP, Decision
from ..metrics import text_of
from ..objective import LAST, Objective
from ..storage import write_aside
from ..trial import Trial, value_of

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["FIFOScheduler", "TrialScheduler"]


class TrialScheduler:
    """The base of schedulers; subclasses override what they need.

    Example:
        class Patience(tune.schedulers.TrialScheduler):
            def on_trial_result(self, controller, trial, result):
                return self.STOP if result["loss"] > 10 else self.CONTINUE
    """

    CONTINUE, PAUSE, STOP, NOOP = CONTINUE, PAUSE, STOP, NOOP

    # Whether an experiment without a metric is an error.
    needs_metric = False
    # Whether paused trials go on by themselves when no new one can begin; otherwise the scheduler unpauses them.
    resumes_paused = True
    # Subclasses that were written for Ray set these two.
    _metric: str | None = None
    _mode: str | None = None

    @property
    def metric(self) -> str | None:
        """The result's key that is compared."""
        return self._metric

    @metric.setter
    def metric(self, metric: str | None) -> None:
        self._metric = metric

    @property
    def mode(self) -> str | None:
        """ "min" or "max"."""
        return self._mode

    @mode.setter
    def mode(self, mode: str | None) -> None:
        self._mode = mode

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take the experiment's metric and mode, unless the scheduler has its own.

        Returns:
            False: it has others.
        """
        if (self.metric and metric and metric != self.metric) or (self.mode and mode and mode != self.mode):
            return False
        self.metric, self.mode = self.metric or metric, self.mode or mode
        return True

    def require_metric(self) -> None:
        """Check that metric and mode are given.

        Raises:
            ValueError: one is missing.
        """
        name = type(self).__name__
        if not self.metric or self.mode not in ("min", "max"):
            raise ValueError(
                f'{name} needs a metric and a mode: pass metric="loss", mode="min" (or "max") to TuneConfig, to '
                f"tune.run or to {name}; now they are {self.metric!r} and {self.mode!r}."
            )

    def score(self, result: dict[str, Any]) -> float | None:
        """The metric of a result, where larger is better; None: the result does not have it.

        NaN and infinite values have the least score in both modes.
        """
        return self.objective.score(result)

    @property
    def objective(self) -> Objective:
        """The comparison of results."""
        return Objective(self.metric or "", self.mode)

    def shown(self, score: float) -> str:
        """A score as the value of the metric, for a reason."""
        return f"{self.objective.sign * score:.6g}" if score > LAST else "no finite number"

    def value_in_words(self, score: float, result: dict[str, Any]) -> str:
        """Return a score with the metric's name, as the subject of a sentence; `result` is where the score is from."""
        if score > LAST:
            return f"{self.metric} = {self.shown(score)}"
        return f"{self.metric} = {text_of(value_of(result, str(self.metric))):.40}, which is no finite number,"

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        """Take a new trial.

        Args:
            controller: of the experiment; `controller.trials` has all trials, in order.
            trial: the new one.
        """

    def on_trial_saved(self, controller: Controller, trial: Trial) -> None:
        """Take note of a checkpoint that a trial was asked for: `trial.saved`."""

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Decision | str:
        """Decide about a running trial after a result.

        Args:
            controller: of the experiment, through which others than this trial may be stopped or go on.
            trial: the trial.
            result: its metrics.

        Returns:
            CONTINUE, PAUSE or STOP, as text; or a `Decision`, with a reason.
        """
        return Decision()

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """Learn from a trial that has ended by itself or by a stop criterion.

        Args:
            controller: of the experiment.
            trial: the trial.
            result: its last result.
        """

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        """A trial has failed for good."""

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        """A trial that was not running has ended."""

    def on_idle(self, controller: Controller) -> None:
        """No trial runs and none can start: paused trials must be stopped or go on."""

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        """Choose the trial to start next; called when resources for a trial are free.

        Args:
            controller: of the experiment.

        Returns:
            A trial in state PENDING; a paused one, where no new one can begin; None: a new one.
        """
        trial = next(iter(controller.pending()), None)
        has_no_new = controller.has_no_new or controller.settings.num_samples < 0  # else paused ones would never go on
        if trial is None and has_no_new and self.resumes_paused:
            trial = next(iter(controller.resumable()), None)
        return trial

    def takes_new(self, controller: Controller) -> bool:
        """Whether a new trial may begin, after `choose_trial_to_run` has chosen none."""
        return True

    def first_values(self, config: dict[str, Any], index: int) -> dict[str, Any]:
        """Return values, by their path as "a/b", of parameters missing in a new trial's configuration."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file, which only the user may read."""
        import cloudpickle

        write_aside(checkpoint_path, cloudpickle.dumps(self.__dict__), 0o600)

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file of `save`."""
        import cloudpickle

        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(cloudpickle.load(file))

    def debug_string(self) -> str:
        """A line for the status."""
        return f"Using {type(self).__name__}."


class FIFOScheduler(TrialScheduler):
    """First in, first out: trials run in order, to their end.  The default."""
