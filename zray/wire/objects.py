"""Dialog: values put by processes, references to them, and the bytes in the arena.

driver, worker    AllocateObject    room for a large value, please
object manager    ObjectAllocated / AllocateRefused
driver, worker    PutObjects        here they are (small inline, large by location): sealed
driver, worker    AbandonObject     the writer gave up between the two
driver, worker    HoldObjects / ReleaseObjects    my first ref on them came / my last one went
driver, worker    UnpinObjects      I no longer read these places
local scheduler   SealObjects, FreeObjects, FetchObject, StopFetching    to its object manager
object manager    ClaimObject -> ObjectClaimed    the value is here already
object manager    ObjectFetched / FetchFailed    one of them, for each FetchObject
object manager    FetchWaits        for room -> StopFetching, where none will come
object manager    PullObject -> ObjectChunk ..., ObjectInline, PullElsewhere or PullRefused    at another node's
object manager    PullDone          to the one that it was pulled from
local scheduler   PutMissing        to the one that runs the task: there is no copy of what that puts
local scheduler   ResultMissing     to the one that accepted the task: there is no copy of what that returns
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..ids import ObjectID
from .limits import Many, Payload, Plenty, Refs, Text
from .message import Bulk, Message, Natural
from .task_spec import StoredValue


class PutObject(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One value that a process stores; the sender holds a ref on it."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()  # refs inside the value: they live as long as it does


class PutObjects(Message, tag=30):
    """driver, worker -> local scheduler."""

    objects: Plenty[PutObject]


class HoldObjects(Message, tag=31):
    """driver, worker -> local scheduler.  This process now has refs on these (it was handed them)."""

    object_ids: Plenty[ObjectID]


class ReleaseObjects(Message, tag=32):
    """driver, worker -> local scheduler.  The process's last refs on these are gone."""

    object_ids: Plenty[ObjectID]


class UnpinObjects(Message, tag=33):
    """driver, worker -> local scheduler.  As often as each place was told, it is no longer read."""

    pins: Plenty[tuple[ObjectID, int]]


class InlineLimit(Message, tag=24):
    """local scheduler -> driver, worker.  Values of more bytes than these are written into the arena from now on.

    To another local scheduler: of what the sender's tasks and calls return, keep more than these until asked for it.
    """

    bytes_max: Natural


class PutMissing(Message, tag=26):
    """local scheduler -> local scheduler, which runs the task that puts it.  Somebody waits, and there is no copy: if
    the task has put it, and will not again, tell the shard (CannotRebuild).
    """

    object_id: ObjectID


class ResultMissing(Message, tag=27):
    """local scheduler -> local scheduler, which accepted the task that returns it.  There is no copy: if there is one
    yet, or the task is in hand, all is well (the shard hears of it); else give it back, with these (TaskGivenBack).
    """

    object_id: ObjectID
    trip: Natural
    attempts: Natural


class AllocateObject(Message, tag=34):
    """driver, worker -> object manager.  size in bytes."""

    object_id: ObjectID
    size: Natural


class ObjectAllocated(Message, tag=35):
    """object manager -> driver, worker.  The range is the sender's to write, until PutObjects names it.

    reserved: bytes from the start whose pages exist; more come in PagesReserved.  -1: the object is there
    already, complete (a task that runs again puts what its first run has put): write nothing, use the place,
    which counts as told once.
    """

    object_id: ObjectID
    place: StoredValue
    reserved: Annotated[int, Meta(ge=-1)]


class PagesReserved(Message, tag=36):
    """object manager -> driver, worker.  Now so many bytes from the start may be written."""

    object_id: ObjectID
    reserved: Natural


class AllocateRefused(Message, tag=37):
    """object manager -> driver, worker.  There is no room; says what fills it (definite)."""

    object_id: ObjectID
    reason: Text


class AbandonObject(Message, tag=38):
    """driver, worker -> object manager.  An allocated range that will not be sealed."""

    object_id: ObjectID


