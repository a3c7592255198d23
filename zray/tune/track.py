"""`tune.track`: results as programs of 2019 report them, `tune.track.log(mean_accuracy=accuracy)`."""

from __future__ import annotations

from typing import Any

from .session import get_trial_dir, report

__all__ = ["init", "log", "shutdown", "trial_dir"]


def log(_metrics: dict[str, Any] | None = None, **metrics: Any) -> None:
    """Report a result of the current trial."""
    report({**(_metrics or {}), **metrics})


def init(ignore_reinit_error: bool = True, **session_kwargs: Any) -> None:
    """Accepted for programs of 2019: a trial has its session."""


def shutdown() -> None:
    """Accepted for programs of 2019: a trial's session ends with the trial."""


def trial_dir() -> str | None:
    """Return the folder of the current trial."""
    return get_trial_dir()
