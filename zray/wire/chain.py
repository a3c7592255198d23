"""Dialog: a replicated GCS shard (Ray paper 4.3, 4.4; van Renesse and Schneider, chain replication).

member          ChainOffer          to the chain master: offer to be a replica of this shard
client          ChainFollow         to the chain master: request for the chain, now and at each change
chain master    ChainChanged        the members in order, under a new epoch
client          ChainWrite          to the head: requests of the roles of one host, numbered
member          ChainUpdates        to its successor: applied updates, in order
head, tail      ChainAgain          to a client: space was missing for its messages, and is there now
tail            ChainAck            to its predecessor, and on to the head: all members have the update
tail            ChainResults        to the client: finished requests, and messages of the shard to its roles
client          ChainRead -> ChainReadReply     at the tail, for a read without a place in the order
member          ChainHave           to its predecessor, in each new epoch: last update of the sender
member          ChainState          to a successor that lacks more than the member remembers: all of it, in parts
member          ChainTaken          to its predecessor: a part has arrived, send the next
member          ChainLineage        ahead of ChainState: the specs that the member has in its store, not in memory
member          ChainSafe           to its successor on another node: last update on the sender's disk
member          ChainJoined         to the chain master: the member has caught up in this epoch
member          ChainStalled        to the chain master, and on to the clients: requests wait for a full disk

The order of the messages, and the proof that no acknowledged request is lost: zray/roles/gcs/chain.py.
"""

from msgspec import Struct

from ..ids import ObjectID
from . import actors, gcs, groups, handles, homes, scheduling, shards, tasks
from .limits import Many, Payload, Text
from .message import Message, Natural, routed
from .task_spec import TaskSpec

# Length of a disk's error text: a path and an error.
STALL_CHARACTERS_MAX = 500

# Requests to a shard, and replies of a shard.  No other messages travel inside the messages of this dialog.
ShardRequest = (
    gcs.RecordTasks
    | gcs.AddLocations
    | gcs.RemoveLocations
    | gcs.OfferCopies
    | gcs.HoldAtNode
    | gcs.ReleaseAtNode
    | gcs.SubscribeObject
    | gcs.CannotRebuild
    | scheduling.LocateObjects
    | tasks.PublishFunction
    | gcs.FetchFunction
    | gcs.ReleaseFunctions
    | actors.RegisterActor
    | actors.ActorRemoved
    | actors.LookUpActor
    | actors.LookUpActorNames
    | homes.ActorAt
    | homes.ActorForgotten
    | homes.ActorUnguarded
    | homes.ActorKilled
    | homes.LocateActor
    | gcs.NodeLost
    | gcs.LineageNeeded
    | gcs.LineageNeededReply
    | gcs.LineageMoved
    | groups.AttendShard
    | groups.RegisterGroup
    | groups.TryPlaces
    | groups.BundlesPrepared
    | groups.GiveUpGroup
    | groups.RemoveGroup
    | groups.LocateGroup
    | groups.LookUpGroups
    | gcs.FindUnheld
    | handles.FindHolders
    | shards.SlotsChanged
    | shards.AwaitReturns
)


class SlotsMoved(Message, tag=routed(313, "gcs -> local, global")):
    """The shard does not own all of the ids of `request`, which has changed nothing there.

    The receiver sends the request again by the newer `table`.
    """

    table: shards.SlotTable
    request: ShardRequest


ShardReply = (
    gcs.RecordTasksReply
    | gcs.HoldAtNodeReply
    | gcs.ObjectLocated
    | gcs.FreeCopies
    | gcs.RebuildObject
    | gcs.ObjectLost
    | scheduling.LocateObjectsReply
    | gcs.FetchFunctionReply
    | actors.ActorRegistered
    | actors.ActorNameTaken
    | actors.LookUpActorReply
    | actors.ActorNamesListed
    | homes.ActorLocated
    | homes.ActorClaimed
    | homes.ActorRefused
    | homes.ActorOrphaned
    | gcs.LineageNeeded
    | gcs.LineageNeededReply
    | gcs.LineageMoved
    | groups.GroupRegistered
    | groups.KeepGroup
    | groups.PrepareBundles
    | groups.CommitBundles
    | groups.ReturnBundles
    | groups.GroupLocated
    | groups.GroupsListed
    | gcs.FindUnheldReply
    | handles.FindHoldersReply
    | handles.HandleReleased
    | SlotsMoved
    | shards.AwaitReturnsReply
)


