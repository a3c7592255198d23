"""The transfer to a member's successor: missing updates, or the whole state (see chain.py).

The state goes in parts, some ahead of the successor's confirmations, while the member works on: clients only notice
turns longer by a few milliseconds.  All parts are of the same moment (`Dump`).  Later updates follow at once, and wait
at the successor for the last part.

Specs in the member's store and not in memory (flushing.py) go ahead of the parts that refer to them.

    member -> successor      ChainState, ChainLineage, ChainUpdates ...
    successor -> member      ChainTaken
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...wire.chain import ChainHave, ChainLineage, ChainSafe, ChainState, ChainTaken, ChainUpdates, Update
from ..effects import HeadChanged, PageLost, PageRead
from ..role import on
from .flushing import unpack_page
from .replica import Dump, Replica

if TYPE_CHECKING:
    from .chain import ChainMember

# Updates per message: with the size of specs, well below a frame's limit.
UPDATES_MAX = 100
# Parts in flight: one is encoded while the successor decodes the other.
PARTS_AHEAD = 2


class Handover:
    """The handover of a member."""

    PASSING = {"_pages _later fresh": None, "_coming": ...}

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.refused = ""  # why the successor cannot have the state
        self.wants_safe = False  # the successor asks for our durable updates
        self._told_safe = -1
        # To our successor.
        self.follows = False  # the successor has reported its updates, and gets later ones
        self.fresh: list[Update] = []  # leaves at the end of the turn
        self._is_asked = False  # for the state, and nothing has gone yet: another dump is under way
        self._dump: Dump | None = None
        self._next: tuple[bytes, bool] | None = None  # a part that waits for its pages
        self._sent = 0  # the number of the last part
        self._taken = 0  # as the successor says
        # From our predecessor.
        self._coming: Replica | None = None  # an incomplete state
        self._pages: dict[int, list[bytes]] = {}
        self._later: list[Update] = []  # updates after it

    def forget(self) -> None:
        """Forget transfers of a former chain: members ask again, and an incomplete state is sent again."""
        self.refused = ""
        self.wants_safe = False
        self._told_safe = -1
        self._is_asked = self.follows = False
        self.fresh.clear()
        self._end()
        self._drop()

    @on(HeadChanged)
    def on_head_changed(self, message: HeadChanged) -> None:
        """Handle HeadChanged: follow the new chain master.  Work in the former chain stops; the member offers its
        state.
        """
        member = self.member
        if member.master != f"{message.former}/chains" or member.is_out:
            return
        member.follows_master(f"{message.head}/chains")
        self.forget()
        member.stalls.forget()
        member.start()

    # --- to our successor ---

    @on(ChainHave)
    def on_chain_have(self, message: ChainHave) -> None:
        """Handle ChainHave: send the successor its missing updates."""
        member = self.member
        if not member.is_current(message) or member.sender != member.neighbour(1):
            return
        if not member.has_caught_up:
            member.aside.put(member.aside.waiting, message)
            return
        self.wants_safe = message.wants_safe
        replica = member.replica
        assert replica is not None and message.sequence <= replica.sequence, "a successor that is ahead"
        if message.sequence < member.forgotten or message.sequence < 0:
            self._end()
            self._is_asked = True
        else:
            self._follow()
            self.pass_on(list(islice(member.history, message.sequence - member.forgotten, None)))

    def _follow(self) -> None:
        """Send later updates to the successor from now on."""
        self.follows = True
        self.fresh.clear()

    def applied(self, update: Update) -> None:
        """Add an update for the successor."""
        if self.follows:
            self.fresh.append(update)

    def pass_on(self, updates: list[Update]) -> None:
        """Send updates, in at least one message."""
        member = self.member
        for start in range(0, len(updates) or 1, UPDATES_MAX):
            member.send(member.neighbour(1), ChainUpdates(member.epoch, updates[start : start + UPDATES_MAX]))

    def end_turn(self) -> None:
        """Begin to send the state, if requested: a single dump of a replica at a time."""
        replica = self.member.replica
        if self._is_asked and replica is not None and not replica.is_dumping:
            self._is_asked = False
            self._dump, self._sent, self._taken = Dump(replica), 0, 0
            self._follow()
            self._go_on()
        if self.fresh:
            fresh, self.fresh = self.fresh, []
            self.pass_on(fresh)

    def _go_on(self) -> None:
        """Send the next parts, each after all pages with references in it."""
        member = self.member
        while self._dump is not None and self._sent - self._taken < PARTS_AHEAD:
            self._next = self._next or self._dump.take()
            if self._dump.new_pages and self._sent:  # the first part speaks of none
                member.flushing.read(self._dump.new_pages[0])
                return
            (data, is_last), self._next = self._next, None
            self._sent += 1
            member.send(member.neighbour(1), ChainState(member.epoch, self._dump.sequence, self._sent, is_last, data))
            if is_last:
                self._dump = None

    @on(ChainTaken)
    def on_chain_taken(self, message: ChainTaken) -> None:
        """Handle ChainTaken: send further parts."""
        member = self.member
        # A message of an older epoch is about a state no longer wanted.
        if message.epoch == member.epoch and member.sender == member.neighbour(1):
            self._taken = max(self._taken, min(message.number, self._sent))
            self._go_on()

    def on_page_read(self, message: PageRead) -> None:
        """PageRead, for us or not."""
        member, dump = self.member, self._dump
        if dump is not None and dump.new_pages and dump.new_pages[0] == message.page:
            dump.new_pages.popleft()
            member.send(member.neighbour(1), ChainLineage(member.epoch, message.page, message.data))
            self._go_on()

    def on_page_lost(self, message: PageLost) -> None:
        """Handle PageLost: no other member may get the state without the page."""
        if self._dump is not None and self._dump.new_pages and self._dump.new_pages[0] == message.page:
            self._end()
            self.refused = message.reason
            self.follows = False

    def _end(self) -> None:
        """Nothing goes to a successor."""
        if self._dump is not None:
            self._dump.close()
        self._dump = self._next = None

    @property
    def is_awaited(self) -> bool:
        """Whether the tail waits for our disk.  A successor that was the tail does not wait any more."""
        return self.wants_safe and self.member.neighbour(1) == self.member.members[-1]

    def tell_what_is_safe(self) -> None:
        """Report durable updates to a successor on request."""
        member = self.member
        if self.wants_safe and self.follows and member.safe > self._told_safe:
            self._told_safe = member.safe
            member.send(member.neighbour(1), ChainSafe(member.epoch, member.safe))

    # --- from our predecessor ---

    @on(ChainSafe)
    def on_chain_safe(self, message: ChainSafe) -> None:
        """Handle ChainSafe: note the predecessor's durable updates."""
        member = self.member
        if member.is_current(message) and member.sender == member.neighbour(-1):
            member.safe_before = max(member.safe_before, message.sequence)

    @on(ChainLineage)
    def on_chain_lineage(self, message: ChainLineage) -> None:
        """Handle ChainLineage: keep a page for later parts."""
        member = self.member
        if member.is_current(message) and member.sender == member.neighbour(-1):
            self._pages[message.page] = unpack_page(message.data)

    @on(ChainState)
    def on_chain_state(self, message: ChainState) -> None:
        """Handle ChainState: add a part, and adopt the state after the last one."""
        member = self.member
        if not member.is_current(message) or member.sender != member.neighbour(-1):
            return
        if message.number == 1:
            self._later.clear()
            self._coming = Replica(member.shard)
            self._coming.load_sessions(message.data)
        elif self._coming is None:
            member.reject("a part of a state, and none before it")
            return
        else:
            self._coming.shard.load([message.data], self._pages)
        member.send(member.sender, ChainTaken(member.epoch, message.number))
        if message.is_last:
            replica, later = self._coming, self._later
            self._drop()
            member.take_over(replica)
            member.receive(later)

    def put_aside(self, updates: list[Update]) -> bool:
        """Hold updates back until the state before them is complete.  Returns whether they are held."""
        if self._coming is None:
            return False
        self._later += updates
        return True

    def _drop(self) -> None:
        self._coming, self._pages, self._later = None, {}, []
