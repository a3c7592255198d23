"""Dialog: a node that is to leave the cluster in order (`zray drain`).

command line      OrderDrain -> DrainReply     at the head: have it leave; what it still waits for
monitor           DrainNode                    to that node: take nothing on, finish, hand over, leave
local scheduler   DrainReport                  to the monitor, regularly: what we wait for; in the end that we are done
local scheduler   TakeCopies -> CopiesTaken    among each other: have these objects, since I leave
"""

from __future__ import annotations

from ..ids import ObjectID
from .limits import Many, Text
from .message import Message, Natural


class DrainNode(Message, tag=210):
    """monitor -> local scheduler.  Leave, as soon as you can."""


class DrainReport(Message, tag=211):
    """local scheduler -> monitor.  What has to end first, in words; is_done: nothing of others is here any more."""

    node: Text
    waits_for: Many[Text]
    is_done: bool = False


class TakeCopies(Message, tag=212):
    """local scheduler -> local scheduler.  (object, size in bytes) that are here, and are to be with you.

    Without objects: answer, so that I know that you have all that I have said.
    """

    request: int
    objects: Many[tuple[ObjectID, Natural]]


class CopiesTaken(Message, tag=213):
    """local scheduler -> local scheduler.  These are here, and the shards know it.

    is_leaving: none, since the one that says this is to leave itself.
    """

    request: int
    object_ids: Many[ObjectID]
    is_leaving: bool = False


class OrderDrain(Message, tag=214):
    """command line -> node.  Have that node leave: its id, or how it begins.  May be said again, to see how far it is.

    seconds: after so long it leaves whatever it still does; 0: it takes what it takes.
    """

    request: int
    name: Text
    seconds: float = 0.0


class DrainReply(Message, tag=215):
    """node -> command line.  node: its id.  is_gone: it is no member any more.

    reason: why, where it had not finished; "": it has left in order.
    """

    request: int
    node: Text
    waits_for: Many[Text]
    is_gone: bool = False
    reason: Text = ""
