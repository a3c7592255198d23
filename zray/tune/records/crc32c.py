"""CRC-32C (Castagnoli), as the records of TensorBoard's event files carry it.

The checksum is linear: the checksum of a block is the exclusive-or of one table entry for each byte, by the byte's
distance from the block's end.  numpy looks all entries of a block up at once, in some microseconds.  A loop is faster
for a few bytes.
"""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["crc32c", "masked_crc32c"]

POLYNOMIAL = 0x82F63B78
# Bytes that are looked up at once: most events are shorter, and the table has 1 KiB for each byte.
BLOCK = 512
# Bytes up to which the loop is as fast.
SHORT = 24


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ POLYNOMIAL if byte & 1 else byte >> 1
    return byte


@functools.cache
def _entries() -> list[int]:
    return [_entry(byte) for byte in range(256)]


@functools.cache
def _table() -> Any:
    """The entries of a byte at each place of a block, one place after the other, and the offsets of the places.

    The last place has no byte behind it.
    """
    import numpy

    entries = numpy.array(_entries(), dtype=numpy.uint32)
    table: Any = numpy.empty((BLOCK, 256), dtype=numpy.uint32)
    table[-1] = entries
    for place in range(BLOCK - 2, -1, -1):
        table[place] = (table[place + 1] >> 8) ^ entries[table[place + 1] & 0xFF]
    return table.ravel(), numpy.arange(BLOCK) * 256


@functools.lru_cache(maxsize=BLOCK)
def _behind(state: int, size: int) -> int:
    """The share of a state in the checksum after `size` further bytes."""
    for _ in range(size):
        state = state >> 8 ^ _entries()[state & 0xFF]
    return state


def crc32c(data: bytes) -> int:
    """The checksum of bytes."""
    state = 0xFFFFFFFF
    if len(data) <= SHORT:
        entries = _entries()
        for byte in data:
            state = state >> 8 ^ entries[(state ^ byte) & 0xFF]
        return state ^ 0xFFFFFFFF
    import numpy

    table, offsets = _table()
    for start in range(0, len(data), BLOCK):
        block = numpy.frombuffer(data, numpy.uint8, min(BLOCK, len(data) - start), start)
        found = numpy.bitwise_xor.reduce(table.take(offsets[-len(block) :] + block))
        state = _behind(state, len(block)) ^ int(found)
    return state ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """The checksum as records carry it: rotated, plus a constant."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
