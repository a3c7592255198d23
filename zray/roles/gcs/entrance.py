"""How requests enter a chain, at its head: in their order, each once, and no more than the members can keep up with.

Each member remembers the updates that the tail has not acknowledged (`ChainMember.history`).  With so many of them
under way, or on the head's way to its disk, requests wait here, each client's with room of its own (aside); what
finds none stays with the client.  So a chain that is slow, or whose disk is full, holds back whoever asks.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ...wire.chain import ChainWrite, Update
from .replica import speaks_for

if TYPE_CHECKING:
    from .chain import ChainMember

# Updates, each of at most client.REQUESTS_MAX requests of one client: far more than are under way in a chain that
# moves, where each takes some milliseconds.
HISTORY_MAX = 4_096


class Entrance:
    """Of one member."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.held: deque[tuple[str, Any]] = deque()  # requests that wait, the oldest first

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
        if not self.held or not self.member.is_head:
            return
        member = self.member
        sender = member.sender
        while self.held and not self.is_full:
            member.sender, message = self.held.popleft()
            member.aside.took(member.sender, message)
            self._enter(message)
        member.sender = sender

    def _enter(self, message: ChainWrite) -> None:
        member = self.member
        replica, client = member.replica, member.sender
        assert replica is not None
        if client in replica.lost or not speaks_for(client, message.requests):
            member.reject("a request from a node that is lost, or in the name of another host's role")
            return
        session = replica.sessions.get(client)
        received = session.received if session is not None else 0
        known = received + 1 - message.first
        if known < 0:
            member.reject("a gap between requests")
            return
        requests = message.requests[known:]
        if requests or (session is not None and session.results and session.results[0].number <= message.taken):
            now = max(member.now, replica.clock)
            member.apply(Update(replica.sequence + 1, now, client, received + 1, message.taken, requests))
