"""Effects and outcomes (as in effects.py) for hosts that are no nodes, on the head and elsewhere.

Messages between roles of a host about such hosts are defined in this file too.
"""

from __future__ import annotations

from msgspec import Struct

from ..wire.hosting import HostedReplica
from ..wire.message import Local


class StartReplicaProcess(Struct, gc=False):
    """Run a replica of a shard beside this node.  Outcome: ReplicaStarted or ReplicaNotStarted; ReplicaGone."""

    number: int
    shard: str
    lineage_bytes: int


class EndReplicaProcess(Struct, gc=False):
    """Kill a replica's process (kill -9).  Outcome: ReplicaGone."""

    host: str


class ReplicaStarted(Local):
    """Outcome of StartReplicaProcess: the replica listens."""

    number: int
    replica: HostedReplica


class ReplicaNotStarted(Local):
    """Outcome of StartReplicaProcess."""

    number: int
    reason: str


class ReplicaGone(Local):
    """Outcome of EndReplicaProcess, or a process's own end."""

    host: str
    reason: str


class LetInReplica(Struct, gc=False):
    """Record durably that a key belongs to a replica on node `node`.  Outcome: ReplicaLetIn."""

    replica: HostedReplica
    node: str


class ReplicaLetIn(Local):
    """Outcome of LetInReplica.  refusal: the reason why the replica is not admitted; "": admitted."""

    host: str
    refusal: str = ""


class ShutOutReplica(Struct, gc=False):
    """Record durably that a replica is gone."""

    host: str
    reason: str


class NoteChain(Struct, gc=False):
    """Record durably the members of a chain: each with the node that runs it ("": the head).

    full: members that hold all acknowledged writes; each may continue the chain alone.
    """

    shard: str
    members: dict[str, str]
    full: list[str]


class MemberPlaced(Local):
    """Hosting -> chain master: a member runs on a node."""

    member: str
    node: str


class MachineLeaves(Local):
    """A node is being drained: its replicas are replaced on other nodes."""

    node: str


class ShardStalled(Local):
    """Host -> local scheduler: requests to a shard wait.  reasons: as in ChainStalled."""

    shard: str  # its logical name
    reasons: list[str]


class MachineIsFree(Local):
    """Hosting -> monitor: a node hosts no replica any more."""

    node: str


class ServiceAdded(Local):
    """Host -> services: a process was started, with its key in the key ring.

    roles: the process's addressable roles.  node: the node that runs the process; "": the head.
    """

    host: str
    kind: str  # "replica" or "scheduler"
    public_key: bytes
    roles: list[str]
    node: str = ""


class ServiceListens(Local):
    """Host -> services: a service listens at an endpoint."""

    host: str
    endpoint: str


class ServiceEnded(Local):
    """Host -> services: a service is gone for good."""

    host: str
    reason: str


class StartScheduler(Struct, gc=False):
    """Run one more global scheduler beside the head, the `equals`-th.  Outcome: ServiceAdded, ServiceListens."""

    equals: int


class EndScheduler(Struct, gc=False):
    """Kill a global scheduler's process, and start none in its place.  Outcome: ServiceEnded.

    host "": those that have not come up.
    """

    host: str


class MeasureCpu(Struct, gc=False):
    """Read the clocks of the process and of the machine.  Outcome: CpuMeasured."""


class CpuMeasured(Local):
    """Outcome of MeasureCpu, in seconds of a core: what the process has taken, and what the machine has not."""

    process_s: float
    idle_s: float
