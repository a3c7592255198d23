"""An experiment in virtual time: the controller, with curves in place of processes.

The same scheduler, searcher and stop criteria decide about recorded or computed curves.  An hour of training takes
milliseconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import events as ev
from .controller import Controller
from .trial import Trial

__all__ = ["Point", "VirtualRun"]


class Point(NamedTuple):
    """A result of a curve.

    metrics: as the trial reports them.  seconds: since the result before.  has_checkpoint: whether the trial reports
    one with it.
    """

    metrics: dict[str, Any]
    seconds: float
    has_checkpoint: bool = False


Curve = Callable[[Trial], Sequence[Point]]


class VirtualRun:
    """A controller driven in virtual time.

    Args:
        controller: what decides.
        curve: the results of a trial, in order; the trial finishes behind the last one.
        capacity: trials at once.
        start_seconds: from the start of a trial, or of its next part, to the begin of its training.
        can_save: whether trials write checkpoints when they are asked to; otherwise a paused trial begins again from
            the last checkpoint that it has reported.
    """

    def __init__(
        self,
        controller: Controller,
        curve: Curve,
        capacity: int,
        start_seconds: float = 0.0,
        *,
        can_save: bool = True,
    ) -> None:
        self.controller, self.curve, self.capacity, self.start_seconds = controller, curve, capacity, start_seconds
        self.can_save = can_save
        self.now = 0.0
        self.decisions: list[ev.Explained] = []
        self.results: list[ev.Logged] = []
        self.steps = 0  # results that were computed
        self.busy_seconds = 0.0
        self._queue: list[tuple[float, int, Any]] = []
        self._count = 0
        self._curves: dict[str, Sequence[Point]] = {}
        self._place: dict[str, int] = {}
        self._total_s: dict[str, float] = {}

    def run(self, max_events: int = 10_000_000) -> float:
        """Run to the end.

        Returns:
            The virtual time at the end, in seconds.

        Raises:
            RuntimeError: nothing happens any more, and trials have not ended.
        """
        self._handle(ev.Capacity(1e-9, self.capacity))
        for _ in range(max_events):
            if not self._queue:
                break
            self.now, _, event = heapq.heappop(self._queue)
            self._handle(event)
        if not self.controller.is_done:
            states = {str(trial): str(trial.state) for trial in self.controller.live_trials()}
            raise RuntimeError(f"The experiment does not end: {states}.")
        return self.now

    def _push(self, delay: float, event: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, event))

    def _handle(self, event: Any) -> None:
        controller = self.controller
        controller.handle(event)
        while controller.actions:
            actions, controller.actions = controller.actions, []
            for action in actions:
                self._act(action)

    def _act(self, action: Any) -> None:
        if isinstance(action, ev.Start):
            trial = self.controller.trials[action.trial_id]
            self._curves.setdefault(action.trial_id, self.curve(trial))
            kept = trial.saved
            self._place[action.trial_id] = kept.iteration if kept is not None else 0
            self._total_s[action.trial_id] = kept.time_total_s if kept is not None else 0.0
            self._step(action.trial_id, self.start_seconds)
        elif isinstance(action, ev.Proceed):
            if action.save and self.can_save:
                self._save(action.trial_id)
            self._step(action.trial_id, 0.0)
        elif isinstance(action, ev.Halt):
            self._queue = [item for item in self._queue if getattr(item[2], "trial_id", "") != action.trial_id]
            heapq.heapify(self._queue)
            place = self._place[action.trial_id]
            path = f"{action.trial_id}/{place}" if action.save and self.can_save else ""
            self._push(0.0, ev.Halted(self.now, action.trial_id, place, path))
        elif isinstance(action, ev.Explained):
            self.decisions.append(action)
        elif isinstance(action, ev.Logged):
            self.results.append(action)

    def _save(self, trial_id: str) -> None:
        place = self._place[trial_id]
        self._push(0.0, ev.Saved(self.now, trial_id, place, f"{trial_id}/{place}"))

    def _step(self, trial_id: str, delay: float) -> None:
        curve, place = self._curves[trial_id], self._place[trial_id]
        if place >= len(curve):
            self._push(delay, ev.Finished(self.now + delay, trial_id))
            return
        point = curve[place]
        self._place[trial_id] = place + 1
        self._total_s[trial_id] += point.seconds
        self.steps += 1
        self.busy_seconds += delay + point.seconds
        at = self.now + delay + point.seconds
        total, path = self._total_s[trial_id], f"{trial_id}/{place + 1}" if point.has_checkpoint else ""
        report = ev.Report(at, trial_id, place + 1, point.metrics, point.seconds, total, path)
        self._push(delay + point.seconds, report)
