"""The table of slots, as a node knows it: requests that shards return are sent again, in their order.

    GCS shard    SlotsMoved           the request goes to the owner by the newest table
    GCS shard    AwaitReturnsReply    all that the shard returns has come back

A node hears of a newer table by the first request that comes back.  Others to the same shard are under way then, and
come back too.  Later ones for the same ids must not overtake these.  So a shard that has gained slots is sent nothing
before each shard that has lost those slots has answered AwaitReturns.  The returned requests go first then, and the
held ones after them.

One table is taken at a time: with two, shards could wait for each other.  A newer one waits, and with it the requests
that came back with it.  A table with a shard that is not known here waits too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ....wire import gcs
from ....wire.chain import SlotsMoved
from ....wire.handles import FindHolders
from ....wire.keyed import parts_of
from ....wire.shards import AwaitReturns, AwaitReturnsReply, SlotTable
from ...effects import Effect, Send
from ...role import on

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler


class HeldRequests(Struct, eq=False):
    """The requests that wait for a shard that has gained slots."""

    PASSING = {"missing returned later": None}

    missing: dict[int, None]  # AwaitReturns without an answer
    returned: list[Any] = []
    later: list[Any] = []


class Slots:
    """The node's requests while slots move."""

    PASSING = {"held later": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.held: dict[str, HeldRequests] = {}  # by shard
        self.number = 0  # of the last AwaitReturns
        self.coming: SlotTable | None = None  # newer than the node's
        self.later: list[Any] = []  # came back with it

    def hold_back(self, effects: list[Effect]) -> list[Effect]:
        """Return the effects without requests to shards that have gained slots, which wait."""
        passed: list[Effect] = []
        for effect in effects:
            if type(effect) is Send and type(effect.message) is not AwaitReturns:
                waiting = self.held.get(effect.destination)
                if waiting is not None:
                    waiting.later.append(effect.message)
                    continue
            passed.append(effect)
        return passed

    @on(SlotsMoved)
    def on_slots_moved(self, message: SlotsMoved) -> None:
        """SlotsMoved: an older table than the node's says nothing new."""
        known = self.coming or self.node.addresses.slots
        if message.table.epoch > known.epoch:
            self.coming = message.table
            self._take()
        if message.table.epoch > self.node.addresses.slots.epoch:
            self.later.append(message.request)
        else:
            self._again(message.request)

    def _take(self) -> None:
        """Take the newer table, if no older one is under way and all its shards are known."""
        node, table = self.node, self.coming
        shards, former = node.addresses.shards, node.addresses.slots
        if table is None or self.held or max(table.owners) >= len(shards):
            return
        self.coming = None
        node.addresses.take_slots(table)
        asked: dict[int, int] = {}
        for loser, owner in dict.fromkeys(zip(former.owners, table.owners, strict=True)):
            if loser == owner:
                continue
            if loser not in asked:
                self.number += 1
                asked[loser] = self.number
                node.send(shards[loser], AwaitReturns(self.number))
            self.held.setdefault(shards[owner], HeldRequests({})).missing[asked[loser]] = None
        later, self.later = self.later, []
        for request in later:
            self._again(request)

    @on(AwaitReturnsReply)
    def on_await_returns_reply(self, message: AwaitReturnsReply) -> None:
        """AwaitReturnsReply: shards that wait for no other answer get what was held."""
        for shard, waiting in list(self.held.items()):
            waiting.missing.pop(message.number, None)
            if not waiting.missing:
                del self.held[shard]
                for request in (*waiting.returned, *waiting.later):
                    self.node.send(shard, request)
        self._take()

    def _again(self, request: Any) -> None:
        """Send a request to the owners of its ids."""
        node, kind = self.node, type(request)
        if kind is gcs.FindUnheld:
            node.fates.ask_again(request)
            return
        if kind is FindHolders:
            node.traces.give_up(request.number)
            return
        parts = parts_of(request, node.addresses.slots)
        if len(parts) > 1 and kind in (gcs.RecordTasks, gcs.HoldAtNode):
            node.acks.expect_more(request.request, len(parts) - 1)
        if len(parts) > 1 and kind is gcs.RecordTasks:  # a request to hold may have the same number
            node.lineage.expect_more(request.request, len(parts) - 1)
        for owner, part in parts.items():
            shard = node.addresses.shards[owner]
            if (waiting := self.held.get(shard)) is not None:
                waiting.returned.append(part)
            else:
                node.send(shard, part)
