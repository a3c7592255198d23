"""Counts of processes that may change: `3`, `1:8`, `auto`."""

from __future__ import annotations

from typing import Any

from .checks import check_whole

AUTO = "auto"


def count_range(name: str, given: Any, most: int) -> tuple[int, int]:
    """Return the smallest and the largest count.

    Raises:
        TypeError, ValueError: no count, out of limits, or a smallest above the largest.
    """
    if not isinstance(given, str):
        return (check_whole(name, given, 1, most),) * 2
    if given.strip() == AUTO:
        return 1, most
    parts = given.split(":")
    if len(parts) > 2 or not all(part.strip().isascii() and part.strip().isdecimal() for part in parts):
        raise ValueError(f'{name} must be a number, MIN:MAX (like 1:8) or "{AUTO}", not {given!r}.')
    least, largest = (check_whole(name, int(part), 1, most) for part in (parts[0], parts[-1]))
    if least > largest:
        raise ValueError(f"{name} is {given}, but its smallest count, {least}, is above its largest, {largest}.")
    return least, largest


def refuse_range(name: str, given: Any) -> None:
    """Refuse a range as a count that never changes.

    Raises:
        NotImplementedError: a range.
    """
    if isinstance(given, str) and (given.strip() == AUTO or ":" in given):
        raise NotImplementedError(f"{name} is fixed for the life of a cluster, so it must be one number, not {given}.")
