"""Refs in a search space: an experiment's records name their places, and a restore fills in the new session's refs.

A ref ends with its session.  The pickles of configurations and of the experiment therefore have the number of a ref in
the search space, in the order in which a pickle meets them.  The same space, made anew, has new refs at these numbers.
"""

from __future__ import annotations

import contextlib
import io
import pickle
from typing import Any

import cloudpickle

from zray import ObjectRef

__all__ = ["LostRef", "dumps", "has_lost_refs", "loads", "refs_in"]


class LostRef:
    """A ref of the search space whose session has ended."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "<ref of an ended session>"


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler to which refs of a list are numbers."""

    def __init__(self, file: Any, refs: list[Any] | tuple[()] | None) -> None:
        super().__init__(file)
        self.found: list[Any] = []
        self._numbers: dict[Any, int] = {ref: number for number, ref in reversed(list(enumerate(refs or ())))}
        self._collects = refs is None

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, ObjectRef):
            return None
        if self._collects:
            self.found.append(obj)
            return len(self.found) - 1
        return self._numbers.get(obj)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ObjectRef):
            return LostRef, (-1,)
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    """The reverse; a number without a ref is a `LostRef`."""

    def __init__(self, file: Any, refs: list[Any]) -> None:
        super().__init__(file)
        self._refs = refs

    def persistent_load(self, pid: Any) -> Any:
        return self._refs[pid] if pid < len(self._refs) else LostRef(pid)


def refs_in(space: Any) -> list[Any]:
    """The refs of a search space, in their order."""
    pickler = _Pickler(io.BytesIO(), None)
    try:
        pickler.dump(space)
    except Exception:
        pass  # what cannot be pickled is named where the experiment is written
    return pickler.found


def dumps(value: Any, refs: list[Any] | tuple[()] = ()) -> bytes:
    """Return the pickle of a value, with refs of the list as numbers; without a list, plain pickle can read the value.

    What the program's own file defines goes by value: another program would look for it in its own `__main__`, and
    find nothing, or something else of that name.
    """
    plain = b""
    if not refs:
        with contextlib.suppress(Exception):
            plain = pickle.dumps(value)
        if plain and b"__main__" not in plain:
            return plain
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, refs).dump(value)
    except Exception:
        if not plain:  # else it refers to globals of the program that cannot be pickled: its names are all there is
            raise
        return plain
    return buffer.getvalue()


def loads(data: bytes, refs: list[Any]) -> Any:
    """The value of such a pickle, with the refs of the list."""
    return _Unpickler(io.BytesIO(data), refs).load()


def has_lost_refs(space: Any) -> bool:
    """Whether a space of a restored experiment waits for its refs."""
    if isinstance(space, dict):
        return any(map(has_lost_refs, space.values()))
    if isinstance(space, (list, tuple)):
        return any(map(has_lost_refs, space))
    return isinstance(space, LostRef) or any(map(has_lost_refs, getattr(space, "categories", None) or ()))
