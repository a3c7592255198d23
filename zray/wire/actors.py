"""Dialog: actors.

driver, worker     CreateActor       queue the creation; the creation task's first return is the handle's object
GCS shard          RegisterActor -> ActorRegistered / ActorNameTaken    one authority per (namespace, name)
local scheduler    StartActor        to the worker that becomes the actor
worker             ActorStarted / ActorStartFailed
driver, worker     SubmitTasks       calls, in order, options.actor_id set
driver, worker     KillActor
worker             ActorExited       exit_actor() was called: no restart
driver, worker     FindActor -> FindActorReply     get_actor(name)
GCS shard          LookUpActor -> LookUpActorReply
driver, worker     FindActorNames -> ActorNamesFound     list_named_actors(); the node asks all shards
GCS shard          LookUpActorNames -> ActorNamesListed

Between nodes.  An actor that has no room where it was made is placed by a global scheduler:

local scheduler    SpillActor        to a global scheduler: no room here now
global scheduler   PlaceActor        to the local scheduler of a node that has room
local scheduler    ActorAccepted     to the one that spilled it: I have room, and hold what its constructor takes
local scheduler    ActorHandedOver   back: it is yours.  Or KillActor: no longer wanted
global scheduler, local scheduler    ActorDeferred    nobody has room now: keep it, ask again later

Calls go from the caller's local scheduler to the actor's, which the shard of the actor's id knows (dialog of homes):

local scheduler    ForwardCalls      calls, in order
local scheduler    CallsAccepted     back: I hold the refs that these take
local scheduler    CallsFinished     back: values, or that they lie at the sender
local scheduler    ResultsHeld       I hold what lies at your node: you need not, for my sake
local scheduler    KillActor
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import OBJECT_ID_BYTES, ActorID, ObjectID, TaskID
from .homes import ActorLife
from .limits import Many, Payload, Plenty, ShortBytes, Text
from .message import Message, Natural
from .scheduling import JobFacts
from .task_spec import ActorOptions, TaskSpec
from .tasks import Argument, Function

# What an actor's class runs before its process ends (`__ray_shutdown__`, `__del__`) is waited for so long.
SHUTDOWN_SECONDS = 5.0


class CreateActor(Message, tag=60):
    """driver, worker -> local scheduler.  ActorID = the spec's task id; the sender holds its first return."""

    spec: TaskSpec
    options: ActorOptions


class RegisterActor(Message, tag=61):
    """local scheduler -> GCS shard.  Into the actor table; named ones only if the name is free."""

    actor_id: ActorID
    options: ActorOptions
    node: Text
    guardian: Text = ""  # who has it made again if that node is lost


class ActorRegistered(Message, tag=62):
    """GCS shard -> local scheduler."""

    actor_id: ActorID


class ActorNameTaken(Message, tag=63):
    """GCS shard -> local scheduler.  Another living actor has that name in that namespace (definite)."""

    actor_id: ActorID
    holder: ShortBytes


class ActorRemoved(Message, tag=64):
    """local scheduler -> GCS shard.  It is dead for good; its name is free."""

    actor_id: ActorID


class FindActor(Message, tag=65):
    """driver, worker -> local scheduler.  Which actor has this name?  is_weak: the sender's handle will not count."""

    request: int
    namespace: Text
    name: Text
    is_weak: bool = False


class FindActorReply(Message, tag=66):
    """local scheduler -> driver, worker.  actor_id b"" when there is none; else the receiver now holds its object.

    node: where it lives; the receiver wanted a weak handle, and holds nothing.
    """

    request: int
    actor_id: ShortBytes
    handle: Payload
    node: Text = ""


class LookUpActor(Message, tag=67):
    """local scheduler -> GCS shard."""

    namespace: Text
    name: Text


class LookUpActorReply(Message, tag=68):
    """GCS shard -> local scheduler."""

    namespace: Text
    name: Text
    actor_id: ShortBytes
    handle: Payload
    node: Text


class FindActorNames(Message, tag=271):
    """driver, worker -> local scheduler.  Which names do living actors have: in this namespace, or in_all of them?"""

    request: int
    namespace: Text
    in_all: bool = False


class ActorNamesFound(Message, tag=272):
    """local scheduler -> driver, worker.  (namespace, name), in order."""

    request: int
    names: Many[tuple[Text, Text]]


class LookUpActorNames(Message, tag=273):
    """local scheduler -> GCS shard.  As in FindActorNames."""

    request: int
    namespace: Text
    in_all: bool = False


