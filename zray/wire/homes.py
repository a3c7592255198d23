"""Dialog: the homes of actors, and failover after the loss of a home.

local scheduler    ActorAt           to the actor's shard: the actor lives here.  -> ActorClaimed, or ActorRefused
                                     or, from its former home: the actor is to live there
local scheduler    ActorKilled       to the actor's shard: by kill(); its node may be lost before it can report that
local scheduler    ActorForgotten    to the actor's shard: the actor is dead, and nobody holds a handle
local scheduler    LocateActor -> ActorLocated
local scheduler    GuardActor        to the backup node: claim the actor if the sender is lost
local scheduler    ActorGuarded      back: the constructor's arguments are held here
local scheduler    ActorRestarted    to the backup node: the actor's process was replaced here
local scheduler    UnguardActor      to the backup node: the actor is dead, or has another backup node
local scheduler    GuardianLeaves    back: choose other backup nodes
local scheduler    HoldCalls         to all others: the sender leaves; keep calls until its actors are elsewhere
local scheduler    ActorUnguarded    the backup node, to the actor's shard: the actor has no backup here any more
                                     or, from a former home: the actor of a former birth has ended here
GCS shard          ActorOrphaned     to the backup node: the home is lost.  A claim follows, or -> ActorUnguarded

An actor that may be restarted has a backup node (*guardian*): the local scheduler of another node.  The backup node
knows the actor's creation task, and holds the constructor's arguments.  When the actor's home is lost, the backup node
claims the actor, and has it re-created.

The shard of the actor's id is the one authority.  Each new home of an actor raises the actor's `term` by one.  The
shard refuses a claim with a term that it has seen.  An actor that is re-created by a re-executed task has another
`birth`.  It starts when the actor of each former birth has ended, or its node is lost.
"""

from msgspec import Struct

from ..ids import ActorID
from .limits import ShortBytes, Text
from .message import Message, Natural, routed
from .scheduling import JobFacts
from .task_spec import ActorOptions, TaskSpec


class ActorLife(Struct, array_like=True, gc=False, forbid_unknown_fields=True, frozen=True):
    """The incarnation of an actor."""

    birth: Text  # address of the creator, and number of the creation
    term: Natural = 0  # number of earlier homes
    restart_count: Natural = 0


class ActorAt(Message, tag=routed(175, "local -> gcs")):
    """The actor lives at `node`, which may change unless `is_settled`.

    The sender is the future home, or the node that hands the actor over.  `is_second`: an earlier run of the creator
    may have created the actor, which awaits ActorClaimed before it starts.
    """

    actor_id: ActorID
    node: Text
    life: ActorLife
    is_settled: bool = True
    guardian: Text = ""  # backup node: a local scheduler; "": none
    is_second: bool = False


class ActorClaimed(Message, tag=routed(183, "gcs -> local")):
    """The actor is the receiver's, in this incarnation.  `is_held`: a handle exists."""

    actor_id: ActorID
    life: ActorLife
    is_held: bool
    is_killed: bool = False  # by kill(), for good


class ActorKilled(Message, tag=routed(196, "local -> gcs")):
    """A process at the sender's node has killed the actor for good.  The actor's node is told too."""

    actor_id: ActorID


class ActorRefused(Message, tag=routed(184, "gcs, local -> local")):
    """The actor is not the receiver's: re-created, or living elsewhere.

    `is_gone`: the actor is dead.  Nobody has a handle, or somebody was told that the actor is lost.  `is_awaited`: the
    actor that is re-created starts when the receiver has ended its own: -> ActorUnguarded.
    """

    actor_id: ActorID
    birth: Text
    is_gone: bool = False
    is_awaited: bool = False


class ActorForgotten(Message, tag=routed(176, "local -> gcs")):
    """The actor is dead, and nobody holds a handle."""

    actor_id: ActorID
    node: Text


class LocateActor(Message, tag=routed(177, "local -> gcs")):
    """A request for the home of an actor.

    With `wait` the answer comes as soon as the home is known, otherwise at once.  `lost` names the former home.  The
    answer then comes when the actor is elsewhere, or dead.
    """

    actor_id: ActorID
    node: Text
    wait: bool = True
    lost: Text = ""


class ActorLocated(Message, tag=routed(178, "gcs -> local")):
    """The home of the actor.

    An empty `node` means an unknown home, or a lost home, which `lost` then names.  `is_coming`: the actor is
    re-created elsewhere.  A further answer will name the new home.  `was_guarded`: a lost actor has had a backup node,
    so effects of its calls may have been seen.
    """

    actor_id: ActorID
    node: Text
    lost: Text = ""
    is_coming: bool = False
    was_guarded: bool = False


class GuardActor(Message, tag=routed(185, "local -> local")):
    """The order to be the backup node of this actor, which lives at the sender's node.

    `is_unseen` says of a recoverable actor that nobody has seen any effect of its calls.  Its constructor may then run
    again.
    """

    spec: TaskSpec
    options: ActorOptions
    life: ActorLife
    job_id: ShortBytes
    job: JobFacts = JobFacts()
    is_unseen: bool = False


class ActorGuarded(Message, tag=routed(186, "local -> local")):
    """The refs that the constructor takes are held here too."""

    actor_id: ActorID
    birth: Text


class ActorRestarted(Message, tag=routed(187, "local -> local")):
    """An actor with its backup here has a new process, at the sender's node."""

    actor_id: ActorID
    life: ActorLife


class UnguardActor(Message, tag=routed(188, "local -> local")):
    """The receiver is no longer the backup node of the actor.

    `is_dead`: the actor is dead.  Its name, if any, is then free.
    """

    actor_id: ActorID
    birth: Text
    is_dead: bool


class ActorUnguarded(Message, tag=routed(189, "local -> gcs")):
    """The sender is no longer the backup node for this home, or no longer the home of an actor of a former birth."""

    actor_id: ActorID
    birth: Text
    term: Natural


class ActorOrphaned(Message, tag=routed(270, "gcs -> local")):
    """The actor's home is lost.  The receiver is the backup node, as reported by that home.

    Later messages of the backup node may have arrived ahead of that report, and changed nothing.
    """

    actor_id: ActorID
    birth: Text
    term: Natural


class GuardianLeaves(Message, tag=routed(198, "local -> local")):
    """The sender leaves.  The receiver must choose other backup nodes for its actors."""


class HoldCalls(Message, tag=routed(275, "local -> local")):
    """The sender leaves.  The receiver must send it no calls on actors.

    `is_over` permits such calls again.
    """

    is_over: bool
