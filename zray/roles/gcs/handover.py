"""A member's successor gets what it lacks: the updates after what it has, or the whole state (see chain.py).

What the member has in its store and not in memory (flushing.py) goes ahead of the state, a page at a time, while the
shard goes on; when the successor has all pages that the state speaks of at that moment, it gets the state.

    member -> successor      ChainLineage ... ChainState ... ChainUpdates
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.chain import ChainHave, ChainLineage, ChainState, ChainUpdates, Update
from ..effects import PageLost, PageRead
from .pages import unpack_page
from .replica import Replica

if TYPE_CHECKING:
    from .chain import ChainMember

# In one message: with what the specs of tasks may weigh, well below what a frame may have.
UPDATES_MAX = 100


class Handover:
    """Of one member."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.refused = ""  # why the successor cannot have the state
        self._sent: dict[int, None] | None = None  # pages that the successor has; None: it asks for nothing
        self._parts: list[bytes] = []  # from our predecessor
        self._pages: dict[int, list[bytes]] = {}

    def forget(self) -> None:
        """There is another chain: whoever has asked asks again, and what has come in part comes anew."""
        self.refused = ""
        self._sent = None
        self._parts.clear()
        self._pages.clear()

    # --- to our successor ---

    def on_chain_have(self, message: ChainHave) -> None:
        """ChainHave: send what it lacks."""
        member = self.member
        if not member.is_current(message) or member.sender != member.neighbour(1):
            return
        if not member.has_caught_up:
            member.aside.put(member.aside.waiting, message)
            return
        replica = member.replica
        assert replica is not None and message.sequence <= replica.sequence, "a successor that is ahead"
        if message.sequence < member.forgotten or message.sequence < 0:
            self._sent = {}
            self._go_on()
        else:
            self._follow([update for update in member.history if update.sequence > message.sequence])

    def _follow(self, missing: list[Update]) -> None:
        self.member.follows = True
        self.member.fresh.clear()
        self.pass_on(missing)

    def pass_on(self, updates: list[Update]) -> None:
        """At least one message."""
        member = self.member
        for start in range(0, len(updates) or 1, UPDATES_MAX):
            member.send(member.neighbour(1), ChainUpdates(member.epoch, updates[start : start + UPDATES_MAX]))

    def _go_on(self) -> None:
        """The next page; or the state."""
        member, sent = self.member, self._sent
        assert member.replica is not None and sent is not None
        for page in member.replica.shard.tasks.pages:
            if page not in sent:
                member.flushing.read(page)
                return
        self._sent = None
        parts = list(member.replica.dump())
        for number, part in enumerate(parts, start=1):
            member.send(
                member.neighbour(1), ChainState(member.epoch, member.replica.sequence, number, len(parts), part)
            )
        self._follow([])

    def on_page_read(self, message: PageRead) -> None:
        """PageRead, for us or not."""
        member = self.member
        if self._sent is None:
            return
        if message.page not in self._sent:
            self._sent[message.page] = None
            member.send(member.neighbour(1), ChainLineage(member.epoch, message.page, message.data))
        self._go_on()

    def on_page_lost(self, message: PageLost) -> None:
        """PageLost: nobody else may have the state without it."""
        replica = self.member.replica
        if self._sent is None or replica is None:
            return
        if message.page in replica.shard.tasks.pages:
            self._sent = None
            self.refused = message.reason
        else:
            self._go_on()  # it was needed when we asked for it

    # --- from our predecessor ---

    def on_chain_lineage(self, message: ChainLineage) -> None:
        """ChainLineage: a page of what comes after it."""
        member = self.member
        if member.is_current(message) and member.sender == member.neighbour(-1):
            self._pages[message.page] = unpack_page(message.data)

    def on_chain_state(self, message: ChainState) -> None:
        """ChainState: when the last part is here, it is our state."""
        member = self.member
        if not member.is_current(message) or member.sender != member.neighbour(-1):
            return
        self._parts.append(message.data)
        if message.number < message.count:
            return
        replica, _ = Replica.load(member.shard, self._parts, self._pages)
        self._parts, self._pages = [], {}
        member.take_over(replica)
