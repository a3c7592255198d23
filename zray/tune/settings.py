"""The settings of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

__all__ = ["Settings"]


class Settings(Struct):
    """The settings of an experiment.

    num_samples: trials that a searcher is asked for; -1: until it has no more.  max_failures: restarts of a trial; -1:
    without limit.  fail_fast: stop all trials at the first error.  keep: checkpoints kept of a trial; None: all.
    With a score: the best ones, and the newest beside them.  score_key, score_order: by which checkpoints are kept;
    empty: the newest.  saves_when_paused: whether a trial saves when it is told to, as a class does.  path: the
    experiment's folder.  restore: the checkpoint with which every trial begins; restored_iteration, restored_time_s:
    where it was saved.
    """

    path: str = ""
    trainable_name: str = "trainable"
    experiment_id: str = "00000"
    metric: str | None = None
    mode: str | None = None
    num_samples: int = 1
    max_concurrent: int = 0
    max_failures: int = 0
    fail_fast: bool = False
    keep: int | None = None
    score_key: str = ""
    score_order: str = "max"
    checkpoint_at_end: bool = False
    saves_when_paused: bool = False
    space: dict[str, Any] = {}
    time_budget_s: float = 0.0
    is_strict_metric: bool = True
    name_of: Callable[[Any], str] | None = None
    folder_of: Callable[[Any], str] | None = None
    restore: str = ""
    restored_iteration: int = 0
    restored_time_s: float = 0.0
