"""What is given to get() and wait(): refused where it is given, in words."""

from __future__ import annotations

from numbers import Real
from typing import Any

from .object_ref import ObjectRef


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
    if len(set(object_refs)) != len(object_refs):
        raise ValueError("wait() takes a list of different ObjectRefs, but one is in it twice.")
