"""Dialog: the holders of actors' handles on all nodes, for actors that only hold handles of each other.

GCS shard, local scheduler    HandleReleased             to an actor's home: something has let go of the handle
local scheduler               FindHolders -> FindHoldersReply       to the shards: the nodes that hold the handles
local scheduler               TraceHandles -> TraceHandlesReply     to these nodes and the homes: the holders there
local scheduler               EndTrace                   to the same nodes: nothing else holds these actors, which end
local scheduler               SeekNamed -> NamedFound    to an actor's home: a process has found the actor by its name

The asker traces an actor without a holder in sight: from the actor to the actors that hold it, to those that hold
these, and so on.  The trace ends where something holds an actor that is no idle actor: then that actor stays, with all
that it leads to.

What is left may be reachable all the same: answers of several nodes are of several moments, and a handle may have
moved from a node that had not answered yet to one that had.  So all is asked twice.  The second questions to shards
leave after the first answers of all nodes, and the second questions to nodes after the second answers of all shards.  A
node says whether anything has changed between its two answers.  If nothing has, and the shards name no other nodes,
the answers held together at one moment.  Actors that nothing could reach at one moment stay unreachable.

A name is another way to an actor.  So who finds an actor by its name asks the actor's home too, after its node has
joined the holders.  From the second question on, a home lets neither such questions nor calls pass to a named actor
until the trace ends.  The home tells the asker of the trace that something has changed: if that comes in time, the
trace ends nothing.
"""

from msgspec import Struct

from ..ids import ActorID
from .limits import Many, Text
from .message import Message, Natural, routed


class HandleReleased(Message, tag=routed(129, "gcs, local -> local")):
    """A node no longer holds the handle of the receiver's actor, and other nodes do.

    A backup node sends this too: a handle that it keeps for another run of the actor's constructor has lost a holder.
    """

    actor_id: ActorID


class FindHolders(Message, tag=routed(127, "local -> gcs")):
    """A question for trace `number` of the sender: which nodes hold the handles of these actors?"""

    number: Natural
    actor_ids: Many[ActorID]


class FindHoldersReply(Message, tag=routed(128, "gcs -> local")):
    """The nodes that hold the handle of each actor of the question."""

    number: Natural
    holders: Many[tuple[ActorID, Many[Text]]]


class TraceHandles(Message, tag=routed(144, "local -> local")):
    """A question for trace `number` of the sender: which actors hold the handles of these actors at the receiver?

    The question comes twice for an actor that may end.
    """

    number: Natural
    actor_ids: Many[ActorID]


class HandleFacts(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """The holders of an actor's handle on a node.  The actor lives there if `is_home`."""

    actor_id: ActorID
    is_home: bool = False
    is_reachable: bool = False  # something holds the actor that is no actor; or the actor never ends without a handle
    is_busy: bool = False  # the actor has calls, starts or restarts
    holders: Many[tuple[ActorID, Text]] = []  # actors that hold the handle, and where they live


class TraceHandlesReply(Message, tag=routed(145, "local -> local")):
    """The answer to TraceHandles.

    `has_changed`: something that the sender has said in this trace is not true any more, or was not for a while.
    """

    number: Natural
    facts: Many[HandleFacts]
    has_changed: bool = False


class EndTrace(Message, tag=routed(146, "local -> local")):
    """Trace `number` of the sender is over.  Those of these actors that live at the receiver end."""

    number: Natural
    actor_ids: Many[ActorID]


class SeekNamed(Message, tag=routed(306, "local -> local")):
    """A process of the sender has found the receiver's actor by its name: does the actor live?"""

    request: Natural
    actor_id: ActorID


class NamedFound(Message, tag=routed(307, "local -> local")):
    """The answer to SeekNamed."""

    request: Natural
    is_gone: bool
