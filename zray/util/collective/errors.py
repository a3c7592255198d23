"""Errors of collective groups, and what a rank says of its call so that ranks can compare.

Each rank sends a `Header` ahead of its data.  All ranks see all headers, so each of them finds the same difference and
raises the same text, before an element of any tensor has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

# Functions that two ranks call.
PAIRED = ("send", "recv")


class CollectiveGroupError(RuntimeError):
    """A member of the group has died or left, or the group was never complete.

    The group is over in all its members (indefinite: elements of the tensor may have changed).  `init_collective_group`
    makes the group again.
    """

    __module__ = "zray.util.collective"


class CollectiveMismatchError(RuntimeError):
    """The ranks called different things: other shapes, dtypes, operations, or another order.

    No tensor was changed (definite).  The group goes on, unless one rank sent or received while others called for all:
    then it is over.
    """

    __module__ = "zray.util.collective"

    is_over = False


class Header(msgspec.Struct, array_like=True, frozen=True):
    """Call of one rank: the function, its operation or peer, and the tensor."""

    function: str  # as "allreduce"
    detail: str  # as "SUM", or "from rank 0"
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        if not self.dtype:
            return self.function
        detail = f" {self.detail}" if self.detail else ""
        return f"{self.function}{detail} of {self.dtype} {self.shape}"


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Header).decode


def require_equal(group: str, headers: Sequence[Header]) -> None:
    """Compare the calls of all ranks, in the order of their ranks.

    Raises:
        CollectiveMismatchError: they differ.
    """
    first = headers[0]
    if all(header == first for header in headers):
        return
    ranks_by_header: dict[Header, list[int]] = {}
    for rank, header in enumerate(headers):
        ranks_by_header.setdefault(header, []).append(rank)
    raise mismatch(group, ranks_by_header)


def require_pair(group: str, sender: int, sent: Header, receiver: int, wanted: Header) -> None:
    """Compare a send with its recv.

    Raises:
        CollectiveMismatchError: the two do not belong together.
    """
    is_pair = (sent.function, sent.detail) == ("send", f"to rank {receiver}") and (
        wanted.function,
        wanted.detail,
    ) == ("recv", f"from rank {sender}")
    if not is_pair or (sent.dtype, sent.shape) != (wanted.dtype, wanted.shape):
        raise mismatch(group, {sent: [sender], wanted: [receiver]})


def mismatch(group: str, ranks_by_header: dict[Header, list[int]]) -> CollectiveMismatchError:
    """The error for calls that differ."""
    sides = "; ".join(f"{ranks_text(ranks)}: {header}" for header, ranks in ranks_by_header.items())
    error = CollectiveMismatchError(
        f"The ranks of group {group!r} made different calls, and no tensor was changed.  {sides}."
    )
    kinds = {header.function in PAIRED for header in ranks_by_header}
    error.is_over = len(kinds) > 1
    return error


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks for a message: "rank 1" or "ranks 0, 2"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
