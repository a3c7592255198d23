"""Hosting, on the head: assigns shard replicas to nodes, beside the replicas that the head runs itself.

Dialog (sender, message, reaction):

    replica keeper   MayHost           replicas that run there already are kept, if known
    replica keeper   ReplicaRuns       its key is admitted: LetInReplica
    our host         ReplicaLetIn      the chain master and the services are told: now it is like any other
    any host         ReplicaStuck      no replica is to run there: that host would wait for its chain for ever
    replica keeper   ReplicaEnded      the replica is gone for good, and another is started
    monitor          NodeJoined        the node may be chosen, after its MayHost
    monitor          NodeLost          all replicas there are gone, and others are started
    monitor          MachineLeaves     replicas there are replaced; MachineIsFree when none is left

Each shard has as many replicas on other nodes as its chain should have members, less the head's own.  Each is on a node
of its own, and nodes with the fewest replicas are chosen first.  The head's own replicas are the spares.  A new replica
never takes the identity of an earlier one, and a node is given nothing but replicas.

Replica keeper, on a node that joined: runs the shard replicas that the head orders here (hosting.py).

Dialog (sender, message, reaction):

    hosting     StartReplica      a process: ReplicaRuns, or ReplicaRefused
    hosting     StopReplica       end it
    our host    ReplicaGone       ReplicaEnded
    our host    HeadChanged       report the running replicas, which outlive the head, to the new head

Replicas are separate processes, and end with this node.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ..wire import chain, gcs, hosting, hosts
from ..wire import hosting as wire
from . import replica_effects
from .effects import HeadChanged
from .kept import LOST_MAX, Latest
from .role import Role, on

# The clients go on first: a start takes a processor for a moment (as on the head, host/cluster/head_processes.py).
REST_SECONDS_MIN = 0.1
# A start every half minute costs a node next to nothing; and once its machine is mended, nobody waits for longer.
REST_SECONDS_MAX = 30.0
# A replica that was let in so long ago has lasted: what it cannot do (have its state, write it) has shown by then.
LASTED_SECONDS = 2.0


class Candidate(Struct, eq=False):
    """A node that may run replicas."""

    keeper: str
    is_willing: bool = True
    is_leaving: bool = False
    rests: bool = False  # one of it has just ended
    rest: float = 0.0  # in s: the last one, since something has lasted here
    ordered: dict[int, str] = {}  # number of the order -> shard
    running: dict[str, hosting.HostedReplica] = {}  # by host; not all are let in yet

    def shards(self) -> list[str]:
        """Return the shards of all replicas that run on the node, or are ordered."""
        return [*self.ordered.values(), *(replica.shard for replica in self.running.values())]


class Hosting(Role):
    """Hosting of a cluster.  replicas: the desired length of each chain.

    known: (node, replica) of all replicas that an earlier head admitted.
    """

    def __init__(
        self,
        address: str,
        shards: Iterable[str],
        *,
        replicas: int,
        master: str,
        services: str,
        monitor: str,
        lineage_bytes: int = 0,
        known: Iterable[tuple[str, hosting.HostedReplica]] = (),
    ) -> None:
        super().__init__(address)
        self.shards = list(shards)
        self.replicas = replicas
        self.master, self.services, self.monitor = master, services, monitor
        self.lineage_bytes = lineage_bytes
        self.candidates: dict[str, Candidate] = {}  # by node (its host)
        self.known = {replica.host: (node, replica) for node, replica in known}  # not reported yet
        self.let_in: dict[str, float] = {}  # replica's host -> when
        self.members: dict[str, None] = {}  # nodes: of no other would anybody tell us that it is lost
        self.lost: Latest[str, None] = Latest(LOST_MAX)  # nodes; what they had said may come yet
        self.count = 0

    # --- which node ---

    def _spread(self) -> None:
        for shard in self.shards:
            have = sum(
                candidate.shards().count(shard) for candidate in self.candidates.values() if not candidate.is_leaving
            )
            have += sum(replica.shard == shard for _, replica in self.known.values())
            for _ in range(self.replicas - 1 - have):
                fit = [
                    candidate
                    for node, candidate in self.candidates.items()
                    if node in self.members
                    and candidate.is_willing
                    and not candidate.is_leaving
                    and not candidate.rests
                    and shard not in candidate.shards()
                    and len(candidate.shards()) < hosting.REPLICAS_MAX
                ]
                if not fit:
                    break
                self._order(min(fit, key=lambda candidate: len(candidate.shards())), shard)

    def _order(self, candidate: Candidate, shard: str) -> None:
        self.count += 1
        candidate.ordered[self.count] = shard
        self.send(candidate.keeper, hosting.StartReplica(self.count, shard, self.lineage_bytes))

    def _failed(self, node: str, candidate: Candidate, *, has_lasted: bool = False) -> None:
        """Let the node rest before the next attempt, for twice as long after each failure that follows soon.

        Simultaneous failures of several shards count as a single failure, because no attempt was made in between.
        """
        if not candidate.rests:
            candidate.rests = True
            seconds = REST_SECONDS_MIN if has_lasted else max(REST_SECONDS_MIN, 2 * candidate.rest)
            candidate.rest = min(REST_SECONDS_MAX, seconds)
            self.after(candidate.rest, self.spread_again, node)
        self._look_whether_free(node, candidate)
        self._spread()

    def spread_again(self, node: str) -> None:
        """Let a node be given replicas again."""
        if candidate := self.candidates.get(node):
            candidate.rests = False
            self._spread()

    # --- what nodes say ---

    def _candidate(self) -> Candidate | None:
        candidate = self.candidates.get(_host(self.sender))
        if candidate is None:
            self.reject("a node that has not said that it may host replicas")
        return candidate

    @on(hosting.MayHost)
    def on_may_host(self, message: hosting.MayHost) -> None:
        node = _host(self.sender)
        if node in self.candidates or node in self.lost:
            self.reject("said twice, or by a node that is lost")
            return
        candidate = self.candidates[node] = Candidate(self.sender)
        candidate.is_willing = message.is_willing
        for replica in message.replicas[: hosting.REPLICAS_MAX]:
            if self.known.get(replica.host) == (node, replica):
                del self.known[replica.host]
                candidate.running[replica.host] = replica
                self._is_in(node, replica)
            else:
                self.send(self.sender, hosting.StopReplica(replica.host, "this head has not ordered it"))
        for host in [host for host, (where, _) in self.known.items() if where == node]:
            _, replica = self.known.pop(host)
            self._gone(replica, "it ended before the head was started again")
        self._spread()

    @on(hosting.ReplicaRuns)
    def on_replica_runs(self, message: hosting.ReplicaRuns) -> None:
        candidate, replica = self._candidate(), message.replica
        if candidate is None:
            return
        shard = candidate.ordered.get(message.number)
        if shard is None or shard != replica.shard or self._node_of(replica.host):
            self.reject("a replica that was not ordered")
            self.send(self.sender, hosting.StopReplica(replica.host, "this head has not ordered it"))
            return
        del candidate.ordered[message.number]
        candidate.running[replica.host] = replica
        node = _host(self.sender)
        # The chain master first: then it may offer itself.
        self.send(self.master, replica_effects.MemberPlaced(f"{replica.host}/{replica.shard}", node))
        self.perform(replica_effects.LetInReplica(replica, node))

    @on(replica_effects.ReplicaLetIn)
    def on_replica_let_in(self, message: replica_effects.ReplicaLetIn) -> None:
        node = self._node_of(message.host)
        if not node:
            self.perform(replica_effects.ShutOutReplica(message.host, "its node is gone"))
            return
        candidate = self.candidates[node]
        if message.refusal:
            self.reject("a replica that is not let in")
            self.send(candidate.keeper, hosting.StopReplica(message.host, message.refusal))
            return
        self._is_in(node, candidate.running[message.host])

    def _is_in(self, node: str, replica: hosting.HostedReplica) -> None:
        self.let_in[replica.host] = self.now
        member = f"{replica.host}/{replica.shard}"
        self.send(
            self.services, replica_effects.ServiceAdded(replica.host, "replica", replica.public_key, [member], node)
        )
        self.send(self.services, replica_effects.ServiceListens(replica.host, hosts.RELAYED))
        if self.candidates[node].is_leaving:
            self.send(self.master, replica_effects.MachineLeaves(node))

    @on(hosting.ReplicaStuck)
    def on_replica_stuck(self, message: hosting.ReplicaStuck) -> None:
        if node := self._node_of(message.host):
            candidate = self.candidates[node]
            candidate.is_willing = False  # as if it had said so itself
            reason = f"it acknowledges no message of host {_host(self.sender)}: no replica runs there any more"
            self.send(candidate.keeper, hosting.StopReplica(message.host, reason))

    @on(hosting.ReplicaRefused)
    def on_replica_refused(self, message: hosting.ReplicaRefused) -> None:
        candidate = self._candidate()
        if candidate is not None and candidate.ordered.pop(message.number, None) is not None:
            self._failed(_host(self.sender), candidate)

    @on(hosting.ReplicaEnded)
    def on_replica_ended(self, message: hosting.ReplicaEnded) -> None:
        candidate = self._candidate()
        replica = candidate.running.pop(message.host, None) if candidate is not None else None
        if candidate is None or replica is None:
            return
        has_lasted = self.now - self.let_in.get(message.host, self.now) >= LASTED_SECONDS
        self._gone(replica, message.reason)
        self._failed(_host(self.sender), candidate, has_lasted=has_lasted)

    def _gone(self, replica: hosting.HostedReplica, reason: str) -> None:
        """Tell the others that a replica is gone.  The chain master may know the replica before the services do."""
        host = replica.host
        self.send(self.master, chain.ChainMemberLost(f"{host}/{replica.shard}", reason))
        if self.let_in.pop(host, None) is not None:
            self.send(self.services, replica_effects.ServiceEnded(host, reason))
        self.perform(replica_effects.ShutOutReplica(host, reason))

    def _node_of(self, host: str) -> str:
        return next((node for node, candidate in self.candidates.items() if host in candidate.running), "")

    # --- what becomes of nodes ---

    @on(gcs.NodeJoined)
    def on_node_joined(self, message: gcs.NodeJoined) -> None:
        self.members[_host(message.node)] = None
        self._spread()

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        node = _host(message.node)
        self.lost[node] = None
        self.members.pop(node, None)
        candidate = self.candidates.pop(node, None)
        for replica in list(candidate.running.values()) if candidate is not None else ():
            self._gone(replica, f"its node is lost: {message.reason}")
        for host in [host for host, (where, _) in self.known.items() if where == node]:
            _, replica = self.known.pop(host)
            self._gone(replica, f"its node is lost: {message.reason}")
        self._spread()

    @on(replica_effects.MachineLeaves)
    def on_machine_leaves(self, message: replica_effects.MachineLeaves) -> None:
        node = _host(message.node)
        candidate = self.candidates.get(node)
        if candidate is None:
            self.send(self.monitor, replica_effects.MachineIsFree(message.node))
            return
        candidate.is_leaving = True
        for host, replica in candidate.running.items():
            if host not in self.let_in:
                self.send(candidate.keeper, hosting.StopReplica(replica.host, "its node leaves the cluster"))
        self._spread()
        self.send(self.master, replica_effects.MachineLeaves(node))
        self._look_whether_free(node, candidate)

    def _look_whether_free(self, node: str, candidate: Candidate) -> None:
        if candidate.is_leaving and not candidate.running:
            self.send(self.monitor, replica_effects.MachineIsFree(f"{node}/local"))

    def check_everything(self) -> None:
        for candidate in self.candidates.values():
            assert len(set(candidate.shards())) == len(candidate.shards()), "two replicas of a shard on one node"


def _host(address: str) -> str:
    return address.partition("/")[0]


class ReplicaKeeper(Role):
    """The replica keeper of a node.  hosting: the head's role that orders replicas; is_willing: whether replicas may
    run."""

    def __init__(self, address: str, hosting: str, *, is_willing: bool) -> None:
        super().__init__(address)
        self.hosting = hosting
        self.is_willing = is_willing
        self.running: dict[str, wire.HostedReplica] = {}
        self.starting: dict[int, None] = {}  # by number of the order

    def start(self) -> None:
        """Report the running replicas to the head, and whether more may run."""
        self.send(self.hosting, wire.MayHost(self.is_willing, list(self.running.values())))

    @on(HeadChanged)
    def on_head_changed(self, message: HeadChanged) -> None:
        if self.hosting == f"{message.former}/hosting":
            self.hosting = f"{message.head}/hosting"
            self.start()

    @on(wire.StartReplica)
    def on_start_replica(self, message: wire.StartReplica) -> None:
        if self.sender != self.hosting:
            self.reject("an order of a head that is gone")
        elif not self.is_willing or len(self.running) + len(self.starting) >= wire.REPLICAS_MAX:
            self.send(self.hosting, wire.ReplicaRefused(message.number, "no replica may run here"))
        else:
            self.starting[message.number] = None
            self.perform(replica_effects.StartReplicaProcess(message.number, message.shard, message.lineage_bytes))

    @on(replica_effects.ReplicaStarted)
    def on_replica_started(self, message: replica_effects.ReplicaStarted) -> None:
        self.starting.pop(message.number, None)
        self.running[message.replica.host] = message.replica
        # Where the head has changed meanwhile, it has not ordered it, and says so.
        self.send(self.hosting, wire.ReplicaRuns(message.number, message.replica))

    @on(replica_effects.ReplicaNotStarted)
    def on_replica_not_started(self, message: replica_effects.ReplicaNotStarted) -> None:
        self.starting.pop(message.number, None)
        self.send(self.hosting, wire.ReplicaRefused(message.number, message.reason))

    @on(wire.StopReplica)
    def on_stop_replica(self, message: wire.StopReplica) -> None:
        if message.host in self.running:
            self.perform(replica_effects.EndReplicaProcess(message.host))

    @on(replica_effects.ReplicaGone)
    def on_replica_gone(self, message: replica_effects.ReplicaGone) -> None:
        if self.running.pop(message.host, None) is not None:
            self.send(self.hosting, wire.ReplicaEnded(message.host, message.reason))
