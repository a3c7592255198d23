"""Dialog: control state (Ray paper 4.3).

local scheduler    RecordTasks -> RecordTasksReply     lineage, and this node holds the returns
local scheduler    AddLocations                        values at this node
local scheduler    HoldAtNode -> HoldAtNodeReply       this node holds refs on these objects
local scheduler    ReleaseAtNode                       this node no longer holds refs on the objects
local scheduler    SubscribeObject -> ObjectLocated    location of an object, now or as soon as a copy exists
local scheduler    FindUnheld -> FindUnheldReply           objects that no other node holds
local scheduler    OfferCopies -> FreeCopies           copies that may be evicted if others have or nobody holds them
GCS shard          FreeCopies                          nobody holds the object: drop the copy
GCS shard          RebuildObject / CannotRebuild       all copies went with their nodes: re-execute the task
GCS shard          ObjectLost                          the object cannot be reconstructed
GCS shard          LineageNeeded -> LineageNeededReply     by way of a node, to another shard: keep these records
GCS shard          LineageNeeded -> LineageMoved           the same, of which some are another shard's by now
local scheduler    FetchFunction -> FetchFunctionReply
local scheduler    ReleaseFunctions                    the job that has published the functions has ended
node               RegisterNode, Heartbeat             to the monitor
any host           GiveUpNode                          to the monitor: the sender can do no more for that node
monitor            HeartbeatReply, NodeJoined, NodeLost
"""

from ..ids import FunctionID, ObjectID, TaskID
from .limits import Many, ShortBytes, Table, Text
from .message import Message, Natural, routed
from .shards import ShardCount, SlotTable
from .task_spec import TaskOptions, TaskSpec
from .tasks import Function

# Why an object cannot be reconstructed, and what the user can do.
ANSWER_IS_LOST = "an actor's answer, was lost with its node"
PUT_HELP = (
    "Only results of tasks are computed again: return the value from a task and pass its ref, also in place of a large "
    "argument; or put it again"
)
TASK_HELP = "A task with max_retries would be run again"


def result_is_lost(object_id: bytes, options: TaskOptions) -> str:
    """Error text for the lost return of a task or an actor's call that may not run again."""
    limit = options.max_retries
    if options.is_logged:  # another process gives it again, while a node has the actor's state
        what = f"Object {object_id.hex()}, {ANSWER_IS_LOST} (a call of {options.method!r})"
        return f"{what}.  Its actor cannot give it again: the other node with the actor's state is lost too."
    if limit > 0:
        option, what = "max_retries", f"its task {options.name!r}" if options.name else "its task"
        if options.actor_id:
            option, what = "max_task_retries", f"the call of {options.method!r}"
        return (
            f"Object {object_id.hex()} was lost with its node; {what} has run {limit + 1} times, as {option}={limit} "
            f"allows, and is not run again.  A larger {option} allows more runs."
        )
    if options.actor_id:
        help = "A call with max_task_retries would be repeated"
        return f"Object {object_id.hex()}, {ANSWER_IS_LOST} (a call of {options.method!r}).  {help}."
    what = f"task {options.name!r}" if options.name else "task"
    return f"Object {object_id.hex()} was lost with its node; its {what} may run once only.  {TASK_HELP}."


def may_run_once_more(options: TaskOptions, attempts: int) -> bool:
    """True if a finished task that has run again so often may be re-executed after the loss of its results."""
    return options.may_run_again and not 0 <= options.max_retries <= attempts


class RecordTasks(Message, tag=routed(100, "local -> gcs")):
    """Specs for the task table.  `node` holds the return values.

    Request 0 asks for no reply.  `shards` is the number of shards.  `attempts` are the further runs of tasks so far.
    """

    node: Text
    specs: Many[TaskSpec]
    request: int = 0
    shards: ShardCount = 1
    attempts: Many[tuple[TaskID, Natural]] = []


class RecordTasksReply(Message, tag=routed(101, "gcs -> local")):
    """The acknowledgement of RecordTasks."""

    request: int


