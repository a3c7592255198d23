"""Event records or metrics of processes (ListEvents), of this node and all others.

The host reads the rings of the node's processes (ReadEvents).  A node asked by another answers with its own rings.  A
node that does not answer in ANSWER_SECONDS is listed as silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.events import EventRingFact, EventsListed, ListEvents
from ...role import on
from ...work_effects import EventsRead, ReadEvents

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

# Less than a process waits for the answer (10 s, host/client/runtime.py).
ANSWER_SECONDS = 5.0
# Questions under way; each may hold the records of all nodes.
QUESTIONS_MAX = 4


class Question(Struct, eq=False):
    """A request that the host and other nodes answer in part."""

    asker: str
    request: int  # the asker's
    rings: list[EventRingFact]
    left_out: int
    silent: dict[str, None]  # nodes that have not answered, this one among them


class Events:
    """The requests for event records."""

    PASSING = {"open": "QUESTIONS_MAX"}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.open: dict[int, Question] = {}
        self.count = 0

    @on(ListEvents)
    def on_list(self, message: ListEvents) -> None:
        """ListEvents, from a local program or another node."""
        node = self.node
        is_ours = node.sender in node.processes
        if not is_ours and node.sender not in node.members.peers:
            node.reject("a question of a process that is gone")
            return
        if len(self.open) >= QUESTIONS_MAX:
            self._answer(self.open.pop(next(iter(self.open))))
        self.count += 1
        peers = [*node.members.peers] if is_ours else []
        share = message.bytes_max // (len(peers) + 1)
        silent = dict.fromkeys([node.address, *peers])
        self.open[self.count] = Question(node.sender, message.request, [], 0, silent)
        node.perform(ReadEvents(self.count, share, message.are_metrics))
        for peer in peers:
            node.send(peer, ListEvents(self.count, share, message.are_metrics))
        node.after(ANSWER_SECONDS, self.answer_without_silent, self.count)

    @on(EventsRead)
    def on_read(self, message: EventsRead) -> None:
        """EventsRead: the rings of this node's processes."""
        rings = [EventRingFact(self.node.address, data) for data in message.rings]
        self._add(message.request, self.node.address, rings, message.left_out)

    @on(EventsListed)
    def on_reply(self, message: EventsListed) -> None:
        """EventsListed, from another node."""
        self._add(message.request, self.node.sender, message.rings, message.left_out)

    def _add(self, number: int, node: str, rings: list[EventRingFact], left_out: int) -> None:
        question = self.open.get(number)
        if question is None or node not in question.silent:
            return
        del question.silent[node]
        question.rings += rings
        question.left_out += left_out
        if not question.silent:
            self._answer(self.open.pop(number))

    def answer_without_silent(self, number: int) -> None:
        """Answer without the nodes that were silent for too long."""
        if question := self.open.pop(number, None):
            self._answer(question)

    def _answer(self, question: Question) -> None:
        node = self.node
        if question.asker in node.processes or question.asker in node.members.peers:
            answer = EventsListed(question.request, question.rings, question.left_out, [*question.silent])
            node.send(question.asker, answer)
