"""Chain master: the replicas of each shard, their order, and the epoch (Ray paper 4.4).

Dialog (sender, message, reaction):

    member           ChainOffer         among the first offers, the most complete log makes the chain; later members
                                        join one by one, the rest are spares
    client           ChainFollow        tell the client of the chain, now and at each change
    host, monitor    ChainMemberLost    close the chain over the member; a spare joins
    monitor          NodeLost           the same for every member of a lost host or node
    hosting          MemberPlaced       a member runs on another node than the head: chains spread over machines
    hosting          MachineLeaves      members on the machine are replaced, one by one
    head             ChainJoined        the first time: the clients may hear of the chain
    member           ChainStalled       tell the clients: they wait for the member's disk
    member           ChainJoined        append the member; after catching up, a member may be left alone

A removed member never returns: its process starts anew, under another address.

A new chain begins from a log of the latest epoch; among several, from the longest.  A member logs an epoch after
receiving the complete state of its predecessor.  So a log of that epoch holds all updates acknowledged before.  Updates
acknowledged within the epoch are in the log of the tail.  After the loss of the last full member no chain exists until
all logs are available again.  A member may report its own catching up before its predecessor, if the predecessor's log
or network is slower.  Any member ahead of a full member lacks nothing, and may become head.  But the log counts as
complete only after the member's own report.

Members on other nodes outlive the head, and offer their state to the next master; their logs end with them.  While the
head runs a full member of a chain, the head's logs hold every acknowledged update (chain.is_hosted).  Otherwise only
members on other nodes do.  So membership of the chain is recorded durably (NoteChain) before any announcement.  The
next master waits for those members, or for the verdict on them.  If all full members are lost together with their logs,
the chain is lost.

The placement of a chain's members on different machines (docs/design/gcs-chain.md).

A member's machine is the node that runs the member; "": the head's.  If machines without a member exist, a complete
chain adds a member on such a machine.  After the new member has caught up, a member with a shared machine is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...wire import chain as chain_wire
from ...wire import gcs
from ...wire.amounts import name_of
from ..kept import LOST_MAX, Latest
from ..replica_effects import MachineLeaves, MemberPlaced, NoteChain
from ..role import Role, on


class Spread:
    """The machines of all chains of a master.  machines: member -> its machine, if not the head's."""

    def __init__(self, machines: dict[str, str]) -> None:
        self.machines = machines
        self.leaving: dict[str, None] = {}

    def machine(self, member: str) -> str:
        """Return the machine of a member."""
        return self.machines.get(member, "")

    def on_machine(self, node: str) -> list[str]:
        """Return all members on the machine."""
        return [member for member, machine in self.machines.items() if machine == node]

    def spare(self, chain: Chain, replicas: int) -> str:
        """Return the spare to join now; "": none."""
        if chain.joining or not chain.is_announced:
            return ""  # nothing is given to a second member before the first one's log has an epoch
        machines = [self.machine(member) for member in chain.members]
        staying = [name for name in chain.spares if self.machine(name) not in self.leaving]
        fresh = [name for name in staying if self.machine(name) not in machines]
        if len(machines) < replicas:
            return next(iter((*fresh, *staying, *chain.spares)), "")
        if chain.tentative or len(machines) > replicas:
            return ""
        if any(machine in self.leaving for machine in machines):
            return next(iter((*fresh, *staying)), "")
        return next(iter(fresh), "") if len(set(machines)) < len(machines) else ""

    def redundant(self, chain: Chain, replicas: int) -> str:
        """Return the member to remove now, to complete a move; "": none.

        Later members are preferred: clients do not notice a change that keeps the head and the tail.
        """
        if chain.joining or chain.tentative or len(chain.members) <= replicas:
            return ""
        machines = [self.machine(member) for member in chain.members]
        shared = [machine for machine in machines if machine in self.leaving or machines.count(machine) > 1]
        shared.sort(key=lambda machine: machine not in self.leaving)
        found = [member for member in chain.members if not shared or self.machine(member) == shared[0]]
        return found[-1]


# A master that starts anew, on what a member's log knows, begins so far above it: epochs may have been told to
# clients and lost with the log's last records.
EPOCHS_PER_START = 1 << 20
GOES_ON = "requests to it wait until it can, and continue by themselves"
LOST_FOR_GOOD = (
    "is lost: all its complete replicas ended at nearly the same time, one of them with the only log of the last "
    "acknowledged updates.  Requests to it get no answer any more: end the cluster (`zray stop --all`) and start "
    "another one, with --gcs-replicas 3 where two may fail at once"
)


