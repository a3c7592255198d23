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
# Bytes up to which the loop is faster.
SHORT = 32


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ POLYNOMIAL if byte & 1 else byte >> 1
    return byte


@functools.cache
def _entries() -> list[int]:
    return [_entry(byte) for byte in range(256)]


@functools.cache
def _table() -> Any:
    """[place, byte]: the entry of a byte at a place of a block.  The last place has no byte behind it."""
    import numpy

    entries = numpy.array(_entries(), dtype=numpy.uint32)
    table: Any = numpy.empty((BLOCK, 256), dtype=numpy.uint32)
    table[-1] = entries
    for place in range(BLOCK - 2, -1, -1):
        table[place] = (table[place + 1] >> 8) ^ entries[table[place + 1] & 0xFF]
    return table, numpy.arange(BLOCK)


def crc32c(data: bytes) -> int:
    """The checksum of bytes."""
    state = 0xFFFFFFFF
    if len(data) <= SHORT:
        entries = _entries()
        for byte in data:
            state = state >> 8 ^ entries[(state ^ byte) & 0xFF]
        return state ^ 0xFFFFFFFF
    import numpy

    table, places = _table()
    for start in range(0, len(data), BLOCK):
        block = numpy.frombuffer(data, dtype=numpy.uint8, count=min(BLOCK, len(data) - start), offset=start).copy()
        size = len(block)
        mixed = min(4, size)
        block[:mixed] ^= numpy.frombuffer(state.to_bytes(4, "little"), dtype=numpy.uint8)[:mixed]
        state = (state >> (8 * size) if size < 4 else 0) ^ int(
            numpy.bitwise_xor.reduce(table[places[BLOCK - size :], block])
        )
    return state ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """The checksum as records carry it: rotated, plus a constant."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
