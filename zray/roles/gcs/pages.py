"""A page: specs that have left memory together, as bytes for a store.  Nothing in it is ever changed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from ...wire.task_spec import TaskSpec
from .tables import PLACE_BITS

_encode = Encoder().encode
_decode_page = Decoder(list[bytes]).decode
_decode_spec = Decoder(TaskSpec).decode


def pack_spec(spec: TaskSpec) -> bytes:
    """One of a page."""
    return _encode(spec)


def pack_page(specs: list[bytes]) -> bytes:
    """A page of them, in this order."""
    return _encode(specs)


def unpack_page(data: bytes) -> list[bytes]:
    """Raises:
    ValueError: it is none.
    """
    try:
        return _decode_page(data)
    except (MsgspecError, RecursionError) as error:
        raise ValueError(f"no page of specs: {error}") from error


def unpack_spec(specs: list[bytes], place: int) -> TaskSpec:
    """The one that lies there, of an unpacked page.

    Raises:
        ValueError: there is none.
    """
    try:
        return _decode_spec(specs[place & (1 << PLACE_BITS) - 1])
    except (MsgspecError, UnicodeDecodeError, RecursionError, IndexError) as error:
        raise ValueError(f"no spec at place {place:#x}: {error}") from error


def spec_in(pages: Mapping[int, list[bytes]], place: int) -> TaskSpec:
    """The one that lies there, of all pages, unpacked.

    Raises:
        ValueError: there is none.
    """
    specs = pages.get(place >> PLACE_BITS)
    if specs is None:
        raise ValueError(f"no page {place >> PLACE_BITS}")
    return unpack_spec(specs, place)
