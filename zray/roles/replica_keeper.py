"""Replica keeper, on a node that joined: runs the replicas of shards that the head wants here (hosting.py).

Dialog (who says it -> what we do):

    hosting     StartReplica      a process: ReplicaRuns, or ReplicaRefused
    hosting     StopReplica       end it
    our host    ReplicaGone       ReplicaEnded
    our host    HeadChanged       tell the head that there is now what runs here: that outlives the head

They are processes of their own, which end with this node's.
"""

from __future__ import annotations

from ..wire import hosting as wire
from . import replica_effects
from .effects import HeadChanged
from .role import Role, on


class ReplicaKeeper(Role):
    """Of one node.  hosting: the role on the head that may order; is_willing: whether replicas may run here."""

    def __init__(self, address: str, hosting: str, *, is_willing: bool) -> None:
        super().__init__(address)
        self.hosting = hosting
        self.is_willing = is_willing
        self.running: dict[str, wire.HostedReplica] = {}
        self.starting: dict[int, None] = {}  # by number of the order

    def start(self) -> None:
        """Tell the head."""
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
