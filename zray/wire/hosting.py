"""Dialog: replicas of shards on other nodes than the head's.

replica keeper    MayHost           to the head: this node takes replicas, or not; which of them run here
hosting           StartReplica -> ReplicaRuns / ReplicaRefused   run one more; its key
hosting           StopReplica       end it
replica keeper    ReplicaEnded      it is gone for good
host              ReplicaStuck      it takes nothing of what that host has for it: it is to be elsewhere

Such a replica has no port that others could call: it calls them, all of them, or goes through the head's relay.

A key is good for one replica of one shard (zray/host/keys.py): the process draws it, the head enters it for what it has
ordered, and tells all others what it may say.
"""

from __future__ import annotations

from msgspec import Struct

from .limits import Many, ShortBytes, Text
from .message import Message, Natural

# On one node.
REPLICAS_MAX = 64


class HostedReplica(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A process that hosts a replica of `shard`, and is host `host`."""

    host: Text
    shard: Text
    public_key: ShortBytes


class MayHost(Message, tag=261):
    """replica keeper -> hosting.  Once to each head.  replicas: those that run here."""

    is_willing: bool
    replicas: Many[HostedReplica]


class StartReplica(Message, tag=262):
    """hosting -> replica keeper.  lineage_bytes: what its specs in memory may weigh.  number: of this order."""

    number: Natural
    shard: Text
    lineage_bytes: Natural


class ReplicaRuns(Message, tag=263):
    """replica keeper -> hosting."""

    number: Natural
    replica: HostedReplica


class ReplicaRefused(Message, tag=264):
    """replica keeper -> hosting.  It cannot be started: says why."""

    number: Natural
    reason: Text


class StopReplica(Message, tag=265):
    """hosting -> replica keeper.  The reason is for logs."""

    host: Text
    reason: Text


class ReplicaEnded(Message, tag=266):
    """replica keeper -> hosting."""

    host: Text
    reason: Text


class ReplicaStuck(Message, tag=267):
    """host -> hosting.  That one has taken nothing for a while of what the sender's host has for it."""

    host: Text
