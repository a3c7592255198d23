"""Replicated shards in the simulated world: one host process per replica, which may die at any message
(replica_faults).

Each node has a client per shard; the chain master lives beside the monitor, on the first node.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..roles.gcs.chain import ChainMember
from ..roles.gcs.client import ChainClient
from ..roles.gcs.flushing import unpack_page
from ..roles.gcs.master import Chain, ChainMaster
from ..roles.gcs.replica import Replica
from ..roles.gcs.shard import GcsShard
from ..roles.hosting import Hosting, ReplicaKeeper
from ..roles.replica_effects import (
    LetInReplica,
    NoteChain,
    ReplicaGone,
    ReplicaLetIn,
    ReplicaNotStarted,
    ReplicaStarted,
    ShutOutReplica,
    StartReplicaProcess,
)
from ..roles.services import Services
from ..wire.chain import SlotsMoved
from ..wire.gcs import RecordTasks
from ..wire.hosting import HostedReplica
from ..wire.shards import SlotTable
from .checkers import BOUNDS_EVERY, nothing_left
from .cuts import GUEST
from .heads import Disk
from .node import Node
from .replica_faults import EXIT_SECONDS, START_SECONDS, ReplicaFaults

if TYPE_CHECKING:
    from .simulator import Simulator

MASTER = "chains"
# Limit of unconfirmed results that a client may leave at rest.
UNCONFIRMED_MAX = 64


class ShardHost(Node):
    """The host process of a replica."""

    def __init__(self, world: Simulator, name: str, machine: str = "") -> None:
        """machine: the node of the process; "": the head."""
        super().__init__(world, name, pages_max=0)
        self.machine = machine
        on = world.nodes[machine] if machine else world.heads.node
        self.ahead, self.pace = on.ahead, on.pace
        self.is_alive = True
        self.is_ending = False  # out of its chain
        self.disk = Disk()  # paged-out specs; a log if disks break, or on another node than the head

    @property
    def member(self) -> ChainMember:
        """The only role of the host."""
        (role,) = self.roles.values()
        assert type(role) is ChainMember
        return role

    def arrive(self, sender: str, target: str, message: Any) -> None:
        if self.is_alive:
            super().arrive(sender, target, message)

    def turn(self) -> None:
        if self.is_alive:
            super().turn()
            if self.member.is_out and not self.is_ending:
                self.is_ending = True
                self.world.call_later(0.0, self.world.shards.ends_itself, self)

    def check(self) -> None:
        checkers = self.world.checkers
        if checkers.is_due(self.turns):
            self.member.check_everything()
        if checkers.is_due(self.turns, BOUNDS_EVERY):
            checkers.bounds_are_kept(self.member.address, self.member)
        self.world.shards.check_order()


class Shards:
    """All replicas of all shards, and their faults."""

    def __init__(self, world: Simulator) -> None:
        self.world = world
        self.names = [f"gcs-{number}" for number in range(world.options.shards)]
        self.follow(SlotTable.at_birth(world.options.shards))
        self.hosts: dict[str, ShardHost] = {}
        self.master: ChainMaster | None = None
        self.faults = ReplicaFaults(self)
        self.hosting: Hosting
        self.let_in: dict[str, HostedReplica] = {}  # on other nodes than the head, as recorded by the head
        self.notes: dict[str, NoteChain] = {}  # by shard

    @property
    def are_replicated(self) -> bool:
        """Whether the shards are replicated."""
        return self.world.options.replicas > 0 or self.world.heads.are_killed

    # --- setting up ---

    def follow(self, table: SlotTable) -> None:
        """Have the checkers look for records at the shards of a table."""
        self.owner = lru_cache(maxsize=1 << 16)(table.owner)

    def addresses(self, node: str) -> list[str]:
        """Return the shards' addresses for a role of that node."""
        return [f"{node}/shard-{number}" for number in range(len(self.names))] if self.are_replicated else self.names

    def add_to(self, node: Node, *, is_first: bool) -> None:
        """Add the shards, or the roles of their replication, to a node."""
        if not self.are_replicated:
            if is_first:
                for name in self.names:
                    node.add_role(GcsShard(name, is_alone=node.scheduler.is_embedded))
            return
        heads = self.world.heads
        if is_first and heads.are_killed:
            self.master = heads.add_shards_to(node, self.names)
        elif is_first:
            self.master = ChainMaster(MASTER, replicas=self.world.options.replicas)
            node.add_role(self.master)
        if is_first:
            self._add_hosting(node)
        elif self.world.options.replicas > 1:
            keeper = ReplicaKeeper(f"{node.name}/replicas", heads.role("hosting"), is_willing=node.name != GUEST)
            node.add_role(keeper)
            self.world.call_at(self.world.now, self._start, node, keeper)
        for name, address in zip(self.names, self.addresses(node.name), strict=True):
            client = ChainClient(address, name, heads.role(MASTER), node.scheduler.address)
            node.add_role(client)
            if not self.world.now:
                self.world.call_at(0.0, self._start, node, client)

    def _add_hosting(self, node: Node) -> None:
        heads, options = self.world.heads, self.world.options
        counts = heads.role("counts") if self.world.schedulers.are_counted else ""
        services = Services(heads.role("services"), heads.role(MASTER), node.name, counts=counts)
        node.add_role(services)
        self.hosting = Hosting(
            heads.role("hosting"),
            self.names,
            replicas=options.replicas,
            master=heads.role(MASTER),
            services=services.address,
            monitor=heads.role("monitor"),
            lineage_bytes=options.lineage_bytes,
            known=[(self.hosts[replica.host].machine, replica) for replica in self.let_in.values()],
        )
        node.add_role(self.hosting)

    def start(self) -> None:
        """The first members, and spares."""
        options, heads = self.world.options, self.world.heads
        if heads.are_killed:
            for role in [role for role in heads.node.roles.values() if type(role) is ChainMember]:
                self.world.call_later(0.0, self._start, heads.node, role)
        elif self.are_replicated:
            for name in self.names:
                for _ in range(options.replicas + options.spares):
                    self.add_member(name)

    def add_member(self, shard: str) -> None:
        """Start a process that offers itself as a replica."""
        host = ShardHost(self.world, f"s{len(self.hosts) + 1}")
        self.hosts[host.name] = host
        options = self.world.options
        has_log, limit = options.broken_disks > 0, options.lineage_bytes
        member = ChainMember(f"{host.name}/{shard}", shard, MASTER, is_durable=has_log, lineage_bytes=limit)
        host.add_role(member)
        self.world.call_later(self.world.random.uniform(*START_SECONDS) * 0.1, self._start, host, member)

    # --- replicas on other nodes than the head ---

    def order(self, node: Node, effect: StartReplicaProcess) -> None:
        """StartReplicaProcess."""
        random = self.world.random
        if random.random() < self.world.options.start_failure_probability and not self.world.faults.are_over:
            refused = ReplicaNotStarted(effect.number, "fork: resource temporarily unavailable")
            self.world.call_later(random.uniform(*START_SECONDS), self._news, node, refused)
            return
        self.world.call_later(random.uniform(*START_SECONDS), self._is_born, node, effect)

    def _news(self, node: Node, news: Any) -> None:
        node.arrive("host", f"{node.name}/replicas", news)

    def _is_born(self, node: Node, effect: StartReplicaProcess) -> None:
        if not node.is_alive:
            return
        world = self.world
        host = ShardHost(world, f"r{len(self.hosts) + 1}", node.name)
        self.hosts[host.name] = host
        master = world.heads.known_master(node.name)
        address, limit = f"{host.name}/{effect.shard}", effect.lineage_bytes
        member = ChainMember(address, effect.shard, master, is_durable=True, is_hosted=True, lineage_bytes=limit)
        host.add_role(member)
        world.heads.known[host.name] = world.heads.known.get(node.name, "n1")
        for pair in [pair for pair in world.faults.cuts if node.name in pair]:
            world.faults.partition(host.name, pair[0] if pair[1] == node.name else pair[1])
        replica = HostedReplica(host.name, effect.shard, b"k" * 32)
        self._news(node, ReplicaStarted(effect.number, replica))

    def let_in_replica(self, node: Node, effect: LetInReplica) -> None:
        """Admit a replica, which offers itself as soon as its key is known."""
        self.let_in[effect.replica.host] = effect.replica
        node.arrive("host", self.hosting.address, ReplicaLetIn(effect.replica.host))
        host = self.hosts[effect.replica.host]
        self.world.call_later(self.world.draw_delay(), self._start_if_alive, host)

    def _start_if_alive(self, host: ShardHost) -> None:
        if host.is_alive and host.member.replica is None and not host.member.is_out:
            self._start(host, host.member)

    def shut_out(self, effect: ShutOutReplica) -> None:
        """Revoke a replica's admission."""
        self.let_in.pop(effect.host, None)

    def end_replica(self, name: str) -> None:
        """Handle EndReplicaProcess; or the end of its node."""
        host = self.hosts[name]
        if host.is_alive:
            self.die(host)

    def ends_itself(self, host: ShardHost) -> None:
        """End a replica that was taken out of its chain."""
        if host.is_alive:
            self.die(host)
            if not host.machine and host.member.address not in self.faults.accused:
                self.faults.accused[host.member.address] = None
                self.world.call_later(self.world.random.uniform(*START_SECONDS), self.add_member, host.member.shard)

    def run_by(self, node: str) -> list[str]:
        """Return the hosts of replicas on that node."""
        return [name for name, host in self.hosts.items() if host.machine == node]

    def node_ends(self, node: Node) -> None:
        """End the replicas of an ended node."""
        for host in self.hosts.values():
            if host.machine == node.name and host.is_alive:
                self.die(host)

    def _start(self, node: Node, role: Any) -> None:
        role.now = node.now
        role.start()
        node._perform_all(role, role.take_effects())
        node.turn()

    def disk(self, host: Node, member: str) -> Disk:
        """Return the disk of a member on its host."""
        return host.disk if type(host) is ShardHost else self.world.heads.disks[member.rpartition("/")[2]]

    def whole(self, member: ChainMember) -> list[bytes]:
        """Return a member's state with all specs in memory; paged-out specs are read for that."""
        assert member.replica is not None
        pages = self.disk(self.world.homes[member.address], member.address).pages
        unpacked = {page: unpack_page(pages[page]) for page in member.replica.shard.tasks.pages}
        replica, _ = Replica.load(member.shard, list(member.replica.dump()), unpacked)
        return list(replica.dump())

    # --- ends of replicas ---

    def die(self, host: ShardHost) -> None:
        """End a replica's process at once."""
        world = self.world
        host.is_alive = False
        world.trace.event(world.now, host.name, "ends")
        if host.machine and (node := world.nodes.get(host.machine)) is not None:
            gone = ReplicaGone(host.name, "killed by signal 9")
            world.call_later(world.random.uniform(*EXIT_SECONDS), self._news, node, gone)
        for roles in [roles for roles in world.between_nodes if host.member.address in roles]:
            # Nothing is sent again on it; frames in flight may still arrive.
            connection = world.between_nodes.pop(roles)
            del world.by_hosts[min(names := [world.homes[role].name for role in roles]), max(names)][roles]
            connection.is_up = False
            if world.random.random() < 0.5:
                connection.generation += 1

    # --- looking in from outside ---

    def chain(self, shard: str) -> Chain | None:
        """Return the chain as known to the master."""
        return self.master.chains.get(shard) if self.master is not None else None

    def members(self, shard: str) -> list[ChainMember]:
        """Return the live members, from head to tail."""
        chain = self.chain(shard)
        homes = [(self.world.homes[name], name) for name in chain.members] if chain is not None else []
        return [home.roles[name] for home, name in homes if home.is_alive]  # type: ignore[misc]

    def authorities(self) -> list[GcsShard]:
        """Return, per shard, the authoritative replica."""
        if not self.are_replicated:
            return [role for role in self.world.heads.node.roles.values() if type(role) is GcsShard]
        found = []
        for name in self.names:
            chain = self.chain(name)
            members = [member for member in self.members(name) if member.replica is not None]
            # An appended member may lag behind records that its predecessor has acknowledged alone.
            full = [member for member in members if chain is not None and member.address not in chain.tentative]
            replicas = [member.replica for member in full or members if member.replica is not None]
            if replicas:
                found.append(replicas[-1].shard)
        return found

    def are_spread(self) -> bool:
        """Return whether each chain is on as many machines as possible, and no move is under way."""
        if not self.are_replicated:
            return True
        machines, wanted = self._machines(), self._wanted()
        for name in self.names:
            chain = self.chain(name)
            if chain is None or chain.joining or chain.tentative:
                return False
            used = {self.machine(member) for member in chain.members}
            if len(chain.members) != wanted or len(used) < min(wanted, machines):
                return False
        return True

    def _machines(self) -> int:
        """Return the number of machines that may have members."""
        return len(self.world.nodes.keys() - {GUEST})

    def _wanted(self) -> int:
        """Return the wanted number of members in each chain."""
        wanted = self.world.options.replicas or 1
        # A killed head has one member of each chain, and no spares.
        return min(wanted, self._machines()) if self.world.heads.are_killed else wanted

    def machine(self, member: str) -> str:
        """Return the node of a member; "": the head."""
        host = self.hosts.get(member.partition("/")[0])
        return host.machine if host is not None else ""

    def are_done(self) -> bool:
        """Return whether no request to a shard is pending, no message between shards is due, all writes are
        acknowledged, and no disk is about to be tried again.

        A client is told of an acknowledgement before the first member.
        """
        if not self.have_said_all() or any(client.pending or client.is_stalled for client in self.clients()):
            return False
        return not any(member.history for name in self.names for member in self.members(name))

    def clients(self) -> list[ChainClient]:
        """Return the chain clients of all nodes."""
        roles = (role for node in self.world.nodes.values() for role in node.roles.values())
        return [role for role in roles if type(role) is ChainClient]

    def have_said_all(self) -> bool:
        """Return whether no shard has messages for another one without acknowledgement."""
        for shard in self.authorities():
            keeping = shard.tasks.keeping
            for peer in keeping.peers.values() if keeping is not None else ():
                if peer.number != peer.heard or peer.coming:
                    return False
        return True

    def check_order(self) -> None:
        """Check the prefix rule: each member has all records of its successor."""
        for name in self.names:
            sequences = [member.sequence for member in self.members(name) if not member.is_out]
            assert sequences == sorted(sequences, reverse=True), f"{name}: a member is ahead of its predecessor"

    def at_rest(self) -> None:
        """Check that all replicas are equal, on as many machines as possible, with nothing in flight."""
        if self.are_replicated:
            assert self.are_spread(), "\n".join(["a chain is not spread over the machines", *self.why_stuck()])
        for name in self.names if self.are_replicated else ():
            chain = self.chain(name)
            assert chain is not None and not chain.is_lost and not chain.tentative and not chain.joining
            members = self.members(name)
            assert [member.address for member in members] == chain.members, "a dead member in the chain"
            assert len(members) == self._wanted(), f"a chain of {len(members)}"
            states = [self.whole(member) for member in members if member.replica is not None]
            assert len(states) == len(members) and all(state == states[0] for state in states), "replicas differ"
            for member in members:
                assert member.replica is not None
                nothing_left(member, member.address)
                for session in member.replica.sessions.values():
                    assert len(session.results) < UNCONFIRMED_MAX
        for client in self.clients():
            assert not client.is_stalled, f"{client.address} waits for a disk, as far as it was told"
            # The monitor tells shards of joining nodes, which they ignore.
            assert set(client.rejected) <= {"no handler for NodeJoined"}, client.rejected

    def records_under_way(self) -> set[bytes]:
        """Return tasks whose record is on its way from a node to a shard."""
        said = [request for client in self.clients() for _, request in client.pending]
        said += self._sent_back()
        if not self.are_replicated:
            said += [message for _, target, message in self.world.heads.node.inbox if target in self.names]
            for roles, connection in self.world.between_nodes.items():
                for source, target in (roles, roles[::-1]):
                    if target in self.names:
                        said += connection.on_its_way(source)
        return {spec.task_id for request in said if type(request) is RecordTasks for spec in request.specs}

    def _sent_back(self) -> Iterator[Any]:
        """Yield requests that shards have returned by a newer table of slots, and those that wait for such."""
        for node in self.world.nodes.values():
            slots = node.scheduler.slots
            yield from slots.later
            for waiting in slots.held.values():
                yield from (*waiting.returned, *waiting.later)
            for _, _, message in node.inbox:
                if type(message) is SlotsMoved:
                    yield message.request
                elif slots.number:  # a part of one, on its way to the client of its shard
                    yield message
        for roles, connection in self.world.between_nodes.items():
            for message in (*connection.on_its_way(roles[0]), *connection.on_its_way(roles[1])):
                if type(message) is SlotsMoved:
                    yield message.request
        taken = {client.address: client.taken for client in self.clients()}
        for name in self.names if self.are_replicated else ():
            for member in self.members(name):
                for session in member.replica.sessions.values() if member.replica is not None else ():
                    for result in session.results:
                        if type(result.message) is SlotsMoved and result.number > taken.get(session.client, 0):
                            yield result.message.request

    def why_stuck(self) -> list[str]:
        """Return a text about the chains."""
        lines = []
        for name in self.names if self.are_replicated else ():
            chain = self.chain(name)
            if chain is not None:
                lines.append(
                    f"{name}: epoch {chain.epoch} members {chain.members} tentative {list(chain.tentative)} joining "
                    f"{chain.joining!r} spares {chain.spares} lost {chain.is_lost}"
                )
            lines += [f"  {member.address} {member.statistics()} {member.rejected}" for member in self.members(name)]
        for name, candidate in self.hosting.candidates.items() if self.are_replicated else ():
            running = [f"{host}/{replica.shard}" for host, replica in candidate.running.items()]
            lines.append(
                f"  {name} runs {running}, is to run {list(candidate.ordered.values())}, rests {candidate.rests} "
                f"({candidate.rest:g} s the last time), leaves {candidate.is_leaving}"
            )
        return lines + [f"  {client.address} {client.statistics()} {client.rejected}" for client in self.clients()]
