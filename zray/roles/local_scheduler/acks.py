"""Actions after acknowledgements of shards: a ref leaves only after the shards know the local node as a holder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from ...wire.gcs import HoldAtNodeReply
from ..role import on

if TYPE_CHECKING:
    from .scheduler import LocalScheduler


class Expected(Struct, gc=False, eq=False):
    """Missing replies to a request."""

    count: int
    then: Callable[[], None]
    node: str  # what it is for goes with this node; "": stays


class Acks:
    """A node's requests to shards that are acknowledged."""

    PASSING = {"expected": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.request = 0
        self.expected: dict[int, Expected] = {}

    def next_request(self) -> int:
        """Return the number of a new request."""
        self.request += 1
        return self.request

    def expect(self, request: int, count: int, then: Callable[[], None], node: str = "") -> None:
        """Call `then` after `count` replies; at once if `count` is 0."""
        if count:
            self.expected[request] = Expected(count, then, node)
        else:
            then()

    def expect_more(self, request: int, count: int) -> None:
        """Expect further replies to a request, which was sent again in parts."""
        if request in self.expected:
            self.expected[request].count += count

    def acknowledged(self, request: int) -> None:
        """Count a reply to a request of ours, or of `remote`: HoldAtNodeReply, RecordTasksReply, or a settled
        request."""
        expected = self.expected.get(request)
        if expected is None:
            return
        expected.count -= 1
        if not expected.count:
            del self.expected[request]
            expected.then()

    @on(HoldAtNodeReply)
    def on_held(self, message: HoldAtNodeReply) -> None:
        """HoldAtNodeReply."""
        if message.are_gone:
            self.node.fetches.inside_is_gone(message.request)
            self.node.names.elsewhere.is_gone(message.request)
        self.acknowledged(message.request)

    def node_lost(self, lost: str) -> None:
        """Drop the actions for a lost node."""
        self.expected = {request: item for request, item in self.expected.items() if item.node != lost}
