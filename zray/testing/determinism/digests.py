"""Digests of values: equal in all processes for equal values.

The bytes of a message will not do.  Refs and handles have ids that each session draws, sets have the order of hashes,
and a pickle says which of two equal strings were the same object.
"""

from __future__ import annotations

import pickle
import reprlib
import sys
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import xxhash

from ...api.actor_handle import ActorHandle, ActorMethod
from ...object_ref import ObjectRef

__all__ = ["INCOMPARABLE", "clean", "digest", "shown", "unordered"]

# The digest of a value that cannot be pickled: the value is compared with nothing.
INCOMPARABLE = "?"
# A value that shares parts is written once for each use; one that grows beyond is written with its sharing.
BYTES_MAX = 1 << 30
SHOWN_MAX = 80
UNORDERED_MAX = 1_000
REFS = (ObjectRef, ActorHandle, ActorMethod)
NAMED = (FunctionType, BuiltinFunctionType, type, ModuleType)

# Packages whose values take milliseconds to be shown.
SLOW = ("pandas", "polars", "pyarrow", "torch")


class _Repr(reprlib.Repr):
    def repr_instance(self, x: Any, level: int) -> str:
        kind = type(x)
        return f"<{kind.__name__}>" if kind.__module__.partition(".")[0] in SLOW else super().repr_instance(x, level)


_short = _Repr()
_short.maxstring = _short.maxother = SHOWN_MAX
_short.maxlong = SHOWN_MAX


class _TooLarge(Exception):
    """A value has more bytes than are written without its sharing."""


class _Sink:
    """A file that keeps the hash of what is written."""

    def __init__(self, bytes_max: float) -> None:
        self.hash = xxhash.xxh3_128()
        self.left = bytes_max

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.left -= view.nbytes
        if self.left < 0:
            raise _TooLarge
        self.hash.update(view)
        return view.nbytes


class _Pickler(pickle.Pickler):
    """A pickler for the bytes alone: nothing can be read back."""

    def persistent_id(self, value: Any) -> Any:
        kind = type(value)
        if kind is set or kind is frozenset:
            return kind.__name__, sorted(digest(each) for each in value)
        if isinstance(value, REFS):
            return "ref", kind.__name__
        if isinstance(value, NAMED):
            return _of_code(value)
        return _of_tensor(value) if _is_tensor(value) else None


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def _of_tensor(value: Any) -> Any:
    """A tensor's own pickle names its place in memory."""
    import torch

    flat = value.detach().cpu().contiguous().flatten()
    return "tensor", str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()


def _of_code(value: Any) -> Any:
    """Functions, classes and modules are the same by name; a function has its closure beside."""
    name = getattr(value, "__module__", ""), getattr(value, "__qualname__", None) or value.__name__
    closure = getattr(value, "__closure__", None)
    if not closure and not isinstance(getattr(value, "__code__", None), CodeType):
        return "code", *name
    cells = []
    for cell in closure or ():
        try:
            content = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        cells.append(content if not isinstance(content, FunctionType) else content.__qualname__)
    return "code", *name, value.__code__.co_code, [digest(each) for each in cells]


def digest(value: Any) -> str:
    """Return the digest of a value; INCOMPARABLE where it cannot be pickled."""
    for is_fast in (True, False):
        sink = _Sink(BYTES_MAX if is_fast else float("inf"))
        pickler = _Pickler(sink, 5)
        pickler.fast = is_fast  # no note of which parts are the same object
        try:
            pickler.dump(value)
        except Exception:  # parts that hold each other, and whatever code of the user's raises
            continue
        return str(sink.hash.hexdigest())
    return INCOMPARABLE


def unordered(value: Any) -> str:
    """Return a digest that is the same in any order of the elements; "" for a value without an order."""
    if type(value) not in (list, tuple, dict) or not 2 <= len(value) <= UNORDERED_MAX:
        return ""
    return digest(sorted(digest(each) for each in (value.items() if type(value) is dict else value)))


def shown(value: Any) -> str:
    """Return a value in a few characters, for people."""
    try:
        return clean(_short.repr(value), SHOWN_MAX)
    except Exception:
        return f"<{type(value).__name__}>"


def clean(text: str, length: int) -> str:
    """Return a text as one line of at most so many characters, all of which can be encoded."""
    text = " ".join(text[: 4 * length].split())
    text = text if len(text) <= length else f"{text[: length - 3]}..."
    return text.encode("utf-8", "backslashreplace").decode()
