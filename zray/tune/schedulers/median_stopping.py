"""The median stopping rule.

Golovin et al., "Google Vizier: A Service for Black-Box Optimization", KDD 2017, section 3.2.2: a trial is stopped at
step t if its best value up to t is worse than the median of the running averages, up to t, of all other trials that
have got as far.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ..decisions import PAUSE, STOP, Decision
from ..numbers import number, whole
from ..objective import LAST, number_of
from ..trial import Trial, value_of
from ..unknown import checks_names
from .spellings import OF_2018, with_reward_attr
from .trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["MedianStoppingRule"]


@checks_names("MedianStoppingRule", also=OF_2018)
class MedianStoppingRule(TrialScheduler):
    """The median rule: a trial stops whose best value is worse than the median of the others' running averages.

    Args:
        time_attr: the result's key that measures progress, as "time_total_s" (seconds) or "training_iteration".
        metric: the result's key that is compared; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        grace_period: progress before which no trial is stopped; earlier values are left out of the averages.
        min_samples_required: the number of other trials that have got as far.
        min_time_slice: progress of a trial between two looks.
        hard_stop: whether trials stop; False: trials pause, and go on when nothing else is to be run.

    Example:
        rule = MedianStoppingRule(time_attr="training_iteration", grace_period=5)
        tune.TuneConfig(metric="loss", mode="min", num_samples=20, scheduler=rule)
    """

    needs_metric = True
    resumes_paused = False

    @with_reward_attr
    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,
    ) -> None:
        number("grace_period", grace_period)
        number("min_time_slice", min_time_slice)
        min_samples_required = whole("min_samples_required", min_samples_required, 1)
        self.time_attr, self.metric, self.mode = time_attr, metric, mode
        self.grace_period, self.min_samples_required = grace_period, min_samples_required
        self.min_time_slice, self.hard_stop = min_time_slice, hard_stop
        # trial -> (t, sum of scores up to t) of each result; the averages of a trial never change afterwards
        self.sums: dict[str, list[tuple[float, float]]] = {}
        self.best: dict[str, float] = {}
        self.looked_at: dict[str, float] = {}
        self.num_stopped = 0

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Decision:
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        if t is None or score is None:
            return Decision()
        key = trial.trial_id
        self._record(key, t, score)
        if t < self.grace_period or t - self.looked_at.get(key, float("-inf")) < self.min_time_slice:
            return Decision()
        self.looked_at[key] = t
        averages = [
            average
            for other in self.sums
            if other != key and self.sums[other][-1][0] >= t and (average := self.running_average(other, t)) is not None
        ]
        if len(averages) < self.min_samples_required:
            return Decision()
        median = statistics.median(averages)
        if self.best[key] >= median:
            return Decision()
        self.num_stopped += 1
        best, others = self.best[key], f"the median of the averages of {len(averages)} trials"
        side = f"its best {self.metric} = {self.shown(best)} is worse than {self.shown(median)}, {others}"
        if best == LAST:
            side = f"no {self.metric} of it so far is a finite number, and {self.shown(median)} is {others}"
        reason = f"at {self.time_attr} {t:g} {side}"
        return Decision(STOP if self.hard_stop else PAUSE, reason)

    def _record(self, key: str, t: float, score: float) -> None:
        if t >= self.grace_period and score > LAST:  # NaN would make every later average NaN
            sums = self.sums.setdefault(key, [])
            sums.append((t, (sums[-1][1] if sums else 0.0) + score))
        self.best[key] = max(score, self.best.get(key, score))

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """The last result counts for the others, also where a stop criterion has ended the trial."""
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        sums = self.sums.get(trial.trial_id)
        if t is not None and score is not None and not (sums and sums[-1][0] >= t):
            self._record(trial.trial_id, t, score)

    def running_average(self, trial_id: str, t: float) -> float | None:
        """The average of a trial's scores up to t; None: it has none."""
        from bisect import bisect_right

        sums = self.sums[trial_id]
        count = bisect_right(sums, (t, float("inf")))
        return sums[count - 1][1] / count if count else None

    def on_idle(self, controller: Controller) -> None:
        for trial in controller.get_trials():
            controller.unpause(trial, "no other trial runs")

    def debug_string(self) -> str:
        return f"Using MedianStoppingRule: {self.num_stopped} stopped."
