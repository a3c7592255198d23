"""ASHA: asynchronous successive halving.

Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020 (arXiv 1810.05934), in its symbols:

    r      minimum resource of a trial            grace_period
    R      maximum resource of a trial            max_t
    eta    reduction factor                       reduction_factor
    s      minimum early-stopping rate            one bracket for each s
    rung k  the trials that have reached resource r eta^(s + k)

Two variants decide at a rung.

    promotion   Algorithm 2 of the paper: a trial pauses at its rung; whenever a worker is free, the best unpromoted
                trial of the top 1/eta of a rung goes on to the next rung, the highest rung first; else a new one begins
    stopping    the variant of Ray: a trial goes on at once if it is in the top 1/eta of those that have reached the
                rung before it, and stops otherwise; it needs no checkpoints
"""

from __future__ import annotations

import bisect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..decisions import CONTINUE, PAUSE, STOP, Decision
from ..numbers import FINITE, number, whole
from ..objective import LAST, number_of
from ..trial import Trial, TrialState, value_of
from ..unknown import checks_names
from .spellings import OF_2018, with_reward_attr
from .trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["ASHAScheduler", "AsyncHyperBandScheduler"]


class Rung:
    """The trials at or beyond a resource, with their scores."""

    def __init__(self, resource: float) -> None:
        self.resource = resource
        self.scores: dict[str, float] = {}
        self.promoted: set[str] = set()
        # (-score, number, trial), so that the best comes first; a score that is no number comes last.  A result then
        # costs the same among 10 trials and among 10,000.
        self.ranked: list[tuple[float, int, str]] = []
        self.without_score = 0

    def add(self, trial_id: str, score: float) -> None:
        """A trial has reached the resource."""
        is_number = score > LAST
        self.without_score += not is_number
        bisect.insort(self.ranked, (-score if is_number else math.inf, len(self.scores), trial_id))
        self.scores[trial_id] = score

    def cut(self, eta: float) -> float | None:
        """Return the score of the top 1/eta, the (1 - 1/eta) quantile; None: the rung is empty."""
        count = len(self.ranked) - self.without_score
        if not count:
            return None
        place = round((1 - 1 / eta) * (count - 1), 9)  # a third of three is one
        below = math.floor(place)
        low, high = (-self.ranked[count - 1 - min(below + k, count - 1)][0] for k in (0, 1))
        return low + (high - low) * (place - below) if place > below and high > low else low

    def promotable(self, eta: float) -> list[str]:
        """The trials of the top 1/eta that are not promoted, the best first."""
        best = self.ranked[: int(len(self.ranked) / eta)]
        return [trial_id for _, _, trial_id in best if trial_id not in self.promoted]


class Bracket:
    """The rungs of one early-stopping rate s, the lowest first."""

    def __init__(self, r: float, R: float, eta: float, s: int) -> None:
        count = int(math.log(R / r) / math.log(eta) - s + 1 + 1e-9)
        self.rungs = [Rung(r * eta ** (k + s)) for k in range(max(count, 1))]
        # The end of a trial is at R: a rung there decides nothing.
        self.rungs = [rung for rung in self.rungs if rung.resource < R] or self.rungs[:1]


