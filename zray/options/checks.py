"""Checks of arguments that users give: wrong ones are refused at the call."""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real
from typing import Any

from ..object_ref import ObjectRef, refuse_nil


def check_number(name: str, value: Any) -> int | float:
    """Return a number as int or float, also for numbers of numpy; integers beyond any float are infinite.

    Raises:
        TypeError: the value is no number.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}.")
    if not isinstance(value, Integral):
        return float(value)
    number = int(value)
    return number if number.bit_length() < sys.float_info.max_exp else math.inf if number > 0 else -math.inf


def check_whole(name: str, value: Any, minimum: int, maximum: int) -> int:
    """Return a whole number as int, also for floats such as 2e9.

    Raises:
        TypeError, ValueError: the value is no number, not whole, or out of range.
    """
    number = check_number(name, value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{name} must be a whole number, not {value}.")
    if not minimum <= number <= maximum:
        raise ValueError(f"{name} must be from {minimum:,} to {maximum:,}, not {value}.")
    return int(number)


def check_timeout(timeout: Any) -> Any:
    """Return the timeout of get() or wait(), in seconds.

    Raises:
        TypeError, ValueError: the value is no number, or negative.
    """
    if type(timeout) is not float and (isinstance(timeout, bool) or not isinstance(timeout, Real)):
        raise TypeError(f"timeout must be a number of seconds, not {type(timeout).__name__}.")
    if timeout < 0 or timeout != timeout:
        raise ValueError(f"timeout must be a number of seconds that is not negative, not {timeout}.")
    return timeout


def check_wait(object_refs: Any) -> None:
    """Refuse arguments that wait() does not take.

    Raises:
        TypeError, ValueError: the value is no list of refs, or a ref is there twice.
    """
    if type(object_refs) is ObjectRef:
        raise TypeError("wait() takes a list of ObjectRefs, not a single one.")
    if not isinstance(object_refs, list):
        raise TypeError(f"wait() takes a list of ObjectRefs, not {type(object_refs).__name__}.")
    for ref in object_refs:
        if type(ref) is not ObjectRef:
            raise TypeError(f"wait() takes a list of ObjectRefs, but one item is of type {type(ref).__name__}.")
    refuse_nil({ref.id for ref in object_refs})
    if len(set(object_refs)) != len(object_refs):
        raise ValueError("wait() takes a list of different ObjectRefs, but one is listed twice.")
