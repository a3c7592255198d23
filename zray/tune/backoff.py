"""Trials that fail again and again without a result: each further start waits longer.

The first restarts are at once.  A fault that does not go away costs a start a minute, and not twenty a second.
"""

from __future__ import annotations

from .trial import Trial, TrialState

__all__ = ["failed", "has_failed_last", "progressed"]

AT_ONCE = 3  # restarts in a row without a wait
SECONDS_MAX = 60.0


def failed(trial: Trial, now: float) -> float:
    """Note a failure behind which the trial starts again; the seconds that it waits for."""
    trial.failures_in_a_row += 1
    further = trial.failures_in_a_row - AT_ONCE
    seconds = min(2.0 ** min(further - 1, 10), SECONDS_MAX) if further > 0 else 0.0
    trial.not_before = now + seconds
    return seconds


def progressed(trial: Trial) -> None:
    """Note a result."""
    trial.failures_in_a_row, trial.not_before = 0, 0.0


def has_failed_last(trial: Trial) -> bool:
    """Whether the end of an experiment makes the last failure the outcome of an unfinished trial.

    So it is with one that waits for its restart, and with one that keeps failing: a running one may be well otherwise.
    """
    return trial.failures_in_a_row > (1 if trial.state is TrialState.RUNNING else 0)