class AddLocations(Message, tag=routed(102, "local -> gcs")):
    """Copies of objects at `node`, as (object, size in bytes).  `node` holds the objects.

    `attempts` are the further runs of tasks that have ended at `node`.  `drawn` are the items that programs have had of
    generators that they have left.
    """

    node: Text
    objects: Many[tuple[ObjectID, int]]
    attempts: Many[tuple[TaskID, Natural]] = []
    drawn: Many[tuple[TaskID, Natural]] = []


class RemoveLocations(Message, tag=routed(103, "local -> gcs")):
    """Copies that `node` no longer has."""

    node: Text
    object_ids: Many[ObjectID]


class OfferCopies(Message, tag=routed(119, "local -> gcs")):
    """Copies that may be evicted at `node` if other nodes have copies too, or if no node holds the object.

    `node` no longer holds the objects, and lacks space.
    """

    node: Text
    object_ids: Many[ObjectID]


class HoldAtNode(Message, tag=routed(104, "local -> gcs")):
    """`node` joins the holders of these objects.

    `are_inside`: the refs came inside of a value, or an actor was found by its name.  An object without a holder, and
    that nobody could make, is then not held, and the reply says so.  It went with the node from which the value came,
    or the actor is about to end.
    """

    node: Text
    object_ids: Many[ObjectID]
    request: int
    are_inside: bool = False


class HoldAtNodeReply(Message, tag=routed(105, "gcs -> local")):
    """The acknowledgement of HoldAtNode.

    `are_gone`: some of these objects no longer existed.
    """

    request: int
    are_gone: bool = False


class ReleaseAtNode(Message, tag=routed(106, "local -> gcs")):
    """`node` leaves the holders of these objects.

    `by_death`: a process of the node has died with the last refs.
    """

    node: Text
    object_ids: Many[ObjectID]
    by_death: bool = False


class FindUnheld(Message, tag=routed(125, "local -> gcs")):
    """A question: which of these objects does no node hold, apart from `node` and node `lost`?"""

    node: Text
    request: int
    object_ids: Many[ObjectID]
    lost: Text = ""


class FindUnheldReply(Message, tag=routed(126, "gcs -> local")):
    """The objects of the question that no other node holds."""

    request: int
    object_ids: Many[ObjectID]


class SubscribeObject(Message, tag=routed(107, "local -> gcs")):
    """A request for one answer, as soon as a copy exists."""

    node: Text
    object_id: ObjectID


class ObjectLocated(Message, tag=routed(108, "gcs -> local")):
    """The local schedulers of the nodes with a copy.  `size` is in bytes."""

    object_id: ObjectID
    size: Natural
    holders: Many[Text]


class FreeCopies(Message, tag=routed(109, "gcs -> local")):
    """No node holds these objects any more.

    `by_death`: the last holder was a process that has died, or a lost node.  An actor whose handle the object is then
    ends in the middle of its calls.
    """

    object_ids: Many[ObjectID]
    by_death: bool = False


class FetchFunction(Message, tag=routed(110, "local -> gcs")):
    """A request for a function, answered when the function is there.

    `is_over` withdraws the request.
    """

    node: Text
    function_id: FunctionID
    is_over: bool = False


class FetchFunctionReply(Message, tag=routed(111, "gcs -> local")):
    """The answer to FetchFunction.

    Without code, the function is not there, and too many others are awaited.  The node then asks again.
    """

    function: Function


class ReleaseFunctions(Message, tag=routed(118, "local -> gcs")):
    """Functions published in the name of `node` and this job are no longer needed."""

    node: Text
    job_id: ShortBytes


class RebuildObject(Message, tag=routed(112, "gcs -> local")):
    """The order to reconstruct the object, or to report its location.

    All copies are lost.  `spec` is the spec of the object's task.  The task has run again `attempts` times.

    `is_granted`: one more run is counted for the receiver.  `drawn`: a generator that was left needs to yield so many
    items; 0: the shard has not heard that it was left.
    """

    object_id: ObjectID
    spec: TaskSpec
    attempts: Natural = 0
    is_granted: bool = False
    drawn: Natural = 0


