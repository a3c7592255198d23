"""The entrance of requests into a chain, at its head: in order, each once, and no more than the members can keep up
with.

Each member remembers the updates not acknowledged by the tail (`ChainMember.history`).  With too many of them in
flight, or on their way to the head's disk, requests wait at the entrance, with a limit per client (`Aside`).  Others
stay with the client.  So a chain that is slow, or has a full disk, holds back its clients.

Results for a client stay at each member until confirmed.  A client that requests without confirming is *owing*: its
requests are not carried out, and only its confirmations are taken, until enough is confirmed (ChainAgain).  Results
caused by other clients are limited by its earlier requests: subscriptions, copies, holds.
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

# Updates, each of at most client.REQUESTS_MAX requests of a client: far more than are in flight in a working chain,
# where each takes some milliseconds.
HISTORY_MAX = 4_096
# Unconfirmed results of a client that sends requests: several for each request that may be in flight (client.SAID_MAX),
# of some 300 bytes each; large parts belong to the shard anyway.
RESULTS_MAX = 10_000


class Entrance:
    """The entrance of a member."""

    PASSING = {"held": None}

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.held: deque[tuple[str, Any]] = deque()  # waiting requests, the oldest first
        self.owing: dict[str, None] = {}  # clients with refused requests until they confirm more

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
        """Let waiting requests proceed as far as possible."""
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
        """Return whether a client's requests are refused because of too many unconfirmed results."""
        if session.client not in self.owing:
            if session.unconfirmed(message.taken) < _results_max():
                return False
            if message.requests:
                self.owing[session.client] = None
        return True

    def _forgive(self) -> None:
        """Let clients that have confirmed enough send again."""
        member = self.member
        if member.replica is None or not member.is_head:
            self.owing.clear()  # they ask the new head
            return
        for client_name in list(self.owing):
            session = member.replica.sessions.get(client_name)
            if session is None:
                del self.owing[client_name]  # a lost client
            elif len(session.results) <= _results_max() // 2:
                del self.owing[client_name]
                member.send(client_name, ChainAgain(1 + session.received))


def _results_max() -> int:
    """Return the limit of unconfirmed results: a client confirms nothing by itself before client.CONFIRM_AFTER."""
    return max(RESULTS_MAX, 2 * client.CONFIRM_AFTER)
