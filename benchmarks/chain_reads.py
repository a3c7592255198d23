"""Whoever reads a replicated shard while members of its chain are killed: what is read never goes backwards (E7).

Counters, each a key of its own whose value only grows.  Who counts says so in order; who reads has a client of its own
at the chain, and asks as a local scheduler does: where an object is, and how large, which is the counter.  One question
is under way at a time.  (It takes its turn in the chain, and the tail answers.  What the tail answers without that,
only global schedulers may ask.)
"""

from __future__ import annotations

from collections.abc import Callable

from zray.ids import return_id
from zray.roles.role import Role, on
from zray.wire.gcs import ObjectLocated, SubscribeObject
from zray.wire.message import Local

COUNTERS = 4  # few: each is read again every few milliseconds


class Look(Local):
    """Read the next counter, unless a question is under way."""


def counter(number: int) -> bytes:
    """The counter that the write of that number sets to this number."""
    return return_id(b"counter %8d" % (number % COUNTERS), 1)


class Reader(Role):
    """Reads the counters by turns.  acknowledged: the number of the last write that is known to be done.

    A counter goes backwards where it is older than one read before, or than a write that was acknowledged before it was
    asked for.
    """

    def __init__(self, address: str, shard: str, acknowledged: Callable[[], int]) -> None:
        super().__init__(address)
        self.shard = shard
        self.acknowledged = acknowledged
        self.asked = 0  # questions
        self.answered = 0
        self.backwards = 0  # answers that went so
        self.least: dict[bytes, int] = {}  # what is to be read at least, by counter

    @on(Look)
    def on_look(self, message: Look) -> None:
        last = self.acknowledged()
        if self.asked > self.answered or last < COUNTERS:
            return  # first each of them is there
        for number in range(last - COUNTERS + 1, last + 1):
            self.least[counter(number)] = max(self.least.get(counter(number), 0), number)
        self.asked += 1
        self.send(self.shard, SubscribeObject(self.address, counter(self.asked)))

    @on(ObjectLocated)
    def on_located(self, message: ObjectLocated) -> None:
        self.answered += 1
        assert self.answered == self.asked and message.object_id == counter(self.asked), "not what was asked for"
        least = self.least[message.object_id]
        self.backwards += message.size < least
        self.least[message.object_id] = max(message.size, least)
