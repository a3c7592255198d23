"""Memory that the members of a group on one node share: one area per rank, which that rank writes and all others read.

The segment has no name (memfd): it goes with its last member, however that ends.  An area has `SLOTS` slots.  A slot
holds a round of contributions, one part for each rank, and a part of the result.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from typing import Any

import numpy

SLOTS = 3  # as many as `exchange.Exchange.rounds` needs
# Contributions of a rank to one round: so short that they stay in the cache until the others have read them.
ROUND_BYTES = 1 << 20
PART_ALIGNMENT = 64
_F_ADD_SEALS = 1033
_F_SEAL_SHRINK, _F_SEAL_GROW = 0x2, 0x4


class Memory:
    """The mapped segment of a group.

    part_bytes: length of a part of a round, which belongs to one rank; round_bytes: of all parts of a round.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        """Map a segment.

        Args:
            descriptor: of the segment, which this object closes.
            size: number of ranks.
        """
        self.part_bytes = part_bytes(size)
        self.round_bytes = size * self.part_bytes
        self._slot_bytes = (size + 1) * self.part_bytes
        self._area_bytes = SLOTS * self._slot_bytes
        self._result = size
        self._descriptor = descriptor
        self._mapping = mmap.mmap(descriptor, size * self._area_bytes)
        self._is_reserved = False

    @staticmethod
    def create(name: str, size: int) -> int:
        """Return the descriptor of a new segment for so many ranks; nobody can cut it later.

        Raises:
            OSError: the machine or a limit of this process does not allow it.
        """
        descriptor = os.memfd_create(f"zray-{name}"[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size * SLOTS * (size + 1) * part_bytes(size))
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _F_SEAL_SHRINK | _F_SEAL_GROW)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def reserve(self, rank: int) -> None:
        """Allocate the pages of the own area, once, ahead of the first write.

        Raises:
            OSError: the machine has too little memory.
        """
        if self._is_reserved:
            return
        try:
            os.posix_fallocate(self._descriptor, rank * self._area_bytes, self._area_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                text = f"the machine has no memory for the {self._area_bytes:,} bytes that a rank shares with its group"
                raise OSError(error.errno, text) from None
            raise
        self._is_reserved = True

    def contribution(self, rank: int, turn: int, owner: int, dtype: Any, count: int) -> Any:
        """Return what a rank contributes to the part of another rank, as an array.

        Args:
            rank: whose area.
            turn: number of the round.
            owner: the rank that reads the part.
            dtype: of the elements.
            count: number of elements; the parts of all owners lie side by side.
        """
        offset = rank * self._area_bytes + turn % SLOTS * self._slot_bytes + owner * self.part_bytes
        return numpy.frombuffer(self._mapping, dtype, count, offset)

    def result(self, rank: int, turn: int, dtype: Any, count: int) -> Any:
        """Return the result of a rank's part, as an array.  Arguments as of `contribution`."""
        return self.contribution(rank, turn, self._result, dtype, count)

    def close(self) -> None:
        """Let the segment go, now or with the last array on it."""
        os.close(self._descriptor)
        try:
            self._mapping.close()
        except BufferError:
            pass  # an array of an interrupted call is alive


def part_bytes(size: int) -> int:
    """Return the length of a rank's part of a round, in a group of so many ranks."""
    return max(ROUND_BYTES // size // PART_ALIGNMENT, 1) * PART_ALIGNMENT