class Chain:
    """The chain of a shard."""

    LASTING = {"tentative stalled": "members"}

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
        # While there is no chain: who may have what was acknowledged, by its machine ("": logs here); who is awaited.
        self.sources: dict[str, str] = {}
        self.awaited: dict[str, None] = {}
        self.noted: tuple[dict[str, str], list[str]] = ({}, [])
        self.stalled: dict[str, str] = {}  # members whose disks take nothing -> what these say, and where they are
        self.told: list[str] = []  # why clients wait for the shard, as they know it

    def full(self) -> list[str]:
        """Return the members that have everything."""
        return [member for member in self.members if member not in self.tentative]

    def remember(self, note: NoteChain) -> None:
        """Take over a chain that an earlier master recorded: it is down until its members offer themselves."""
        self.noted = (note.members, note.full)
        self.is_lost = True
        self.sources = {member: note.members[member] for member in note.full}
        if all(self.sources.values()):
            self.awaited = dict.fromkeys(self.sources)

    def found(self, epoch: int) -> None:
        """Record that the chain begins, from a log of an epoch."""
        self.is_lost = False
        self.sources.clear()
        self.awaited.clear()
        if epoch and not self.epoch:
            self.epoch = epoch + EPOCHS_PER_START

    def end(self, sources: dict[str, str]) -> None:
        """Take the chain down.  sources: as the field."""
        self.sources = sources
        self.members, self.joining, self.is_announced = [], "", False
        self.tentative.clear()
        self.epoch += 1
        self.is_lost = True

    def source_lost(self, member: str) -> bool:
        """Forget what a lost member may have had.  Returns whether the chain waited for the member."""
        self.sources.pop(member, None)
        return self.awaited.pop(member, member) is None

    def next_epoch(self, spare: str) -> None:
        """Begin an epoch.  spare: the member that joins in it, if any."""
        if spare:
            self.joining = spare
            del self.spares[spare]
        self.epoch += 1

    def add(self, member: str, *, is_tentative: bool) -> None:
        """Append a member."""
        self.members.append(member)
        if is_tentative:
            self.joining = ""
            self.tentative[member] = None

    def remove(self, member: str) -> None:
        """Remove a member."""
        self.members.remove(member)
        self.tentative.pop(member, None)

    def tells(self, why: list[str]) -> bool:
        """Record what followers are told.  Returns whether it is news."""
        was_told, self.told = self.told, why
        return why != was_told


