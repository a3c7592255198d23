"""Additions to the last line of an experiment: the last returns of RLlib's trials, and the cost of their starts."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from ..objective import number_of
from ..result import EPISODE_REWARD_MEAN
from ..trial import Trial, value_of
from .rows import cell

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["hint_on_starts", "last_returns"]

# Returns that a line lists; of more trials, the least and the largest.
RETURNS_MAX = 4
# Where the first result of a trial takes so much longer than later ones, and there are so many trials, a hint helps.
START_SECONDS = 2.0
TRIALS_MIN = 4


def last_returns(controller: Controller) -> str:
    """The last mean returns, where the experiment names no metric and its trials are RLlib's; else empty."""
    if controller.settings.metric:
        return ""
    found = [trial.latest_result for trial in controller.get_trials()]
    returns = [value for result in found if (value := number_of(value_of(result, EPISODE_REWARD_MEAN))) is not None]
    if not returns:
        return ""
    values = returns if len(returns) <= RETURNS_MAX else [min(returns), max(returns)]
    words = (" to " if len(returns) > RETURNS_MAX else ", ").join(cell(value) for value in values)
    steps = [value for result in found if (value := number_of(result.get("timesteps_total"))) is not None]
    return f"last return{'s' * (len(returns) > 1)} {words}" + (f" after {max(steps):,.0f} steps" if steps else "")


def hint_on_starts(controller: Controller) -> str:
    """A hint where new processes of trials have taken longer than their work; else empty."""
    trials = controller.get_trials()
    pids = {facts.get("pid") for facts in controller.facts.values()}
    if len(trials) < TRIALS_MIN or len(pids) < len(controller.facts) or controller.capacity >= len(trials):
        return ""  # few; processes are reused; or each trial has had its process at once
    costs = [cost for trial in trials if (cost := _cost(trial)) is not None]
    if len(costs) < TRIALS_MIN or (seconds := median(costs)) < START_SECONDS:
        return ""
    return (
        f"The first result of a trial took some {seconds:.0f} s more than a later one, mostly for the imports of a new "
        "process: reuse_actors=True in TuneConfig runs trials one after the other in the same processes."
    )


def _cost(trial: Trial) -> float | None:
    """Return a trial's seconds beyond its steps, if the steps take less; None: not known."""
    step = number_of(trial.last_result.get("time_this_iter_s"))
    total = number_of(trial.last_result.get("time_total_s"))
    if step is None or total is None or trial.iteration < 3:
        return None
    cost = total - step * trial.iteration
    return cost if cost > step * trial.iteration else 0.0
