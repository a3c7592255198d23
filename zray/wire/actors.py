"""Dialog: actors.

driver, worker     CreateActor       queue the creation; the creation task's first return is the handle's object
GCS shard          RegisterActor -> ActorRegistered / ActorNameTaken    one authority per (namespace, name)
local scheduler    StartActor        to the worker that becomes the actor
worker             ActorStarted / ActorStartFailed
driver, worker     SubmitTasks       calls, in order, options.actor_id set
driver, worker     KillActor
worker             CallClosed        a cancelled call has ended early
worker             ActorExited       exit_actor() was called: no restart
local scheduler    EndActor -> ActorEnded    end of a hosted actor, whose process has other actors too
driver, worker     FindActor -> FindActorReply     get_actor(name)
GCS shard          LookUpActor -> LookUpActorReply
driver, worker     FindActorNames -> ActorNamesFound     list_named_actors(); the node asks all shards
GCS shard          LookUpActorNames -> ActorNamesListed

Between nodes.  An actor without space on its first node, the origin, is placed by a global scheduler:

    local scheduler    SpillActor        to a global scheduler: no space here now
    global scheduler   PlaceActor        to the local scheduler of a node with space
    local scheduler    ActorAccepted     to the origin: space exists, and the constructor's arguments are held here
    local scheduler    ActorHandedOver   from the origin: the actor is the receiver's.  Or KillActor: no longer wanted
    global scheduler, local scheduler    ActorDeferred    no node has space now: keep the actor, ask again later

Calls go from the caller's local scheduler to the actor's local scheduler.  The shard of the actor's id knows the latter
(dialog of homes):

    local scheduler    ForwardCalls      calls, in order
    local scheduler    CallsAccepted     back: the refs that these calls take are held here
    local scheduler    CallsFinished     back: values, or sizes of results that lie at the sender
    local scheduler    ResultsHeld       the caller's node holds results of the receiver, which may drop them
    local scheduler    SeekCaller        does the actor at the receiver still want a generator?  Dead: CancelTask
    local scheduler    KillActor
"""

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import OBJECT_ID_BYTES, ActorID, ObjectID, TaskID
from . import homes, scheduling, tasks
from .limits import Many, Payload, Plenty, ShortBytes, Text
from .message import Message, Natural, routed
from .task_spec import ActorOptions, GivenItems, ItemNumber, TaskSpec

# Time limit for code that an actor's class runs before its process ends (`__ray_shutdown__`, `__del__`).
SHUTDOWN_SECONDS = 5.0
# A killed hosted actor may be made again in its process if its running methods return within this time.
KILLED_SECONDS = 1.0


class CreateActor(Message, tag=routed(60, "driver, worker -> local")):
    """A new actor.  Its ActorID is the task id of the spec.

    The sender holds the first return of the spec.
    """

    spec: TaskSpec
    options: ActorOptions


class RegisterActor(Message, tag=routed(61, "local -> gcs")):
    """An entry for the actor table.  Named actors enter only if the name is free."""

    actor_id: ActorID
    options: ActorOptions
    node: Text
    guardian: Text = ""  # backup node, which has the actor re-created if `node` is lost


class ActorRegistered(Message, tag=routed(62, "gcs -> local")):
    """The actor is in the table."""

    actor_id: ActorID


class ActorNameTaken(Message, tag=routed(63, "gcs -> local")):
    """Another living actor has the name in the namespace (definite)."""

    actor_id: ActorID
    holder: ShortBytes


class ActorRemoved(Message, tag=routed(64, "local -> gcs")):
    """The actor is dead for good, and its name is free.  `name_key` is the name's key (ids.py)."""

    actor_id: ActorID
    name_key: ShortBytes = b""


class FindActor(Message, tag=routed(65, "driver, worker -> local")):
    """A look-up of the actor with this name.

    is_weak: the handle of the sender does not count.
    """

    request: int
    namespace: Text
    name: Text
    is_weak: bool = False