class ChainMaster(Role):
    """The chain master for all shards of a cluster.  replicas: the desired length of each chain.

    first_offers: shard -> how many members on the head's machine must offer themselves before a chain is made (default
    1).  former: chains that an earlier master recorded; machines: the machines of members on other nodes.
    """

    LASTING = {"chains": ...} | {
        # An extra member exists while a member moves to another machine.
        "members of a chain": (lambda it: (len(one.members) for one in it.chains.values()), lambda it: it.replicas + 1)
    }

    def __init__(
        self,
        address: str,
        *,
        replicas: int,
        first_offers: dict[str, int] | None = None,
        former: Iterable[NoteChain] = (),
        machines: dict[str, str] | None = None,
    ) -> None:
        super().__init__(address)
        self.replicas = replicas
        self.first_offers = first_offers or {}
        self.chains: dict[str, Chain] = {}
        self.spread = Spread(dict(machines or {}))
        self.gone: Latest[str, None] = Latest(LOST_MAX)  # members, for good; what they had said may come yet
        for note in former:
            if not note.members:
                continue
            chain = self._chain(note.shard)
            chain.remember(note)
            self.spread.machines.update({member: machine for member, machine in note.members.items() if machine})
            chain.tells(self._why(chain))

    def _chain(self, shard: str) -> Chain:
        chain = self.chains.get(shard)
        if chain is None:
            chain = self.chains[shard] = Chain(shard)
        return chain

    def _change(self, chain: Chain, *dropped: str) -> None:
        """Begin a new epoch, and announce the chain to all followers and members, including dropped members."""
        chain.next_epoch(self.spread.spare(chain, self.replicas))
        self._note(chain)
        followers = chain.followers if chain.is_announced else ()
        for listener in dict.fromkeys((*chain.members, chain.joining, *followers, *dropped)):
            if listener:
                self._tell(chain, listener)
        self._forget_stalls(chain)

    def _note(self, chain: Chain) -> None:
        """Record the chain durably, if a member is on another machine; otherwise the logs here are enough."""
        members = {member: self.spread.machine(member) for member in chain.members}
        if not any(members.values()):
            members = {}
        note = (members, chain.full() if members else [])
        if note != chain.noted:
            chain.noted = note
            self.perform(NoteChain(chain.shard, *note))

    def _settle(self, chain: Chain) -> None:
        """Complete a move of a member, or begin the next move."""
        if redundant := self.spread.redundant(chain, self.replicas):
            chain.remove(redundant)
            self._change(chain, redundant)
        elif self.spread.spare(chain, self.replicas):
            self._change(chain)

    def _tell(self, chain: Chain, listener: str) -> None:
        self.send(listener, chain_wire.ChainChanged(chain.shard, chain.epoch, list(chain.members), chain.joining))

    def _dismiss(self, chain: Chain) -> None:
        """End the spares on draining machines; not while the chain is down, because a spare's log may be needed."""
        for spare in [name for name in chain.spares if self.spread.machine(name) in self.spread.leaving]:
            if chain.members:
                self._send_away(chain, spare, chain.spares.pop(spare)[0])

    def _send_away(self, chain: Chain, spare: str, known: int) -> None:
        """Send an epoch without the spare, later than the epoch of its log, to end the spare."""
        self.send(
            spare, chain_wire.ChainChanged(chain.shard, max(chain.epoch, known + 1), list(chain.members), chain.joining)
        )

    @on(chain_wire.ChainOffer)
    def on_chain_offer(self, message: chain_wire.ChainOffer) -> None:
        chain, member = self._chain(message.shard), self.sender
        if member in chain.members or member in chain.spares or member == chain.joining:
            self.reject("an offer made twice")
        elif member in self.gone:
            # If it lives, another one takes its place when it has ended.
            self.reject("an offer of a member that is lost")
            self._send_away(chain, member, message.epoch)
        elif not chain.members:
            chain.spares[member] = (message.epoch, message.sequence)
            self._found(chain)
        else:
            chain.spares[member] = (message.epoch, message.sequence)
            self._dismiss(chain)
            self._settle(chain)

    def _found(self, chain: Chain) -> None:
        """Make a chain of a single member when all logs are available; the other members copy its state."""
        here = [member for member in chain.spares if not self.spread.machine(member)]
        if len(here) < self.first_offers.get(chain.shard, 1) or any(name not in chain.spares for name in chain.awaited):
            return
        if chain.is_lost and not chain.sources:
            self.reject("all that had everything are lost")
            return
        known = chain.spares if chain.awaited else here
        first = max(known, key=lambda member: chain.spares[member])
        epoch = max(epoch for epoch, _ in chain.spares.values())
        if chain.is_lost and not epoch:
            return  # nobody keeps logs
        chain.found(epoch)
        self._tell_why(chain)
        del chain.spares[first]
        chain.add(first, is_tentative=False)
        self._dismiss(chain)
        self._change(chain)

    def _end(self, chain: Chain) -> None:
        """Take the chain down: the last full member is lost, together with updates that no other member has."""
        self.reject("the last full member of a chain is lost")
        dropped = [*chain.members, chain.joining]
        (last,) = chain.full()
        chain.end({} if self.spread.machine(last) else {last: ""})
        for member in dropped:
            if member:
                self._tell(chain, member)
        self._forget_stalls(chain)

    # --- why clients wait: for people ---

    @on(chain_wire.ChainStalled)
    def on_chain_stalled(self, message: chain_wire.ChainStalled) -> None:
        chain, member = self._chain(message.shard), self.sender
        if member not in chain.members:
            self.reject("a disk of one that is no member")
            return
        machine = self.spread.machine(member)
        where = f"on node {name_of(machine)}" if machine else "on the head's machine"
        if message.reasons:
            chain.stalled[member] = f"{message.reasons[0][: chain_wire.STALL_CHARACTERS_MAX]}, {where}"
        else:
            chain.stalled.pop(member, None)
        self._tell_why(chain)

    def _forget_stalls(self, chain: Chain) -> None:
        """Forget the stalls of removed members."""
        for member in [member for member in chain.stalled if member not in chain.members]:
            del chain.stalled[member]
        self._tell_why(chain)

    def _tell_why(self, chain: Chain) -> None:
        """Tell all followers why the shard stalls, if the reasons have changed."""
        why = self._why(chain)
        if chain.tells(why):
            for follower in chain.followers:
                self.send(follower, chain_wire.ChainStalled(chain.shard, why))

    def _why(self, chain: Chain) -> list[str]:
        """Return the reasons why the shard's clients wait; [] if they do not."""
        if chain.members or not chain.is_lost:
            return [f"cannot write its log: {words}; {GOES_ON}" for words in chain.stalled.values()]
        if awaited := [member for member in chain.awaited if member not in chain.spares]:
            nodes = ", ".join(dict.fromkeys(name_of(self.spread.machine(member)) for member in awaited))
            return [f"waits for its replicas on node {nodes}, which alone have all acknowledged updates"]
        return [LOST_FOR_GOOD] if not chain.sources else []

    # --- who is in it ---

    @on(chain_wire.ChainFollow)
    def on_chain_follow(self, message: chain_wire.ChainFollow) -> None:
        chain = self._chain(message.shard)
        chain.followers[self.sender] = None
        if chain.is_announced:
            self._tell(chain, self.sender)
        if chain.told:
            self.send(self.sender, chain_wire.ChainStalled(chain.shard, chain.told))

    @on(chain_wire.ChainJoined)
    def on_chain_joined(self, message: chain_wire.ChainJoined) -> None:
        chain = self._chain(message.shard)
        if message.epoch != chain.epoch:
            self.reject("a member that has caught up in an older epoch")
            return
        member = self.sender
        if chain.tentative.pop(member, member) is None:
            self._note(chain)
        if member == chain.members[0] and not chain.is_announced:
            chain.is_announced = True
            for follower in chain.followers:
                self._tell(chain, follower)
        if member == chain.joining:
            chain.add(member, is_tentative=True)
            self._change(chain)
        else:
            self._settle(chain)

    @on(MemberPlaced)
    def on_member_placed(self, message: MemberPlaced) -> None:
        self.spread.machines[message.member] = message.node

    @on(MachineLeaves)
    def on_machine_leaves(self, message: MachineLeaves) -> None:
        self.spread.leaving[message.node] = None
        for chain in self.chains.values():
            self._dismiss(chain)
            if chain.members:
                self._settle(chain)

    @on(chain_wire.ChainMemberLost)
    def on_chain_member_lost(self, message: chain_wire.ChainMemberLost) -> None:
        for chain in self.chains.values():
            if self.sender != message.member and self.sender in (*chain.members, chain.joining, *chain.spares):
                self.reject("a member that reports another one")
                return
        self.gone[message.member] = None
        for chain in self.chains.values():
            self._lose(chain, message.member)
        self.spread.machines.pop(message.member, None)

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        host = message.node.partition("/")[0]
        for chain in self.chains.values():
            chain.followers = {name: None for name in chain.followers if name.partition("/")[0] != host}
            there = self.spread.on_machine(host)
            for member in (*chain.members, chain.joining, *chain.spares, *chain.awaited):
                if member and (member.partition("/")[0] == host or member in there):
                    self._lose(chain, member)
        for member in self.spread.on_machine(host):
            self.gone[member] = None
            del self.spread.machines[member]
        self.spread.leaving.pop(host, None)

    def _lose(self, chain: Chain, member: str) -> None:
        if not chain.members and self.spread.machine(member):
            # A log of this machine's may come again.
            if chain.source_lost(member):
                if member in chain.spares:
                    self._send_away(chain, member, chain.spares.pop(member)[0])
                self._found(chain)
            self._tell_why(chain)
        if member in chain.spares:
            self._send_away(chain, member, chain.spares.pop(member)[0])
        elif member == chain.joining:
            chain.joining = ""
            self._change(chain, member)
        elif member in chain.members:
            if chain.full() == [member]:
                self._end(chain)
                return
            chain.remove(member)
            self._change(chain, member)

    def check_everything(self) -> None:
        for chain in self.chains.values():
            assert not chain.members or chain.full(), "a chain in which each may lack something"
            names = [*chain.members, *chain.spares, *([chain.joining] if chain.joining else [])]
            assert len(set(names)) == len(names), "somebody is twice in a chain"

    def statistics(self) -> dict[str, Any]:
        counts = {}
        for chain in self.chains.values():
            counts[f"{chain.shard}_replicas"] = len(chain.full())
            counts[f"{chain.shard}_replicas_wanted"] = self.replicas
            counts[f"{chain.shard}_spares"] = len(chain.spares)
            counts[f"{chain.shard}_machines"] = len({self.spread.machine(member) for member in chain.full()})
        return counts