class CannotRebuild(Message, tag=routed(113, "local -> gcs")):
    """`node` does not have the object, does not make it, and no longer wants it.

    `was_granted`: as `is_granted` in RebuildObject.
    """

    node: Text
    object_id: ObjectID
    was_granted: bool = False


class ObjectLost(Message, tag=routed(114, "gcs -> local")):
    """The object is lost and cannot be reconstructed (definite).

    `reason` is a text for the user.  `has_task`: the object has a task.  The record of this task is lost too, or the
    task may not run again.
    """

    object_id: ObjectID
    reason: Text
    has_task: bool = False


class LineageNeeded(Message, tag=routed(115, "gcs -> local -> gcs")):
    """A change in the records that one shard needs from another.

    Shard `source` of `shards` needs the records of the tasks `needed` at shard `target`, and no longer those of
    `freed`.  `number` counts these messages from 1, for each pair of shards.
    """

    source: Natural
    target: Natural
    shards: ShardCount
    number: Natural
    needed: Many[TaskID]
    freed: Many[TaskID]


class LineageNeededReply(Message, tag=routed(116, "gcs -> local -> gcs")):
    """Shard `target` has received message `number` of shard `source`."""

    source: Natural
    target: Natural
    number: Natural


class LineageMoved(Message, tag=routed(316, "gcs -> local -> gcs")):
    """The acknowledgement of a batch with tasks that are not of shard `target`, by its newer `table`.

    Nothing of these was done.  Shard `source` tells their owners.
    """

    source: Natural
    target: Natural
    number: Natural
    table: SlotTable
    tasks: Many[TaskID]


class RegisterNode(Message, tag=routed(120, "local -> monitor")):
    """A node joins, or returns to a head that was started again.

    Other nodes reach its host at `endpoint` (HOST:PORT), under `public_key`.  `peers` are the nodes that the sender
    takes for members.  `last_lost` is the last node of whose loss the sender was told.
    """

    node: Text
    total: Table[Text, int]
    kind: Text = "node"  # "driver": the node of a program outside the cluster, where no task is placed
    endpoint: Text = ""
    public_key: ShortBytes = b""
    peers: Many[Text] = []
    labels: Table[Text, Text] = {}
    hostname: Text = ""  # hostname of the machine, for people
    last_lost: Text = ""


class Heartbeat(Message, tag=routed(121, "local -> monitor")):
    """A regular sign of life.  `number` counts heartbeats."""

    node: Text
    number: Natural = 0


class HeartbeatReply(Message, tag=routed(124, "monitor -> local")):
    """The node is still a member.

    The lease runs from the sending of heartbeat `number`.  `seconds` is the length of the lease; 0 means the
    default of all nodes (local_scheduler/membership/lease.py).
    """

    number: Natural = 0
    seconds: float = 0.0


class GiveUpNode(Message, tag=routed(268, "local, global, gcs -> monitor")):
    """The sender's host can do no more for that node.

    The monitor decides about the node.
    """

    node: Text
    reason: Text


class NodeJoined(
    Message,
    tag=routed(122, "monitor -> local, global, gcs, chains, relay, hosting, services, shard; services -> global"),
):
    """A member of the cluster, other than the receiver's node.  Fields as in RegisterNode."""

    node: Text
    total: Table[Text, int]
    kind: Text = "node"
    endpoint: Text = ""
    public_key: ShortBytes = b""
    is_earlier: bool = False  # the node joined before the receiver, which therefore connects to the node
    labels: Table[Text, Text] = {}
    hostname: Text = ""


class NodeLost(
    Message,
    tag=routed(
        123,
        "monitor -> local, global, gcs, chains, relay, hosting, services, shard; "
        "services -> global, chains; local -> objects",
    ),
):
    """The node is declared dead.  Its later messages change nothing.

    `is_drained`: all work of other nodes that had begun there had ended.
    """

    node: Text
    reason: Text
    is_drained: bool = False
