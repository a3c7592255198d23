"""The permissions of messages: one table for hosts (TCP) and for processes on a node (ipc).

A kind is the part before the number in a role's name: `9f.../gcs-0` is of kind "gcs", `worker-7` of kind "worker".  A
message outside the table is refused before any role sees the message, counted, and reported to its sender.
"""

from .actors import (
    ActorAccepted,
    ActorDeferred,
    ActorExited,
    ActorHandedOver,
    ActorNamesListed,
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    ActorSaved,
    ActorStarted,
    ActorStartFailed,
    CallsAccepted,
    CallsFinished,
    CreateActor,
    FindActor,
    FindActorNames,
    ForwardCalls,
    KillActor,
    LookUpActor,
    LookUpActorNames,
    LookUpActorReply,
    PlaceActor,
    RegisterActor,
    ResultsHeld,
    SpillActor,
)
from .chain import (
    ChainAck,
    ChainAgain,
    ChainChanged,
    ChainFollow,
    ChainHave,
    ChainJoined,
    ChainLineage,
    ChainMemberLost,
    ChainOffer,
    ChainRead,
    ChainReadReply,
    ChainResults,
    ChainSafe,
    ChainStalled,
    ChainState,
    ChainTaken,
    ChainUpdates,
    ChainWrite,
)
from .drains import CopiesTaken, DrainNode, DrainReport, TakeCopies
from .gcs import (
    AddLocations,
    CannotRebuild,
    FetchFunction,
    FetchFunctionReply,
    FindUnheld,
    FindUnheldReply,
    FreeCopies,
    GiveUpNode,
    Heartbeat,
    HeartbeatReply,
    HoldAtNode,
    HoldAtNodeReply,
    LineageNeeded,
    LineageNeededReply,
    NodeJoined,
    NodeLost,
    ObjectLocated,
    ObjectLost,
    OfferCopies,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    RegisterNode,
    ReleaseAtNode,
    ReleaseFunctions,
    RemoveLocations,
    SubscribeObject,
)
from .groups import (
    AttendShard,
    BundlesLeave,
    BundlesPrepared,
    CommitBundles,
    CreateGroup,
    FindGroups,
    FindPlaces,
    GiveUpGroup,
    GroupLocated,
    GroupRegistered,
    GroupsListed,
    KeepGroup,
    LocateGroup,
    LookUpGroups,
    PlacesFound,
    PrepareBundles,
    RegisterGroup,
    RemoveGroup,
    ReturnBundles,
    TryPlaces,
)
from .homes import (
    ActorAt,
    ActorClaimed,
    ActorForgotten,
    ActorGuarded,
    ActorKilled,
    ActorLocated,
    ActorOrphaned,
    ActorRefused,
    ActorRestarted,
    ActorUnguarded,
    GuardActor,
    GuardianLeaves,
    HoldCalls,
    LocateActor,
    UnguardActor,
)
from .hosting import (
    MayHost,
    ReplicaEnded,
    ReplicaRefused,
    ReplicaRuns,
    ReplicaStuck,
    StartReplica,
    StopReplica,
)
from .hosts import GetNodes, HostAdded, HostRemoved, NodesReply
from .listing import ListWork, WorkListed
from .message import Message
from .objects import (
    AbandonObject,
    AllocateObject,
    FreeValues,
    HoldObjects,
    InlineLimit,
    ObjectChunk,
    ObjectInline,
    PullDone,
    PullElsewhere,
    PullObject,
    PullRefused,
    PutMissing,
    PutObjects,
    ReleaseObjects,
    ResultMissing,
    UnpinObjects,
)
from .orders import ORDERS
from .output import FlushOutput, JobOutput, OutputFlushed, OutputHeard
from .reasons import Explain, ExplainReply
from .relay import OpenTunnel, TunnelBytes, TunnelClosed, TunnelCredit
from .scheduling import (
    CodeAdded,
    EndTasks,
    FindTasks,
    JobEnded,
    JobNotice,
    LoadReport,
    LocateObjects,
    LocateObjectsReply,
    PlaceTask,
    PublishCode,
    SpillRefused,
    SpillTask,
    StealTasks,
    TaskAccepted,
    TaskDeferred,
    TaskDone,
    TaskGivenBack,
    TaskPlaced,
    TasksFound,
)
from .session import Ack, GetStatus, Goodbye, StopSession
from .tasks import (
    AwaitRoom,
    CancelWait,
    PublishFunction,
    SubmitTasks,
    TasksFinished,
    TasksReturned,
    WaitObjects,
)
from .wards import AnswersTaken, CallsLogged, LogCalls, LogCheckpoint, LogStart

