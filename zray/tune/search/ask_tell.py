"""Any object with `ask` and `tell` as a searcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import TuneError
from ..unknown import checks_names
from .searcher import Searcher, learnt_values

__all__ = ["AskTellSearch"]


@checks_names("AskTellSearch")
class AskTellSearch(Searcher):
    """An optimiser with `ask() -> configuration` and `tell(configuration, value)`.

    Trials that have failed, or whose last value is no finite number, are not told.

    Args:
        optimizer: the object; where its `ask` returns None, no trial begins now, and StopIteration ends the search.
        metric: the result's key that is optimised; None: that of TuneConfig.
        mode: "min" or "max"; None: that of TuneConfig.
        minimizes: whether the optimiser takes lower values as better; values are negated where the mode is another.
        to_config: makes a configuration of what `ask` returns; None: it is one.

    Example:
        tune.TuneConfig(search_alg=AskTellSearch(scikit_optimizer, to_config=lambda point: {"x": point[0]}))
    """

    def __init__(
        self,
        optimizer: Any,
        metric: str | None = None,
        mode: str | None = None,
        minimizes: bool = True,
        to_config: Any = None,
    ) -> None:
        super().__init__(metric, mode)
        missing = [name for name in ("ask", "tell") if not callable(getattr(optimizer, name, None))]
        if missing:
            raise TypeError(f"An optimizer has ask() and tell(), and {type(optimizer).__name__} has no {missing[0]}.")
        self.optimizer, self.minimizes, self.to_config = optimizer, minimizes, to_config
        self.asked: dict[str, Any] = {}

    def set_search_properties(self, metric: Any, mode: Any, config: dict[str, Any], **spec: Any) -> bool:
        self._metric, self._mode = self._metric or metric, self._mode or mode
        if not self._metric or self._mode not in ("min", "max"):
            raise ValueError('AskTellSearch needs a metric and a mode, as metric="loss", mode="min".')
        return False

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        try:
            point = self.optimizer.ask()
        except StopIteration:
            return self.FINISHED
        except Exception as error:
            name = type(self.optimizer).__name__
            raise TuneError(f"{name}.ask failed with {type(error).__name__}: {error}.  Correct {name}.") from error
        if point is None:
            return None
        self.asked[trial_id] = point
        config = self.to_config(point) if self.to_config is not None else point
        if not isinstance(config, Mapping):
            name = f"{type(self.optimizer).__name__}.ask" if self.to_config is None else "to_config"
            raise TuneError(f"{name} returned {config!r:.60} ({type(config).__name__}), and no dict of parameters.")
        return dict(config)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        point = self.asked.pop(trial_id, None)
        values = learnt_values(result, self._metric)
        if point is None or error or values is None:
            return
        (value,) = values
        is_turned = self.minimizes != (self._mode == "min")
        self.optimizer.tell(point, -value if is_turned else value)
