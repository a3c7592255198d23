"""Chain master: who the replicas of each shard are, in which order, under which epoch (Ray paper 4.4).

Dialog (who says it -> what we do):

    member           ChainOffer         of the first ones, the one that knows most makes the chain; the next ones join
                                        one by one, the rest are spares
    client           ChainFollow        tell it of the chain, now and at each change
    host, monitor    ChainMemberLost    close the chain over it; a spare joins
    monitor          NodeLost           the same for every member that was on that host
    head             ChainJoined        the first time: the clients may hear of the chain
    member           ChainJoined        append it; once it has caught up as a member, it may be left alone

A member that is out never comes back: its process starts anew, under another address.

Which log: that of the latest epoch, and among those the longest.  A member writes down an epoch when it has all that
its predecessor had, so a log of that epoch holds all that was acknowledged before; and what was acknowledged in
it is in the log of its tail.  When the last full member is lost there is no chain, until all logs are there again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...wire.chain import ChainChanged, ChainFollow, ChainJoined, ChainMemberLost, ChainOffer
from ...wire.gcs import NodeLost
from ..role import Role

# A master that starts anew, on what a member's log knows, begins so far above it: epochs may have been told to
# clients and lost with the log's last records.
EPOCHS_PER_START = 1 << 20


class Chain:
    """One shard's."""

    def __init__(self, shard: str) -> None:
        self.shard = shard
        self.epoch = 0
        self.members: list[str] = []
        self.tentative: dict[str, None] = {}  # members that may lack what is acknowledged: never to be left alone
        self.joining = ""
        self.spares: dict[str, tuple[int, int]] = {}  # -> epoch and sequence of what its log holds
        self.followers: dict[str, None] = {}
        self.is_lost = False  # the last full member is gone, and what only it had; a log may bring it back
        self.is_announced = False  # its first member has the first epoch for good: now clients may hear of it

    def full(self) -> list[str]:
        """Members that have everything."""
        return [member for member in self.members if member not in self.tentative]


class ChainMaster(Role):
    """For all shards of a cluster.  replicas: how long each chain should be.

    first_offers: shard -> how many members offer themselves before there is a chain (one, if nothing is said).
    """

    def __init__(self, address: str, *, replicas: int, first_offers: dict[str, int] | None = None) -> None:
        super().__init__(address)
        self.replicas = replicas
        self.first_offers = first_offers or {}
        self.chains: dict[str, Chain] = {}

    def _chain(self, shard: str) -> Chain:
        chain = self.chains.get(shard)
        if chain is None:
            chain = self.chains[shard] = Chain(shard)
        return chain

    def _change(self, chain: Chain, *dropped: str) -> None:
        """A new epoch: tell everybody, those who are out too."""
        if not chain.joining and chain.spares and len(chain.members) < self.replicas:
            chain.joining = next(iter(chain.spares))
            del chain.spares[chain.joining]
        chain.epoch += 1
        followers = chain.followers if chain.is_announced else ()
        for listener in dict.fromkeys((*chain.members, chain.joining, *followers, *dropped)):
            if listener:
                self._tell(chain, listener)

    def _tell(self, chain: Chain, listener: str) -> None:
        self.send(listener, ChainChanged(chain.shard, chain.epoch, list(chain.members), chain.joining))

    def on_chain_offer(self, message: ChainOffer) -> None:
        chain, member = self._chain(message.shard), self.sender
        if member in chain.members or member in chain.spares or member == chain.joining:
            self.reject("an offer made twice")
        elif not chain.members:
            chain.spares[member] = (message.epoch, message.sequence)
            self._found(chain)
        else:
            chain.spares[member] = (message.epoch, message.sequence)
            if not chain.joining and len(chain.members) < self.replicas:
                self._change(chain)

    def _found(self, chain: Chain) -> None:
        """A chain of one, once all logs are here; the others get what it has."""
        if len(chain.spares) < self.first_offers.get(chain.shard, 1):
            return
        first = max(chain.spares, key=lambda member: chain.spares[member])
        epoch = max(epoch for epoch, _ in chain.spares.values())
        if chain.is_lost and not epoch:
            return  # nobody keeps logs
        chain.is_lost = False
        if epoch and not chain.epoch:
            chain.epoch = epoch + EPOCHS_PER_START
        del chain.spares[first]
        chain.members.append(first)
        self._change(chain)

    def _end(self, chain: Chain) -> None:
        """The last full member is lost.  Those that are left lack what only it had: better none than a wrong one."""
        self.reject("the last full member of a chain is lost")
        dropped = [*chain.members, chain.joining]
        chain.members, chain.joining, chain.is_announced = [], "", False
        chain.tentative.clear()
        chain.epoch += 1
        chain.is_lost = True
        for member in dropped:
            if member:
                self._tell(chain, member)

    def on_chain_follow(self, message: ChainFollow) -> None:
        chain = self._chain(message.shard)
        chain.followers[self.sender] = None
        if chain.is_announced:
            self._tell(chain, self.sender)

    def on_chain_joined(self, message: ChainJoined) -> None:
        chain = self._chain(message.shard)
        if message.epoch != chain.epoch:
            self.reject("a member that has caught up in an older epoch")
            return
        member = self.sender
        chain.tentative.pop(member, None)
        if member == chain.members[0] and not chain.is_announced:
            chain.is_announced = True
            for follower in chain.followers:
                self._tell(chain, follower)
        if member == chain.joining:
            chain.joining = ""
            chain.members.append(member)
            chain.tentative[member] = None
            self._change(chain)

    def on_chain_member_lost(self, message: ChainMemberLost) -> None:
        for chain in self.chains.values():
            if self.sender != message.member and self.sender in (*chain.members, chain.joining, *chain.spares):
                self.reject("a member that reports another one")
                return
        for chain in self.chains.values():
            self._lose(chain, message.member)

    def on_node_lost(self, message: NodeLost) -> None:
        host = message.node.partition("/")[0]
        for chain in self.chains.values():
            chain.followers = {name: None for name in chain.followers if name.partition("/")[0] != host}
            for member in (*chain.members, chain.joining, *chain.spares):
                if member and member.partition("/")[0] == host:
                    self._lose(chain, member)

    def _lose(self, chain: Chain, member: str) -> None:
        if member in chain.spares:
            del chain.spares[member]
        elif member == chain.joining:
            chain.joining = ""
            self._change(chain, member)
        elif member in chain.members:
            if chain.full() == [member]:
                self._end(chain)
                return
            chain.members.remove(member)
            chain.tentative.pop(member, None)
            self._change(chain, member)

    def check_everything(self) -> None:
        for chain in self.chains.values():
            assert not chain.members or chain.members[0] not in chain.tentative, "a head that may lack something"
            names = [*chain.members, *chain.spares, *([chain.joining] if chain.joining else [])]
            assert len(set(names)) == len(names), "somebody is twice in a chain"

    def bounds(self) -> Iterable[tuple[str, int, int]]:
        for chain in self.chains.values():
            yield f"members of {chain.shard}", len(chain.members), self.replicas
            yield f"members of {chain.shard} that may lack something", len(chain.tentative), len(chain.members)

    def statistics(self) -> dict[str, Any]:
        return {f"{chain.shard}_replicas": len(chain.members) for chain in self.chains.values()}

    HANDLERS = {
        ChainOffer: on_chain_offer,
        ChainFollow: on_chain_follow,
        ChainJoined: on_chain_joined,
        ChainMemberLost: on_chain_member_lost,
        NodeLost: on_node_lost,
    }