class ClaimObject(Message, tag=51):
    """object manager -> local scheduler.  A process asks for room for an object that is here, sealed."""

    object_id: ObjectID
    process: Text


class ObjectClaimed(Message, tag=52):
    """local scheduler -> object manager.  The process was told where it is, and needs no room."""

    object_id: ObjectID
    process: Text


class SealObjects(Message, tag=40):
    """local scheduler -> object manager.  Written, immutable from now on."""

    object_ids: Plenty[ObjectID]


class FreeObjects(Message, tag=41):
    """local scheduler -> object manager.  Nobody refers to them or reads them."""

    object_ids: Plenty[ObjectID]


class ProcessGone(Message, tag=42):
    """local scheduler -> object manager.  Ranges it had allocated and not sealed are free again."""

    process: Text


class FetchObject(Message, tag=43):
    """local scheduler -> object manager.  Bring it here from one of these nodes' object managers.

    is_small: it rides inside messages, and needs no room in the arena.  is_urgent: whoever waits for it runs already;
    an order that stands may be made urgent by a second one.
    """

    object_id: ObjectID
    size: Natural
    holders: Many[Text]
    is_small: bool = False
    is_urgent: bool = False


class ObjectFetched(Message, tag=44):
    """object manager -> local scheduler.  It is here: inline when small."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()


class FetchFailed(Message, tag=45):
    """object manager -> local scheduler.  None of the holders gave it; is_definite: it can never be here."""

    object_id: ObjectID
    reason: Text
    is_definite: bool = False


class StopFetching(Message, tag=56):
    """local scheduler -> object manager.  Give it up, and say FetchFailed, unless it is here already.

    reason: why it can never be here (is_definite); "": nobody wants it any more.
    """

    object_id: ObjectID
    reason: Text = ""


class FetchWaits(Message, tag=57):
    """object manager -> local scheduler.  The store has been full for it for so long, and nothing else comes either."""

    object_id: ObjectID
    seconds: float
    reason: Text  # what fills the store


class PullObject(Message, tag=46):
    """object manager -> object manager.  Send me the bytes [offset, offset + length), chunk by chunk.

    ticket: the puller's, one for all that it asks of one node until PullDone; until then the bytes there stay what
    they are.  What it has asked for and not received is bounded: that is all the flow control there is.  whole_only:
    not from a copy that is still being pulled itself; I rather wait.
    """

    object_id: ObjectID
    ticket: Natural
    offset: Natural
    length: Natural
    whole_only: bool = False


class ObjectChunk(Message, tag=47):
    """object manager -> object manager.  Bytes [offset, offset + len(data)) of `size`."""

    object_id: ObjectID
    ticket: Natural
    size: Natural
    offset: Natural
    data: Bulk
    contained: Refs = ()  # the refs inside, with the first chunk


class ObjectInline(Message, tag=53):
    """object manager -> object manager.  It is no arena object here, and need not be one there."""

    object_id: ObjectID
    ticket: Natural
    value: Payload
    contained: Refs = ()


class PullRefused(Message, tag=48):
    """object manager -> object manager.  Not here (any more)."""

    object_id: ObjectID
    ticket: Natural


class PullElsewhere(Message, tag=54):
    """object manager -> object manager.  I give it to as many as I can; ask this one, which pulls it too, or has it."""

    object_id: ObjectID
    ticket: Natural
    source: Text


class PullDone(Message, tag=55):
    """object manager -> object manager.  I need nothing more of it from you.  is_whole: all of it is here."""

    object_id: ObjectID
    ticket: Natural
    is_whole: bool = False


class ReadInline(Message, tag=49):
    """object manager -> its local scheduler.  A pull has come: what is inside, and is it a small value?"""

    object_id: ObjectID
    puller: Text


class InlineRead(Message, tag=50):
    """local scheduler -> its object manager.  The small value (None: not here, or in the arena); the refs inside."""

    object_id: ObjectID
    puller: Text
    value: Payload | None
    contained: Refs = ()
