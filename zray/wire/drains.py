"""Dialog: orderly removal of a node from the cluster (`zray drain`).

command line      OrderDrain -> DrainReply     at the head: make the node leave; the work that it still waits for
                                               at the node itself: likewise, by its whole id
monitor           DrainNode                    to that node: accept no work, finish, hand over, leave
local scheduler   DrainReport                  to the monitor, regularly: remaining work; in the end that none is left
local scheduler   TakeCopies -> CopiesTaken    to other nodes: take these objects, since the sender leaves
"""

from ..ids import ObjectID
from .limits import Many, Text
from .message import Message, Natural, routed


class DrainNode(Message, tag=routed(210, "monitor -> local")):
    """The order to leave the cluster as soon as possible."""


class DrainReport(Message, tag=routed(211, "local -> monitor")):
    """`waits_for` says in words what must end first.

    `is_done`: nothing of other nodes is left here.
    """

    node: Text
    waits_for: Many[Text]
    is_done: bool = False


class TakeCopies(Message, tag=routed(212, "local -> local")):
    """A request to take copies of these objects of the sender, given as (object, size in bytes).

    A message without objects requests an answer once the receiver has all objects named so far.
    """

    request: int
    objects: Many[tuple[ObjectID, Natural]]


class CopiesTaken(Message, tag=routed(213, "local -> local")):
    """These objects are here, and the shards know that.

    `is_leaving`: no object is here, since the sender of this message leaves too.
    """

    request: int
    object_ids: Many[ObjectID]
    is_leaving: bool = False


class OrderDrain(Message, tag=routed(214, "command -> host")):
    """The order to make a node leave.  `name` is its id, or the beginning of its id.

    A repeated order asks for the progress.

    After `seconds` the node leaves in any case, with work unfinished; 0 means no time limit.
    """

    request: int
    name: Text
    seconds: float = 0.0


class DrainReply(Message, tag=routed(215, "host -> command")):
    """The progress of a drain.  `node` is the id of the draining node.

    `is_gone`: the node is no longer a member.

    `reason` says why the node left with unfinished work; "": it has left in order.
    """

    request: int
    node: Text
    waits_for: Many[Text]
    is_gone: bool = False
    reason: Text = ""