class LineageFound(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The spec of an object's task, which the shard has requested from its head.

    Without a spec, `reason` says why.
    """

    object_id: ObjectID
    spec: TaskSpec | None
    reason: Text


class Update(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A step of the shard: a client's requests `first`, `first` + 1, ..., each with the role that asks.

    `sequence` counts the steps of the shard from 1.  `now` is the head's clock, in seconds.  `taken` says that the
    client has all results up to this number.  `found` holds answers of the head itself.  Such a step belongs to no
    client ("").
    """

    sequence: Natural
    now: float
    client: Text
    first: Natural
    taken: Natural
    requests: Many[tuple[Text, ShardRequest]]
    found: Many[LineageFound] = []


class ChainOffer(Message, tag=routed(150, "gcs -> chains")):
    """The sender can be a replica of `shard`.

    `sequence` and `epoch` are the last update and the last epoch in the sender's log; -1 and 0 mean that the sender has
    neither.
    """

    shard: Text
    sequence: int = -1
    epoch: Natural = 0


class ChainFollow(Message, tag=routed(151, "shard -> chains")):
    """A request for the chain of `shard`, now and at each change."""

    shard: Text


class ChainChanged(Message, tag=routed(152, "chains -> gcs, shard")):
    """The new chain.  Messages of an older epoch no longer change anything.

    `members` are in order from head to tail.  The member `joining` ("": none) gets the tail's state, and is no member
    yet.  A former member that is named in neither field is out for good.
    """

    shard: Text
    epoch: Natural
    members: Many[Text]
    joining: Text


class ChainJoined(Message, tag=routed(153, "gcs -> chains")):
    """The sender has all updates that its predecessor had on entering `epoch`.

    From the head, the message says that the head has entered `epoch`.  If the head keeps a log, the epoch is on its
    disk.
    """

    shard: Text
    epoch: Natural


class ChainMemberLost(Message, tag=routed(154, "gcs, monitor, services, hosting -> chains")):
    """The final decision that `member` is dead: its process has ended, or is fenced."""

    member: Text
    reason: Text


class ChainWrite(Message, tag=routed(155, "shard -> gcs")):
    """Requests `first`, `first` + 1, ... of this client to the head, each with the role that asks.

    When the head changes, the client sends all requests again from the first one that may not be done.  `taken` is as
    in Update.
    """

    epoch: Natural
    first: Natural
    taken: Natural
    requests: Many[tuple[Text, ShardRequest]]


class ChainResults(Message, tag=routed(156, "gcs -> shard")):
    """The tail's word that the client's requests up to `applied` are done.

    The results `first`, `first` + 1, ... are pairs (role, message).
    """

    applied: Natural
    first: Natural
    results: Many[tuple[Text, ShardReply]]


class ChainRead(Message, tag=routed(157, "shard -> gcs")):
    """A question to the tail that changes nothing.  `number` comes back with the answer."""

    epoch: Natural
    number: Natural
    source: Text
    request: scheduling.LocateObjects


class ChainReadReply(Message, tag=routed(158, "gcs -> shard")):
    """The tail's answer to ChainRead `number`."""

    number: Natural
    results: Many[tuple[Text, ShardReply]]


class ChainHave(Message, tag=routed(159, "gcs -> gcs")):
    """The sender's last update in this epoch, for its predecessor; a `sequence` of -1 means no state at all.

    `wants_safe` requests ChainSafe too.
    """

    epoch: Natural
    sequence: int
    wants_safe: bool = False


class ChainState(Message, tag=routed(160, "gcs -> gcs")):
    """Part `number` (from 1) of the sender's whole state after `sequence`, for its successor.

    Later updates come between the parts (ChainUpdates), and wait until the state is complete.
    """

    epoch: Natural
    sequence: Natural
    number: Natural
    is_last: bool
    data: Payload


class ChainTaken(Message, tag=routed(165, "gcs -> gcs")):
    """An acknowledgement to the predecessor: part `number` of its state has arrived."""

    epoch: Natural
    number: Natural


class ChainLineage(Message, tag=routed(163, "gcs -> gcs")):
    """A page of specs, for the successor.  The state that follows names the page by its number."""

    epoch: Natural
    page: Natural
    data: Payload


class ChainAgain(Message, tag=routed(164, "gcs -> shard")):
    """A request of the head or the tail to send requests from `number` on, and questions, again.

    Space was missing for these messages, or the client had confirmed too few results.  By now this has changed.
    """

    number: Natural


class ChainSafe(Message, tag=routed(166, "gcs -> gcs")):
    """All updates up to `sequence` are on the sender's disk.  Its successor has requested this message (ChainHave)."""

    epoch: Natural
    sequence: Natural


class ChainUpdates(Message, tag=routed(161, "gcs -> gcs")):
    """The next updates, for the successor.  The first such message of an epoch ends the catching up."""

    epoch: Natural
    updates: Many[Update]


class ChainAck(Message, tag=routed(162, "gcs -> gcs")):
    """An acknowledgement to the predecessor: all updates up to `sequence` are at the tail.

    From a joining member, the updates are at the sender.
    """

    epoch: Natural
    sequence: Natural


class ChainStalled(Message, tag=routed(167, "gcs -> chains -> shard")):
    """The shard's requests wait, for these reasons; none: requests proceed again.

    The text is for people alone.  A member reports its disk and the disk's error, in one line.  The master reports the
    state of the shard.
    """

    shard: Text
    reasons: Many[Text]


def in_halves(message: Message) -> tuple[Message, Message] | None:
    """Two messages with the same content, in order, for a message longer than a frame should be; None if it stays
    whole.
    """
    if type(message) is ChainWrite and (middle := len(message.requests) // 2):
        first, requests = message.first, message.requests
        ahead = ChainWrite(message.epoch, first, message.taken, requests[:middle])
        return ahead, ChainWrite(message.epoch, first + middle, message.taken, requests[middle:])
    if type(message) is ChainUpdates and (middle := len(message.updates) // 2):
        epoch, updates = message.epoch, message.updates
        return ChainUpdates(epoch, updates[:middle]), ChainUpdates(epoch, updates[middle:])
    if type(message) is ChainResults and (middle := len(message.results) // 2):
        # A request is reported as done only after all of its results.
        first, results = message.first, message.results
        return ChainResults(0, first, results[:middle]), ChainResults(message.applied, first + middle, results[middle:])
    return None
