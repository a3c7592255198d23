"""Values of simulated programs, in the simulator's own compact encoding.

    int, str, None, list, tuple (as list), Ref, Handle, Big
    errors: Failed, by the same first bytes as in production (exceptions.TASK_ERROR, SYSTEM_ERROR)

The encoder returns the refs inside a value, as in production: the caller that stores the bytes reports these refs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..exceptions import SYSTEM_ERROR, TASK_ERROR, ZrayError, decode_system_error
from ..ids import FIRST_RETURN

VALUE = b"\x01"  # the first byte of a value other than an error
REF, BIG, HANDLE, DEP, FAILED = 1, 2, 3, 4, 5  # msgpack extension codes


class Ref(msgspec.Struct, frozen=True):
    """A name for a value, as held by scripts.  The process counts refs (see process.py)."""

    id: bytes


class Handle(msgspec.Struct, frozen=True):
    """An actor's name: a ref on the first return of its creation task."""

    actor_id: bytes

    @property
    def id(self) -> bytes:
        """The object that the handle holds."""
        return self.actor_id + FIRST_RETURN


class Dep(msgspec.Struct, frozen=True):
    """A place in an encoded argument list, for the value of the spec's `deps[index]`."""

    index: int


class Big(msgspec.Struct, frozen=True):
    """A value of `size` bytes, all `fill`: decoding detects wrong bytes anywhere."""

    fill: int
    size: int


class Failed(msgspec.Struct, frozen=True):
    """A failure in place of a value.  kind: "task", or the name of the system error."""

    kind: str
    text: str
    is_system: bool


class UserError(Exception):
    """An error of a simulated program's own code."""


class RemoteError(Exception):
    """The error raised by `Get` in a script; `failed` holds the failure."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)  # the text alone: an error passed up through many tasks keeps its length
        self.failed = failed


class CorruptValue(Exception):
    """Bytes that no process wrote: a range was reused while a reader could still access it."""


def encode(value: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """The bytes, and the ids of the refs inside, each once, in order."""
    contained: dict[bytes, None] = {}
    data = VALUE + msgspec.msgpack.encode(_plain(value, contained))
    return data, tuple(contained)


def _plain(value: Any, contained: dict[bytes, None]) -> Any:
    """Return the value in msgpack's types: extensions for our own types."""
    kind = type(value)
    if kind is list or kind is tuple:
        return [_plain(item, contained) for item in value]
    if kind is Ref:
        contained[value.id] = None
        return msgspec.msgpack.Ext(REF, value.id)
    if kind is Handle:
        contained[value.id] = None
        return msgspec.msgpack.Ext(HANDLE, value.actor_id)
    if kind is Big:
        return msgspec.msgpack.Ext(BIG, bytes((value.fill,)) * max(1, value.size))
    if kind is Dep:
        return msgspec.msgpack.Ext(DEP, value.index.to_bytes(4, "big"))
    if kind is Failed:
        return msgspec.msgpack.Ext(FAILED, msgspec.msgpack.encode([value.kind, value.text, value.is_system]))
    return value


def encode_failure(text: str, is_system: bool) -> bytes:
    """Return the error value of a task that raised.  is_system: the error began as a system error."""
    return bytes((TASK_ERROR,)) + msgspec.msgpack.encode([text, is_system])


def is_error(data: bytes) -> bool:
    """Whether an inline value is an error."""
    return data[:1] in (bytes((TASK_ERROR,)), bytes((SYSTEM_ERROR,)))


def decode_failure(data: bytes) -> Failed:
    """The error behind an error value."""
    if data[0] == TASK_ERROR:
        text, is_system = msgspec.msgpack.decode(data[1:])
        return Failed("task", text, is_system)
    error: ZrayError = decode_system_error(data)
    return Failed(type(error).__name__, str(error), True)


def decode(data: bytes) -> tuple[Any, list[bytes]]:
    """The value, and the ids of the refs inside, once per occurrence.

    Raises:
        CorruptValue: these bytes were not made by `encode`.
    """
    if not data:
        return None, []
    found: list[bytes] = []

    def hook(code: int, payload: memoryview) -> Any:
        raw = bytes(payload)
        if code == REF:
            found.append(raw)
            return Ref(raw)
        if code == HANDLE:
            found.append(raw + FIRST_RETURN)
            return Handle(raw)
        if code == DEP:
            return Dep(int.from_bytes(raw, "big"))
        if code == FAILED:
            return Failed(*msgspec.msgpack.decode(raw))
        if code == BIG and raw == raw[:1] * len(raw):
            return Big(raw[0], len(raw))
        raise CorruptValue("bytes that nobody wrote")

    if data[:1] != VALUE:
        raise CorruptValue(f"a value that begins with {data[:1].hex()}")
    try:
        value = msgspec.msgpack.decode(data[1:], ext_hook=hook)
    except msgspec.DecodeError as error:
        raise CorruptValue(str(error)) from error
    return value, found
