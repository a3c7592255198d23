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
"""

from __future__ import annotations

from ..ids import ActorID
from .message import Message
from .task_spec import ActorOptions, TaskSpec
from .tasks import Argument, Function


class CreateActor(Message, tag=60):
    """driver, worker -> local scheduler.  ActorID = the spec's task id; the sender holds its first return."""

    spec: TaskSpec
    options: ActorOptions


class RegisterActor(Message, tag=61):
    """local scheduler -> GCS shard.  Into the actor table; named ones only if the name is free."""

    actor_id: ActorID
    options: ActorOptions
    node: str


class ActorRegistered(Message, tag=62):
    """GCS shard -> local scheduler."""

    actor_id: ActorID


class ActorNameTaken(Message, tag=63):
    """GCS shard -> local scheduler.  Another living actor has that name in that namespace (definite)."""

    actor_id: ActorID
    holder: bytes


class ActorRemoved(Message, tag=64):
    """local scheduler -> GCS shard.  It is dead for good; its name is free."""

    actor_id: ActorID


class FindActor(Message, tag=65):
    """driver, worker -> local scheduler.  Which actor has this name?"""

    request: int
    namespace: str
    name: str


class FindActorReply(Message, tag=66):
    """local scheduler -> driver, worker.  actor_id b"" when there is none; the sender now holds its object."""

    request: int
    actor_id: bytes
    handle: bytes


class LookUpActor(Message, tag=67):
    """local scheduler -> GCS shard."""

    namespace: str
    name: str


class LookUpActorReply(Message, tag=68):
    """GCS shard -> local scheduler."""

    namespace: str
    name: str
    actor_id: bytes
    handle: bytes
    node: str


class KillActor(Message, tag=69):
    """driver, worker -> local scheduler.  At once; pending calls fail."""

    actor_id: ActorID
    no_restart: bool = True


class StartActor(Message, tag=70):
    """local scheduler -> worker.  Become this actor: run the creation task."""

    spec: TaskSpec
    options: ActorOptions
    functions: list[Function]
    arguments: list[Argument]
    restart_count: int = 0


class ActorStarted(Message, tag=71):
    """worker -> local scheduler.  The constructor returned."""

    actor_id: ActorID


class ActorStartFailed(Message, tag=72):
    """worker -> local scheduler.  The constructor raised; error is an error value."""

    actor_id: ActorID
    error: bytes


class ActorExited(Message, tag=73):
    """worker -> local scheduler.  The actor left by itself; it is not restarted."""

    actor_id: ActorID
    reason: str
