"""The stand-in for a replicated shard on a host: it knows the ends of the chain.

There is a client per host and shard.  A role sends its request to the client as if to the shard (its `Addresses` say
so), and the shard's messages come from the client.

    role           a request           numbered and kept until the tail reports it done; to the head
    role           LocateObjects       directly to the tail, if no request is pending
    tail           ChainResults        to the roles, each once and in order
    tail           ChainReadReply
    chain master   ChainChanged        requests not known to be done are sent to the new head again
    chain master   ChainStalled        a disk takes nothing: the host's local scheduler, which explains waits, is told
    the host       HeadChanged         ask the new chain master

Backpressure: a chain that is slow, or out of reach, holds back its clients.  With PENDING_MAX pending requests,
processes of this host send only what their links hold, and stop (HoldBack); requests already sent are carried out.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, get_args

from ...wire import chain, scheduling
from ...wire.scheduling import LOCATING_MAX
from ..effects import Effect, HeadChanged
from ..replica_effects import ShardStalled
from ..role import Role, on
from ..work_effects import HoldBack

REQUESTS_MAX = 100  # in a message
# At most so many results are unconfirmed when no other message is due.
CONFIRM_AFTER = 64
# Requests sent to the head and not done: their results wait at each member.  As many as a busy node sends in some 10
# ms, longer than a chain takes.
SAID_MAX = 2_000
# Pending requests at which processes are held back; they resume at half as many.  Far more than in a working chain,
# even while it changes; each is some 300 bytes, except its specs, which the node has anyway.
PENDING_MAX = 20_000


class ChainClient(Role):
    """The client of a shard.  address: its own.  shard: the logical name.  master: the chain master.

    listener: told when requests wait for a disk (ShardStalled), or "".
    """

    # Pending requests are bounded by the processes' requests before they were held back, and their consequences: some
    # requests for each task, object and actor of this node, or reported since, as many as fit into links; nothing is
    # repeated for lack of an answer.  The simulator's checkers count them.
    PASSING = {"reads": None, "pending": lambda it: None if it.is_holding else PENDING_MAX} | {
        "questions of one": (lambda it: Counter(who for who, _ in it.reads.values()).values(), lambda _: LOCATING_MAX)
    }
    LASTING = {"members": None, "under way": (lambda it: it.said + 1 - it.first, "SAID_MAX")} | {
        "to be said": (lambda it: min(len(it.pending), SAID_MAX) - it.said - 1 + it.first if it.members else 0, 0),
        "not confirmed": (lambda it: it.taken - it.confirmed if it.members else 0, CONFIRM_AFTER - 1),
    }

    def __init__(self, address: str, shard: str, master: str, listener: str = "") -> None:
        super().__init__(address)
        self.shard = shard
        self.master = master
        self.listener = listener
        self.is_stalled = False
        self.epoch = 0
        self.members: list[str] = []
        self.pending: deque[tuple[str, Any]] = deque()  # not known to be done
        self.first = 1  # the number of the first of them
        self.said = 0  # the number of the last sent to the head
        self.taken = 0  # the number of the last result
        self.confirmed = 0  # as known to the chain
        self.read_number = 0
        self.reads: dict[int, tuple[str, scheduling.LocateObjects]] = {}
        self.is_holding = False  # processes of this host send only what their links hold

    def start(self) -> None:
        """Ask for the members of the chain: once, before anything else."""
        self.send(self.master, chain.ChainFollow(self.shard))

    @on(HeadChanged)
    def on_head_changed(self, message: HeadChanged) -> None:
        """Follow a new chain master, whose members may differ."""
        if self.master == f"{message.former}/chains":
            self.master = f"{message.head}/chains"
            self.members = []  # remaining members listen to nobody until there is a chain again
            self._stalled([])
            self.start()

    @on(chain.ChainStalled)
    def on_chain_stalled(self, message: chain.ChainStalled) -> None:
        if self.sender == self.master:
            self._stalled(message.reasons)

    def _stalled(self, reasons: list[str]) -> None:
        if self.listener and (reasons or self.is_stalled):
            self.is_stalled = bool(reasons)
            self.send(self.listener, ShardStalled(self.shard, reasons))

    @on(*get_args(chain.ShardRequest))
    def _on_request(self, message: Any) -> None:
        if type(message) is scheduling.LocateObjects and not self.pending:
            self.read_number += 1
            self.reads[self.read_number] = (self.sender, message)
            self._read(self.read_number)
        else:
            self.pending.append((self.sender, message))

    def _read(self, number: int) -> None:
        if self.members:
            source, request = self.reads[number]
            self.send(self.members[-1], chain.ChainRead(self.epoch, number, source, request))

    @on(chain.ChainChanged)
    def on_chain_changed(self, message: chain.ChainChanged) -> None:
        if message.epoch <= self.epoch:
            return
        head, tail = self.members[:1], self.members[-1:]
        self.epoch, self.members = message.epoch, message.members
        if self.members[:1] != head:
            self.said = self.first - 1
            self.confirmed = 0
        if self.members[-1:] != tail:
            for number in self.reads:
                self._read(number)

    @on(chain.ChainResults)
    def on_chain_results(self, message: chain.ChainResults) -> None:
        done = message.applied + 1 - self.first
        if done > len(self.pending):
            self.reject("more is done than was asked for")
            return
        for _ in range(done):
            self.pending.popleft()
        self.first += max(done, 0)
        self.said = max(self.said, self.first - 1)
        if message.first > self.taken + 1:
            self.reject("a gap between results")
            return
        for target, result in message.results[self.taken + 1 - message.first :]:
            self.taken += 1
            self.send(target, result)

    @on(chain.ChainAgain)
    def on_chain_again(self, message: chain.ChainAgain) -> None:
        """Send again: the head, or the tail, had no space for the last messages."""
        if self.sender in self.members[:1]:
            self.said = max(self.first - 1, min(self.said, message.number - 1))
        if self.sender in self.members[-1:]:
            for number in self.reads:
                self._read(number)

    @on(chain.ChainReadReply)
    def on_chain_read_reply(self, message: chain.ChainReadReply) -> None:
        if self.reads.pop(message.number, None) is None:
            return  # asked again of another tail, and answered twice
        for target, result in message.results:
            self.send(target, result)

    def end_turn(self, now: float) -> list[Effect]:
        """Send new requests, in a message."""
        self.now = now
        if self.members:
            start = self.said + 1 - self.first
            if start < len(self.pending) and start < SAID_MAX or self.taken - self.confirmed >= CONFIRM_AFTER:
                self._say(start)
        if self.is_holding != (len(self.pending) > (PENDING_MAX // 2 if self.is_holding else PENDING_MAX)):
            self.is_holding = not self.is_holding
            self.perform(HoldBack(self.is_holding))
        return self.take_effects()

    def _say(self, start: int) -> None:
        """Send pending requests from there on, up to the limit; and confirm received results."""
        fresh = [self.pending[index] for index in range(start, min(len(self.pending), SAID_MAX))]
        self.confirmed = self.taken
        for begin in range(0, len(fresh) or 1, REQUESTS_MAX):
            requests = fresh[begin : begin + REQUESTS_MAX]
            self.send(self.members[0], chain.ChainWrite(self.epoch, self.said + 1, self.taken, requests))
            self.said += len(requests)

    def statistics(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "pending": len(self.pending), "reads": len(self.reads)}
