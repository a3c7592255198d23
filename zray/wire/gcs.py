"""Dialog: control state (Ray paper 4.3).

local scheduler    RecordTasks -> RecordTasksReply     lineage, and this node holds the returns
local scheduler    AddLocations                        values that are here
local scheduler    HoldAtNode -> HoldAtNodeReply       this node holds refs on these
local scheduler    ReleaseAtNode                       and no longer does
local scheduler    SubscribeObject -> ObjectLocated    where is it, now or as soon as it is
local scheduler    OfferCopies -> FreeCopies           copies that may go where others have them
GCS shard          FreeCopies                          nobody holds it: drop your copy
GCS shard          RebuildObject / CannotRebuild       all copies went with their nodes: run its task again
GCS shard          ObjectLost                          and this one cannot be made again
GCS shard          LineageNeeded -> LineageNeededReply     by way of a node, to another shard: keep these records
local scheduler    FetchFunction -> FetchFunctionReply
local scheduler    ReleaseFunctions                    the job that has published them has ended
node               RegisterNode, Heartbeat             to the monitor
any host           GiveUpNode                          to the monitor: we are done with that one
monitor            HeartbeatReply, NodeJoined, NodeLost
"""

from __future__ import annotations

from ..ids import FunctionID, ObjectID, TaskID
from .limits import Many, ShortBytes, Table, Text
from .message import Message, Natural
from .task_spec import TaskOptions, TaskSpec
from .tasks import Function

# Of an object: why nobody makes it again, and what helps.
ANSWER_IS_LOST = "an actor's answer, went with a node that is lost"
PUT_HELP = (
    "What a task returns would be made again: have one make it, and pass its ref where a large value was passed; or "
    "put it again"
)
TASK_HELP = "One that may be repeated (max_retries) is run again then"


def result_is_lost(object_id: bytes, options: TaskOptions) -> str:
    """Of what a task or an actor's call has returned that may run once only."""
    if options.actor_id:
        help = "A call that may be repeated (max_task_retries) is made once more then"
        return f"Object {object_id.hex()}, {ANSWER_IS_LOST} (a call of {options.method!r}).  {help}."
    what = f"task {options.name!r}" if options.name else "task"
    return f"Object {object_id.hex()} went with a node that is lost; its {what} may run once only.  {TASK_HELP}."


class RecordTasks(Message, tag=100):
    """local scheduler -> GCS shard.  Specs for the task table; `node` holds their return values.

    request 0 asks for no reply.  shards: so many there are.
    """

    node: Text
    specs: Many[TaskSpec]
    request: int = 0
    shards: Natural = 1


class RecordTasksReply(Message, tag=101):
    """GCS shard -> local scheduler."""

    request: int


class AddLocations(Message, tag=102):
    """local scheduler -> GCS shard.  (object, size in bytes) that `node` has a copy of; it holds them."""

    node: Text
    objects: Many[tuple[ObjectID, int]]


class RemoveLocations(Message, tag=103):
    """local scheduler -> GCS shard.  Copies that `node` no longer has."""

    node: Text
    object_ids: Many[ObjectID]


class OfferCopies(Message, tag=119):
    """local scheduler -> GCS shard.  `node` holds these no more, and lacks room: those may go that others have too."""

    node: Text
    object_ids: Many[ObjectID]


class HoldAtNode(Message, tag=104):
    """local scheduler -> GCS shard.  `node` joins the holders of these.

    are_inside: they came inside of a value.  What nobody holds any more, and nobody could make, is not held then, and
    the reply says so: it went with the node that the value came from.
    """

    node: Text
    object_ids: Many[ObjectID]
    request: int
    are_inside: bool = False


class HoldAtNodeReply(Message, tag=105):
    """GCS shard -> local scheduler.  are_gone: of those that were inside of a value, some were not there any more."""

    request: int
    are_gone: bool = False


class ReleaseAtNode(Message, tag=106):
    """local scheduler -> GCS shard.  `node` leaves the holders of these."""

    node: Text
    object_ids: Many[ObjectID]


class SubscribeObject(Message, tag=107):
    """local scheduler -> GCS shard.  Answer once, when a copy exists."""

    node: Text
    object_id: ObjectID


