"""Dialog: a GCS shard that is replicated (Ray paper 4.3, 4.4; van Renesse and Schneider, chain replication).

member          ChainOffer          to the chain master: I can be a replica of this shard
client          ChainFollow         to the chain master: tell me of its chain, now and at each change
chain master    ChainChanged        the members in order, under a new epoch
client          ChainWrite          to the head: requests of the roles of one host, numbered
member          ChainUpdates        to its successor: what it has applied, in order
head, tail      ChainAgain          to a client: there was no room for what you said; now there is
tail            ChainAck            to its predecessor, and on to the head: all members have it
tail            ChainResults        to the client: which requests are done, and what the shard says to its roles
client          ChainRead -> ChainReadReply     at the tail, where it needs no place in the order
member          ChainHave           to its predecessor, in each new epoch: what I have
member          ChainState          to a successor that lacks more than the member remembers: all of it, in parts
member          ChainTaken          to its predecessor: a part has arrived, send the next
member          ChainLineage        ahead of it: the specs that the member has in its store, and not in memory
member          ChainSafe           to its successor on another node: what is on its disk
member          ChainJoined         to the chain master: I have caught up in this epoch
member          ChainStalled        to the chain master, and on to the clients: you wait for my disk, which is full

Which message goes where, and why nothing acknowledged is lost: zray/roles/gcs/chain.py.
"""

from __future__ import annotations

from msgspec import Struct

from ..ids import ObjectID
from .actors import (
    ActorNamesListed,
    ActorNameTaken,
    ActorRegistered,
    ActorRemoved,
    LookUpActor,
    LookUpActorNames,
    LookUpActorReply,
    RegisterActor,
)
from .gcs import (
    AddLocations,
    CannotRebuild,
    FetchFunction,
    FetchFunctionReply,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    LineageNeeded,
    LineageNeededReply,
    NodeLost,
    ObjectLocated,
    ObjectLost,
    OfferCopies,
    RebuildObject,
    RecordTasks,
    RecordTasksReply,
    ReleaseAtNode,
    ReleaseFunctions,
    RemoveLocations,
    SubscribeObject,
)
from .groups import (
    AttendShard,
    BundlesPrepared,
    CommitBundles,
    GiveUpGroup,
    GroupLocated,
    GroupRegistered,
    GroupsListed,
    KeepGroup,
    LocateGroup,
    LookUpGroups,
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
    ActorKilled,
    ActorLocated,
    ActorOrphaned,
    ActorRefused,
    ActorUnguarded,
    LocateActor,
)
from .limits import Many, Payload, Text
from .message import Message, Natural
from .scheduling import LocateObjects, LocateObjectsReply
from .task_spec import TaskSpec
from .tasks import PublishFunction

# Of what a disk says, in words: a path and an error.
STALL_CHARACTERS_MAX = 500

# What a shard may be told, and what it may say: nothing else travels inside these messages.
ShardRequest = (
    RecordTasks
    | AddLocations
    | RemoveLocations
    | OfferCopies
    | HoldAtNode
    | ReleaseAtNode
    | SubscribeObject
    | CannotRebuild
    | LocateObjects
    | PublishFunction
    | FetchFunction
    | ReleaseFunctions
    | RegisterActor
    | ActorRemoved
    | LookUpActor
    | LookUpActorNames
    | ActorAt
    | ActorForgotten
    | ActorUnguarded
    | ActorKilled
    | LocateActor
    | NodeLost
    | LineageNeeded
    | LineageNeededReply
    | AttendShard
    | RegisterGroup
    | TryPlaces
    | BundlesPrepared
    | GiveUpGroup
    | RemoveGroup
    | LocateGroup
    | LookUpGroups
)
ShardReply = (
    RecordTasksReply
    | HoldAtNodeReply
    | ObjectLocated
    | FreeCopies
    | RebuildObject
    | ObjectLost
    | LocateObjectsReply
    | FetchFunctionReply
    | ActorRegistered
    | ActorNameTaken
    | LookUpActorReply
    | ActorNamesListed
    | ActorLocated
    | ActorClaimed
    | ActorRefused
    | ActorOrphaned
    | LineageNeeded
    | LineageNeededReply
    | GroupRegistered
    | KeepGroup
    | PrepareBundles
    | CommitBundles
    | ReturnBundles
    | GroupLocated
    | GroupsListed
)


