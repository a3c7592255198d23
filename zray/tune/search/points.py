"""Points that a search begins with, compared with its search space before the first trial."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import warn_program
from ..spaces import Categorical, Domain, Integer
from ..unknown import nearest
from ..variants import has_unresolved_values

__all__ = ["PointWarning", "check_points"]

# Of a warning: values that are named.
SHOWN_MAX = 3


class PointWarning(UserWarning):
    """A point has a value outside of its parameter's range."""


def check_points(points: Sequence[Any], space: Mapping[str, Any], searcher: str, *, keeps: bool) -> None:
    """Compare points with a search space.  Values outside of their ranges are named in one warning.

    Args:
        points: nested configurations; keys may be paths, as "optimizer/lr".
        space: the search space, of Tune or of Optuna.
        searcher: the name of the class, for messages.
        keeps: whether the searcher tries a value as it is, also outside of its range and in place of a constant.

    Raises:
        TypeError: a point is no dict.
        ValueError: a point names a parameter that the space does not have, or a value that is no choice and cannot be
            tried.
    """
    outside: list[str] = []
    for number, point in enumerate(points):
        place = f"points_to_evaluate[{number}] of {searcher}"
        if not isinstance(point, Mapping):
            raise TypeError(f"{place} is a dict of parameters, not {point!r:.60}.")
        for path, value, domain in _values(point, space, place):
            allowed = _allowed(domain)
            if allowed is None and not keeps and not _is_equal(value, domain):
                outside.append(f"{place} has {path!r} = {value!r:.60}, which param_space fixes at {domain!r:.60}")
            if allowed is None or _is_within(value, domain):
                continue
            text = f"{place} has {path!r} = {value!r:.60}, which is not in {allowed}"
            if not keeps and _is_choice(domain):
                raise ValueError(f"{text}: {searcher} tries the values of a choice alone.")
            outside.append(text)
    if outside:
        more = f"; and {len(outside) - SHOWN_MAX} more" if len(outside) > SHOWN_MAX else ""
        end = "It is tried as it is." if keeps else "The value nearest in the search space is tried in its place."
        warn_program(f"{'; '.join(outside[:SHOWN_MAX])}{more}.  {end}", PointWarning)


def _values(point: Mapping[Any, Any], space: Any, place: str, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, value and part of the space of each parameter of a point."""
    for key, value in point.items():
        path = f"{prefix}{key}"
        found, part = _part(space, key)
        if not found:
            known = [f"{prefix}{name}" for name in space] if isinstance(space, Mapping) else []
            has = f"  It has: {', '.join(known[:20])}." if known else ""
            raise ValueError(
                f"{place} has the parameter {path!r}, which is not in the search space.{nearest(path, known)}{has}  "
                "Add it to param_space, or leave it out."
            )
        if isinstance(value, Mapping) and isinstance(part, Mapping) and "grid_search" not in part:
            yield from _values(value, part, place, f"{path}/")
        elif isinstance(value, (list, tuple)) and isinstance(part, (list, tuple)) and has_unresolved_values(part):
            yield from _values(dict(enumerate(value)), dict(enumerate(part)), place, f"{path}/")
        elif not has_unresolved_values(value):
            yield path, value, part


def _part(space: Any, key: Any) -> tuple[bool, Any]:
    """Whether the space has a key or a path, and what lies there."""
    if isinstance(space, Mapping) and key in space:
        return True, space[key]
    names: list[Any] = key.split("/") if isinstance(key, str) else [key]
    for name in names:
        if _is_choice(space) and not isinstance(space, Mapping):
            return True, _Anything()  # below a choice of dicts
        if isinstance(space, (list, tuple)) and str(name).isdigit() and int(name) < len(space):
            space = space[int(name)]
        elif isinstance(space, Mapping) and name in space:
            space = space[name]
        else:
            return False, None
    return len(names) > 1, space


class _Anything(Domain):
    """Domain of any value: parameters below a choice depend on the value that is chosen."""

    def is_valid(self, value: Any) -> bool:
        return True


def _is_choice(domain: Any) -> bool:
    return isinstance(domain, Categorical) or hasattr(domain, "choices")


def _allowed(domain: Any) -> str | None:
    """The values of a part of a search space, in words; None: it is a constant."""
    if isinstance(domain, Mapping) and "grid_search" in domain:
        return f"the grid {domain['grid_search']!r}"
    choices = getattr(domain, "categories", None) or getattr(domain, "choices", None)
    if choices is not None and not callable(choices):
        return f"the choice {list(choices)!r}"
    if isinstance(domain, Integer):
        return f"the range {domain.lower} to {domain.largest}"
    low = getattr(domain, "lower", getattr(domain, "low", None))
    high = getattr(domain, "upper", getattr(domain, "high", None))
    if low is not None and high is not None:
        return f"the range {low:g} to {high:g}"
    return repr(domain) if isinstance(domain, Domain) else None


def _is_within(value: Any, domain: Any) -> bool:
    """Whether a domain has a value.  What cannot be compared counts as within."""
    with contextlib.suppress(Exception):
        if isinstance(domain, Mapping):
            options: Any = domain["grid_search"]
        else:
            options = getattr(domain, "categories", None) or getattr(domain, "choices", None)
        if options is not None:
            return has_unresolved_values(list(options)) or bool(value in list(options))
        if isinstance(domain, Integer) and isinstance(value, float) and value.is_integer():
            return domain.is_valid(int(value))  # as Optuna and HyperOpt take it
        if isinstance(domain, Domain):
            return domain.is_valid(value)
        return bool(domain.low <= value <= domain.high)  # one of Optuna
    return True


def _is_equal(value: Any, constant: Any) -> bool:
    with contextlib.suppress(Exception):
        return bool(value == constant)
    return True
