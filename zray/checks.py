"""Arguments that users give: checked where they are given, and refused in words."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from .object_ref import ObjectRef, refuse_nil


def check_number(name: str, value: Any) -> int | float:
    """A number, as one of Python's own: numpy has others.

    Raises:
        TypeError: none.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}.")
    return int(value) if isinstance(value, Integral) else float(value)


def check_whole(name: str, value: Any, minimum: int, maximum: int) -> int:
    """A whole number; a float may say it, like 2e9.

    Raises:
        TypeError, ValueError: none, a part of one, or out of range.
    """
    number = check_number(name, value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{name} must be a whole number, not {value}.")
    if not minimum <= number <= maximum:
        raise ValueError(f"{name} must be from {minimum:,} to {maximum:,}, not {value}.")
    return int(number)


def check_timeout(timeout: Any) -> Any:
    """Seconds, of get() and wait().

    Raises:
        TypeError, ValueError: no number, or a negative one.
    """
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise TypeError(f"timeout must be a number of seconds, not {type(timeout).__name__}.")
    if timeout < 0 or timeout != timeout:
        raise ValueError(f"timeout must be a number of seconds that is not negative, not {timeout}.")
    return timeout


def check_wait(object_refs: Any) -> None:
    """What wait() is given.

    Raises:
        TypeError, ValueError: no list of refs, or one is in it twice.
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
        raise ValueError("wait() takes a list of different ObjectRefs, but one is in it twice.")
