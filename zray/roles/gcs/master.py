"""Chain master: who the replicas of each shard are, in which order, under which epoch (Ray paper 4.4).

Dialog (who says it -> what we do):

    member           ChainOffer         the first makes the chain, the next ones join one by one, the rest are spares
    client           ChainFollow        tell it of the chain, now and at each change
    host, monitor    ChainMemberLost    close the chain over it; a spare joins
    monitor          NodeLost           the same for every member that was on that host
    head             ChainJoined        the first time: the clients may hear of the chain
    member           ChainJoined        append it; once it has caught up as a member, it may be left alone

A member that is out never comes back: its process starts anew, under another address.
"""

from __future__ import annotations

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
        self.spares: list[str] = []
        self.followers: dict[str, None] = {}
        self.is_announced = False  # its first member has the first epoch for good: now clients may hear of it
        self.is_lost = False  # the last full member is gone, and what only it had

    def full(self) -> list[str]:
        """Members that have everything."""
        return [member for member in self.members if member not in self.tentative]


class ChainMaster(Role):
    """For all shards of a cluster.  replicas: how long each chain should be."""

    def __init__(self, address: str, *, replicas: int) -> None:
        super().__init__(address)
        self.replicas = replicas
        self.chains: dict[str, Chain] = {}

    def _chain(self, shard: str) -> Chain:
        chain = self.chains.get(shard)
        if chain is None:
            chain = self.chains[shard] = Chain(shard)
        return chain

    def _change(self, chain: Chain, *dropped: str) -> None:
        """A new epoch: tell everybody, those who are out too."""
        if not chain.joining and chain.spares and len(chain.members) < self.replicas:
            chain.joining = chain.spares.pop(0)
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
        elif not chain.epoch:
            if message.epoch:
                chain.epoch = message.epoch + EPOCHS_PER_START
            chain.members.append(member)
            self._change(chain)
        else:
            chain.spares.append(member)
            if not chain.joining and len(chain.members) < self.replicas and not chain.is_lost:
                self._change(chain)

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
            chain.spares.remove(member)
        elif member == chain.joining:
            chain.joining = ""
            self._change(chain, member)
        elif member in chain.members:
            if chain.full() == [member]:
                chain.is_lost = True  # those that are left lack what only it had: better none than a wrong one
                self.reject("the last full member of a chain is lost")
                return
            chain.members.remove(member)
            chain.tentative.pop(member, None)
            self._change(chain, member)

    def check_everything(self) -> None:
        for chain in self.chains.values():
            assert not chain.members or chain.members[0] not in chain.tentative, "a head that may lack something"
            names = [*chain.members, *chain.spares, *([chain.joining] if chain.joining else [])]
            assert len(set(names)) == len(names), "somebody is twice in a chain"

    def statistics(self) -> dict[str, Any]:
        return {f"{chain.shard}_replicas": len(chain.members) for chain in self.chains.values()}

    HANDLERS = {
        ChainOffer: on_chain_offer,
        ChainFollow: on_chain_follow,
        ChainJoined: on_chain_joined,
        ChainMemberLost: on_chain_member_lost,
        NodeLost: on_node_lost,
    }