@checks_names("ASHAScheduler", also=OF_2018)
class AsyncHyperBandScheduler(TrialScheduler):
    """Asynchronous successive halving: a trial that is not among the best at a rung stops, or pauses.

    Args:
        time_attr: the result's key that measures the resource: a number that grows, as "training_iteration".
        metric: the result's key that is compared; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        max_t: R: the resource at which a trial ends, in units of time_attr.
        grace_period: r: the resource of the first rung, before which no trial is stopped.
        reduction_factor: eta: one of so many trials goes on at a rung; the resource of rungs grows by this factor.
        brackets: the number of values of s, over which trials are spread; the first rung of each is eta times later.
        stop_last_trials: whether trials end at max_t.
        type: "stopping": a trial stops at once, as in Ray; "promotion": trials pause, as in the paper.

    Raises:
        ValueError: a number is out of its range, or the type is another word.

    Example:
        scheduler = ASHAScheduler(max_t=100, grace_period=5, reduction_factor=3)
        tune.TuneConfig(metric="loss", mode="min", num_samples=50, scheduler=scheduler)
    """

    needs_metric = True
    resumes_paused = False

    @with_reward_attr
    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
        type: str = "stopping",
    ) -> None:
        number("max_t", max_t, most=FINITE, is_above=True)
        number("grace_period", grace_period, is_above=True)
        number("reduction_factor", reduction_factor, 1.0, FINITE, is_above=True)
        brackets = whole("brackets", brackets, 1)
        if max_t < grace_period:
            raise ValueError(f"grace_period lies between 0 and max_t: {grace_period} and {max_t} do not fit.")
        if type not in ("stopping", "promotion"):
            raise ValueError(f'type is "stopping" or "promotion", not {type!r}.')
        self.time_attr, self.metric, self.mode = time_attr, metric, mode
        self.r, self.R, self.eta = grace_period, max_t, reduction_factor
        self.is_promotion, self.stop_last_trials = type == "promotion", stop_last_trials
        self.brackets = [Bracket(self.r, self.R, self.eta, s) for s in range(brackets)]
        self.bracket_of: dict[str, Bracket] = {}
        self.num_stopped = 0

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        # Lower s, more trials: in proportion to the number of rungs that the halving goes through.
        weights = np.array([self.eta ** len(bracket.rungs) for bracket in self.brackets], dtype=float)
        rng = np.random.default_rng([len(self.brackets), trial.index])
        place = int(rng.choice(len(self.brackets), p=weights / weights.sum()))
        self.bracket_of[trial.trial_id] = self.brackets[place]

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Decision:
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        if t is None or score is None:
            return Decision()
        if t >= self.R and self.stop_last_trials:
            self._record(trial, t, score)
            return Decision(STOP, f"{self.time_attr} = {t:g} has reached max_t = {self.R:g}")
        rung = self._record(trial, t, score)
        if rung is None:
            return Decision()
        if self.is_promotion:
            return Decision(PAUSE, f"it waits in the rung of {rung.resource:g} with {len(rung.scores)} trials")
        return self._stop_or_go(result, rung, t, score)

    def _record(self, trial: Trial, t: float, score: float) -> Rung | None:
        """Enter a trial in the highest newly reached rung; None: in none."""
        for rung in reversed(self.bracket_of[trial.trial_id].rungs):
            if t >= rung.resource:
                if trial.trial_id in rung.scores:
                    return None
                self._cut = rung.cut(self.eta)  # of those before it
                rung.add(trial.trial_id, score)
                return rung
        return None

    _cut: float | None = None

    def _stop_or_go(self, result: dict[str, Any], rung: Rung, t: float, score: float) -> Decision:
        where = f"the rung of {rung.resource:g} with {len(rung.scores)} trials"
        if self._cut is None or score >= self._cut:
            none = "it is the first" if len(rung.scores) == 1 else "no trial before it has a finite number"
            cut = none if self._cut is None else f"the cut is {self.shown(self._cut)}"
            return Decision(CONTINUE, f"{self.value_in_words(score, result)} passes {where}: {cut}")
        self.num_stopped += 1
        side = "behind" if score == LAST else "above" if self.mode == "min" else "below"
        return Decision(
            STOP,
            f"stopped at {self.time_attr} {t:g}: {self.value_in_words(score, result)} is {side} "
            f"{self.shown(self._cut)}, the cut of {where}",
        )

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        """The last result counts in its rung, also where a stop criterion has ended the trial."""
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        if t is not None and score is not None:
            self._record(trial, t, score)

    # --- promotion ---

    def choose_trial_to_run(self, controller: Controller) -> Trial | None:
        if self.is_promotion:
            self._promote(controller)
        return super().choose_trial_to_run(controller)

    def _promote(self, controller: Controller) -> None:
        """get_job of Algorithm 2, before a new trial begins."""
        if next(iter(controller.pending()), None) is not None:
            return
        for bracket in self.brackets:
            for rung in reversed(bracket.rungs):
                for trial_id in rung.promotable(self.eta):
                    trial = controller.get_trial(trial_id)
                    rung.promoted.add(trial_id)
                    if trial.state is TrialState.PAUSED:
                        count, size = int(len(rung.scores) / self.eta), len(rung.scores)
                        controller.unpause(trial, f"promoted: top {count} of {size} in the rung of {rung.resource:g}")
                        return

    def debug_string(self) -> str:
        rungs = [
            f"{rung.resource:g}: {len(rung.scores)}" for bracket in self.brackets for rung in reversed(bracket.rungs)
        ]
        kind = "promotion" if self.is_promotion else "stopping"
        return f"Using ASHA ({kind}): trials in the rungs {', '.join(rungs)}; {self.num_stopped} stopped."


ASHAScheduler = AsyncHyperBandScheduler
