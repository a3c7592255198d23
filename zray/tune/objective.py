"""The order of values and results, for schedulers, stoppers, checkpoints, tables, plots and simulations alike.

The best trial is the one with the best last value, also where later results lack the metric.  The best value that any
result had is the best ever, and is named so.  NaN and infinite values come last in both modes.  Of equal values the
earlier one is the better one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from .metrics import as_number
from .trial import value_of

__all__ = ["Objective", "number_of"]

_T = TypeVar("_T")
LAST = float("-inf")


def number_of(value: Any) -> float | None:
    """Return a value as a float, as recorded; None: no number."""
    number = as_number(value)
    if number is None:
        return None
    try:
        return float(number)
    except OverflowError:  # an integer of many digits
        return math.inf if number > 0 else -math.inf


class Objective(NamedTuple):
    """A metric, and whether the smallest or the largest value is the best."""

    metric: str
    mode: str | None

    @property
    def sign(self) -> float:
        """-1 where the smallest value is the best."""
        return -1.0 if self.mode == "min" else 1.0

    def value(self, result: dict[str, Any]) -> float | None:
        """The metric of a result as a number; None: the result has none."""
        return number_of(value_of(result, self.metric))

    def finite(self, result: dict[str, Any]) -> float | None:
        """The metric of a result as a finite number; None: the result has none."""
        number = self.value(result)
        return number if number is not None and math.isfinite(number) else None

    def score(self, result: dict[str, Any]) -> float | None:
        """The metric of a result, where larger is better; NaN and infinite values have the least score, `LAST`."""
        return self.score_of(value_of(result, self.metric))

    def score_of(self, value: Any) -> float | None:
        """The score of a value; None: the value is no number."""
        number = number_of(value)
        if number is None:
            return None
        return self.sign * number if math.isfinite(number) else LAST

    def any_score_of(self, value: Any) -> float | None:
        """Return the score of a value: infinite values count, and NaN alone comes last."""
        number = number_of(value)
        return None if number is None else LAST if math.isnan(number) else self.sign * number

    def best(self, items: Iterable[tuple[Any, _T]], *, filter_nan_and_inf: bool = True) -> _T | None:
        """The item beside the best value; None: no value counts.

        Args:
            items: pairs of a value and an item, the earlier ones first.
            filter_nan_and_inf: False: also values that are NaN or infinite.
        """
        found: _T | None = None
        best: float | None = None
        for value, item in items:
            score = self.score_of(value) if filter_nan_and_inf else self.any_score_of(value)
            if score is None or (filter_nan_and_inf and score == LAST):
                continue
            if best is None or score > best:
                best, found = score, item
        return found

    def best_value(self, results: Iterable[dict[str, Any]]) -> float | None:
        """The best finite value of the metric in results; None: there is none."""
        values = [self.value(result) for result in results]
        return self.best((value, value) for value in values)

    def ranked(self, items: Iterable[tuple[Any, _T]]) -> list[_T]:
        """Items by their values, the best first; NaN and infinite values follow, then items without a value."""
        scored = [(self.score_of(value), item) for value, item in items]
        known = sorted(((-score, item) for score, item in scored if score is not None), key=lambda pair: pair[0])
        return [item for _, item in known] + [item for score, item in scored if score is None]