Types = frozenset[type[Message]]

_CLIENT_TO_LOCAL: Types = frozenset(
    {
        *(PublishFunction, SubmitTasks, WaitObjects, CancelWait),
        *(PutObjects, HoldObjects, ReleaseObjects, UnpinObjects, FreeValues),
        *(CreateActor, KillActor, FindActor, FindActorNames, Explain, ListWork),
        *(CreateGroup, RemoveGroup, FindGroups),
    }
)
_TUNNELS: Types = frozenset({OpenTunnel, TunnelBytes, TunnelCredit, TunnelClosed})
_CLIENT_TO_OBJECTS: Types = frozenset({AllocateObject, AbandonObject})

# (kind of the sender, kind of the receiver) -> permitted messages.
ALLOWED: dict[tuple[str, str], Types] = {
    # Processes to their node.
    ("driver", "local"): _CLIENT_TO_LOCAL | {PublishCode, FlushOutput},
    ("worker", "local"): _CLIENT_TO_LOCAL
    | {*(TasksFinished, TasksReturned, AwaitRoom, ActorStarted, ActorStartFailed, ActorExited, ActorSaved)},
    ("driver", "objects"): _CLIENT_TO_OBJECTS,
    ("worker", "objects"): _CLIENT_TO_OBJECTS,
    ("driver", "host"): frozenset({Ack, Goodbye, GetStatus, GetNodes}),
    ("worker", "host"): frozenset({Ack, Goodbye, GetStatus, GetNodes}),
    ("command", "host"): frozenset({Ack, Goodbye, GetStatus, GetNodes, StopSession, *ORDERS}),
    # Between hosts.
    ("local", "local"): frozenset(
        {
            *(
                TaskAccepted,
                TaskGivenBack,
                TaskDone,
                JobEnded,
                JobNotice,
                ActorAccepted,
                ActorHandedOver,
                ActorDeferred,
            ),
            *(ForwardCalls, CallsAccepted, CallsFinished, ResultsHeld, KillActor),
            *(FindTasks, TasksFound, EndTasks, TakeCopies, CopiesTaken),
            *(GuardActor, ActorGuarded, ActorRestarted, UnguardActor, ActorRefused, GuardianLeaves, HoldCalls),
            *(LogStart, LogCalls, LogCheckpoint, CallsLogged, AnswersTaken),
            *(Explain, ExplainReply, ListWork, WorkListed, CodeAdded, FreeValues),
            *(JobOutput, OutputHeard, FlushOutput, OutputFlushed, InlineLimit, PutMissing, ResultMissing),
            *(PlaceTask, PlaceActor),  # of placement groups, whose bundles have nodes already
        }
    ),
    ("local", "gcs"): frozenset(
        {
            *(RecordTasks, AddLocations, RemoveLocations, OfferCopies, HoldAtNode, ReleaseAtNode, SubscribeObject),
            *(CannotRebuild, LineageNeeded, LineageNeededReply, FindUnheld),
            *(PublishFunction, FetchFunction, ReleaseFunctions, RegisterActor, ActorRemoved, LookUpActor),
            LookUpActorNames,
            *(ActorAt, ActorForgotten, ActorUnguarded, ActorKilled, LocateActor),
            *(AttendShard, RegisterGroup, TryPlaces, GiveUpGroup, BundlesPrepared, RemoveGroup),
            *(LocateGroup, LookUpGroups),
        }
    ),
    ("local", "global"): frozenset({LoadReport, SpillTask, SpillActor, FindPlaces, BundlesLeave}),
    ("local", "monitor"): frozenset({RegisterNode, Heartbeat, DrainReport, GiveUpNode}),
    ("gcs", "monitor"): frozenset({GiveUpNode}),
    ("global", "monitor"): frozenset({GiveUpNode}),
    ("objects", "objects"): frozenset({PullObject, ObjectChunk, ObjectInline, PullElsewhere, PullRefused, PullDone}),
    ("gcs", "local"): frozenset(
        {
            *(RecordTasksReply, HoldAtNodeReply, ObjectLocated, FreeCopies, FetchFunctionReply),
            *(
                ActorRegistered,
                ActorNameTaken,
                LookUpActorReply,
                ActorNamesListed,
                ActorLocated,
                ActorClaimed,
                ActorRefused,
                ActorOrphaned,
            ),
            *(RebuildObject, ObjectLost, LineageNeeded, LineageNeededReply, FindUnheldReply),
            *(GroupRegistered, KeepGroup, PrepareBundles, CommitBundles, ReturnBundles, GroupLocated, GroupsListed),
        }
    ),
    ("gcs", "global"): frozenset({LocateObjectsReply}),
    ("global", "gcs"): frozenset({LocateObjects}),
    ("global", "local"): frozenset(
        {PlaceTask, TaskPlaced, TaskDeferred, SpillRefused, StealTasks, PlaceActor, ActorDeferred, PlacesFound}
    ),
    ("global", "host"): frozenset({NodesReply}),
    ("host", "global"): frozenset({GetNodes}),
    ("monitor", "local"): frozenset({HeartbeatReply, NodeJoined, NodeLost, DrainNode}),
    ("monitor", "global"): frozenset({NodeJoined, NodeLost}),
    ("monitor", "gcs"): frozenset({NodeJoined, NodeLost}),
    # Replicated shards: "gcs" is a member, "shard" its stand-in at a host, "chains" the chain master.
    ("shard", "gcs"): frozenset({ChainWrite, ChainRead}),
    ("gcs", "shard"): frozenset({ChainResults, ChainReadReply, ChainAgain}),
    ("gcs", "gcs"): frozenset({ChainHave, ChainState, ChainTaken, ChainLineage, ChainUpdates, ChainAck, ChainSafe}),
    ("gcs", "chains"): frozenset({ChainOffer, ChainJoined, ChainMemberLost, ChainStalled}),
    ("shard", "chains"): frozenset({ChainFollow}),
    ("chains", "gcs"): frozenset({ChainChanged}),
    ("chains", "shard"): frozenset({ChainChanged, ChainStalled}),
    ("monitor", "chains"): frozenset({NodeJoined, NodeLost, ChainMemberLost}),
    # Hosts without a direct route: "relay" is on the head.
    ("tunnels", "relay"): _TUNNELS,
    ("relay", "tunnels"): _TUNNELS,
    ("monitor", "relay"): frozenset({NodeJoined, NodeLost}),
    # Hosts that are no nodes: "services" is their register, on the head.
    ("services", "host"): frozenset({HostAdded, HostRemoved}),
    ("services", "global"): frozenset({NodeJoined, NodeLost}),
    # Replicas on other nodes: "hosting", on the head, orders the replicas.
    ("replicas", "hosting"): frozenset({MayHost, ReplicaRuns, ReplicaRefused, ReplicaEnded}),
    ("host", "hosting"): frozenset({ReplicaStuck}),
    ("hosting", "replicas"): frozenset({StartReplica, StopReplica}),
    ("monitor", "hosting"): frozenset({NodeJoined, NodeLost}),
    ("hosting", "chains"): frozenset({ChainMemberLost}),
}

