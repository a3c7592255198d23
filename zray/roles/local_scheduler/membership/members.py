"""A local scheduler as a member of its cluster: registration, heartbeats with the load, and the other members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....wire import gcs, groups, hosts, task_spec
from ....wire.amounts import STORE_MEMORY
from ....wire.events import State
from ....wire.message import Message
from ...effects import EndSession, Finding, ForgetHost, HeadChanged, HostProbed, KillWorker, MeetHost, ProbeHost
from ...replica_effects import ShardStalled
from ...role import on
from ...work_effects import OthersUnheard
from .lease import HEAD_WAIT_SECONDS, Lease, Suspension

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler

LOAD_SECONDS = 0.1
# The error for the user of a program outside the cluster.
GUEST_IS_LOST = (
    "this program was removed from the cluster ({reason}).  Its tasks, actors and objects there are gone; {help}"
)
GUEST_HELP = (
    "zray.shutdown() and zray.init() connect it again, and `zray start --head --driver-wait S` makes a cluster wait "
    "longer"
)
HEAD_HELP = (
    "start a cluster, and then the program again (`zray start --head --state-dir PATH` keeps the state that a new "
    "head continues from, and `zray start --head-wait S` makes nodes wait longer for it)"
)
# The number of messages kept from nodes not announced yet.  A new head's node may announce as many actors, at some 500
# bytes each, before its monitor has announced the node.
EARLY_MAX = 10_000
REVOKED_HELP = "`zray keys token` on the head's machine prints a token with which it can join again"


class Members:
    """The cluster, as a node sees it."""

    LASTING = {"peers stalled early": None, "labels outside leaving": "peers", "early_count": "EARLY_MAX"} | {
        "lease.sent": lambda it: int(it.lease.seconds / LOAD_SECONDS) + 2
    }

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.peers: dict[str, dict[str, int]] = {}  # other local schedulers -> their total resources
        self.labels: dict[str, dict[str, str]] = {}  # of the peers
        self.outside: set[str] = set()  # those of them where nothing is placed: of programs outside of the cluster
        self.leaving: set[str] = set()  # those of them that are to leave, as far as we were told: membership only
        self.last_lost = ""  # of those whose loss a monitor has told us: in the order in which they were lost
        self.lease = Lease()
        self.suspension = Suspension(self.node)
        self.facts = ("node", "", b"")  # as registered
        self.hostname = ""
        self.is_fenced = False
        self.early: dict[str, list[Message]] = {}  # by sender
        self.others_silence = ""  # in words
        self.stalled: dict[str, list[str]] = {}  # shards that answer nothing -> why; for people alone

    def start(
        self,
        kind: str = "node",
        endpoint: str = "",
        public_key: bytes = b"",
        head_wait: float = HEAD_WAIT_SECONDS,
        hostname: str = "",
    ) -> None:
        """Join the cluster, once, before anything else.  As in RegisterNode; head_wait: as in Lease."""
        self.lease.head_wait = head_wait
        self.facts = (kind, endpoint, public_key)
        self.hostname = hostname
        self.node.changes.node_is(State.ALIVE)
        self._register()
        self.report()

    @property
    def is_guest(self) -> bool:
        """Whether the local node belongs to a program outside the cluster.

        The node ends with the program, so even tasks without a CPU request run elsewhere.
        """
        return self.facts[0] == "driver"

    @property
    def has_had_others(self) -> bool:
        """Whether another node exists, or existed."""
        return bool(self.peers or self.node.recovery.lost)

    def silence(self) -> str:
        """Describe the silence of the head, as the lease does; at the head, the silence of all other machines."""
        return self.lease.silence(is_guest=self.is_guest) or self.others_silence

    def stalls(self) -> list[str]:
        """Describe the shards that do not answer, for lack of disk space or of replicas."""
        return [
            f"GCS shard {shard.rpartition('-')[2]} {reason}"
            for shard, reasons in sorted(self.stalled.items())
            for reason in reasons
        ]

    @on(ShardStalled)
    def on_shard_stalled(self, message: ShardStalled) -> None:
        """ShardStalled."""
        if message.reasons:
            self.stalled[message.shard] = message.reasons
        else:
            self.stalled.pop(message.shard, None)

    def _register(self) -> None:
        node = self.node
        total = groups.plain(node.resources.total)
        if node.load.store_bytes:
            total[STORE_MEMORY] = node.load.store_bytes * task_spec.RESOURCE_UNIT
        peers, last = list(self.peers), self.last_lost
        register = gcs.RegisterNode(node.address, total, *self.facts, peers, node.labels, self.hostname, last)
        node.send(node.addresses.monitor, register)
        for shard in node.addresses.shards:
            node.send(shard, groups.AttendShard(node.address, self.facts[0] != "driver"))

    def report(self) -> None:
        """Send heartbeats and the load, periodically."""
        node = self.node
        if self.is_fenced:
            return
        lease = self.lease
        lease.count(node.now)
        if reason := lease.why_over(is_guest=self.is_guest):
            self.fence(reason, may_rejoin=lease.is_cut_off and not (lease.is_over and lease.head_has_ended))
            return
        if lease.is_cut_off:
            self.suspension.begin()
        if lease.begin_to_look():
            node.perform(ProbeHost(node.addresses.monitor))
        if not self.suspension.is_on:
            node.load.report()
            node.load.count_store()
            node.results.accept()
        node.send(node.addresses.monitor, gcs.Heartbeat(node.address, lease.next_heartbeat()))
        node.after(LOAD_SECONDS, self.report)

    @on(gcs.NodeJoined)
    def on_node_joined(self, message: gcs.NodeJoined) -> None:
        """NodeJoined: tasks may be spilled to another node."""
        if message.node != self.node.address:
            self.node.perform(
                MeetHost(message.node, message.kind, message.endpoint, message.public_key, message.is_earlier)
            )
            self.peers[message.node] = message.total
            self.labels[message.node] = message.labels
            self.node.small_values.node_joined(message.node)
            if message.kind == "driver":
                self.outside.add(message.node)
            else:
                self.node.infeasible.node_joined(message.total)
                self.node.keeping.nodes_changed()
                self.node.guards.node_joined()

        self._hear_what_came_early(message.node)

    def comes_early(self, message: Message) -> bool:
        """Whether the sender is a node that has not been announced yet.  The message is kept until then."""
        sender = self.node.sender
        if sender in self.peers or sender in self.node.recovery.lost:
            return False
        if self.early_count < EARLY_MAX:
            self.early.setdefault(sender, []).append(message)
        return True

    @property
    def early_count(self) -> int:
        """Return how many messages are kept for unannounced nodes."""
        return sum(map(len, self.early.values()))

    def _hear_what_came_early(self, joined: str) -> None:
        told_by, self.node.sender = self.node.sender, joined
        for message in self.early.pop(joined, ()):
            self.node.handlers[type(message)](message)
        self.node.sender = told_by

    def are_leaving(self, nodes: Iterable[str]) -> None:
        """Mark nodes as leaving, as another role reports."""
        self.leaving.update(node for node in nodes if node in self.peers)

    @on(gcs.HeartbeatReply)
    def on_heartbeat_reply(self, message: gcs.HeartbeatReply) -> None:
        """HeartbeatReply: the lease is extended."""
        self.lease.answered(message.number, message.seconds)
        if self.suspension.is_on and not self.lease.is_cut_off:
            self.suspension.end()

    @on(HostProbed)
    def on_host_probed(self, message: HostProbed) -> None:
        """HostProbed: the head was probed from outside."""
        if message.role != self.node.addresses.monitor:
            return  # the former one
        found = message.finding
        self.lease.looked(
            has_ended=found is Finding.ENDED,
            stands_still=found is Finding.STANDS_STILL,
            answers=found is Finding.ANSWERS,
        )

    @on(OthersUnheard)
    def on_others_unheard(self, message: OthersUnheard) -> None:
        """OthersUnheard."""
        self.others_silence = message.words

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost."""
        if message.node == self.node.address:
            reason = message.reason if self.node.drain.is_done else f"this node was declared dead: {message.reason}"
            self.fence(reason, may_rejoin=hosts.WAS_LOST in reason)
            return
        self.last_lost = message.node
        if message.node in self.node.recovery.lost:
            return  # the former head's own, or told again by a monitor that cannot know that we were told
        self._forget_node(message)
        self.node.changes.node_is(State.DRAINED if message.is_drained else State.DEAD, message.reason, message.node)
        self.node.perform(ForgetHost(message.node, message.reason))

    @on(HeadChanged)
    def on_head_changed(self, message: HeadChanged) -> None:
        """HeadChanged: the former head's node and its messages are lost; this node stays a member.

        Chain clients ask the shards again; other nodes do the same.
        """
        node, addresses = self.node, self.node.addresses
        gone = list(addresses.global_schedulers)
        addresses.head_changed(message.head, message.global_schedulers)
        self.lease.extended()
        self._forget_node(
            gcs.NodeLost(f"{message.former}/local", "the head of the cluster has ended, and was started again")
        )
        for scheduler in gone:
            node.flights.scheduler_gone(scheduler)
        self._register()

    def _forget_node(self, message: gcs.NodeLost) -> None:
        if message.node in self.peers and message.node not in self.outside:
            self.node.notices.node_lost(message)
        self.early.pop(message.node, None)
        self.peers.pop(message.node, None)
        self.labels.pop(message.node, None)
        self.outside.discard(message.node)
        self.leaving.discard(message.node)
        self.node.recovery.node_lost(message)
        self.node.acks.node_lost(message.node)
        self.node.routes.node_lost(message.node, is_drained=message.is_drained)
        self.node.remote_calls.node_lost(message.node)
        self.node.results.node_lost(message.node)
        self.node.generators.node_lost(message.node)
        self.node.fates.node_lost(message)
        self.node.logs.node_lost(message.node)
        self.node.moves.node_lost(message.node)
        self.node.guards.node_lost(message.node, is_drained=message.is_drained)
        self.node.traces.node_lost(message.node)
        self.node.names.elsewhere.node_lost(message.node)
        self.node.flights.node_lost(message.node)
        self.node.drain.node_lost(message.node, is_drained=message.is_drained)
        self.node.output.node_lost(message.node)
        self.node.code.home_lost(message.node)
        self.node.small_values.node_lost(message.node)

    def fence(self, reason: str, *, may_rejoin: bool) -> None:
        """Fence the local node, no longer a member: its work must stop, because other nodes repeat the work."""
        if not self.is_fenced:
            self.is_fenced = True
            self.node.changes.node_is(State.DEAD, reason)
            spared = self.node.ends.spared()
            for address in self.node.pool.workers:
                if address not in spared:
                    self.node.perform(KillWorker(address))
            may_rejoin = may_rejoin and not self.node.drain.is_on
            text = f"not a member of its cluster any more: {reason}"
            advice = HEAD_HELP if self.lease.head_has_ended else ""
            if self.is_guest:
                advice = REVOKED_HELP if "key was revoked" in reason else advice or GUEST_HELP
                text = GUEST_IS_LOST.format(reason=reason, help=advice)
            elif advice:
                text += f".  The tasks, actors and objects there are gone; {advice}"
            self.node.perform(EndSession(text, may_rejoin))