class ObjectLocated(Message, tag=108):
    """GCS shard -> local scheduler.  size in bytes; the local schedulers of the nodes that have a copy."""

    object_id: ObjectID
    size: Natural
    holders: Many[Text]


class FreeCopies(Message, tag=109):
    """GCS shard -> local scheduler.  No node holds these any more."""

    object_ids: Many[ObjectID]


class FetchFunction(Message, tag=110):
    """local scheduler -> GCS shard.  Answered when the function is there.  is_over: the node wants it no more."""

    node: Text
    function_id: FunctionID
    is_over: bool = False


class FetchFunctionReply(Message, tag=111):
    """GCS shard -> local scheduler.  Without code: it is not there, and too many others are awaited; ask again."""

    function: Function


class ReleaseFunctions(Message, tag=118):
    """local scheduler -> GCS shard.  What was published in the name of `node` and this job is needed no more."""

    node: Text
    job_id: ShortBytes


class RebuildObject(Message, tag=112):
    """GCS shard -> local scheduler.  Its copies are lost: make it, or say where it is; `spec` is its task's."""

    object_id: ObjectID
    spec: TaskSpec


class CannotRebuild(Message, tag=113):
    """local scheduler -> GCS shard.  Nobody at `node` has it, makes it or wants it any more."""

    node: Text
    object_id: ObjectID


class ObjectLost(Message, tag=114):
    """GCS shard -> local scheduler.  It is gone and cannot be made again; the reason is for the user (definite).

    has_task: that could have made it again, but its record is gone too, or it may run no more.
    """

    object_id: ObjectID
    reason: Text
    has_task: bool = False


class LineageNeeded(Message, tag=115):
    """GCS shard -> local scheduler -> GCS shard.  From shard `source` to shard `target` of `shards`, by their numbers.

    Its records need those of the tasks `needed`, and no longer those of `freed`.  number: counts these messages from 1,
    between these two shards.
    """

    source: Natural
    target: Natural
    shards: Natural
    number: Natural
    needed: Many[TaskID]
    freed: Many[TaskID]


class LineageNeededReply(Message, tag=116):
    """GCS shard -> local scheduler -> GCS shard.  Shard `target` has heard that number from shard `source`."""

    source: Natural
    target: Natural
    number: Natural


class RegisterNode(Message, tag=120):
    """local scheduler -> monitor.  A node joins, or is back at a head that was started again.  endpoint (HOST:PORT) and
    key: where others reach its host.  peers: whom it takes for members; last_lost: of whose loss it was told last.
    """

    node: Text
    total: Table[Text, int]
    kind: Text = "node"  # "driver": of a program outside of the cluster; no task is placed there
    endpoint: Text = ""
    public_key: ShortBytes = b""
    peers: Many[Text] = []
    labels: Table[Text, Text] = {}
    hostname: Text = ""  # of its machine, for people
    last_lost: Text = ""


class Heartbeat(Message, tag=121):
    """local scheduler -> monitor, regularly.  number: counts them."""

    node: Text
    number: Natural = 0


class HeartbeatReply(Message, tag=124):
    """monitor -> local scheduler.  A member still: its lease runs from when it sent the heartbeat of that number.

    seconds: how long that is; 0: as for every node (local_scheduler/lease.py).
    """

    number: Natural = 0
    seconds: float = 0.0


class GiveUpNode(Message, tag=268):
    """local or global scheduler, GCS shard -> monitor.  Our host can do nothing more for that node: judge it."""

    node: Text
    reason: Text


class NodeJoined(Message, tag=122):
    """monitor -> local and global schedulers, about every other node.  As in RegisterNode."""

    node: Text
    total: Table[Text, int]
    kind: Text = "node"
    endpoint: Text = ""
    public_key: ShortBytes = b""
    is_earlier: bool = False  # it was there before the receiver, which therefore connects to it
    labels: Table[Text, Text] = {}
    hostname: Text = ""


class NodeLost(Message, tag=123):
    """monitor -> all schedulers and shards.  Final: the node's later messages change nothing.

    is_drained: nothing that others had given it has begun there and not ended.
    """

    node: Text
    reason: Text
    is_drained: bool = False
