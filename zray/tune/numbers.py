"""Checks of options that are numbers: an error that names the option, before anything has begun."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any

__all__ = ["FINITE", "is_beyond_float", "number", "seconds", "shown", "whole"]


# The largest number that is not infinite, for `most`.
FINITE = sys.float_info.max


def is_beyond_float(value: Any) -> bool:
    """Whether a value is an integer that no float can hold, as 10**400; its decimals fill lines, or are refused."""
    return isinstance(value, int) and value.bit_length() > sys.float_info.max_exp


def shown(value: Any) -> str:
    """Return a value as an error shows it."""
    return f"an integer of {value.bit_length():,} bits" if is_beyond_float(value) else repr(value)


def whole(name: str, value: Any, least: int = 0, besides: str = "", *, allowed: Any = ()) -> int:
    """Return an option that is a whole number.

    Args:
        name: of the option.
        value: of the option.
        least: the smallest value.
        besides: what else the option may be, for the error, as "None for all".
        allowed: smaller values that have a meaning of their own.

    Raises:
        TypeError: the value is no whole number.
        ValueError: the number is less than the smallest.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number{_or(besides)}, not {shown(value)}.")
    if value < least and value not in allowed:
        raise ValueError(f"{name} is at least {least}{_or(besides)}, not {shown(value)}.")
    return int(value)


def number(
    name: str, value: Any, least: float = 0.0, most: float = float("inf"), *, is_above: bool = False, besides: str = ""
) -> float:
    """Return an option that is a number.

    Args:
        name: of the option.
        value: of the option.
        least, most: the range, with both ends; infinity is in it by default.
        is_above: whether `least` is not in the range.
        besides: what else the option may be, for the error.

    Raises:
        TypeError: the value is no number.
        ValueError: the number is NaN, or not in the range.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is a number{_or(besides)}, not {shown(value)}.")
    try:
        given = float(value)
    except OverflowError:  # an integer, a fraction or another number of many digits
        raise ValueError(f"{name} is a number that a float can hold, not {shown(value)}.") from None
    if not least <= given <= most or (is_above and given == least):
        low = f"is larger than {least:g}" if is_above else f"is at least {least:g}"
        span = low if most == float("inf") else f"{low} and finite" if most == FINITE else f"{low}, at most {most:g}"
        raise ValueError(f"{name} {span}{_or(besides)}, not {shown(value)}.")
    return given


def seconds(name: str, value: Any, besides: str = "") -> float:
    """Return an option that is a time, a number of seconds or a `timedelta`.

    Raises:
        TypeError: the value is neither.
        ValueError: the time is negative or NaN.
    """
    if hasattr(value, "total_seconds"):
        value = value.total_seconds()
    return number(name, value, besides="a timedelta" + _or(besides))


def _or(besides: str) -> str:
    return f", or {besides}" if besides else ""
