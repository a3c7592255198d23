"""Messages <-> msgpack bytes.  The only place where bytes from a peer become objects.

Whatever is not a valid frame raises ProtocolError, whose text names the field; nothing else does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

import msgspec

from ..exceptions import ProtocolError
from . import actors, chain, gcs, hosts, objects, reasons, scheduling, session, tasks
from .message import RETIRED_TAGS, Message


def _message_types() -> dict[int, type[Message]]:
    table: dict[int, type[Message]] = {}
    for module in (session, tasks, objects, actors, scheduling, gcs, hosts, chain, reasons):
        for item in vars(module).values():
            if isinstance(item, type) and issubclass(item, Message) and item is not Message:
                tag = item.__struct_config__.tag
                if not isinstance(tag, int) or table.setdefault(tag, item) is not item or tag in RETIRED_TAGS:
                    raise TypeError(f"{item.__name__} needs a tag of its own, not {tag}")
    return dict(sorted(table.items()))


# tag -> message class: the whole vocabulary (docs/protocol.md is generated from it).
MESSAGE_TYPES = _message_types()

if TYPE_CHECKING:
    AnyMessage = Message
else:
    AnyMessage = Union[tuple(MESSAGE_TYPES.values())]  # noqa: UP007


class Envelope(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One frame.  sequence counts the frames of a link from 1; acknowledged: all up to it have been received."""

    epoch: int
    sequence: int
    acknowledged: int
    messages: list[AnyMessage]


class Letter(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What one role says to a role of another host."""

    source: str
    target: str
    messages: list[AnyMessage]


class Mail(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One frame between hosts.  As Envelope; sequence 0 stands outside the numbering (hosts.py)."""

    epoch: int
    sequence: int
    acknowledged: int
    letters: list[Letter]


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode
_decode_mail = msgspec.msgpack.Decoder(Mail).decode


def decode(frame: bytes) -> Envelope:
    """A frame's envelope.

    Raises:
        ProtocolError: the bytes are no frame, or a message in it has no such form (definite).
    """
    try:
        return _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of protocol messages: {error}") from error


def decode_mail(frame: bytes | memoryview) -> Mail:
    """A frame between hosts.

    Raises:
        ProtocolError: as decode.
    """
    try:
        return _decode_mail(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a frame of mail: {error}") from error
