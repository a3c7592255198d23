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


class Row:
    """A declared table or count: of which part (None: the object itself), its kind, how to get it and its limit."""

    __slots__ = ("get", "is_counted", "kind", "limit", "name", "part")

    def __init__(self, name: str, part: Any, kind: str, count: Get | None, limit: Get | None) -> None:
        self.name, self.part, self.kind, self.limit = name, part, kind, limit
        self.is_counted = count is not None
        self.get: Get = count or attrgetter(name)

    def part_of(self, whole: Any) -> Any:
        """Return the object that has the table: a part of `whole`, or that itself."""
        return whole if self.part is None else self.part

    def of(self, part: Any, path: str) -> Row:
        """Return the row of a part at a path from the object."""
        row = Row.__new__(Row)
        row.name, row.part, row.kind, row.limit = f"{path}{self.name}", part, self.kind, self.limit
        row.get, row.is_counted = self.get, self.is_counted
        return row


class Rows:
    """The rows of an object and of its lasting parts."""

    __slots__ = ("counted", "held", "limited", "plain", "values", "whole")

    def __init__(self, whole: list[Row], held: list[Row]) -> None:
        self.whole = tuple(whole)
        self.held = tuple(held)  # those whose values declare rows too
        self.limited = tuple(row for row in whole if row.limit is not None)
        self.counted = tuple(row for row in self.limited if row.is_counted)
        self.plain = tuple(row for row in self.limited if not row.is_counted)
        # All tables at once: nearly all are empty, and one call finds that.
        self.values = attrgetter("__class__", *(row.name for row in self.plain))


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
    rows: list[Row] = []
    held: list[Row] = []
    for base in cls.__mro__:
        for kind in ("PASSING", "OF_JOBS", "LASTING"):
            for names, said in vars(base).get(kind, {}).items():
                count, most = said if isinstance(said, tuple) else (None, said)
                for name in names.split() if count is None else (names,):
                    rows.append(Row(name, None, kind, _largest(count) if count else None, _limit(base, most)))
                    held += rows[-1:] if most is ... else ()
    return Rows(rows, held)


def _rows_of(whole: Any) -> Rows:
    """Return the rows of an object and its lasting parts, found once and cached; records have no parts."""
    attributes = getattr(whole, "__dict__", None)
    if attributes is None:
        return _declared(whole.__class__)
    if "_rows" not in attributes:
        rows: list[Row] = []
        held: list[Row] = []
        parts, met = [("", whole)], {id(whole)}
        for path, part in parts:
            declared = _declared(part.__class__)
            there = None if part is whole else part
            rows += [row.of(there, path) for row in declared.whole]
            held += [row.of(there, path) for row in declared.held]
            met |= {id(getattr(part, row.name)) for row in declared.held}  # may be replaced
            for name, value in getattr(part, "__dict__", {}).items():
                # Not another role, as the one that has the part.
                if id(value) not in met and "zray.roles." in type(value).__module__ and not hasattr(value, "bounds"):
                    met.add(id(value))
                    parts.append((f"{path}{name}.", value))
        attributes["_rows"] = Rows(rows, held)
    return attributes["_rows"]  # type: ignore[no-any-return]


def wholes_of(root: Any) -> Iterator[tuple[tuple[Any, ...], Any, Rows]]:
    """Yield (path, object, rows) of a role, of transient parts, and of the records in the role's tables.

    A path is (path before, name, key or nothing): nearly nobody needs its text.
    """
    found: list[tuple[tuple[Any, ...], Any]] = [((type(root).__name__,), root)]
    for path, whole in found:
        rows = _rows_of(whole)
        yield path, whole, rows
        for row, value in _held_in(whole, rows):
            if isinstance(value, dict):
                found += [((path, row.name, key), each) for key, each in value.items()]
            else:
                found.append(((path, row.name), value))


def _held_in(whole: Any, rows: Rows) -> Iterator[tuple[Row, Any]]:
    """Yield the values that declare rows too, and dictionaries of such."""
    for row in rows.held:
        if (value := row.get(row.part_of(whole))) is not None:
            yield row, value


def _text_of(path: tuple[Any, ...]) -> str:
    if len(path) == 1:
        return str(path[0])
    before, name, *keys = path
    inside = "".join(f"[{key.hex() if type(key) is bytes else key}]" for key in keys)
    return f"{_text_of(before)}.{name}{inside}"


def bounds_of(root: Any) -> Iterator[Bound]:
    """Yield the bounds of a role and its parts."""
    for path, whole, rows in wholes_of(root):
        for row in rows.limited:
            if (most := row.limit(row.part_of(whole))) is not None:  # type: ignore[misc]
                yield _text_of((path, row.name)), _size(row.get(row.part_of(whole))), _size(most)


def exceeded_bounds_of(root: Any) -> list[Bound]:
    """Return the exceeded bounds of a role and its parts."""
    wholes = [root]
    for whole in wholes:
        if next(_exceeded(whole, rows := _rows_of(whole)), None) is not None:
            break
        for _, value in _held_in(whole, rows):
            wholes += value.values() if isinstance(value, dict) else (value,)
    else:
        return []  # nearly always, so that nobody needs paths
    return [
        (_text_of((path, row.name)), count, most)
        for path, whole, rows in wholes_of(root)
        for row, count, most in _exceeded(whole, rows)
    ]


def _exceeded(whole: Any, rows: Rows) -> Iterator[tuple[Row, int, int]]:
    if rows.plain:
        for row, value in zip(rows.plain, rows.values(whole)[1:], strict=True):
            # Nearly all tables are empty: their limits are not asked for.
            if value:
                most = row.limit(row.part_of(whole))  # type: ignore[misc]
                if most is not None and _size(value) > _size(most):
                    yield row, _size(value), _size(most)
    for row in rows.counted:
        part = row.part_of(whole)
        if (count := row.get(part)) and (most := row.limit(part)) is not None and count > _size(most):  # type: ignore[misc]
            yield row, count, _size(most)


def left_of(root: Any, kind: str) -> dict[str, Any]:
    """Return the non-empty tables of a kind, by path."""
    return {
        _text_of((path, row.name)): value
        for path, whole, rows in wholes_of(root)
        for row in rows.whole
        if row.kind == kind and (value := row.get(row.part_of(whole)))
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