class FindActorReply(Message, tag=routed(66, "local -> driver, worker")):
    """The actor; an empty `actor_id` means no such actor.

    The process that asked now holds the object of the handle, unless the handle is weak.  node: home of the actor, for
    a weak handle.
    """

    request: int
    actor_id: ShortBytes
    handle: Payload
    node: Text = ""


class LookUpActor(Message, tag=routed(67, "local -> gcs")):
    """A look-up of the actor with this name."""

    namespace: Text
    name: Text


class LookUpActorReply(Message, tag=routed(68, "gcs -> local")):
    """The answer to LookUpActor."""

    namespace: Text
    name: Text
    actor_id: ShortBytes
    handle: Payload
    node: Text
    is_detached: bool = False


class FindActorNames(Message, tag=routed(271, "driver, worker -> local")):
    """A look-up of the names of living actors.

    The names are those of `namespace`, or with `in_all` those of all namespaces.
    """

    request: int
    namespace: Text
    in_all: bool = False


class ActorNamesFound(Message, tag=routed(272, "local -> driver, worker")):
    """Pairs (namespace, name), in order."""

    request: int
    names: Many[tuple[Text, Text]]


class LookUpActorNames(Message, tag=routed(273, "local -> gcs")):
    """The same look-up as FindActorNames, at one shard."""

    request: int
    namespace: Text
    in_all: bool = False


class ActorNamesListed(Message, tag=routed(274, "gcs -> local")):
    """The names that belong to this shard."""

    request: int
    names: Many[tuple[Text, Text]]


class KillActor(Message, tag=routed(69, "driver, worker -> local -> local")):
    """The immediate end of the actor, as an order to its node.  Pending calls fail.

    found_at: as in TaskOptions.
    """

    actor_id: ActorID
    no_restart: bool = True
    found_at: Text = ""


class StartActor(Message, tag=routed(70, "local -> worker")):
    """The order to become this actor: to run the creation task."""

    spec: TaskSpec
    options: ActorOptions
    functions: Plenty[tasks.Function]
    arguments: Plenty[tasks.Argument]
    restart_count: int = 0
    # State from which a recoverable actor continues (ActorSaved).
    checkpoint: Annotated[bytes, Meta(max_length=OBJECT_ID_BYTES)] = b""  # b"": the state after the constructor
    call_count: Natural = 0  # number of calls in the checkpoint
    calls: Plenty[TaskSpec] = []  # calls since the checkpoint, to replay; readonly calls are replayed for their returns
    again: Plenty[ObjectID] = []  # returns of replayed calls to put, until the actor has started
    failed: Plenty[TaskID] = []  # replayed calls that had returned an error
    gpus: Many[Text] | None = None  # GPUs of the actor, as CUDA_VISIBLE_DEVICES names them; None: a node without GPUs
    closed: Plenty[tuple[TaskID, ItemNumber]] = []  # replayed calls that were cancelled, as in CallClosed
    items: Plenty[tuple[TaskID, GivenItems]] = []  # replayed generators of which all other items are put as well


class ActorSaved(Message, tag=routed(197, "worker -> local")):
    """The actor's state after `call_count` calls is an object that the sender has put.

    Readonly calls are not counted.
    """

    actor_id: ActorID
    object_id: ObjectID
    call_count: Natural


class CallClosed(Message, tag=routed(298, "worker -> local")):
    """A call on a recoverable actor was cancelled, or found no space for an item.  The result follows.

    Its generator was closed behind so many items; 0: the call has not begun.
    """

    task_id: TaskID
    items: ItemNumber


class SeekCaller(Message, tag=routed(301, "local -> local")):
    """The question whether the actor that has called a generator is dead.

    The actor's former node is lost, and the actor has not made the call again.  A dead actor's node cancels the call.
    """

    actor_id: ActorID
    task_id: TaskID


