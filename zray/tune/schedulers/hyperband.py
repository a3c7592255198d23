"""HyperBand: brackets of successive halving, from many short trials to few long ones.

Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization", JMLR 18 (2018), Algorithm 1:

    R      the most resource of a trial                         max_t
    eta    the reduction factor                                 reduction_factor
    s_max  floor(log_eta R);  B = (s_max + 1) R
    for s = s_max, ..., 0:
        n = ceil((B / R) eta^s / (s + 1)),  r = R eta^-s
        for i = 0, ..., s:
            run the n_i = floor(n eta^-i) trials until resource r_i = r eta^i
            keep the best floor(n_i / eta)

The resources r_i are totals: a trial that is kept goes on from r_i to r_(i+1).  With R = 81 and eta = 3 the brackets
have 81, 34, 15, 8 and 5 trials, by the formula; the tables in the paper and in Ray's blog print 81, 27, 9, 6 and 5.

Trials fill the brackets in order; after the last bracket another round begins.  A trial waits at r_i, paused, until all
trials of its bracket are there.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..decisions import PAUSE, STOP, Decision
from ..numbers import FINITE, number
from ..objective import number_of
from ..trial import Trial, value_of
from ..unknown import checks_names
from .spellings import OF_2018, with_reward_attr
from .trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["HyperBandScheduler"]


class Bracket:
    """A run of successive halving."""

    def __init__(self, s: int, n: int, r: float, R: float, eta: float) -> None:
        self.s, self.n, self.R, self.eta = s, n, R, eta
        self.resources = [min(r * eta**i, R) for i in range(s + 1)]
        self.i = 0
        self.count = 0  # trials that have been added
        self.live: dict[str, Trial] = {}
        self.scores: dict[str, float] = {}  # of the trials that have reached r_i

    @property
    def is_full(self) -> bool:
        """Whether n trials have been added."""
        return self.count >= self.n

    @property
    def resource(self) -> float:
        """r_i."""
        return self.resources[self.i]

    @property
    def has_all(self) -> bool:
        """Whether all live trials have reached r_i."""
        return all(trial_id in self.scores for trial_id in self.live)


def table(R: float, eta: float) -> list[tuple[int, int, float]]:
    """(s, n, r) of each bracket of a round."""
    s_max = int(math.log(R) / math.log(eta) + 1e-9)
    return [(s, math.ceil((s_max + 1) * eta**s / (s + 1)), R * eta**-s) for s in range(s_max, -1, -1)]


@checks_names("HyperBandScheduler", also=OF_2018)
class HyperBandScheduler(TrialScheduler):
    """Synchronous HyperBand: trials of a bracket wait for one another, and the best ones go on.

    Args:
        time_attr: the result's key that measures the resource: a number that grows, as "training_iteration".
        metric: the result's key that is compared; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        max_t: R: the resource at which a trial ends, in units of time_attr.
        reduction_factor: eta: one of so many trials of a bracket goes on.
        stop_last_trials: whether trials end at max_t.

    Raises:
        ValueError: a number is out of its range.

    Example:
        tune.TuneConfig(metric="loss", mode="min", num_samples=81, scheduler=HyperBandScheduler(max_t=81))
    """

    needs_metric = True
    resumes_paused = False

    @with_reward_attr
    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        number("max_t", max_t, 1.0, FINITE)
        number("reduction_factor", reduction_factor, 1.0, FINITE, is_above=True)
        self.time_attr, self.metric, self.mode = time_attr, metric, mode
        self.R, self.eta, self.stop_last_trials = max_t, reduction_factor, stop_last_trials
        self.brackets: list[Bracket] = []
        self.bracket_of: dict[str, Bracket] = {}

    def on_trial_add(self, controller: Controller, trial: Trial) -> None:
        if not self.brackets or self.brackets[-1].is_full:
            rows = table(self.R, self.eta)
            s, n, r = rows[len(self.brackets) % len(rows)]
            self.brackets.append(Bracket(s, n, r, self.R, self.eta))
        bracket = self.brackets[-1]
        bracket.count += 1
        bracket.live[trial.trial_id] = trial
        self.bracket_of[trial.trial_id] = bracket

    def on_trial_result(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> Decision:
        bracket = self.bracket_of[trial.trial_id]
        t, score = number_of(value_of(result, self.time_attr)), self.score(result)
        if t is None or score is None or t < bracket.resource:
            return Decision()
        if t >= self.R and self.stop_last_trials:
            self._leave(controller, trial)
            return Decision(STOP, f"{self.time_attr} = {t:g} has reached max_t = {self.R:g}")
        if bracket.i == bracket.s:
            return Decision()
        bracket.scores[trial.trial_id] = score
        if bracket.is_full and bracket.has_all:
            is_kept = self._halve(controller, bracket, trial)
            if not is_kept:
                return Decision(STOP, self._reason(bracket, trial))
            return Decision(reason=f"kept: among the best of bracket {bracket.s}, goes on to {bracket.resource:g}")
        waiting = len(bracket.live) - len(bracket.scores)
        more = "" if bracket.is_full else f", and {bracket.n - bracket.count} more are to begin"
        return Decision(
            PAUSE, f"it has reached {bracket.resource:g} in bracket {bracket.s}: {waiting} others have not{more}"
        )

    def _halve(self, controller: Controller, bracket: Bracket, reporting: Trial | None = None) -> bool:
        """Keep the best, stop the others; whether the trial that reports is kept."""
        n_i = math.floor(bracket.n * self.eta**-bracket.i) if bracket.is_full else len(bracket.live)
        count = max(1, math.floor(min(n_i, len(bracket.live)) / self.eta))
        ranked = sorted(bracket.live.values(), key=lambda trial: -bracket.scores[trial.trial_id])
        kept, dropped = ranked[:count], ranked[count:]
        self._cut = (bracket.scores[kept[-1].trial_id], count, len(ranked), bracket.resource)
        bracket.i += 1
        bracket.scores = {}
        for trial in dropped:
            del bracket.live[trial.trial_id]
            if trial is not reporting:
                controller.stop_trial(trial, self._reason(bracket, trial))
        for trial in kept:
            if trial is not reporting:
                controller.unpause(trial, f"kept: among the best {count} of {len(ranked)} at {self._cut[3]:g}")
        return reporting is None or reporting in kept

    _cut: tuple[float, int, int, float] = (0.0, 0, 0, 0.0)

    def _reason(self, bracket: Bracket, trial: Trial) -> str:
        cut, count, size, resource = self._cut
        score = self.score(trial.last_result)
        value = f"{self.metric} = missing" if score is None else self.value_in_words(score, trial.last_result)
        return (
            f"stopped at {self.time_attr} {resource:g}: {value} is not among the best {count} of "
            f"{size} in bracket {bracket.s}, whose last has {self.shown(cut)}"
        )

    def _leave(self, controller: Controller, trial: Trial) -> None:
        """Remove a trial from its bracket: the others may have waited only for that trial."""
        bracket = self.bracket_of[trial.trial_id]
        bracket.live.pop(trial.trial_id, None)
        bracket.scores.pop(trial.trial_id, None)
        if bracket.is_full and bracket.live and bracket.has_all and bracket.i < bracket.s:
            self._halve(controller, bracket)

    def on_trial_complete(self, controller: Controller, trial: Trial, result: dict[str, Any]) -> None:
        self._leave(controller, trial)

    def on_trial_error(self, controller: Controller, trial: Trial) -> None:
        self._leave(controller, trial)

    def on_trial_remove(self, controller: Controller, trial: Trial) -> None:
        self._leave(controller, trial)

    def on_idle(self, controller: Controller) -> None:
        """Continue brackets with their present trials: no more trials come, or none before others have ended."""
        for bracket in self.brackets:
            bracket.n = bracket.count
            if bracket.live and bracket.scores and bracket.has_all and bracket.i < bracket.s:
                self._halve(controller, bracket)

    def debug_string(self) -> str:
        parts = [f"s={each.s}: {len(each.live)} of {each.n} live, at {each.resource:g}" for each in self.brackets]
        return f"Using HyperBand: {'; '.join(parts)}."
