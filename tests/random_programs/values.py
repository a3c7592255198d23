"""Values of random programs: made from specs, told apart by what they say, and searched for refs and handles."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import zray

from .moves import Spec

Path = tuple[int, ...]
ARRAY_LENGTHS = (0, 3, 400, 12_000, 40_000, 150_000)  # of float64: the last three are large, and lie in the arena
BYTES_LENGTHS = (0, 10, 5_000, 70_000, 300_000)


class Trouble(Exception):
    """The user's exception, with what it carries in an attribute."""

    def __init__(self, text: str, *, items: Any = ()) -> None:
        super().__init__(text)
        self.items = items


class TroubleInArguments(Exception):
    """The same in its arguments."""

    @property
    def items(self) -> Any:
        return self.args[1:]


class Stumbled(Exception):
    """Raised by the first attempt only."""


@dataclass
class Box:
    """The user's class."""

    number: int
    items: list[Any]


class Stand:
    """What stands for a ref in the sequential world: a value, or an error."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error


@dataclass(frozen=True)
class Known:
    """A handle.  reach: paths; actors made there, or further down, may be waited for by its calls."""

    path: Path
    kind: str
    name: str
    reach: frozenset[Path]
    handle: Any


@dataclass(frozen=True)
class Held:
    """A ref that a body holds.  reach: as Known's, of what makes it.  is_here: nothing has to be waited for."""

    ref: Any
    reach: frozenset[Path]
    is_here: bool = False


def is_ref(value: Any) -> bool:
    return isinstance(value, (zray.ObjectRef, Stand))


def closure_over(items: list[Any]) -> Any:
    return lambda: items


def build(spec: Spec, hand: Any) -> Any:
    """The value that a spec describes, with the refs, values and actors of a hand."""
    kind, number, parts = spec
    if kind == "int":
        return number
    if kind == "text":
        return "text " * (number % 40)
    if kind == "bytes":
        return bytes([number % 256]) * BYTES_LENGTHS[number % len(BYTES_LENGTHS)]
    if kind == "array":
        return np.arange(ARRAY_LENGTHS[number % len(ARRAY_LENGTHS)], dtype=np.float64) + number
    if kind == "value":
        return hand.pick("values", number)
    if kind == "ref":
        held = hand.pick("refs", number)
        return None if held is None else held.ref
    if kind == "actor":
        return hand.pick("actors", number)
    inner = [build(part, hand) for part in parts]
    if kind == "list":
        return inner
    if kind == "tuple":
        return (number, *inner)
    if kind == "dict":
        return {f"key {index}": part for index, part in enumerate(inner)}
    if kind == "box":
        return Box(number, inner)
    if kind == "closure":
        return closure_over(inner)
    assert kind == "error", kind
    return TroubleInArguments(f"trouble {number}", *inner) if number % 2 else Trouble(f"trouble {number}", items=inner)


def parts_of(value: Any) -> Iterator[Any]:
    """What a value directly contains."""
    if isinstance(value, (list, tuple)):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (Box, Trouble, TroubleInArguments)):
        yield from value.items
    elif hasattr(value, "__code__"):
        yield from value()


def found_in(value: Any) -> Iterator[Any]:
    """The refs, handles and arrays inside a value, in order."""
    if is_ref(value) or isinstance(value, (Known, np.ndarray)):
        yield value
        return
    for part in parts_of(value):
        yield from found_in(part)


def cause_of(error: BaseException) -> BaseException:
    """The user's exception behind a task's error."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def describe(value: Any) -> str:
    """What both worlds must agree on.  Refs are refs: their values are looked at when somebody gets them."""
    if is_ref(value):
        return "ref"
    if isinstance(value, np.ndarray):
        return f"array{value.shape}{zlib.crc32(value.tobytes()):x}"
    if isinstance(value, bytes):
        return f"bytes({len(value)}){zlib.crc32(value):x}"
    if isinstance(value, Known):
        return f"actor{value.path}"
    name = type(value).__name__
    if isinstance(value, BaseException):
        value = cause_of(value)
        name = type(value).__name__
        if not isinstance(value, (Trouble, TroubleInArguments)):
            return name
        name += str(value.args[0])
    elif isinstance(value, dict):
        name += str(list(value))
    elif not isinstance(value, (Box, list, tuple)) and not hasattr(value, "__code__"):
        return shorten(repr(value))
    return shorten(f"{name}[{', '.join(map(describe, parts_of(value)))}]")


def shorten(text: str) -> str:
    """Long texts by their beginning and a checksum."""
    return text if len(text) <= 300 else f"{text[:200]}...{zlib.crc32(text.encode()):x}"
