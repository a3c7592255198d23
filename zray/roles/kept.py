"""The tables of roles: how much there may be in each, and when it has to be gone.

A class says it, beside their creation, of its own tables and counts; names with the same limit share a line:

    PASSING = {"asks offers": None, "subscribed": "node.objects.entries"}   empty at rest: programs have ended, and
                                                                            let go of their refs
    OF_JOBS = {"kept": None, "later": "kept"}                               empty when no job is left
    LASTING = {"peers": None, "messages of a peer": (lambda it: map(len, it.early.values()), "EARLY_MAX")}    may stay

A limit is a number; a constant of its module, or of one beside it; the name, as seen from the object, of something of
which there is as much at least; a function of the object; or None: as many tasks, objects, actors, jobs or nodes as
users have, each of which goes with its last ref.  A function before the limit says how to count; of several
numbers none may be larger.  A table of the latest (latest.py) has its own limit.

The simulator asserts all of it; tests/roles/test_kept.py finds tables of which nothing is said.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any

from .latest import Latest

Bound = tuple[str, int, int]  # what, how much there is, how much there may be
Declared = tuple[str, str, Callable[[Any], Any], Callable[[Any], int | None]]  # kind, name, how to get it, its limit


def _size(value: Any) -> int:
    return value if isinstance(value, int) else len(value)


def _largest(count: Callable[[Any], Any]) -> Callable[[Any], int]:
    def counted(part: Any) -> int:
        return found if isinstance(found := count(part), int) else max(found, default=0)

    return counted


def _limit(cls: type, most: Any) -> Callable[[Any], int | None]:
    if not isinstance(most, str):
        return most if callable(most) else lambda part: most
    module, _, name = most.rpartition(".")
    if not name.isupper():
        get = attrgetter(most)
        return lambda part: _size(get(part))
    there = sys.modules[f"{cls.__module__.rpartition('.')[0]}.{module}" if module else cls.__module__]
    return lambda part: int(getattr(there, name))  # as of now: tests set it


@cache
def _declared(cls: type) -> tuple[Declared, ...]:
    found: list[Declared] = []
    for base in cls.__mro__:
        for kind in ("PASSING", "OF_JOBS", "LASTING"):
            for names, most in vars(base).get(kind, {}).items():
                if isinstance(most, tuple):
                    found.append((kind, names, _largest(most[0]), _limit(base, most[1])))
                else:
                    found += [(kind, name, attrgetter(name), _limit(base, most)) for name in names.split()]
    return tuple(found)


@cache
def _is_part(cls: type) -> bool:
    return cls.__module__.startswith("zray.roles.")


def _parts(root: Any) -> Iterator[tuple[str, Any]]:
    """A role, its parts, and the records in their tables of which something is said; each with its path."""
    parts, met = [(type(root).__name__, root)], {id(root)}
    for path, part in parts:
        yield path, part
        found = list(getattr(part, "__dict__", {}).items())
        for _, name, get, _ in _declared(part.__class__):
            value = get(part)
            found.append((name, value))
            if isinstance(value, dict) and value and _declared(next(iter(value.values())).__class__):
                found += [(f"{name}[{key.hex() if type(key) is bytes else key}]", it) for key, it in value.items()]
        for name, value in found:
            if _is_part(value.__class__) and id(value) not in met:
                met.add(id(value))
                parts.append((f"{path}.{name}", value))


def tables_of(root: Any) -> Iterator[tuple[str, str, Any, int | None]]:
    """(kind, path, what is there, how much may be) of all that a role and its parts say."""
    for path, part in _parts(root):
        if type(part) is Latest:
            yield "LASTING", path, part, part.count_max
        for kind, name, get, limit in _declared(part.__class__):
            value = get(part)
            if value is not None and not _is_part(value.__class__):
                yield kind, f"{path}.{name}", value, limit(part)


def bounds_of(root: Any) -> Iterator[Bound]:
    """The bounds of a role and its parts."""
    return ((path, _size(value), most) for _, path, value, most in tables_of(root) if most is not None)


def left_of(root: Any, kind: str) -> dict[str, Any]:
    """What is left in tables of a kind, by their paths."""
    return {path: value for its, path, value, _ in tables_of(root) if its == kind and value}
