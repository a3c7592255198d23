"""A replica of a shard: chain replication (Ray paper 4.3, 4.4).

A chain is head, middles, tail.  Requests enter at the head, and get numbers and timestamps from the head.  Each member
applies requests to its own copy of the shard and passes them on; the shard's messages leave from the tail alone.  So
members with equal sequences have equal states, and each member has all updates of its successor: *the prefix rule*, the
base of everything below.

    client -> head                   ChainWrite      numbered by the client
    member -> successor              ChainUpdates    numbered by the head
    tail -> client                   ChainResults    numbered per client; the client's requests up to a number are done
    tail -> predecessor ... -> head  ChainAck        updates up to a number are at every member, and may be forgotten
    member -> hosted successor       ChainSafe       updates up to a number are on the member's disk
    client -> tail -> client         ChainRead, ChainReadReply

A *session* per client is part of the replicated state: the number of the last request, and the unconfirmed results.
Duplicate requests and results are recognized by number, and change nothing.  So each request has its effect once, and
each result arrives once and in order, whatever dies in between.

Only the chain master changes the members (ChainChanged), each time under a new epoch: the master removes and appends
members, and never changes the order.  Then:

- every member but the head tells its predecessor its last update (ChainHave); the predecessor, once caught up, sends
    the later updates, or, if already forgotten, the whole state (ChainState, in parts; handover), and then the updates
    after the state.  Only then has a member *caught up* in this epoch;
- a member takes updates only of its own epoch, so updates of an expelled member change nothing;
- the client sends requests not known to be done to the new head again; the new tail sends unconfirmed results to each
    client again.

Why nothing acknowledged is lost: a client takes a request for done when the tail says so.  The tail has the request, so
by the prefix rule every remaining member has the request.  A joining member gets the tail's state and then every
update, while the tail stays the tail.  An appended member becomes a full member, able to remain alone, only when caught
up in the epoch (ChainJoined): until then its predecessor may have acknowledged alone.  A joining member reports
ChainJoined when its log is complete too, since clients will wait for the new tail.

Head dies: the successor has all acknowledged requests, and gets the rest from the clients.  Middle dies: the
predecessor remembers the updates not acknowledged by the tail.  Tail dies: the predecessor has all of the tail's
updates.  An uninformed expelled head can acknowledge nothing, for the successor takes nothing from an expelled head.
An uninformed expelled tail may answer a ChainRead with outdated facts: so only hints (an object's location) are read at
the tail; facts that must be true go through the chain like a write.

Messages that a member of a chain cannot handle yet: bounded per sender, and refused ones are requested again.

A client with refused messages is told (ChainAgain) when the accepted messages are done, and sends the others again.
Limits are per client, so that excessive or invalid messages delay only their sender.

Reports of a replica whose disk accepts no writes while clients wait: to the chain master, for the clients.

Reports cause no decision.  People read reports, as reasons of a long wait and in `zray status`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, MutableSequence
from enum import IntEnum
from typing import Any

from ...wire import chain as wire
from ...wire.chain import STALL_CHARACTERS_MAX, ChainAgain, ChainHave, ChainRead, ChainStalled, ChainWrite
from .. import effects as effect_types
from ..role import Role, on
from . import entrance
from .client import REQUESTS_MAX
from .flushing import Flushing
from .handover import Handover
from .journal import Journal
from .replica import Replica, Results, check_member, count_member

Waiting = MutableSequence[tuple[str, Any]]  # senders and their messages
# Requests of a client: far more than arrive while a chain changes; on a full disk, which stops all work, further ones
# stay with the client instead.
ASIDE_MAX = 10_000


class Aside:
    """Messages that a member holds back."""

    PASSING = {"early waiting counts refused": None} | {
        "messages of one sender": (lambda it: it.counts.values(), lambda _: max(ASIDE_MAX, REQUESTS_MAX))
    }

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.early: list[tuple[str, Any]] = []  # of an epoch not yet known
        self.waiting: list[tuple[str, Any]] = []  # until we have caught up
        self.counts: dict[str, int] = {}  # sender -> number of its requests held
        self.refused: dict[str, None] = {}  # clients to be told to send again

    def put(self, items: Waiting, message: Any) -> None:
        """Add the sender's message to a list above, or to the entrance's, if there is space."""
        member = self.member
        sender = member.sender
        if type(message) is ChainHave:
            self._drop_questions(sender)  # of an older epoch, and no other member would repeat the new one
        count, weight = self.counts.get(sender, 0), _weight(message)
        # After a refused message, later ones cannot be taken either: they are numbered.
        if sender in self.refused or (count and count + weight > ASIDE_MAX):
            if type(message) in (ChainWrite, ChainRead):
                self.refused[sender] = None
            member.reject("more than may wait here: its sender is asked for it again")
            return
        self.counts[sender] = count + weight
        items.append((sender, message))

    def handle(self, items: list[tuple[str, Any]]) -> None:
        """Handle the messages of a list; the handling may add messages to another list."""
        member = self.member
        sender = member.sender
        taken, items[:] = list(items), []
        for source, message in taken:
            self.took(source, message)
        for member.sender, message in taken:
            member.handlers[type(message)](message)
        member.sender = sender

    def keep_questions(self) -> None:
        """Drop waiting messages except questions: members that asked for updates ask again."""
        for source, message in self.waiting:
            if type(message) is not ChainRead:
                self.took(source, message)
        self.waiting[:] = [item for item in self.waiting if type(item[1]) is ChainRead]

    def _drop_questions(self, member: str) -> None:
        for items in (self.early, self.waiting):
            for item in [item for item in items if item[0] == member and type(item[1]) is ChainHave]:
                self.took(*item)
                items.remove(item)

    def clear(self) -> None:
        """Drop all messages for good."""
        for items in (self.early, self.waiting, self.member.entrance.held, self.counts, self.refused):
            items.clear()
        self.member.entrance.owing.clear()

    def end_turn(self) -> None:
        """Tell clients without held messages to send the refused messages."""
        if not self.refused:
            return
        replica = self.member.replica
        for client in [client for client in self.refused if client not in self.counts]:
            del self.refused[client]
            session = replica.sessions.get(client) if replica is not None else None
            self.member.send(client, ChainAgain(1 + (session.received if session is not None else 0)))

    def took(self, sender: str, message: Any) -> None:
        """Note that a message is no longer held."""
        self.counts[sender] -= _weight(message)
        if not self.counts[sender]:
            del self.counts[sender]


def _weight(message: Any) -> int:
    return max(1, len(message.requests)) if type(message) is ChainWrite else 1


class Stalls:
    """The stall report of a member."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.told = ""  # what the master knows

    def why(self) -> str:
        """Return the disk's error; "": the disk works, or no client waits for the disk."""
        member = self.member
        if (log := member.journal) is not None and log.trouble and member.is_awaited:
            return log.trouble
        return member.flushing.trouble if member.flushing.is_over else ""

    def end_turn(self) -> None:
        """Send a changed report."""
        member, why = self.member, self.why()
        if why != self.told:
            self.told = why
            member.send(member.master, ChainStalled(member.shard, [why[:STALL_CHARACTERS_MAX]] if why else []))

    def forget(self) -> None:
        """Forget the report: the master is new, or has removed this member, and knows none."""
        self.told = ""


