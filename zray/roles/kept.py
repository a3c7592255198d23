"""The tables of roles: how many entries each may hold, and when it must be empty.

A class declares the limits of its own tables and counts, beside their creation; names with the same limit share a line:

    PASSING = {"asks offers": None, "subscribed": "node.objects.entries"}   empty at rest: programs have ended, and
                                                                            let go of their refs
    OF_JOBS = {"kept": None, "later": "kept"}                               empty when no job is left
    LASTING = {"peers": None, "messages of a peer": (lambda it: map(len, it.early.values()), "EARLY_MAX")}    may stay

A limit may be a number; a constant of the module, or of a neighbouring module; the name, as seen from the object, of a
table that is never smaller; or a function of the object.  None means: as many as users have tasks, objects, actors,
jobs or nodes, and an entry goes with its last ref.  `...` means likewise, and the value, a transient part or records by
key, declares limits too.  A function before the limit counts the entries; if the function returns several numbers, none
may be larger.

The simulator asserts all limits; tests/roles/test_kept.py finds undeclared tables.

A table of bounded size that keeps the latest entries.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

Bound = tuple[str, int, int]  # what, how much there is, how much there may be
Get = Callable[[Any], Any]
# A path, the part there (None: the object itself), and what is said: kind, how to get it, how to get its limit.
Row = tuple[str, Any, str, Get, Get | None]
Rows = tuple[list[Row], list[Row], list[Row]]  # all; those with limits; those where what is there says more


def _size(value: Any) -> int:
    return value if value.__class__ is int else len(value)


def _largest(count: Get) -> Get:
    return lambda part: found if isinstance(found := count(part), int) else max(found, default=0)


def _limit(cls: type, most: Any) -> Get | None:
    if not isinstance(most, str):
        return most if callable(most) else None if most in (None, ...) else lambda part: most
    module, _, name = most.rpartition(".")
    if not name.isupper():
        return attrgetter(most)
    there = sys.modules[f"{cls.__module__.rpartition('.')[0]}.{module}" if module else cls.__module__]
    return lambda part: getattr(there, name)  # as of now: tests set it


@cache
def _declared(cls: type) -> Rows:
    rows: Rows = ([], [], [])
    for base in cls.__mro__:
        for kind in ("PASSING", "OF_JOBS", "LASTING"):
            for names, said in vars(base).get(kind, {}).items():
                count, most = said if isinstance(said, tuple) else (None, said)
                for name in names.split() if count is None else (names,):
                    row = (name, None, kind, _largest(count) if count else attrgetter(name), _limit(base, most))
                    for each in (rows[0], *([rows[1]] if row[4] else ()), *([rows[2]] if most is ... else ())):
                        each.append(row)
    return rows


def _rows_of(whole: Any) -> Rows:
    """Return the rows of an object and its lasting parts, found once and cached; records have no parts."""
    attributes = getattr(whole, "__dict__", None)
    if attributes is None:
        return _declared(whole.__class__)
    if "_rows" not in attributes:
        found: Rows = ([], [], [])
        parts, met = [("", whole)], {id(whole)}
        for path, part in parts:
            for rows, more in zip(found, _declared(part.__class__), strict=True):
                rows += [(f"{path}{row[0]}", None if part is whole else part, *row[2:]) for row in more]
            for name, value in getattr(part, "__dict__", {}).items():
                # Not another role, as the one that has the part.
                if id(value) not in met and "zray.roles." in type(value).__module__ and not hasattr(value, "bounds"):
                    met.add(id(value))
                    parts.append((f"{path}{name}.", value))
        attributes["_rows"] = found
    return attributes["_rows"]  # type: ignore[no-any-return]


def wholes_of(root: Any) -> Iterator[tuple[tuple[Any, ...], Any, Rows]]:
    """Yield (path, object, rows) of a role, of transient parts, and of the records in the role's tables.

    A path is in parts: nearly nobody needs its text.
    """
    found: list[tuple[tuple[Any, ...], Any]] = [((type(root).__name__,), root)]
    for path, whole in found:
        rows = _rows_of(whole)
        yield path, whole, rows
        for name, part, _, get, _ in rows[2]:
            value = get(whole if part is None else part)
            if isinstance(value, dict):
                found += [((*path, ".", name, "[", key, "]"), each) for key, each in value.items()]
            elif value is not None:
                found.append(((*path, ".", name), value))


def _text_of(*path: Any) -> str:
    return "".join(part.hex() if type(part) is bytes else str(part) for part in path)


def bounds_of(root: Any, *, broken: bool = False) -> Iterator[Bound]:
    """Yield the bounds of a role and its parts.  broken: only exceeded bounds."""
    for path, whole, rows in wholes_of(root):
        for name, part, _, get, limit in rows[1]:
            there = whole if part is None else part
            count = _size(get(there))
            # Nearly all tables are empty: their limits are not asked for.
            if (count or not broken) and limit is not None and (most := limit(there)) is not None:
                if not broken or count > _size(most):
                    yield _text_of(*path, ".", name), count, _size(most)


def left_of(root: Any, kind: str) -> dict[str, Any]:
    """Return the non-empty tables of a kind, by path."""
    return {
        _text_of(*path, ".", name): value
        for path, whole, rows in wholes_of(root)
        for name, part, its, get, _ in rows[0]
        if its == kind and (value := get(whole if part is None else part))
    }


# Nodes that are lost are remembered, the last so many: what they had said arrives long before as many others are lost,
# and nobody lets them in again.
LOST_MAX = 10_000

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(dict[Key, Value]):
    """A dictionary of at most `count_max` entries: a new entry beyond the limit evicts the oldest.

    Suitable for facts that stay useful for a while after the end of their subject, without a definite expiry.  Setting
    a known key does not renew its age.
    """

    __slots__ = ("count_max",)
    LASTING = {"entries": (len, "count_max")}

    def __init__(self, count_max: int, known: Mapping[Key, Value] = MappingProxyType({})) -> None:
        super().__init__()
        self.count_max = count_max
        for key, value in known.items():
            self[key] = value

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        if len(self) > self.count_max:
            del self[next(iter(self))]