class LineageFound(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The spec of the task that makes an object, which the shard has asked its head for.  None: reason says why."""

    object_id: ObjectID
    spec: TaskSpec | None
    reason: Text


class Update(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One step of the shard: a client's requests `first`, `first` + 1, ..., each with the role that asks.

    sequence counts the steps of the shard from 1.  now: the head's clock, in seconds.  taken: the client has
    all results up to this number.  found: what the head itself has to say; such a step is no client's ("").
    """

    sequence: Natural
    now: float
    client: Text
    first: Natural
    taken: Natural
    requests: Many[tuple[Text, ShardRequest]]
    found: Many[LineageFound] = []


class ChainOffer(Message, tag=150):
    """member -> chain master.  The sender can be a replica of `shard`.

    sequence, epoch: the last update and the last epoch that its log knows of; -1 and 0: it has nothing.
    """

    shard: Text
    sequence: int = -1
    epoch: Natural = 0


class ChainFollow(Message, tag=151):
    """client -> chain master.  Tell the sender of the chain of `shard`."""

    shard: Text


class ChainChanged(Message, tag=152):
    """chain master -> members and clients.  Final: what is said under an older epoch changes nothing any more.

    members from head to tail; joining ("": none) gets all that the tail has, and is no member yet.  Who is named in
    neither, and was before, is out for good.
    """

    shard: Text
    epoch: Natural
    members: Many[Text]
    joining: Text


class ChainJoined(Message, tag=153):
    """member -> chain master.  The sender has all that its predecessor had when it entered `epoch`.

    From the head: it has entered `epoch`, and where it keeps a log, that is there for good.
    """

    shard: Text
    epoch: Natural


class ChainMemberLost(Message, tag=154):
    """host, monitor -> chain master.  A verdict: `member` is gone for good (its process has ended, or is fenced)."""

    member: Text
    reason: Text


class ChainWrite(Message, tag=155):
    """client -> head.  Requests `first`, `first` + 1, ... of this client, each with the role that asks.

    Sent again, from the first one not known to be done, when the head changes.  taken: as in Update.
    """

    epoch: Natural
    first: Natural
    taken: Natural
    requests: Many[tuple[Text, ShardRequest]]


class ChainResults(Message, tag=156):
    """tail -> client.  Its requests up to `applied` are done; results `first`, `first` + 1, ...: (role, message)."""

    applied: Natural
    first: Natural
    results: Many[tuple[Text, ShardReply]]


class ChainRead(Message, tag=157):
    """client -> tail.  A question that changes nothing; `number` comes back with the answer."""

    epoch: Natural
    number: Natural
    source: Text
    request: LocateObjects


class ChainReadReply(Message, tag=158):
    """tail -> client."""

    number: Natural
    results: Many[tuple[Text, ShardReply]]


class ChainHave(Message, tag=159):
    """member -> its predecessor.  In this epoch; the sender has all updates up to `sequence`; -1: no state at all.

    wants_safe: it asks for ChainSafe too.
    """

    epoch: Natural
    sequence: int
    wants_safe: bool = False


class ChainState(Message, tag=160):
    """member -> its successor.  Part `number` (from 1) of all that the sender had after `sequence`.

    Between the parts come the updates after that (ChainUpdates), which wait until all of it is there.
    """

    epoch: Natural
    sequence: Natural
    number: Natural
    is_last: bool
    data: Payload


class ChainTaken(Message, tag=165):
    """member -> its predecessor.  Part `number` of its state has arrived."""

    epoch: Natural
    number: Natural


class ChainLineage(Message, tag=163):
    """member -> its successor.  A page of specs, in the state that follows named by its number."""

    epoch: Natural
    page: Natural
    data: Payload


class ChainAgain(Message, tag=164):
    """head, tail -> client.  There was no room for what the client said: requests from `number` on, and questions.

    Or it had confirmed too few results; now it has.
    """

    number: Natural


class ChainSafe(Message, tag=166):
    """member -> its successor, that wants it.  All updates up to `sequence` are on the sender's disk."""

    epoch: Natural
    sequence: Natural


class ChainUpdates(Message, tag=161):
    """member -> its successor.  The next updates.  The first such message of an epoch ends the catching up."""

    epoch: Natural
    updates: Many[Update]


class ChainAck(Message, tag=162):
    """member -> its predecessor.  All updates up to `sequence` are at the tail (from one that joins: at the sender)."""

    epoch: Natural
    sequence: Natural


class ChainStalled(Message, tag=167):
    """member -> chain master -> clients.  What the shard is asked waits, and why.  None: it goes on.  For people alone.

    From a member: for its disk, and what that says, in one line.  From the master: what is the matter with the shard.
    """

    shard: Text
    reasons: Many[Text]


def in_halves(message: Message) -> tuple[Message, Message] | None:
    """What says the same, in order, where a message is longer than a frame should be; None: it stays whole."""
    if type(message) is ChainWrite and (middle := len(message.requests) // 2):
        first, requests = message.first, message.requests
        ahead = ChainWrite(message.epoch, first, message.taken, requests[:middle])
        return ahead, ChainWrite(message.epoch, first + middle, message.taken, requests[middle:])
    if type(message) is ChainUpdates and (middle := len(message.updates) // 2):
        epoch, updates = message.epoch, message.updates
        return ChainUpdates(epoch, updates[:middle]), ChainUpdates(epoch, updates[middle:])
    if type(message) is ChainResults and (middle := len(message.results) // 2):
        # Nothing is done before all that comes of it has been told.
        first, results = message.first, message.results
        return ChainResults(0, first, results[:middle]), ChainResults(message.applied, first + middle, results[middle:])
    return None
