"""A call's arguments to bytes and back.

    b""                    no arguments
    0x90-0x9f, 0xdc, 0xdd  msgpack array of scalars, then a map of keywords if there are any
    0x88                   msgpack [positional, keywords], each argument as the bytes of a value

A ref at the top level is a *dep*: the task waits for the object and gets its value.  The dep's index replaces the ref:
in an array of one among scalars (no scalar is an array), bare among the bytes of values.  A ref deeper inside is a
*hold*: it stays a ref.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from ..exceptions import DeserializationError, ZrayError
from ..object_ref import ObjectRef
from .layout import Serialized
from .values import deserialize, serialize, to_bytes

# Larger arguments are put, and travel by reference: a spec is copied at every hop and kept as lineage.
INLINE_MAX_BYTES = 100 * 1024

Put = Callable[[Serialized], bytes]

MIXED = 0x88
_MIXED_HEAD = bytes((MIXED,))
_SIMPLE = frozenset((bool, int, float, str, bytes, type(None)))
_encode = Encoder().encode
_decode = Decoder(list[Any]).decode
_decode_places = Decoder(tuple[list[Raw], dict[str, Raw]]).decode
_decode_mixed = Decoder(tuple[list[int | bytes], dict[str, int | bytes]]).decode


class Arguments(Struct, frozen=True, gc=False):
    """A call's arguments.  deps: unique, in order of first use.  holds: ids of nested refs, unique."""

    payload: bytes
    deps: tuple[bytes, ...] = ()
    holds: tuple[bytes, ...] = ()


class _Dep(Struct, array_like=True, frozen=True, gc=False):
    """Stands where a dep's value goes."""

    index: int


NO_ARGUMENTS = Arguments(b"", (), ())
_DEPS = tuple(_Dep(index) for index in range(16))


def simple_payload(args: tuple[Any, ...], inline_max_bytes: int) -> bytes | None:
    """The payload of a call with scalars or nothing, as most are.  None: `serialize_arguments` must look."""
    if not args:
        return b""
    if not _SIMPLE.issuperset(map(type, args)):
        return None
    try:
        payload = _encode(args)
    except Exception:  # An int of more than 64 bits, a lone surrogate.
        return None
    return payload if len(payload) <= inline_max_bytes else None


def serialize_arguments(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    put: Put | None = None,
    inline_max_bytes: int = INLINE_MAX_BYTES,
) -> Arguments:
    """Serialize the arguments of a call.

    put: called with each argument too large to travel inline, largest first; stores the value, and returns the object's
    id, which the caller keeps alive until the call is sent.  Without `put` everything is inline.

    Raises:
        SerializationError: names the argument's part that cannot be pickled.
    """
    if not kwargs and not args:
        return NO_ARGUMENTS
    simple = _serialize_simple(args, kwargs)
    if simple is not None and (len(simple.payload) <= inline_max_bytes or put is None):
        return simple
    return _serialize_mixed(args, kwargs, put, inline_max_bytes)


def deserialize_arguments(payload: bytes, dep_values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the keywords, with the values of the deps in place.

    dep_values: already deserialized, in the order of `Arguments.deps`.

    Raises:
        DeserializationError: the class of an argument is missing here, or its own code failed.
    """
    if not payload:
        return [], {}
    try:
        if payload[0] == MIXED:
            said, named = _decode_mixed(payload[1:])
            args = [deserialize(part) if isinstance(part, bytes) else dep_values[part] for part in said]
            if named:
                named = {
                    name: deserialize(part) if isinstance(part, bytes) else dep_values[part]
                    for name, part in named.items()
                }
            return args, named
        args = _decode(payload)
        kwargs = args.pop() if type(args[-1]) is dict else {}
        if dep_values:
            for index, value in enumerate(args):
                if type(value) is list:
                    args[index] = dep_values[value[0]]
            for name, value in kwargs.items():
                if type(value) is list:
                    kwargs[name] = dep_values[value[0]]
        return args, kwargs
    except ZrayError:
        raise
    except (ValueError, IndexError, TypeError) as error:
        raise DeserializationError(f"arguments of {len(payload)} bytes cannot be read: {error}") from error


def argument_of_dep(payload: bytes, index: int) -> int | str | None:
    """Return the first argument that takes this dep: its position or its keyword; None: no such argument."""
    try:
        if payload[0] == MIXED:
            mark = _encode(index)
            said, named = _decode_places(payload[1:])
            marks: list[tuple[int | str, Any]] = [*enumerate(said), *named.items()]
            return next((place for place, part in marks if memoryview(part) == mark), None)
        args = _decode(payload)
        kwargs = args.pop() if type(args[-1]) is dict else {}
        parts: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        return next((place for place, part in parts if part == [index]), None)
    except (ValueError, IndexError, TypeError):
        return None


def _serialize_simple(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
    """Serialize scalars and refs only; None if there is anything else."""
    deps: dict[bytes, int] = {}
    said: list[Any] = []
    for value in args:
        kind = type(value)
        if kind in _SIMPLE:
            said.append(value)
        elif kind is ObjectRef:
            said.append(_dep(deps, value))
        else:
            return None
    if kwargs:
        named = {}
        for name, value in kwargs.items():
            kind = type(value)
            if kind in _SIMPLE:
                named[name] = value
            elif kind is ObjectRef:
                named[name] = _dep(deps, value)
            else:
                return None
        said.append(named)
    try:
        return Arguments(_encode(said), tuple(deps), ())
    except Exception:
        return None


def _dep(deps: dict[bytes, int], ref: ObjectRef) -> _Dep:
    index = deps.setdefault(ref.id, len(deps))
    return _DEPS[index] if index < len(_DEPS) else _Dep(index)


def _serialize_mixed(
    args: tuple[Any, ...], kwargs: dict[str, Any], put: Put | None, inline_max_bytes: int
) -> Arguments:
    """Serialize each argument as a separate value: so each has its shortest form, and a large one can be put
    unchanged.
    """
    deps: dict[bytes, int] = {}
    holds: tuple[bytes, ...] = ()
    total = 0
    parts: list[Any] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) is ObjectRef:
            parts.append(deps.setdefault(value.id, len(deps)))
            continue
        serialized = serialize(value)
        parts.append(serialized)
        total += serialized.size
    if total > inline_max_bytes and put is not None:
        _put_large(args, kwargs, parts, deps, put, total - inline_max_bytes)
    for index, part in enumerate(parts):
        if type(part) is not int:
            parts[index] = to_bytes(part)
            if part.contained:
                holds += part.contained
    if kwargs:
        said = (parts[: len(args)], dict(zip(kwargs, parts[len(args) :], strict=True)))
    else:
        said = (parts, kwargs)
    return Arguments(_MIXED_HEAD + _encode(said), tuple(deps), tuple(dict.fromkeys(holds)) if holds else ())


def _put_large(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    parts: list[Any],
    deps: dict[bytes, int],
    put: Put,
    excess: int,
) -> None:
    """Put arguments, the largest first, until `excess` bytes are saved.  An argument passed twice is put once."""
    values = (*args, *kwargs.values())
    put_before: dict[int, int] = {}
    by_size = [index for index, part in enumerate(parts) if type(part) is not int]
    for index in sorted(by_size, key=lambda index: -parts[index].size):
        if excess <= 0:
            return
        serialized, key = parts[index], id(values[index])
        if key not in put_before:
            put_before[key] = deps.setdefault(put(serialized), len(deps))
        parts[index] = put_before[key]
        excess -= serialized.size
