"""Messages that a member of a chain cannot handle yet: bounded per sender, and refused ones are requested again.

A client with refused messages is told (ChainAgain) when its accepted messages are done, and sends the others again.
Limits are per client, so that excessive or invalid messages delay only their sender.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any

from ...wire.chain import ChainAgain, ChainHave, ChainRead, ChainWrite
from .client import REQUESTS_MAX

if TYPE_CHECKING:
    from .chain import ChainMember

Waiting = MutableSequence[tuple[str, Any]]  # senders and their messages
# Requests of a client: far more than arrive while a chain changes; on a full disk, which stops all work, further ones
# stay with the client instead.
ASIDE_MAX = 10_000


class Aside:
    """The messages that a member holds back."""

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
        """Handle the messages of a list, which may add them to another one."""
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
        """Tell clients without held messages to send the refused ones."""
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
