"""Messages that a member of a chain cannot handle yet: bounded per sender, and what is refused is asked for again.

A client whose messages find no room is told so (ChainAgain) when those that did are done, and sends the others again.
Each has room of its own, so that one that says too much, or what it should not, delays nobody but itself.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TYPE_CHECKING, Any

from ...wire.chain import ChainAgain, ChainHave, ChainRead, ChainWrite
from .client import REQUESTS_MAX

if TYPE_CHECKING:
    from .chain import ChainMember

Waiting = MutableSequence[tuple[str, Any]]  # senders and what they have said
# Requests of one client: far more than come in the moment that a change of the chain takes; on a full disk,
# where nothing is done for as long as it lasts, they stay with the client instead.
ASIDE_MAX = 10_000


class Aside:
    """Of one member."""

    PASSING = {"early waiting counts refused": None} | {
        "messages of one sender": (lambda it: it.counts.values(), lambda _: max(ASIDE_MAX, REQUESTS_MAX))
    }

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.early: list[tuple[str, Any]] = []  # of an epoch that we have not heard of
        self.waiting: list[tuple[str, Any]] = []  # until we have caught up
        self.counts: dict[str, int] = {}  # sender -> requests of its that are here
        self.refused: dict[str, None] = {}  # clients that are to send again

    def put(self, items: Waiting, message: Any) -> None:
        """Into one of the lists above, or what is held at the entrance, if there is room."""
        member = self.member
        sender = member.sender
        if type(message) is ChainHave:
            self._drop_questions(sender)  # of an older epoch, and nobody would ask for this one again
        count, weight = self.counts.get(sender, 0), _weight(message)
        # After one that was refused come only others that cannot be taken: they have numbers.
        if sender in self.refused or (count and count + weight > ASIDE_MAX):
            if type(message) in (ChainWrite, ChainRead):
                self.refused[sender] = None
            member.reject("more than may wait here: its sender is asked for it again")
            return
        self.counts[sender] = count + weight
        items.append((sender, message))

    def handle(self, items: list[tuple[str, Any]]) -> None:
        """What was in one of the lists; it may go into another one."""
        member = self.member
        sender = member.sender
        taken, items[:] = list(items), []
        for source, message in taken:
            self.took(source, message)
        for member.sender, message in taken:
            member.handlers[type(message)](message)
        member.sender = sender

    def keep_questions(self) -> None:
        """Of those that wait: whoever has asked for updates asks again."""
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
        """All of it, for good."""
        for items in (self.early, self.waiting, self.member.entrance.held, self.counts, self.refused):
            items.clear()
        self.member.entrance.owing.clear()

    def end_turn(self) -> None:
        """Whoever has nothing here any more may send the rest."""
        if not self.refused:
            return
        replica = self.member.replica
        for client in [client for client in self.refused if client not in self.counts]:
            del self.refused[client]
            session = replica.sessions.get(client) if replica is not None else None
            self.member.send(client, ChainAgain(1 + (session.received if session is not None else 0)))

    def took(self, sender: str, message: Any) -> None:
        """It waits no longer."""
        self.counts[sender] -= _weight(message)
        if not self.counts[sender]:
            del self.counts[sender]


def _weight(message: Any) -> int:
    return max(1, len(message.requests)) if type(message) is ChainWrite else 1
