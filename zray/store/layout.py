"""Layout of a value in memory: the first byte tells the format.

    0x00-0x7f 0xa0-0xdb 0xe0-0xff  one msgpack scalar, as written by msgspec
    0x80  PICKLE           a pickle of protocol 5, unchanged (every such pickle begins with this byte)
    0x81  PICKLE_BUFFERS   table, pickle, then its out-of-band buffers
    0x82  TASK_ERROR       what the user's code raised (errors.py)
    0x83  SYSTEM_ERROR     what befell a task (exceptions/__init__.py)
    0x84  NDARRAY          head with dtype and shape, then the elements
    0x85  BYTES            64 bytes of head, or half a page, then the bytes
    0x86  TUPLE            msgpack array of scalars
    0x87  DICT             msgpack map of str to scalars
    0x90-0x9f 0xdc         a list of scalars, as msgpack

A small value thus has no head at all.  Maps and extensions of msgpack are never written at the top of a value, so their
first bytes are free for the tags.

Buffers follow the in-band part in order, each at the next suitable place for its length (`begin_after`), so that
offsets need not be written down.
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

# A cache line, and the widest vector registers: best for numpy's own loops and BLAS.
ALIGNMENT = 64
# Smaller buffers are aligned for any element, without the padding: a list of a thousand small arrays stays
# small.
SMALL_ALIGNMENT = 16
SMALL_BUFFER_MAX = 4096
# From this size on a buffer begins half a page behind a page.  Arrays on the heap begin just behind a page, and glibc's
# copy of many bytes drops to a fifth of its speed if the target lies within some 600 bytes behind the source, modulo a
# page (measured: 3.8 GB/s instead of 18).
HUGE_BUFFER_MIN = 1 << 20
PAGE = 4096

# Tag, number of buffers, bytes of the pickle; then each buffer's length in 8 bytes.
TABLE = struct.Struct("<B3xIQ")
BYTES_HEAD = bytes((BYTES,)) + bytes(ALIGNMENT - 1)


class Serialized(Struct, frozen=True, gc=False):
    """A serialized value in parts.

    inband: the head and all copied data.  buffers: data not copied: 1-d contiguous memoryviews of bytes, which keep the
    value's memory alive.  contained: ids of the refs inside, unique, in first-seen order.  size: bytes when laid out.
    """

    inband: bytes
    buffers: Sequence[memoryview] = ()
    contained: tuple[bytes, ...] = ()
    size: int = 0


def begin_after(end: int, length: int) -> int:
    """Return the start of a buffer of `length` bytes behind data that ends at `end`."""
    if length >= HUGE_BUFFER_MIN:
        return -(-(end - PAGE // 2) // PAGE) * PAGE + PAGE // 2
    alignment = ALIGNMENT if length >= SMALL_BUFFER_MAX else SMALL_ALIGNMENT
    return -(-end // alignment) * alignment


def with_buffers(inband: bytes, buffers: Sequence[memoryview], contained: tuple[bytes, ...] = ()) -> Serialized:
    """Return a Serialized with its size computed."""
    end = len(inband)
    for buffer in buffers:
        end = begin_after(end, buffer.nbytes) + buffer.nbytes
    return Serialized(inband, buffers, contained, end)


def bytes_begin(size: int) -> int:
    """Where the bytes begin in a BYTES value of `size` bytes in all."""
    return PAGE // 2 if size >= HUGE_BUFFER_MIN + PAGE // 2 else len(BYTES_HEAD)


def pickle_with_buffers(data: bytes, buffers: Sequence[memoryview], contained: tuple[bytes, ...]) -> Serialized:
    """Return a pickle with its out-of-band buffers (PICKLE_BUFFERS)."""
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
        begin = begin_after(end, size)
        end = begin + size
        buffers.append(view[begin:end])
    if end > len(view):
        raise ValueError(f"a value of {end} bytes is here with {len(view)} bytes only")
    return data, buffers


def placed(serialized: Serialized) -> Iterator[tuple[int, memoryview]]:
    """Yield each buffer with its offset from the start of the value."""
    end = len(serialized.inband)
    for buffer in serialized.buffers:
        begin = begin_after(end, buffer.nbytes)
        yield begin, buffer
        end = begin + buffer.nbytes
