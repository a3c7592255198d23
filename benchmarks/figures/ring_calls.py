"""Ring allreduce as the paper programs it: calls of actors, and one chunk of the array for each rank.

All calls are submitted at once.  The results of one step are the arguments of the next one, so the dependencies of the
calls make the ring: 2 (n - 1) steps of n calls each.  Each chunk may travel in several pieces; then a rank adds one
piece while the next one is on its way.  With one piece it does one after the other: one stream, the paper's "Ray*".
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import zray

MANY_PIECES, ONE_PIECE = 4, 1
PIECE_BYTES_MIN = 1 << 18  # a smaller chunk travels whole
ITEM = 4  # bytes of a float32
SETTLING_CALLS = 1  # before the first that counts
GET_SECONDS = 120.0


class Member:
    """Rank of the ring.  Its array is full of rank + 1, so the sum is known."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.own: Any = None  # one piece: all of them are alike
        self.sums: dict[tuple[int, int], Any] = {}
        self.found: dict[tuple[int, int], Any] = {}

    def prepare(self, items: int, pieces: int) -> None:
        """Make an array of `items` for each piece of each chunk."""
        self.own = np.full(items, self.rank + 1, np.float32)
        self.sums = {(chunk, piece): np.ones_like(self.own) for chunk in range(self.size) for piece in range(pieces)}
        self.found = {}

    def chunk(self) -> Any:
        """Return a piece of the own array, as a value of the store."""
        return self.own

    def add(self, chunk: int, piece: int, incoming: Any) -> Any:
        """Add the own piece, and pass the sum on."""
        total = np.add(self.own, incoming, out=self.sums[chunk, piece])
        self.found[chunk, piece] = total
        return total

    def store(self, chunk: int, piece: int, incoming: Any, passes: bool) -> Any:
        """Keep a piece of the result, and pass it on unless the ring ends here."""
        self.found[chunk, piece] = incoming
        return incoming if passes else None

    def is_right(self, pieces: int) -> bool:
        """Whether the whole result is here, and the sum of all ranks."""
        wanted = self.size * (self.size + 1) / 2
        is_whole = len(self.found) == self.size * pieces
        return is_whole and all(bool((array == wanted).all()) for array in self.found.values())


def pieces_of(size: int, ranks: int, most: int) -> int:
    """Return the number of pieces of a chunk."""
    return max(1, min(most, size // ranks // PIECE_BYTES_MIN))


def submit(members: Sequence[Any], flying: list[list[Any]]) -> list[Any]:
    """Submit all calls.  flying: the refs of each rank's own chunk, piece by piece.  Returns the refs of the ends."""
    ranks = len(members)
    ends: list[Any] = []
    for step in range(ranks - 1):
        flying = [
            [member.add.remote((rank - 1 - step) % ranks, i, ref) for i, ref in enumerate(flying[rank - 1])]
            for rank, member in enumerate(members)
        ]
    for step in range(ranks - 1):
        is_last = step == ranks - 2
        flying = [
            [member.store.remote((rank - step) % ranks, i, ref, not is_last) for i, ref in enumerate(flying[rank - 1])]
            for rank, member in enumerate(members)
        ]
        if is_last:
            ends = [ref for refs in flying for ref in refs]
    return ends


def once(members: Sequence[Any], pieces: int) -> float:
    """Return the seconds of one allreduce.  Each rank's own chunk is a value of the store before."""
    own = [[member.chunk.remote() for _ in range(pieces)] for member in members]
    all_of_them = [ref for refs in own for ref in refs]
    zray.wait(all_of_them, num_returns=len(all_of_them), timeout=GET_SECONDS, fetch_local=False)
    started = time.perf_counter()
    zray.get(submit(members, own), timeout=GET_SECONDS)
    return time.perf_counter() - started


def measure(members: Sequence[Any], sizes: Sequence[int], pieces_max: int, calls: int) -> dict[int, float]:
    """Return the median of milliseconds by size, of so many calls each.

    Raises:
        AssertionError: a sum is wrong.
    """
    found = {}
    for size in sizes:
        ranks = len(members)
        pieces = pieces_of(size, ranks, pieces_max)
        items = max(1, size // ITEM // ranks // pieces)
        zray.get([member.prepare.remote(items, pieces) for member in members], timeout=GET_SECONDS)
        times = [once(members, pieces) for _ in range(SETTLING_CALLS + calls)][SETTLING_CALLS:]
        assert all(zray.get([member.is_right.remote(pieces) for member in members], timeout=GET_SECONDS))
        found[size] = statistics.median(times) * 1e3
    return found


def members_of(ranks: int, *, are_apart: bool = False) -> list[Any]:
    """Return the actors of a ring.  are_apart: rank i is on the node with the resource node-i."""
    member: Any = zray.remote(num_cpus=0)(Member)
    if not are_apart:
        return [member.remote(rank, ranks) for rank in range(ranks)]
    return [member.options(resources={f"node-{rank}": 1}).remote(rank, ranks) for rank in range(ranks)]
