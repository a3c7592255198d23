"""Ranges of numbers, and the message about a number outside of one."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, NamedTuple

__all__ = ["COUNT", "NUMBER", "OPTIONAL", "SHARE", "SIZE", "Range", "check", "in_words", "is_searched"]


class Range(NamedTuple):
    """The kind and the range of a number.  NaN is in none.

    least, most: the range; None: any.  is_whole: whether it is an integer.  is_optional: whether it may be None.
    others: texts that stand for a number.  is_open: whether `least` itself is outside.
    """

    least: float | None = None
    most: float | None = None
    is_whole: bool = False
    is_optional: bool = False
    others: tuple[str, ...] = ()
    is_open: bool = False

    def is_number(self, value: Any) -> bool:
        """Whether a value is a number of this kind."""
        return not isinstance(value, bool) and isinstance(value, Integral if self.is_whole else Real)

    def holds(self, value: Any) -> bool:
        """Whether a number lies within."""
        if math.isnan(value):
            return False
        is_low = self.least is not None and (value < self.least or self.is_open and value == self.least)
        return not is_low and (self.most is None or value <= self.most)


COUNT = Range(1, is_whole=True)
SIZE = Range(0, is_whole=True)
SHARE = Range(0, 1)
NUMBER = Range(0)
OPTIONAL = Range(0, is_optional=True)


def in_words(wanted: Range) -> str:
    """The kind and the bounds, as "a number, at least 0 and at most 1"."""
    text = "an integer" if wanted.is_whole else "a number"
    text += "".join(f" or {other!r}" for other in wanted.others) + (" or None" if wanted.is_optional else "")
    bounds = []
    if wanted.least is not None:
        bounds.append(f"{'larger than' if wanted.is_open else 'at least'} {wanted.least:g}")
    if wanted.most is not None:
        bounds.append(f"at most {wanted.most:g}")
    return text + ", " * bool(bounds) + " and ".join(bounds)


def check(subject: str, value: Any, wanted: Range) -> None:
    """Compare a value with its range.

    Args:
        subject: of the message, as "The option 'gamma' of PPOConfig".

    Raises:
        TypeError: the value is of another kind.
        ValueError: the number is out of its range.
    """
    if value is None and wanted.is_optional or isinstance(value, str) and value in wanted.others:
        return
    if not wanted.is_number(value):
        raise TypeError(f"{subject} is {in_words(wanted)}, not {value!r}.")
    if not wanted.holds(value):
        raise ValueError(f"{subject} is {in_words(wanted)}, not {value!r}.")


def is_searched(value: Any) -> bool:
    """Whether a value stands for those that a search will put in its place."""
    from zray.tune.spaces import Domain, Function

    return isinstance(value, (Domain, Function)) or isinstance(value, dict) and "grid_search" in value
