"""Values of simulated programs, and the few bytes they become: a codec of the simulator's own.

    int, str, None, list, tuple (as list), Ref, Handle, Big
    errors: Failed, by the same first bytes as in production (exceptions.TASK_ERROR, SYSTEM_ERROR)

A ref inside a value is found while encoding and handed back, as in production: whoever stores the bytes says
what they contain.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..exceptions import SYSTEM_ERROR, TASK_ERROR, ZrayError, decode_system_error
from ..ids import FIRST_RETURN

VALUE = b"\x01"  # the first byte of what is no error
REF, BIG, HANDLE, DEP, FAILED = 1, 2, 3, 4, 5  # msgpack extension codes


class Ref(msgspec.Struct, frozen=True):
    """A name for a value, as scripts hold it.  Who counts it is the process (see process.py)."""

    id: bytes


class Handle(msgspec.Struct, frozen=True):
    """An actor's name: a ref on the first return of its creation task."""

    actor_id: bytes

    @property
    def id(self) -> bytes:
        """The object that the handle holds."""
        return self.actor_id + FIRST_RETURN


class Dep(msgspec.Struct, frozen=True):
    """In an encoded argument list: the value of the spec's `deps[index]` belongs here."""

    index: int


class Big(msgspec.Struct, frozen=True):
    """`size` bytes, all `fill`: wrong bytes anywhere are noticed when it is decoded."""

    fill: int
    size: int


class Failed(msgspec.Struct, frozen=True):
    """What stands where a value could not be made.  kind: "task", or the name of the system error."""

    kind: str
    text: str
    is_system: bool


class UserError(Exception):
    """What the code of a simulated program raises."""


class RemoteError(Exception):
    """What `Get` raises in a script; `failed` says what."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)  # the text alone: one that goes up through many tasks stays as long as it is
        self.failed = failed


class CorruptValue(Exception):
    """Bytes that nobody wrote: a range was reused while somebody could read it."""


def encode(value: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """The bytes, and the ids of the refs inside, each once, in order."""
    contained: dict[bytes, None] = {}
    data = VALUE + msgspec.msgpack.encode(_plain(value, contained))
    return data, tuple(contained)


def _plain(value: Any, contained: dict[bytes, None]) -> Any:
    """What msgpack knows: extensions for our own types."""
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
    """The error value of a task that raised.  is_system: what it raised began as a system error."""
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
