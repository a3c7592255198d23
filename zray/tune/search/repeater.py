"""Several trials for each suggestion, against noise."""

from __future__ import annotations

import statistics
from typing import Any

from ..numbers import whole
from ..unknown import checks_names
from .searcher import Searcher, learnt_values, metrics_of, set_search_properties

__all__ = ["Repeater"]

TRIAL_INDEX = "__trial_index__"


@checks_names("Repeater")
class Repeater(Searcher):
    """A searcher that learns the mean of several trials of the same configuration.

    Args:
        searcher: the searcher.
        repeat: the number of trials for each suggestion; num_samples counts trials, not suggestions.
        set_index: whether configurations have the number of the repetition, as `__trial_index__`.
    """

    takes_expressions = True

    def __init__(self, searcher: Any, repeat: int = 1, set_index: bool = True) -> None:
        from . import as_searcher

        repeat = whole("repeat", repeat, 1)
        self.searcher = as_searcher(searcher)
        super().__init__(self.searcher.metric, self.searcher.mode)
        self.repeat, self.set_index = repeat, set_index
        self.leader = ""  # the first trial of the newest suggestion
        self.config: dict[str, Any] = {}
        self.chosen: dict[str, Any] = {}
        self.size: dict[str, int] = {}  # leader -> trials so far
        self.leader_of: dict[str, str] = {}
        self.results: dict[str, list[dict[str, Any] | None]] = {}

    @property
    def metric(self) -> Any:
        """The result's key that is optimised."""
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        """ "min" or "max"."""
        return self.searcher.mode

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        return set_search_properties(self.searcher, metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if not self.leader or self.size[self.leader] >= self.repeat:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self.leader, self.config = trial_id, suggestion
            self.chosen = dict(getattr(self.searcher, "chosen", None) or suggestion)
            self.size[trial_id] = 0
        index = self.size[self.leader]
        self.size[self.leader] += 1
        self.leader_of[trial_id] = self.leader
        return {**self.config, TRIAL_INDEX: index} if self.set_index else dict(self.config)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        leader = self.leader_of.pop(trial_id, None)
        if leader is None:
            return
        results = self.results.setdefault(leader, [])
        results.append(None if error else result)
        if len(results) < self.repeat:
            return
        del self.results[leader]
        rows = [row for each in results if (row := learnt_values(each, self.metric)) is not None]
        if rows:
            # Not fmean: the sum of finite values may be beyond a float.
            means = [float(statistics.mean(column)) for column in zip(*rows, strict=True)]
            told = dict(zip(metrics_of(self.metric), means, strict=True))
            self.searcher.on_trial_complete(leader, result=told, error=False)
        else:
            self.searcher.on_trial_complete(leader, result=None, error=True)