# Roles for which a host may speak, by the kind of its key.
ROLES_OF_KEY: dict[str, frozenset[str]] = {
    "head": frozenset(
        {
            *("local", "objects", "host", "global", "gcs", "shard"),
            *("chains", "services", "monitor", "relay", "hosting"),
        }
    ),
    "node": frozenset({"local", "objects", "host", "shard", "tunnels", "replicas"}),
    "driver": frozenset({"local", "objects", "host", "shard", "tunnels"}),
    "replica": frozenset({"gcs", "tunnels"}),  # of the one shard that the key is for (host/keys.py)
    "scheduler": frozenset({"global", "shard"}),
    "joiner": frozenset(),  # JoinCluster
    "reader": frozenset(),  # GetNodes, to the head
}

NOTHING: Types = frozenset()


def kind_of(address: str) -> str:
    """The kind of a role: "gcs" of `9f.../gcs-0`, "worker" of `worker-7`."""
    return address.rpartition("/")[2].partition("-")[0]


def allowed_between(source: str, target: str) -> Types:
    """The messages that the role or process `source` may send to `target`."""
    return ALLOWED.get((kind_of(source), kind_of(target)), NOTHING)


def targets_of_process(kind: str, targets: dict[str, str]) -> dict[type[Message], str]:
    """The target of each message that a process of this kind may send.

    targets: kind of role -> address.
    """
    return {message: address for target, address in targets.items() for message in ALLOWED.get((kind, target), NOTHING)}
