"""What a tail tells the clients: which requests are done, and what the shard says to their roles (see chain.py)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ...wire.chain import ChainResults
from ...wire.limits import portions
from .replica import Session

if TYPE_CHECKING:
    from .chain import ChainMember


class Results:
    """Of one member, while it is the tail."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.unsaid: deque[tuple[int, list[str]]] = deque()  # update -> the clients to whom it means something
        self.touched: dict[str, None] = {}  # clients that are to hear of something
        self.told: dict[str, int] = {}  # client -> the last result sent to it

    def clear(self) -> None:
        """There is no state."""
        self.touched.clear()
        self.unsaid.clear()

    def touch_all(self) -> None:
        """Every client is to hear of all that it is not known to have."""
        replica = self.member.replica
        assert replica is not None
        self.touched = dict.fromkeys(replica.sessions)
        self.unsaid.clear()
        self.unsaid.append((replica.sequence, list(self.touched)))

    def tell(self) -> None:
        """What is there for good, and not more."""
        member = self.member
        assert member.replica is not None
        sessions = member.replica.sessions
        acknowledged = member.acknowledged
        while self.unsaid and self.unsaid[0][0] <= acknowledged:
            self.touched.update(dict.fromkeys(self.unsaid.popleft()[1]))
        if self.touched:
            self._tell_touched(sessions, acknowledged)
        if len(self.told) > len(sessions):  # nodes are lost
            self.told = {client: number for client, number in self.told.items() if client in sessions}

    def _tell_touched(self, sessions: dict[str, Session], acknowledged: int) -> None:
        member = self.member
        not_yet: dict[str, int] = {}  # client -> its first request that is not there for good
        for update in reversed(member.history):
            if update.sequence <= acknowledged:
                break
            not_yet[update.client] = update.first
        for client in self.touched:
            session = sessions.get(client)
            if session is None:
                continue  # of a node that is lost
            told = self.told.get(client, 0)
            results = [item for item in session.results if item.number > told and item.sequence <= acknowledged]
            first = results[0].number if results else 1 + max(told, session.produced - len(session.results))
            if results:
                self.told[client] = results[-1].number
            done = not_yet[client] - 1 if client in not_yet else session.received
            said = [(item.target, item.message) for item in results]
            *others, last = portions(said)
            for part in others:  # nothing is done before all that comes of it has been told
                member.send(client, ChainResults(0, first, part))
                first += len(part)
            member.send(client, ChainResults(done, first, last))
        self.touched.clear()
