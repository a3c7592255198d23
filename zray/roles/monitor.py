"""GCS monitor: cluster membership, and the verdict on silent nodes.

Dialog (sender, message, reaction):

    local scheduler    RegisterNode    record the node durably; announce it to all nodes and all nodes to it
    local scheduler    Heartbeat       the node is alive: HeartbeatReply
    our host           HostLeft        a node ends in order: all are told
    any host           GiveUpNode      the sender can do nothing more for a node, which is therefore lost
    our host           DrainOrdered    DrainNode to the node
    local scheduler    DrainReport     the progress; in the end the verdict, by which nothing is lost
    our host           HostLinkChanged    a connection broke, or is back: probe the machine; or a host connects whose
                                          node has not registered yet
    our host           HostProbed      the node's process has ended
    hosting            MachineIsFree   the cluster's own processes have left the machine too
    our timer          tick            a node whose process has ended, or that is silent for too long, is lost: NodeLost

A broken connection proves little: the process may have ended, or the network between may be down.  A process is known
to be dead only if its machine reports that nothing listens on the port any more.  Otherwise the verdict waits until the
node's lease has expired (local_scheduler/membership/lease.py), so the node has fenced itself by then.

The node of a program outside the cluster (kind "driver") runs no work of others.  So it may be cut off, or asleep, for
`driver_wait` seconds, and each answer says so.  An exception is a connection that was closed while heartbeats arrived.
A machine that sleeps closes no connection, and a living process reconnects at once, so the program has ended.

Silence is counted in the monitor's own ticks, not in seconds.  If all machines stop at once (a laptop's lid), no node
has been silent for more than a tick.  If only the monitor's process stalled, all counts begin anew, because nodes that
noticed have extended their leases.  The verdict is final, and recorded durably before any announcement.

A monitor of a restarted head takes the former monitor's nodes for members, and gives them time to register anew.  The
time starts when their connections are up.

Whether all other machines are silent because the head's own machine is cut off: a cable, a switch, a network card.

A head that hears from no node cannot tell isolation from the death of all nodes, which is rarer.  So the verdict waits
while all nodes on other machines, at least two, are silent and no probe reaches any.  Those nodes are suspended
meanwhile (local_scheduler/membership/lease.py), and resume when the head hears from them again.  The verdict falls
after all when the nodes would no longer wait for the head.

A single silent node is more likely dead, so the usual verdict applies.  The same holds for several silent nodes while
others are heard from.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct, field

from ..wire import drains, gcs, where
from ..wire.where import host_of
from .effects import DrainOrdered, Finding, HostLeft, HostLinkChanged, HostProbed, NoteLost, NoteMember, ProbeHost
from .kept import LOST_MAX, Latest
from .replica_effects import MachineIsFree, MachineLeaves
from .role import Role, on
from .work_effects import HeadIsAlone

NODES_MIN = 2
# When a silent node is looked at: heartbeats come with each tick, and the look takes up to a second; its outcome is
# there before the verdict would fall (27 ticks).
LOOK_AT_TICKS = 12
# From then on so often: a line that is there for a moment makes us forget what the last look has found.  So often, too,
# is a node looked at that is not back.
LOOK_TICKS = 5
WAIT_SECONDS = 60.0  # as Lease.HEAD_WAIT_SECONDS


class Isolation:
    """The isolation check of a monitor, called at each tick."""

    def __init__(self, monitor: Monitor, ticks_max: int) -> None:
        self.monitor = monitor
        self.ticks_max = ticks_max  # so long the verdicts wait
        self.ticks = 0  # so long they have waited; 0: they do not

    @staticmethod
    def looks_at(silent_ticks: int) -> bool:
        """Whether a node that has been silent for `silent_ticks` is probed."""
        return silent_ticks >= LOOK_AT_TICKS and (silent_ticks - LOOK_AT_TICKS) % LOOK_TICKS == 0

    def tick(self) -> bool:
        """Whether verdicts on silent nodes wait."""
        was_so = self.ticks > 0
        is_so = self._hears_nobody()
        if not is_so:
            if was_so:
                self.ticks = 0
                self.monitor.await_all()
                self.monitor.perform(HeadIsAlone(False))
            return False
        self.ticks += 1
        if not was_so:
            self.monitor.perform(HeadIsAlone(True))
        return self.ticks <= self.ticks_max

    def _hears_nobody(self) -> bool:
        monitor, count = self.monitor, 0
        own = host_of(monitor.address)
        for node, member in monitor.nodes.items():
            if member.facts.kind == "node" and host_of(node) != own:
                if not member.is_out_of_reach or member.silent_ticks <= LOOK_AT_TICKS:
                    return False  # as ever
                count += 1
        return count >= NODES_MIN


TICK_SECONDS = 0.1
# From when a process is known to have ended to the verdict: its workers end with it, which takes them a moment.
# 0.5 s from its death (issue: killed) are these ticks, one more that has begun, and what the news takes.
ENDED_TICKS_MAX = 1
# Heartbeats come every 0.1 s.  27 ticks and the one that has begun are within the 3 s for a node that is frozen;
# it is longer than any pause of an honest node that we have seen (collector, swapping: below 1 s).
SILENT_TICKS_MAX = 27
# A tick that comes so late is not a busy machine's: we stood still.  Below what a node looks at us for (1 s) before it
# takes us for standing still.
STALL_SECONDS = 0.8


# Nodes that were members when the head ended try to reach it every second.
RETURN_TICKS_MAX = 100
# A node registers as soon as it is connected.  One that has not done so by then never will, or will be told.
STRANGER_TICKS_MAX = 100
# Nodes that are connected and have not registered: so many join at a time.
STRANGERS_MAX = 10_000
# How long a program outside of the cluster may be silent: a lid that is closed on the way, a network that changes.
DRIVER_WAIT_SECONDS = 60.0
# From the end of a lease to the verdict: as for a node, whose lease is 2.2 s.
GRACE_TICKS = 5
# A node that joins is told of so many that were lost last: others may not have heard of that, and name them to it.
LOSSES_TOLD = 100
# The verdict on a node that has left in order: the only one by which nothing was lost.
DRAINED = "it has left the cluster: it was drained"
# A host's reason is a sentence; a verdict quotes the reason, or lists all that a node waits for.
REASON_CHARACTERS_MAX = 300
VERDICT_CHARACTERS_MAX = 10_000


class Draining(Struct, eq=False):
    """A node that is being drained."""

    is_done: bool = False  # nothing of others is there any more
    is_free: bool = False  # nor anything of the cluster's own
    waits_for: list[str] = field(default_factory=lambda: ["its answer"])
    seconds: float = 0.0
    ticks_left: int | None = None  # None: it takes what it takes


class MemberState(IntEnum):
    """Whether a member was heard of, and since when not."""

    HEARD = 0
    UNHEARD = 1  # not since we stood still
    AWAITED = 2  # not since we heard of nobody
    RETURNING = 3  # a member of an earlier monitor, not registered anew


HEARD, UNHEARD, AWAITED, RETURNING = MemberState
# An event without a row here leaves the state as it is.
TRANSITIONS = {
    (UNHEARD, "heartbeat"): HEARD,
    (AWAITED, "heartbeat"): HEARD,
    (RETURNING, "registered"): HEARD,
    (HEARD, "we stood still"): UNHEARD,
    (HEARD, "we heard of nobody"): AWAITED,
    (UNHEARD, "we heard of nobody"): AWAITED,
}


class Member(Struct, eq=False):
    """A node of the cluster."""

    facts: gcs.RegisterNode
    state: MemberState = HEARD
    silent_ticks: int = 0
    ended_ticks: int | None = None  # since its process was found to have ended
    is_down: bool = False  # its connection broke, and is not back
    is_closed: bool = False  # and it was heard of until then
    is_out_of_reach: bool = False  # the last look found nobody, in this silence
    draining: Draining | None = None

    def happened(self, event: str) -> None:
        """Apply an event by which the count of silent ticks begins anew."""
        self.state = TRANSITIONS.get((self.state, event), self.state)
        self.silent_ticks = 0


class Monitor(Role):
    """Membership of a cluster.  hosting: the role of that name.  driver_wait: seconds.

    former, lost: nodes that an earlier monitor recorded.
    """

    LASTING = {
        "nodes": None,
        "strangers": "STRANGERS_MAX",
    }

    def __init__(
        self,
        address: str,
        listeners: list[str],
        *,
        former: Iterable[gcs.RegisterNode] = (),
        lost: Iterable[str] = (),
        hosting: str = "",
        driver_wait: float = DRIVER_WAIT_SECONDS,
    ) -> None:
        super().__init__(address)
        self.hosting = hosting  # who moves what the cluster runs on a node that is to leave; "": nobody does
        self.driver_wait = driver_wait
        self.listeners = listeners  # global schedulers and shards that are told of every node
        # In the order in which they joined.
        self.nodes = {node.node: Member(node, RETURNING) for node in former}
        self.lost: Latest[str, None] = Latest(LOST_MAX, dict.fromkeys(lost))
        self.strangers: dict[str, int] = {}  # nodes that have not registered yet -> ticks since they were connected
        self.isolation = Isolation(self, int(WAIT_SECONDS / TICK_SECONDS))
        self.ticked_at = 0.0
        self.is_ticking = False

    def start(self) -> None:
        """Continue with the nodes of an earlier monitor: once, before anything else."""
        for member in self.nodes.values():
            for listener in self.listeners:
                self.send(listener, _joined(member.facts))
        self._begin_to_tick()

    def _begin_to_tick(self) -> None:
        if self.nodes and not self.is_ticking:
            self.is_ticking = True
            self.ticked_at = self.now
            self.after(TICK_SECONDS, self.tick)

    @on(gcs.RegisterNode)
    def on_register_node(self, message: gcs.RegisterNode) -> None:
        self.strangers.pop(message.node, None)
        member = self.nodes.get(message.node)
        if message.node in self.lost:
            self.send(message.node, gcs.NodeLost(message.node, "its epoch is over"))
        elif member is None:
            self._enter(message)
        elif member.state is RETURNING:
            member.happened("registered")
            self._welcome_back(message)

    def _enter(self, message: gcs.RegisterNode) -> None:
        self.perform(NoteMember(message))
        joined = _joined(message)
        for lost in list(self.lost)[-LOSSES_TOLD:]:  # in order: a monitor after us knows by the last one what is news
            self.send(message.node, gcs.NodeLost(lost, "it was lost before this node joined"))
        for node, other in self.nodes.items():
            self.send(message.node, _joined(other.facts, is_earlier=True))
            self.send(node, joined)
        self.nodes[message.node] = Member(message)
        for listener in self.listeners:
            self.send(listener, joined)
        self._begin_to_tick()

    def _welcome_back(self, message: gcs.RegisterNode) -> None:
        """Tell a returning node the joins and losses possibly missed since the earlier monitor ended."""
        is_earlier = True
        for node, other in self.nodes.items():
            if node == message.node:
                is_earlier = False
            else:
                self.send(message.node, _joined(other.facts, is_earlier=is_earlier))
        # Also of those whose joining it has missed: others may have named them to it.
        lost = list(self.lost)
        news = lost[lost.index(message.last_lost) + 1 :] if message.last_lost in self.lost else lost
        for node in dict.fromkeys([*(peer for peer in message.peers if peer not in self.nodes), *news]):
            self.send(message.node, gcs.NodeLost(node, "it was lost before the head was started again"))

    @on(HostLeft)
    def on_host_left(self, message: HostLeft) -> None:
        self._lose(message.node, message.reason)

    @on(gcs.GiveUpNode)
    def on_give_up_node(self, message: gcs.GiveUpNode) -> None:
        """GiveUpNode: the sender's verdict becomes the cluster's, because the other hosts would go on waiting for the
        node."""
        member = self.nodes.get(message.node)
        if member is not None and member.facts.kind != "head":
            reason = message.reason[:REASON_CHARACTERS_MAX]
            self._lose(message.node, f"host {where.host_of(self.sender)} has declared it dead: {reason}")

    @on(DrainOrdered)
    def on_drain_ordered(self, message: DrainOrdered) -> None:
        member = self.nodes.get(message.node)
        if member is None:
            return
        draining = member.draining
        if draining is None:
            draining = self._drain(member)
            self.send(message.node, drains.DrainNode())
        if message.seconds:
            draining.seconds = message.seconds
            draining.ticks_left = int(message.seconds / TICK_SECONDS)

    @on(drains.DrainReport)
    def on_drain_report(self, message: drains.DrainReport) -> None:
        member = self.nodes.get(message.node)
        if message.node != self.sender or member is None:
            self.reject("a report of a node that is none, or in another one's name")
        else:
            # Nodes that an earlier monitor has drained report too.
            draining = member.draining or self._drain(member)
            draining.is_done = message.is_done
            draining.waits_for = ["its replicas of the GCS to be moved"] if message.is_done else message.waits_for
            self._look_whether_drained(message.node, draining)

    def _drain(self, member: Member) -> Draining:
        draining = member.draining = Draining()
        if self.hosting:
            self.send(self.hosting, MachineLeaves(member.facts.node))
        else:
            draining.is_free = True
        return draining

    @on(MachineIsFree)
    def on_machine_is_free(self, message: MachineIsFree) -> None:
        member = self.nodes.get(message.node)
        if member is not None and member.draining is not None:
            member.draining.is_free = True
            self._look_whether_drained(message.node, member.draining)

    def _look_whether_drained(self, node: str, draining: Draining) -> None:
        if draining.is_done and draining.is_free:
            self._lose(node, DRAINED, is_drained=True)

    @on(HostLinkChanged)
    def on_host_link_changed(self, message: HostLinkChanged) -> None:
        member = self.nodes.get(message.node)
        if member is None:
            if message.is_up and message.node not in self.lost:
                self._meet_stranger(message.node)
        elif message.is_up:
            member.is_down = member.is_closed = member.is_out_of_reach = False
            member.ended_ticks = None
            if member.state is RETURNING:
                member.silent_ticks = 0  # it hears of us now, and its lease runs from then (Lease.extended)
        else:
            member.is_down = True
            # A node that has not returned to a restarted head may be asleep, and never closed a connection.  After a
            # stall or an isolation of the head, too, the recent heartbeats are unknown.
            if member.state is HEARD and member.silent_ticks <= SILENT_TICKS_MAX:
                member.is_closed = True
            self._look_at(member)

    def _meet_stranger(self, node: str) -> None:
        """Count the silence of an unregistered host; without a registration in time, peers learn of the loss."""
        if len(self.strangers) < STRANGERS_MAX:
            self.strangers.setdefault(node, 0)

    def _look_at(self, member: Member) -> None:
        self.perform(ProbeHost(member.facts.node, member.facts.endpoint))

    @on(HostProbed)
    def on_host_probed(self, message: HostProbed) -> None:
        member = self.nodes.get(message.role)
        if member is None:
            return
        is_away = member.is_down or member.state is RETURNING
        if is_away and message.finding is Finding.ENDED and member.ended_ticks is None:
            member.ended_ticks = 0
        member.is_out_of_reach = message.finding is Finding.OUT_OF_REACH

    def tick(self) -> None:
        """Check all nodes for silence, periodically."""
        self.after(TICK_SECONDS, self.tick)
        if self.now - self.ticked_at > TICK_SECONDS + STALL_SECONDS:
            self._count_anew("we stood still")
        self.ticked_at = self.now
        verdicts_wait = self.isolation.tick()
        for node, member in list(self.nodes.items()):
            member.silent_ticks += 1
            if member.draining is not None and self._is_overdue(node, member.draining):
                continue
            ticks_max = self._silent_ticks_max(member)
            if member.silent_ticks > ticks_max and not (verdicts_wait and member.is_out_of_reach):
                self._lose(node, f"no heartbeat for {ticks_max * TICK_SECONDS:.1f} s")
            elif member.ended_ticks is not None:
                member.ended_ticks += 1
                if member.ended_ticks > ENDED_TICKS_MAX:
                    self._lose(node, "its process has ended")
            elif (
                member.is_down
                or (self.isolation.looks_at(member.silent_ticks) and member.facts.kind == "node")
                or (member.state is RETURNING and member.silent_ticks % LOOK_TICKS == 1)
            ):
                self._look_at(member)
        for node in list(self.strangers):
            self.strangers[node] += 1
            if self.strangers[node] > STRANGER_TICKS_MAX:
                self._lose(node, f"it connected, and did not register within {STRANGER_TICKS_MAX * TICK_SECONDS:g} s")

    def await_all(self) -> None:
        """Give all nodes time to be heard from again, after the head's isolation has ended."""
        self._count_anew("we heard of nobody")

    def _count_anew(self, event: str) -> None:
        for member in self.nodes.values():
            member.happened(event)

    def _silent_ticks_max(self, member: Member) -> int:
        ticks_max = RETURN_TICKS_MAX if member.state in (AWAITED, RETURNING) else SILENT_TICKS_MAX
        if member.facts.kind == "driver" and not member.is_closed:
            return max(ticks_max, int(self.driver_wait / TICK_SECONDS) + GRACE_TICKS)
        return ticks_max

    def _is_overdue(self, node: str, draining: Draining) -> bool:
        if draining.ticks_left is None:
            return False
        draining.ticks_left -= 1
        if draining.ticks_left < 0:
            what = ", ".join(draining.waits_for)
            self._lose(node, f"it was drained, and had not finished after {draining.seconds:g} s: {what}")
            return True
        return False

    def _lose(self, node: str, reason: str, *, is_drained: bool = False) -> None:
        """Declare a node lost; the verdict is final."""
        if self.nodes.pop(node, None) is None and self.strangers.pop(node, None) is None:
            return
        reason = reason[:VERDICT_CHARACTERS_MAX]
        self.perform(NoteLost(node, reason))
        self.lost[node] = None
        for other in (*self.listeners, *self.nodes):
            self.send(other, gcs.NodeLost(node, reason, is_drained))
        self.send(node, gcs.NodeLost(node, reason))  # should it come back: it is not a member any more

    @on(gcs.Heartbeat)
    def on_heartbeat(self, message: gcs.Heartbeat) -> None:
        member = self.nodes.get(message.node)
        if member is not None:
            member.happened("heartbeat")
            member.is_out_of_reach = False
            is_driver = member.facts.kind == "driver"
            self.send(message.node, gcs.HeartbeatReply(message.number, self.driver_wait if is_driver else 0.0))
        elif message.node in self.lost:
            self.send(message.node, gcs.NodeLost(message.node, "its epoch is over"))


def _joined(node: gcs.RegisterNode, *, is_earlier: bool = False) -> gcs.NodeJoined:
    return gcs.NodeJoined(
        node.node, node.total, node.kind, node.endpoint, node.public_key, is_earlier, node.labels, node.hostname
    )