class ActorStarted(Message, tag=routed(71, "worker -> local")):
    """The constructor returned.

    `has_shutdown`: the class has code to run before the process ends, unless the process is killed.
    """

    actor_id: ActorID
    has_shutdown: bool = False


class ActorStartFailed(Message, tag=routed(72, "worker -> local")):
    """The constructor raised.  `error` is an error value."""

    actor_id: ActorID
    error: Payload


class ActorExited(Message, tag=routed(73, "worker -> local")):
    """The actor left by itself, and is not restarted."""

    actor_id: ActorID
    reason: Text


class EndActor(Message, tag=routed(299, "local -> worker")):
    """The order to end a hosted actor: after its calls, or at once if `is_killed`.

    Python cannot end a thread: a method of a killed actor runs on, and its result counts for nothing.  ActorEnded waits
    for the method, for KILLED_SECONDS.
    """

    actor_id: ActorID
    is_killed: bool = False


class ActorEnded(Message, tag=routed(300, "worker -> local")):
    """A hosted actor is no longer in the sender's process, which says nothing more of it.

    `unclaimed`: the last so many of the calls that it was sent have not begun.  `runs_on`: a method of the killed actor
    has not returned, so the actor is not made again in this process.
    """

    actor_id: ActorID
    cause: Text
    unclaimed: Natural = 0
    runs_on: bool = False


class SpillActor(Message, tag=routed(170, "local -> global")):
    """The node has no space for the actor now.  `origin` is the sender's address.

    `may_borrow` allows CPUs that waiting tasks have lent out.  These tasks may be waiting for this very actor.
    """

    spec: TaskSpec
    options: ActorOptions
    origin: Text
    life: homes.ActorLife
    job_id: ShortBytes
    job: scheduling.JobFacts = scheduling.JobFacts()
    may_borrow: bool = False


class PlaceActor(Message, tag=routed(171, "global, local -> local")):
    """A request to accept the actor, if space exists.

    The actor starts when its origin hands it over.  A local scheduler sends actors of placement groups, whose
    bundles have nodes already.
    """

    spec: TaskSpec
    options: ActorOptions
    origin: Text
    life: homes.ActorLife
    job_id: ShortBytes
    job: scheduling.JobFacts = scheduling.JobFacts()
    may_borrow: bool = False


class ActorAccepted(Message, tag=routed(172, "local -> local")):
    """An answer to the origin: the refs that the constructor takes are held here too."""

    actor_id: ActorID
    birth: Text


class ActorHandedOver(Message, tag=routed(173, "local -> local")):
    """The origin's word that the actor is the receiver's, to claim and to start.

    The accepted offer may have been of an earlier incarnation.
    """

    actor_id: ActorID
    life: homes.ActorLife  # incarnation at the receiver


class ActorDeferred(Message, tag=routed(174, "global, local -> local")):
    """An answer to the origin: no node has space for the actor now."""

    actor_id: ActorID


class ForwardCalls(Message, tag=routed(179, "local -> local")):
    """Calls on actors at the receiver, in order."""

    specs: Many[TaskSpec]
    attempts: Many[Natural] = []  # number of attempts so far for each call; empty: none
    answered: Many[TaskID] = []  # calls that are not run: their answer, lost since, is given again


class CallsAccepted(Message, tag=routed(180, "local -> local")):
    """The refs that these calls take are held here too."""

    task_ids: Many[TaskID]


class CallResult(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The result of one call.

    Each return is a value, or the size in bytes of an object that lies at the sender's node.
    """

    task_id: TaskID
    values: Many[Payload | Natural]


class CallsFinished(Message, tag=routed(181, "local -> local")):
    """Results of calls, for the caller's node.

    A `receipt` other than 0 must be acknowledged by the caller's node (AnswersTaken).

    A result with a large return and a receipt comes alone.
    """

    results: Many[CallResult]
    receipt: Natural = 0


class ResultsHeld(Message, tag=routed(182, "local -> local")):
    """The caller's node holds these objects, and the shards know that."""

    object_ids: Many[ObjectID]
