"""Dialog: replicas of shards on other nodes than the head's.

replica keeper    MayHost           to the head: whether this node takes replicas; replicas that run here
hosting           StartReplica -> ReplicaRuns / ReplicaRefused   start a replica; its key
hosting           StopReplica       end a replica
replica keeper    ReplicaEnded      a replica is gone for good
host              ReplicaStuck      a replica accepts no messages of the sender's host, and must move elsewhere

Such a replica has no port that others could call.  The replica connects to all other hosts, or uses the head's relay.

A key is good for one replica of one shard (zray/host/security/keyring.py).  The process draws the key.  The head enters
the key for the replica that it ordered, and publishes the rights of the key to all others.
"""

from msgspec import Struct

from .limits import Many, ShortBytes, Text
from .message import Message, Natural, routed

# Replicas on one node.
REPLICAS_MAX = 64


class HostedReplica(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A process that runs a replica of `shard`, under the host id `host`."""

    host: Text
    shard: Text
    public_key: ShortBytes


class MayHost(Message, tag=routed(261, "replicas -> hosting")):
    """A report to each new head.  `replicas` are those that run here."""

    is_willing: bool
    replicas: Many[HostedReplica]


class StartReplica(Message, tag=routed(262, "hosting -> replicas")):
    """The order to start a replica.  `number` is the number of this order.

    `lineage_bytes` bounds the specs in the replica's memory.
    """

    number: Natural
    shard: Text
    lineage_bytes: Natural


class ReplicaRuns(Message, tag=routed(263, "replicas -> hosting")):
    """The replica of order `number` runs."""

    number: Natural
    replica: HostedReplica


class ReplicaRefused(Message, tag=routed(264, "replicas -> hosting")):
    """The replica of order `number` cannot be started, for this reason."""

    number: Natural
    reason: Text


class StopReplica(Message, tag=routed(265, "hosting -> replicas")):
    """The order to end the replica.  The reason is for logs."""

    host: Text
    reason: Text


class ReplicaEnded(Message, tag=routed(266, "replicas -> hosting")):
    """The replica has ended."""

    host: Text
    reason: Text


class ReplicaStuck(Message, tag=routed(267, "host -> hosting")):
    """The replica has accepted no messages of the sender's host for a while."""

    host: Text
