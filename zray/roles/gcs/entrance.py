"""How requests enter a chain, at its head: in their order, each once, and no more than the members can keep up with.

Each member remembers the updates that the tail has not acknowledged (`ChainMember.history`).  With so many of them
under way, or on the head's way to its disk, requests wait here, each client's with room of its own (aside); what
finds none stays with the client.  So a chain that is slow, or whose disk is full, holds back whoever asks.

What a client is told stays at each member until it has confirmed it.  One that asks and does not confirm is *owing*:
nothing more of what it asks is done, and of what it says only what it confirms is taken, until that is enough
(ChainAgain).  What others bring about for it is then as much as it has asked for before: subscriptions, copies, holds.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ...wire.chain import ChainAgain, ChainWrite, Update
from ..role import on
from . import client
from .replica import Session, speaks_for

if TYPE_CHECKING:
    from .chain import ChainMember

# Updates, each of at most client.REQUESTS_MAX requests of one client: far more than are under way in a chain that
# moves, where each takes some milliseconds.
HISTORY_MAX = 4_096
# Results of one client that it has not confirmed, when it asks for more: several for each request that may be under
# way (client.SAID_MAX), of some 300 bytes each; what is large in them is the shard's anyway.
RESULTS_MAX = 10_000


class Entrance:
    """Of one member."""

    PASSING = {"held": None}

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.held: deque[tuple[str, Any]] = deque()  # requests that wait, the oldest first
        self.owing: dict[str, None] = {}  # clients that were refused something until they confirm more

    @on(ChainWrite)
    def on_chain_write(self, message: ChainWrite) -> None:
        """ChainWrite."""
        member = self.member
        if message.epoch > member.epoch and not member.is_out:
            member.aside.put(member.aside.early, message)
        elif not member.is_head or member.replica is None:
            member.reject("a request for the head")  # its sender hears of the change too, and sends it again
        elif self.held or self.is_full:
            member.aside.put(self.held, message)
        else:
            self._enter(message)

    @property
    def is_full(self) -> bool:
        """Whether nothing more may be applied now."""
        member, log = self.member, self.member.journal
        done = max(member.acknowledged, member.safe) if member.is_tail else member.acknowledged
        if log is not None:
            if log.refused:
                return True
            done = min(done, log.logged)
        if member.flushing.is_over:
            return True
        return member.sequence - done >= HISTORY_MAX

    def end_turn(self) -> None:
        """What waits goes on, as far as it may."""
        member = self.member
        if self.held and member.is_head:
            sender = member.sender
            while self.held and not self.is_full:
                member.sender, message = self.held.popleft()
                member.aside.took(member.sender, message)
                self._enter(message)
            member.sender = sender
        if self.owing:
            self._forgive()

    def _enter(self, message: ChainWrite) -> None:
        member = self.member
        replica, sender = member.replica, member.sender
        assert replica is not None
        if sender in replica.lost or not speaks_for(sender, message.requests):
            member.reject("a request from a node that is lost, or in the name of another host's role")
            return
        session = replica.sessions.get(sender)
        received = session.received if session is not None else 0
        known = received + 1 - message.first
        if session is not None and self._owes(session, message):
            requests = []
        elif known < 0:
            member.reject("a gap between requests")
            return
        else:
            requests = message.requests[known:]
        if requests or (session is not None and session.results and session.results[0].number <= message.taken):
            now = max(member.now, replica.clock)
            member.apply(Update(replica.sequence + 1, now, sender, received + 1, message.taken, requests))

    def _owes(self, session: Session, message: ChainWrite) -> bool:
        """Whether nothing of what it asks may be done, because it has confirmed too little of what it was told."""
        if session.client not in self.owing:
            if session.unconfirmed(message.taken) < _results_max():
                return False
            if message.requests:
                self.owing[session.client] = None
        return True

    def _forgive(self) -> None:
        """Whoever has confirmed enough may ask again."""
        member = self.member
        if member.replica is None or not member.is_head:
            self.owing.clear()  # they ask the new head
            return
        for client_name in list(self.owing):
            session = member.replica.sessions.get(client_name)
            if session is None:
                del self.owing[client_name]  # it is lost
            elif len(session.results) <= _results_max() // 2:
                del self.owing[client_name]
                member.send(client_name, ChainAgain(1 + session.received))


def _results_max() -> int:
    """A client confirms nothing of its own accord before there are client.CONFIRM_AFTER."""
    return max(RESULTS_MAX, 2 * client.CONFIRM_AFTER)
