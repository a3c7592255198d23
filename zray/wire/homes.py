"""Dialog: where actors live, and what becomes of them when that node is lost.

local scheduler    ActorAt           to the actor's shard: it lives here.  -> ActorClaimed, or ActorRefused
                                     or, of its former home: it is to live there
local scheduler    ActorKilled       to the actor's shard: by kill(); its node may be lost before it can say so
local scheduler    ActorForgotten    to the actor's shard: it is dead, and nobody holds a handle
local scheduler    LocateActor -> ActorLocated
local scheduler    GuardActor        to the guardian: have it, should I be lost
local scheduler    ActorGuarded      back: I hold what its constructor takes
local scheduler    ActorRestarted    to the guardian: its process was replaced here
local scheduler    UnguardActor      to the guardian: it is dead, or somebody else guards it
local scheduler    GuardianLeaves    back: find others
local scheduler    HoldCalls         to all others: I am to leave; keep your calls until my actors are elsewhere
local scheduler    ActorUnguarded    the guardian, to the actor's shard: I do not have it any more
GCS shard          ActorOrphaned     to the guardian: its node is lost.  It claims it; or -> ActorUnguarded

An actor that may be restarted has a *guardian*: the local scheduler of another node, which knows how it was made and
holds what its constructor takes.  When the actor's node is lost, the guardian claims it, and has it made again.

The shard of the actor's id is the one authority.  Each time an actor gets a new home its term is one higher; the shard
takes no claim of a term that it has seen.  An actor that is made anew, by a task that runs again, has another birth.
"""

from __future__ import annotations

from msgspec import Struct

from ..ids import ActorID
from .limits import ShortBytes, Text
from .message import Message, Natural
from .scheduling import JobFacts
from .task_spec import ActorOptions, TaskSpec


class ActorLife(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """Which life of an actor is meant."""

    birth: Text  # its maker's address, and which of its makings
    term: Natural = 0  # how many homes it has had before
    restart_count: Natural = 0


class ActorAt(Message, tag=175):
    """local scheduler -> GCS shard of the actor.  It lives at `node`; unless is_settled, that may change.

    Of the node where it is to live, or of the one that hands it over to that.
    """

    actor_id: ActorID
    node: Text
    life: ActorLife
    is_settled: bool = True
    guardian: Text = ""  # a local scheduler; "": none


class ActorClaimed(Message, tag=183):
    """GCS shard -> local scheduler.  It is yours, under that term.  is_held: somebody has a handle."""

    actor_id: ActorID
    life: ActorLife
    is_held: bool
    is_killed: bool = False  # by kill(), for good


class ActorKilled(Message, tag=196):
    """local scheduler -> GCS shard.  A process of the sender's has killed it for good; its node is told too."""

    actor_id: ActorID


class ActorRefused(Message, tag=184):
    """GCS shard, local scheduler -> local scheduler.  It is not yours: it was made anew, or lives elsewhere.

    is_gone: it is dead, and nobody has a handle.
    """

    actor_id: ActorID
    birth: Text
    is_gone: bool = False


class ActorForgotten(Message, tag=176):
    """local scheduler -> GCS shard of the actor.  It is dead, and nobody holds a handle."""

    actor_id: ActorID
    node: Text


class LocateActor(Message, tag=177):
    """local scheduler -> GCS shard of the actor.  wait: the answer comes when it is known, else at once.

    lost: where it was so far; answered when it is elsewhere, or dead.
    """

    actor_id: ActorID
    node: Text
    wait: bool = True
    lost: Text = ""


class ActorLocated(Message, tag=178):
    """GCS shard -> local scheduler.  node "": not known, or gone with its node, which `lost` then names.

    is_coming: it is made again elsewhere; another answer will say where.
    """

    actor_id: ActorID
    node: Text
    lost: Text = ""
    is_coming: bool = False


class GuardActor(Message, tag=185):
    """local scheduler -> local scheduler.  Guard this actor, which lives at the sender's node.

    is_unseen: of one that recovers: nobody has seen anything that it did, so its constructor may begin anew.
    """

    spec: TaskSpec
    options: ActorOptions
    life: ActorLife
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    is_unseen: bool = False


class ActorGuarded(Message, tag=186):
    """local scheduler -> local scheduler.  The refs that its constructor takes are held here too."""

    actor_id: ActorID
    birth: Text


class ActorRestarted(Message, tag=187):
    """local scheduler -> local scheduler.  An actor that you guard has another process, at the sender's node."""

    actor_id: ActorID
    life: ActorLife


class UnguardActor(Message, tag=188):
    """local scheduler -> local scheduler.  Do not guard it any more.  is_dead: so its name, if it has one, is free."""

    actor_id: ActorID
    birth: Text
    is_dead: bool


class ActorUnguarded(Message, tag=189):
    """local scheduler -> GCS shard of the actor.  The sender does not guard it any more, in that home of it."""

    actor_id: ActorID
    birth: Text
    term: Natural


class ActorOrphaned(Message, tag=270):
    """GCS shard -> local scheduler.  Its node is lost, and you guard it, as that node has said.

    What the guardian has said since may have come ahead of that, and changed nothing.
    """

    actor_id: ActorID
    birth: Text
    term: Natural


class GuardianLeaves(Message, tag=198):
    """local scheduler -> local scheduler.  I am to leave: have others guard your actors."""


class HoldCalls(Message, tag=275):
    """local scheduler -> local scheduler.  I am to leave: send no calls on actors to me.  is_over: do so again."""

    is_over: bool
