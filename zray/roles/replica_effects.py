"""The words of processes that host roles and are no nodes, on the head and on other nodes: effects, their outcomes
(as in effects.py), and what roles of one host say to each other of them.
"""

from __future__ import annotations

from msgspec import Struct

from ..wire.hosting import HostedReplica
from ..wire.message import Local


class StartReplicaProcess(Struct, gc=False):
    """Run a replica of that shard beside this node.  Outcome: ReplicaStarted or ReplicaNotStarted; ReplicaGone."""

    number: int
    shard: str
    lineage_bytes: int


class EndReplicaProcess(Struct, gc=False):
    """kill -9.  Outcome: ReplicaGone."""

    host: str


class ReplicaStarted(Local):
    """Outcome of StartReplicaProcess: it listens."""

    number: int
    replica: HostedReplica


class ReplicaNotStarted(Local):
    """Outcome of StartReplicaProcess."""

    number: int
    reason: str


class ReplicaGone(Local):
    """The process has ended."""

    host: str
    reason: str


class LetInReplica(Struct, gc=False):
    """Have it for good that this key is that replica's, which node `node` runs.  Outcome: ReplicaLetIn."""

    replica: HostedReplica
    node: str


class ReplicaLetIn(Local):
    """Outcome of LetInReplica.  refusal: why it is not let in."""

    host: str
    refusal: str = ""


class ShutOutReplica(Struct, gc=False):
    """Have it for good that this replica is gone."""

    host: str
    reason: str


class NoteChain(Struct, gc=False):
    """Have it for good who the members of that chain are now: each with the node that runs it ("": the head).

    full: those that may be left alone.
    """

    shard: str
    members: dict[str, str]
    full: list[str]


class MemberPlaced(Local):
    """To the chain master: that member runs on that node."""

    member: str
    node: str


class MachineLeaves(Local):
    """A node is to leave the cluster in order: what it hosts of the cluster goes elsewhere."""

    node: str


class ShardStalled(Local):
    """To a local scheduler: what that shard is asked waits.  reasons: as in ChainStalled."""

    shard: str  # its logical name
    reasons: list[str]


class MachineIsFree(Local):
    """To the monitor: it hosts nothing of the cluster any more."""

    node: str


class ServiceAdded(Local):
    """To the services: a process was started; its key is in our ring.

    roles: those of it that others talk to.  node: which runs it; "": the head.
    """

    host: str
    kind: str  # "replica" or "scheduler"
    public_key: bytes
    roles: list[str]
    node: str = ""


class ServiceListens(Local):
    """To the services: it can be reached there."""

    host: str
    endpoint: str


class ServiceEnded(Local):
    """To the services: it is gone for good."""

    host: str
    reason: str
