"""Messages <-> msgpack bytes.  The only place where bytes from a peer become objects.

An invalid frame raises ProtocolError, whose text names the field.  No other exception is raised.  Bulk data of a
message (message.Bulk) stands inside a frame between processes.  Between hosts, bulk data travels as separate parts
behind the frame, without a copy on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import msgspec

from ..exceptions import ProtocolError
from . import (  # noqa: F401  each declares messages
    actors,
    chain,
    counts,
    drains,
    events,
    gcs,
    groups,
    handles,
    homes,
    hosting,
    hosts,
    listing,
    objects,
    orders,
    output,
    reasons,
    relay,
    scheduling,
    session,
    shards,
    tasks,
    wards,
)
from .limits import BULK_BYTES_MAX, Plenty, Text
from .message import RETIRED_TAGS, ROUTES, Bulk, Message


def _message_types() -> dict[int, type[Message]]:
    table: dict[int, type[Message]] = {}
    for item in Message.__subclasses__():
        tag = item.__struct_config__.tag
        if tag not in ROUTES or table.setdefault(tag, item) is not item or tag in RETIRED_TAGS:
            raise TypeError(f"{item.__name__} needs a tag of its own with a route (message.routed), not {tag}")
    return dict(sorted(table.items()))


# tag -> message class: the whole vocabulary (docs/protocol.md is generated from it).
MESSAGE_TYPES = _message_types()

if TYPE_CHECKING:
    AnyMessage = Message
else:
    AnyMessage = reduce(or_, MESSAGE_TYPES.values())


class Envelope(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A frame between a process and its node.

    `sequence` counts the frames of a link from 1.  `acknowledged` says that all frames up to this number have been
    received.
    """

    epoch: int
    sequence: int
    acknowledged: int
    messages: Plenty[AnyMessage]


class Letter(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Messages of one role to a role of another host."""

    source: Text
    target: Text
    messages: Plenty[AnyMessage]


class Mail(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A frame between hosts.  Fields as in Envelope.  Sequence 0 stands outside the numbering (hosts.py)."""

    epoch: int
    sequence: int
    acknowledged: int
    letters: Plenty[Letter]


# Parts of the present frame between hosts.  The number of a part stands in place of its bulk data.  A frame is finished
# before the next frame, by the one thread of a reactor.
_parts_out: list[Bulk] = []
_parts_in: Sequence[bytes | memoryview] = ()


def _bulk_inside(value: Any) -> Any:
    if type(value) is Bulk:
        return value.data
    raise TypeError(f"{type(value).__name__} is nothing that messages have")


def _bulk_behind(value: Any) -> Any:
    if type(value) is Bulk:
        _parts_out.append(value)
        return len(_parts_out) - 1
    return _bulk_inside(value)


def _find_bulk(kind: type, value: Any) -> Any:
    if kind is Bulk and type(value) is bytes:
        return _as_bulk(value)
    if kind is Bulk and type(value) is int and 0 <= value < len(_parts_in):
        return _as_bulk(_parts_in[value])
    raise ValueError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _as_bulk(data: bytes | memoryview) -> Bulk:
    if len(data) > BULK_BYTES_MAX:
        raise ValueError(f"{len(data):,} bytes in bulk, of at most {BULK_BYTES_MAX:,}")
    return Bulk(data)


encode = msgspec.msgpack.Encoder(enc_hook=_bulk_inside).encode
_encode_mail = msgspec.msgpack.Encoder(enc_hook=_bulk_behind).encode
_decode = msgspec.msgpack.Decoder(Envelope, dec_hook=_find_bulk).decode
_decode_mail = msgspec.msgpack.Decoder(Mail, dec_hook=_find_bulk).decode


def can_be_encoded(message: Message) -> bool:
    """True if the fields can be encoded: text must be UTF-8, and numbers must fit into 64 bits."""
    try:
        encode(message)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def decode(frame: bytes) -> Envelope:
    """The envelope of a frame.

    Raises:
        ProtocolError: the bytes are no frame, or a message in it has no such form (definite).
    """
    try:
        return _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of protocol messages: {error}") from error


def encode_mail(mail: Mail) -> tuple[bytes, Sequence[Bulk]]:
    """A frame between hosts, and the parts that follow the frame."""
    _parts_out.clear()  # an earlier frame may have failed half-way
    frame = _encode_mail(mail)
    return (frame, tuple(_parts_out)) if _parts_out else (frame, ())


def decode_mail(frame: bytes | memoryview, parts: Sequence[bytes | memoryview] = ()) -> Mail:
    """The mail of a frame between hosts, and of the parts that followed the frame.

    Raises:
        ProtocolError: as decode.
    """
    global _parts_in
    _parts_in = parts
    try:
        return _decode_mail(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of mail: {error}") from error
    finally:
        _parts_in = ()
