"""The reasons why trials wait, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .trial import Trial, TrialState, headline

if TYPE_CHECKING:
    from .controller import Controller

__all__ = ["reason_of", "state_in_words", "why_waiting"]


def why_waiting(controller: Controller, trial: Trial) -> str:
    """The reason for which a trial waits; empty: the trial does not wait."""
    key = trial.trial_id
    if trial.state is TrialState.RUNNING:
        if controller.waits.get(key):
            return controller.waits[key]
        return "" if key in controller.facts else "its process starts"
    if trial.state is TrialState.PAUSED:
        return trial.reason or "the scheduler has paused it"
    if trial.state is not TrialState.PENDING:
        return ""
    if key in controller.halting:
        return "its process has not stopped yet"
    if controller.capacity == 0:
        return "no node has room for a trial"
    limit, taken = controller._limit(), len(controller.running) + len(controller.halting)
    if taken < limit:
        return "it starts next"
    bound = "max_concurrent_trials" if limit < controller.capacity else "the resources"
    return f"{taken} other trials run, and {bound} allow{'s' * (bound[0] == 'm')} {limit}"


def state_in_words(controller: Controller, trial: Trial) -> str:
    """The state of a trial in one sentence."""
    why = why_waiting(controller, trial)
    done = f"after {trial.iteration} results" if trial.iteration else "without a result"
    if trial.state is TrialState.RUNNING and not why:
        return f"RUNNING, {done}."
    if trial.state is TrialState.TERMINATED:
        return f"TERMINATED {done}" + (f": {trial.reason}." if trial.reason else ": it has come to its end.")
    if trial.state is TrialState.ERROR:
        return f"ERROR {done}: {headline(trial.error)}"
    return f"{trial.state.value} {done}: {why}."


def reason_of(message: str) -> str:
    """The reason in the error of a `get` for the first answer of a trial's process; empty: it runs."""
    lines = [line.strip() for line in message.splitlines()[1:] if line.strip()]
    if not lines or " waits " not in lines[0]:
        return ""
    kept = lines[1:] or [lines[0].partition(": ")[2]]  # the first one names the call, which is ours
    return ", ".join(kept).replace("actor TrialActor waits", "its process waits")
