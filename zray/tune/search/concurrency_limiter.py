"""A limit of the trials that a searcher has open at once."""

from __future__ import annotations

from typing import Any

from ..numbers import whole
from ..trial_results import result_for
from ..unknown import checks_names
from .searcher import Searcher, set_search_properties

__all__ = ["ConcurrencyLimiter"]


@checks_names("ConcurrencyLimiter")
class ConcurrencyLimiter(Searcher):
    """A searcher with a limit of open trials.

    Args:
        searcher: the searcher.
        max_concurrent: the number of trials at once.
        batch: whether the next trials begin only when all of these have ended.

    Raises:
        ValueError: max_concurrent is less than 1.

    Example:
        tune.TuneConfig(search_alg=ConcurrencyLimiter(OptunaSearch(), max_concurrent=4), num_samples=20)
    """

    takes_expressions = True

    def __init__(self, searcher: Any, max_concurrent: int, batch: bool = False) -> None:
        from . import as_searcher

        max_concurrent = whole("max_concurrent", max_concurrent, 1)
        self.searcher = as_searcher(searcher)
        super().__init__(self.searcher.metric, self.searcher.mode)
        self.limit, self.batch = max_concurrent, batch
        self.open: set[str] = set()
        self.finished: dict[str, tuple[dict[str, Any] | None, bool]] = {}

    @property
    def metric(self) -> Any:
        """The result's key that is optimised."""
        return self.searcher.metric

    @property
    def mode(self) -> Any:
        """ "min" or "max"."""
        return self.searcher.mode

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The values of the last suggestion, by their path."""
        return getattr(self.searcher, "chosen", None)

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        return set_search_properties(self.searcher, metric, mode, config, **spec)

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if len(self.open) + len(self.finished) >= self.limit:
            return None
        suggestion = self.searcher.suggest(trial_id)
        if isinstance(suggestion, dict):
            self.open.add(trial_id)
        return suggestion

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.searcher.on_trial_result(trial_id, result_for(self.searcher, result))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if trial_id not in self.open:
            return
        self.open.discard(trial_id)
        result = None if result is None else result_for(self.searcher, result)
        if not self.batch:
            self.searcher.on_trial_complete(trial_id, result=result, error=error)
            return
        self.finished[trial_id] = (result, error)
        if not self.open:
            for finished_id, (last, failed) in sorted(self.finished.items()):
                self.searcher.on_trial_complete(finished_id, result=last, error=failed)
            self.finished.clear()
