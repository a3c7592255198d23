"""How a value lies in memory: its first byte says the format.

    0x00-0x7f 0xa0-0xdb 0xe0-0xff  one msgpack scalar, as msgspec writes it
    0x80  PICKLE           a pickle of protocol 5, as it is (every such pickle begins with this byte)
    0x81  PICKLE_BUFFERS   table, pickle, then its out-of-band buffers
    0x82  TASK_ERROR       what the user's code raised (errors.py)
    0x83  SYSTEM_ERROR     what befell a task (exceptions.py)
    0x84  NDARRAY          head with dtype and shape, then the elements
    0x85  BYTES            64 bytes of head, then the bytes
    0x86  TUPLE            msgpack array of scalars
    0x87  DICT             msgpack map of str to scalars
    0x90-0x9f 0xdc         a list of scalars, as msgpack

So a small value carries no head of ours at all. Maps and extensions of msgpack are never written at the top
of a value, which leaves their first bytes free for the tags.

Buffers follow the in-band part in order, each at the next multiple of its alignment, so that offsets need not
be written down.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

PICKLE = 0x80
PICKLE_BUFFERS = 0x81
NDARRAY = 0x84
BYTES = 0x85
TUPLE = 0x86
DICT = 0x87

# A cache line, and the widest vector registers: what numpy's own loops and BLAS like best.
ALIGNMENT = 64
# Smaller buffers are aligned for any element, without the padding: a list of a thousand small arrays stays
# small.
SMALL_ALIGNMENT = 16
SMALL_BUFFER_MAX = 4096

# Tag, number of buffers, bytes of the pickle; then each buffer's length in 8 bytes.
TABLE = struct.Struct("<B3xIQ")
BYTES_HEAD = bytes((BYTES,)) + bytes(ALIGNMENT - 1)


class Serialized(Struct, frozen=True, gc=False):
    """A value taken apart.

    inband: the head and everything that was copied.  buffers: what was not: 1-d contiguous memoryviews of
    bytes, which keep the value's memory alive.  contained: ids of the refs inside, unique, in first-seen
    order. size: bytes when laid out.
    """

    inband: bytes
    buffers: Sequence[memoryview] = ()
    contained: tuple[bytes, ...] = ()
    size: int = 0


def alignment_of(length: int) -> int:
    return ALIGNMENT if length >= SMALL_BUFFER_MAX else SMALL_ALIGNMENT


def with_buffers(inband: bytes, buffers: Sequence[memoryview], contained: tuple[bytes, ...] = ()) -> Serialized:
    """A Serialized with its size worked out."""
    end = len(inband)
    for buffer in buffers:
        alignment = alignment_of(buffer.nbytes)
        end = -(-end // alignment) * alignment + buffer.nbytes
    return Serialized(inband, buffers, contained, end)


def pickle_with_buffers(data: bytes, buffers: Sequence[memoryview], contained: tuple[bytes, ...]) -> Serialized:
    """A pickle and its out-of-band buffers (PICKLE_BUFFERS)."""
    lengths = [buffer.nbytes for buffer in buffers]
    head = TABLE.pack(PICKLE_BUFFERS, len(lengths), len(data))
    return with_buffers(head + struct.pack(f"<{len(lengths)}Q", *lengths) + data, buffers, contained)


def split_pickle(view: memoryview) -> tuple[memoryview, list[memoryview]]:
    """The pickle and the buffers that `pickle_with_buffers` put together: views, nothing is copied.

    Raises:
        ValueError: the bytes end too early.
    """
    _, count, length = TABLE.unpack_from(view)
    lengths = struct.unpack_from(f"<{count}Q", view, TABLE.size)
    start = TABLE.size + 8 * count
    end = start + length
    data = view[start:end]
    buffers = []
    for size in lengths:
        alignment = alignment_of(size)
        begin = -(-end // alignment) * alignment
        end = begin + size
        buffers.append(view[begin:end])
    if end > len(view):
        raise ValueError(f"a value of {end} bytes is here with {len(view)} bytes only")
    return data, buffers


def placed(serialized: Serialized) -> Iterator[tuple[int, memoryview]]:
    """Each buffer with its offset from the start of the value."""
    end = len(serialized.inband)
    for buffer in serialized.buffers:
        alignment = alignment_of(buffer.nbytes)
        begin = -(-end // alignment) * alignment
        yield begin, buffer
        end = begin + buffer.nbytes