class ActorNamesListed(Message, tag=274):
    """GCS shard -> local scheduler.  Those that are this shard's."""

    request: int
    names: Many[tuple[Text, Text]]


class KillActor(Message, tag=69):
    """driver, worker -> local scheduler -> local scheduler of its node.  At once; pending calls fail.

    found_at: as in TaskOptions.
    """

    actor_id: ActorID
    no_restart: bool = True
    found_at: Text = ""


class StartActor(Message, tag=70):
    """local scheduler -> worker.  Become this actor: run the creation task."""

    spec: TaskSpec
    options: ActorOptions
    functions: Plenty[Function]
    arguments: Plenty[Argument]
    restart_count: int = 0
    # Of one that recovers (ActorSaved): where it goes on.
    checkpoint: Annotated[bytes, Meta(max_length=OBJECT_ID_BYTES)] = b""  # b"": where its constructor leaves it
    call_count: Natural = 0  # so many calls are in that
    calls: Plenty[TaskSpec] = []  # those since, to be run again; readonly ones for what they return
    again: Plenty[ObjectID] = []  # what some of these return is to be put, until the actor has started
    failed: Plenty[TaskID] = []  # those of them that returned an error
    gpus: Many[Text] | None = None  # those that it has, as CUDA_VISIBLE_DEVICES names them; None: the node has none


class ActorSaved(Message, tag=197):
    """worker -> local scheduler.  The actor's state after so many calls is an object, which the sender has put.

    Calls that are readonly are not counted.
    """

    actor_id: ActorID
    object_id: ObjectID
    call_count: Natural


class ActorStarted(Message, tag=71):
    """worker -> local scheduler.  The constructor returned.

    has_shutdown: its class has something to run before the process ends, unless that is killed.
    """

    actor_id: ActorID
    has_shutdown: bool = False


class ActorStartFailed(Message, tag=72):
    """worker -> local scheduler.  The constructor raised; error is an error value."""

    actor_id: ActorID
    error: Payload


class ActorExited(Message, tag=73):
    """worker -> local scheduler.  The actor left by itself; it is not restarted."""

    actor_id: ActorID
    reason: Text


class SpillActor(Message, tag=170):
    """local scheduler -> global scheduler.  No room for it here now; origin is the sender's address.

    may_borrow: also on CPUs that tasks have lent out while they wait: perhaps they wait for this actor.
    """

    spec: TaskSpec
    options: ActorOptions
    origin: Text
    life: ActorLife
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    may_borrow: bool = False


class PlaceActor(Message, tag=171):
    """global scheduler -> local scheduler.  Have it, if there is room; it starts when its origin hands it over."""

    spec: TaskSpec
    options: ActorOptions
    origin: Text
    life: ActorLife
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    may_borrow: bool = False


class ActorAccepted(Message, tag=172):
    """local scheduler -> local scheduler of the origin.  The refs that its constructor takes are held here too."""

    actor_id: ActorID
    birth: Text


class ActorHandedOver(Message, tag=173):
    """local scheduler of the origin -> local scheduler.  It is yours: claim it, and start it.

    What was accepted may have been an offer of an earlier life.
    """

    actor_id: ActorID
    life: ActorLife  # as it is there


class ActorDeferred(Message, tag=174):
    """global scheduler, local scheduler -> local scheduler of the origin.  Nobody has room for it now."""

    actor_id: ActorID


class ForwardCalls(Message, tag=179):
    """local scheduler -> local scheduler.  Calls on actors there, in order."""

    specs: Many[TaskSpec]
    attempts: Many[Natural] = []  # that each of them has had; empty: none
    answered: Many[TaskID] = []  # of these, the ones that are not run: their answer, lost since, is to be given again


class CallsAccepted(Message, tag=180):
    """local scheduler -> local scheduler.  The refs that these calls take are held here too."""

    task_ids: Many[TaskID]


class CallResult(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """What became of one call.  For each return its value, or the size in bytes of what lies at the sender's node."""

    task_id: TaskID
    values: Many[Payload | Natural]


class CallsFinished(Message, tag=181):
    """local scheduler -> local scheduler of the caller.  receipt: to be acknowledged by that (AnswersTaken); 0: not.

    A result of which something is large, and that is to be acknowledged, comes alone.
    """

    results: Many[CallResult]
    receipt: Natural = 0


class ResultsHeld(Message, tag=182):
    """local scheduler of the caller -> local scheduler.  The shards know that it holds these."""

    object_ids: Many[ObjectID]