class MemberState(IntEnum):
    """A replica's part in its chain."""

    OFFERED = 0  # in no chain; a state that it has is of another life, and of use only to a chain's first member
    CATCHING_UP = 1  # in this epoch
    CAUGHT_UP = 2
    FULL = 3  # and the master has been told so
    OUT = 4  # for good


OFFERED, CATCHING_UP, CAUGHT_UP, FULL, OUT = MemberState
# An event without a row here leaves the state as it is.
TRANSITIONS = {
    **{(state, "chain changed"): CATCHING_UP for state in (OFFERED, CATCHING_UP, CAUGHT_UP, FULL)},
    (CATCHING_UP, "caught up"): CAUGHT_UP,
    (CAUGHT_UP, "announced"): FULL,
    **{(state, "master changed"): OFFERED for state in (OFFERED, CATCHING_UP, CAUGHT_UP, FULL)},
    **{(state, "expelled"): OUT for state in (OFFERED, CATCHING_UP, CAUGHT_UP, FULL)},
}


class ChainMember(Role):
    """A replica of a shard.  address: the replica's own; shard: the logical name; master: the chain master.

    is_durable: the member keeps a log, and the member's messages as the tail are about durable records.  is_hosted: on
    a node other than the head; then the records are on the predecessor's disk too (master).  lineage_bytes: limit for
    specs in memory before some go to the store (flushing); 0: no limit.
    """

    # Updates: those missing in a joining member, and those in flight.
    PASSING = {"history": lambda _: 2 * entrance.HISTORY_MAX}
    LASTING = {
        **{"members": None, "replica": ...},
        # A tail whose disk is behind sends nothing, and has not checked for lost clients either.
        "results.told": lambda self: (
            self.client_count if self.is_tail and self.has_caught_up and self.acknowledged >= self.forgotten else None
        ),
        "entrance.owing": lambda self: self.client_count,
    }

    def __init__(
        self,
        address: str,
        shard: str,
        master: str,
        *,
        is_durable: bool = False,
        is_hosted: bool = False,
        lineage_bytes: int = 0,
    ) -> None:
        super().__init__(address)
        self.shard = shard
        self.master = master
        self.is_hosted = is_hosted
        self.replica: Replica | None = None  # None: no state yet
        self.journal = Journal(self) if is_durable else None
        self.flushing = Flushing(self, lineage_bytes)
        self.handover = Handover(self)
        self.results = Results(self)
        self.stalls = Stalls(self)
        self.state = OFFERED
        self.epoch = 0
        self.entered = 0  # the last epoch with all updates of the predecessor
        self.members: list[str] = []
        self.joining = ""
        self.announced_from = 0  # the log must have this update before the master is told that we have caught up
        self.aside = Aside(self)
        self.entrance = entrance.Entrance(self)
        # Updates not acknowledged by the tail (at the tail: missing in a joining member), and the number before them.
        self.history: deque[wire.Update] = deque()
        self.forgotten = 0
        self.acknowledged = 0  # updates that every member has
        self.told_acknowledged = -1  # sent to the predecessor, in this epoch
        self.safe_before = 0  # durable updates of the predecessor, as far as known
        self.joined_sequence = 0  # last update reported by a joining member
        self.handle_with(self.flushing, self.handover, self.entrance, *([self.journal] if self.journal else ()))

    def start(self) -> None:
        """Offer ourselves."""
        self.send(self.master, wire.ChainOffer(self.shard, self.sequence, self.entered))

    def happened(self, event: str) -> None:
        """Apply an event to the member's state."""
        self.state = TRANSITIONS.get((self.state, event), self.state)

    def follows_master(self, master: str) -> None:
        """Leave the former chain, and keep its state for the chain of another master."""
        self.master = master
        self.members, self.joining = [], ""
        self.happened("master changed")
        self.aside.clear()

    def recover(self, parts: Iterable[bytes], records: Iterable[bytes]) -> None:
        """Recover from a log: the parts of the snapshot, if any, and the later records.

        Raises:
            ValueError: a record is malformed: the last record taken from `records`.
        """
        assert self.journal is not None
        self.replica, self.epoch = self.journal.recover(parts, records)
        self.entered = self.epoch
        self.forgotten = self.journal.logged = max(self.sequence, 0)

    # --- the member's position ---

    @property
    def is_out(self) -> bool:
        """Whether the member was expelled."""
        return self.state is OUT

    @property
    def has_caught_up(self) -> bool:
        """Whether the member has all updates of its predecessor, in this epoch."""
        return self.state in (CAUGHT_UP, FULL)

    @property
    def is_head(self) -> bool:
        """Return whether requests enter at this member."""
        return bool(self.members) and self.members[0] == self.address

    @property
    def is_tail(self) -> bool:
        """Return whether the shard's messages leave from this member."""
        return bool(self.members) and self.members[-1] == self.address

    @property
    def client_count(self) -> int | None:
        """The number of known clients; None: no state."""
        return len(self.replica.sessions) if self.replica is not None else None

    @property
    def is_awaited(self) -> bool:
        """Whether clients wait for our disk."""
        return self.is_head or self.is_tail or self.handover.is_awaited

    def neighbour(self, step: int) -> str:
        """Return the neighbour before (-1) or after (1) the local member, or ""."""
        chain = [*self.members, self.joining] if self.joining else self.members
        index = chain.index(self.address) + step if self.address in chain else -1
        return chain[index] if 0 <= index < len(chain) else ""

    @property
    def sequence(self) -> int:
        """The number of the last update; -1: no state."""
        return self.replica.sequence if self.replica is not None else -1

    @property
    def safe(self) -> int:
        """The last durable update; on a hosted replica, durable at the predecessor too."""
        here = self.journal.logged if self.journal is not None else self.sequence
        return min(here, self.safe_before) if self.is_hosted and self.neighbour(-1) else here

    # --- the configuration ---

    @on(wire.ChainChanged)
    def on_chain_changed(self, message: wire.ChainChanged) -> None:
        if message.epoch <= self.epoch or self.is_out:
            return
        was_tail = self.is_tail
        if was_tail:
            self._forget_updates(self.safe)  # of this turn
        elif self.address == self.joining and self.replica is not None:
            self._forget_updates(self.sequence)  # likewise: updates of a connection that was cut until now
        if self.state is OFFERED and self.replica is not None and message.members[:1] != [self.address]:
            self._forget_state()
        self.epoch, self.members, self.joining = message.epoch, message.members, message.joining
        self.handover.forget()
        # Members that asked for updates ask again; clients with questions may not know of a new tail.
        self.aside.keep_questions()
        self.told_acknowledged = -1
        self.safe_before = 0
        self.joined_sequence = 0
        if self.address not in self.members and self.address != self.joining:
            self._leave()
            return
        if self.is_head and self.replica is None:
            self.replica = Replica(self.shard)  # the first member ever: the master makes nobody else head without state
        self.acknowledged = self.safe if self.is_tail else self.forgotten
        self.happened("chain changed")
        self.announced_from = 0
        if self.is_head:
            self._enter()
        else:
            self.send(self.neighbour(-1), wire.ChainHave(self.epoch, self.sequence, self.is_hosted))
        if self.is_tail and not was_tail and self.replica is not None:
            # Messages sent by the former tail may not have arrived.
            self.results.touch_all()
        if self.is_head:
            self.aside.handle(self.aside.waiting)
        self.aside.handle(self.aside.early)

    def _enter(self) -> None:
        """Note that the local member has all updates acknowledged in earlier epochs."""
        self.happened("caught up")
        self.entered = self.epoch
        if self.journal is not None:
            self.journal.epoch()

    def _leave(self) -> None:
        """Expelled: for good."""
        self.happened("expelled")
        self.aside.clear()
        self._forget_state()

    def _forget_state(self) -> None:
        self.replica = None
        self.entered = 0
        self.results.clear()
        self.history.clear()
        self.forgotten = 0
        self.flushing.forget()
        self.handover.forget()
        if self.journal is not None:
            self.journal.forget()

    def is_current(self, message: Any) -> bool:
        """Return whether the message is of this epoch.  Messages of later epochs are handled then."""
        if message.epoch > self.epoch and not self.is_out:
            self.aside.put(self.aside.early, message)
            return False
        if message.epoch < self.epoch or self.is_out:
            self.reject("a message of an older epoch")
            return False
        return True

    # --- requests (of the head: entrance) ---

    def apply(self, update: wire.Update) -> None:
        """The next step."""
        assert self.replica is not None
        touched = self.replica.apply(update)
        if self.journal is not None:
            self.journal.update(update)
        if self.is_tail:
            self.results.unsaid.append((update.sequence, touched))
        self.history.append(update)
        self.handover.applied(update)

    @on(wire.ChainRead)
    def on_chain_read(self, message: wire.ChainRead) -> None:
        if message.epoch > self.epoch and not self.is_out:
            self.aside.put(self.aside.early, message)
        elif not self.is_tail:
            self.reject("a question for the tail")  # the sender is told of the new tail, and asks there
        elif not self.has_caught_up:
            self.aside.put(self.aside.waiting, message)
        else:
            assert self.replica is not None
            effects = self.replica.shard.handle(message.source, message.request, self.now)
            results = [(effect.destination, effect.message) for effect in effects if type(effect) is effect_types.Send]
            self.send(self.sender, wire.ChainReadReply(message.number, results))  # type: ignore[arg-type]

    # --- from our predecessor ---

    def take_over(self, replica: Replica) -> None:
        """Adopt the predecessor's state."""
        self.replica = replica
        self.history.clear()
        self.forgotten = self.acknowledged = self.sequence
        self.flushing.forget()
        if self.journal is not None:
            self.journal.replaced()
        if self.is_tail:
            # Only this member can send the results of these updates.
            self.results.touch_all()

    @on(wire.ChainUpdates)
    def on_chain_updates(self, message: wire.ChainUpdates) -> None:
        if not self.is_current(message) or self.sender != self.neighbour(-1):
            return
        if not self.handover.put_aside(message.updates):
            self.receive(message.updates)

    def receive(self, updates: list[wire.Update]) -> None:
        """Apply updates that are next in order."""
        for update in updates:
            if update.sequence > self.sequence:
                self.apply(update)
        if self.state is CATCHING_UP:
            self.announced_from = self.sequence
            self._enter()
            self.aside.handle(self.aside.waiting)

    # --- from the successor (its questions: handover) ---

    @on(wire.ChainAck)
    def on_chain_ack(self, message: wire.ChainAck) -> None:
        if not self.is_current(message) or self.sender != self.neighbour(1):
            return
        if self.is_tail:
            self.joined_sequence = max(self.joined_sequence, message.sequence)
        else:
            self.acknowledged = max(self.acknowledged, message.sequence)

    # --- from our log ---

    @on(effect_types.LogBroken)
    def on_log_broken(self, message: effect_types.LogBroken) -> None:
        """End the replica, because the contents of its disk are unknown."""
        self._leave()
        self.send(self.master, wire.ChainMemberLost(self.address, message.reason))
        self.perform(effect_types.EndSession(message.reason))

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is under way, or about to be."""
        return self.journal is not None and self.journal.is_saving

    @on(effect_types.PageRead)
    def on_page_read(self, message: effect_types.PageRead) -> None:
        self.flushing.on_read(message)
        self.handover.on_page_read(message)

    @on(effect_types.PageLost)
    def on_page_lost(self, message: effect_types.PageLost) -> None:
        self.flushing.on_lost(message)
        self.handover.on_page_lost(message)

    # --- the end of the turn ---

    def end_turn(self, now: float) -> list[effect_types.Effect]:
        """Pass on the messages of the turn: down the chain, up the chain, and from the tail to the clients."""
        self.now = now
        self.entrance.end_turn()
        self.aside.end_turn()
        if self.replica is not None and self.members:
            self.flushing.end_turn()
            self.handover.end_turn()
            self._acknowledge()
            self.handover.tell_what_is_safe()
            if self.journal is not None:
                self.journal.end_turn()
            is_logged = (log := self.journal) is None or (log.logged_epoch, log.logged) >= (
                self.epoch,
                self.announced_from,
            )
            if self.state is CAUGHT_UP and is_logged:
                self.happened("announced")
                self.send(self.master, wire.ChainJoined(self.shard, self.epoch))
            if self.is_tail and self.acknowledged >= self.forgotten:
                self.results.tell()
            self.stalls.end_turn()
        return self.take_effects()

    def _acknowledge(self) -> None:
        """Acknowledge upstream, and forget updates that no member can request any more."""
        assert self.replica is not None
        if self.is_tail:
            self.acknowledged = max(self.acknowledged, self.safe)
        known = self.acknowledged
        if self.address == self.joining:
            known = self.replica.sequence
        predecessor = self.neighbour(-1)
        # A member without space makes the head wait, by withholding acknowledgements.
        if predecessor and self.has_caught_up and known > self.told_acknowledged and not self.flushing.is_over:
            self.told_acknowledged = known
            self.send(predecessor, wire.ChainAck(self.epoch, known))
        self._forget_updates(known)

    def _forget_updates(self, known: int) -> None:
        limit = known
        if self.is_tail and self.joining:
            # A member far behind that is appended anyway will get the whole state again.
            limit = min(known, max(self.joined_sequence, self.sequence - entrance.HISTORY_MAX))
        history = self.history
        while history and history[0].sequence <= limit:
            self.forgotten = history.popleft().sequence

    # --- looking in from outside ---

    def check_everything(self) -> None:
        check_member(self)

    def statistics(self) -> dict[str, Any]:
        return count_member(self)
