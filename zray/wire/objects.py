"""Dialog: values put by processes, references to them, and the bytes in the arena.

driver, worker    AllocateObject    request of space for a large value
object manager    ObjectAllocated / AllocateRefused
driver, worker    PutObjects        values (small inline, large by location): sealed
driver, worker    AbandonObject     the writer stopped between the two
driver, worker    HoldObjects / ReleaseObjects    the process's first ref on them came / its last ref went
driver, worker    UnpinObjects      the process no longer reads these places
driver, worker    FreeValues        the program needs these values no longer; to the other nodes too
local scheduler   ValuesFreed       to the processes with refs on them
local scheduler   SealObjects, FreeObjects, FetchObject, StopFetching    to its object manager
object manager    ClaimObject -> ObjectClaimed    the value is here already
object manager    ObjectFetched / FetchFailed    exactly one of the two, for each FetchObject
object manager    FetchWaits        for space -> StopFetching, if no space will come
object manager    PullObject -> ObjectChunk ..., ObjectInline, PullElsewhere or PullRefused    at another node's
object manager    PullDone          to the object manager that served the pull
local scheduler   PutMissing        to the node that runs the task: no copy exists of a value that the task puts
local scheduler   ResultMissing     to the node that accepted the task: no copy exists of a value that the task returns
"""

from typing import Annotated

from msgspec import Meta, Struct

from ..exceptions import encode_system_error
from ..ids import ObjectID
from .limits import Many, Payload, Plenty, Refs, Text
from .message import Bulk, Message, Natural
from .task_spec import StoredValue


class PutObject(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value that a process stores.  The sender holds a ref on the object."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()  # refs inside the value, which live as long as the value


class PutObjects(Message, tag=30):
    """driver, worker -> local scheduler."""

    objects: Plenty[PutObject]


class HoldObjects(Message, tag=31):
    """driver, worker -> local scheduler.  The process was handed these objects, and now has refs on them."""

    object_ids: Plenty[ObjectID]


class ReleaseObjects(Message, tag=32):
    """driver, worker -> local scheduler.  The process's last refs on these are gone."""

    object_ids: Plenty[ObjectID]


class FreeValues(Message, tag=58):
    """driver, worker -> local scheduler -> local scheduler.  Free the values of these objects, whoever has refs
    on them.

    An error takes the place of each value that is at the receiver.  A task's unfinished result stays.
    """

    object_ids: Many[ObjectID]


class ValuesFreed(Message, tag=59):
    """local scheduler -> driver, worker.  The values of these objects are freed.  The process has refs on them."""

    object_ids: Many[ObjectID]


def error_of_freed(object_id: ObjectID) -> bytes:
    """The value that takes the place of a freed one."""
    text = f"The value of ObjectRef({object_id.hex()}) was freed by the program, with zray.util.free."
    return encode_system_error("ObjectFreedError", text)


class UnpinObjects(Message, tag=33):
    """driver, worker -> local scheduler.  The process no longer reads these objects.

    Each count is the number of times that the process was told the place.
    """

    pins: Plenty[tuple[ObjectID, int]]


class InlineLimit(Message, tag=24):
    """local scheduler -> driver, worker.  From now on larger values than `bytes_max` are written into the arena.

    To another local scheduler: keep the returns of the sender's tasks and calls that are larger than `bytes_max` until
    asked for them.
    """

    bytes_max: Natural


class PutMissing(Message, tag=26):
    """local scheduler -> local scheduler, which runs the task that puts the object.  A process waits, and no copy
    exists.

    If the task has put the object already, and will not do so again, the shard is told (CannotRebuild).
    """

    object_id: ObjectID


class ResultMissing(Message, tag=27):
    """local scheduler -> local scheduler, which accepted the task that returns the object.  No copy exists.

    If a copy exists by now, or the task is in hand, the shard hears of that.  Otherwise the task is returned with these
    numbers (TaskGivenBack).
    """

    object_id: ObjectID
    trip: Natural
    attempts: Natural


class AllocateObject(Message, tag=34):
    """driver, worker -> object manager.  A request of space in the arena.  `size` is in bytes."""

    object_id: ObjectID
    size: Natural


class ObjectAllocated(Message, tag=35):
    """object manager -> driver, worker.  The sender of the request may write the range, until PutObjects names it.

    `reserved` counts the bytes from the start whose pages exist.  More bytes come in PagesReserved.

    A `reserved` of -1 means that the object is already there, complete: a task that runs again puts the value of its
    first run.  The process then writes nothing and uses the place, which counts as told once.
    """

    object_id: ObjectID
    place: StoredValue
    reserved: Annotated[int, Meta(ge=-1)]


class PagesReserved(Message, tag=36):
    """object manager -> driver, worker.  From now on `reserved` bytes from the start may be written."""

    object_id: ObjectID
    reserved: Natural


class AllocateRefused(Message, tag=37):
    """object manager -> driver, worker.  No space is left.  The reason names the contents of the store (definite)."""

    object_id: ObjectID
    reason: Text


class AbandonObject(Message, tag=38):
    """driver, worker -> object manager.  An allocated range that will not be sealed."""

    object_id: ObjectID


class ClaimObject(Message, tag=51):
    """object manager -> local scheduler.  A process requests space for an object that is here, sealed."""

    object_id: ObjectID
    process: Text


class ObjectClaimed(Message, tag=52):
    """local scheduler -> object manager.  The process was told the place of the object, and needs no space."""

    object_id: ObjectID
    process: Text


class SealObjects(Message, tag=40):
    """local scheduler -> object manager.  Objects that are written, and immutable from now on."""

    object_ids: Plenty[ObjectID]


class FreeObjects(Message, tag=41):
    """local scheduler -> object manager.  Objects without refs and without readers."""

    object_ids: Plenty[ObjectID]


class ProcessGone(Message, tag=42):
    """local scheduler -> object manager.  Ranges that the process had allocated and not sealed are free again."""

    process: Text


class FetchObject(Message, tag=43):
    """local scheduler -> object manager.  Bring the object here from the object manager of one of these nodes.

    `is_small`: the object travels inside messages, and needs no space in the arena.  `is_urgent`: the waiter is running
    already.  A second order may make a present order urgent.
    """

    object_id: ObjectID
    size: Natural
    holders: Many[Text]
    is_small: bool = False
    is_urgent: bool = False


class ObjectFetched(Message, tag=44):
    """object manager -> local scheduler.  The object is here.  A small value stands inline."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()


class FetchFailed(Message, tag=45):
    """object manager -> local scheduler.  None of the holders delivered the object.

    `is_definite`: the object can never be here.
    """

    object_id: ObjectID
    reason: Text
    is_definite: bool = False


class StopFetching(Message, tag=56):
    """local scheduler -> object manager.  Stop the fetch, and answer FetchFailed, unless the object is here already.

    `reason` says why the object can never be here (`is_definite`); "" if nobody wants the object any more.
    """

    object_id: ObjectID
    reason: Text = ""


class FetchWaits(Message, tag=57):
    """object manager -> local scheduler.  The store has been full for `seconds`, and the object has no space.

    Nothing else arrives either.
    """

    object_id: ObjectID
    seconds: float
    reason: Text  # contents of the full store


class PullObject(Message, tag=46):
    """object manager -> object manager.  Send the bytes [offset, offset + length), chunk by chunk.

    `ticket` is drawn by the puller, and covers all requests for the object to one node until PullDone.  Until then the
    bytes at that node stay unchanged.  The requested and not yet received bytes of a puller are bounded.  No other flow
    control exists.

    `whole_only` refuses a copy that is itself still being pulled.  The puller prefers to wait.
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
    """object manager -> object manager.  A value outside the arena here.  The puller need not store it in an arena."""

    object_id: ObjectID
    ticket: Natural
    value: Payload
    contained: Refs = ()


class PullRefused(Message, tag=48):
    """object manager -> object manager.  The object is not here, or no longer here."""

    object_id: ObjectID
    ticket: Natural


class PullElsewhere(Message, tag=54):
    """object manager -> object manager.  The sender already serves the object to its maximum of nodes.

    Ask `source`, which pulls the object too, or has it.
    """

    object_id: ObjectID
    ticket: Natural
    source: Text


class PullDone(Message, tag=55):
    """object manager -> object manager.  The puller needs no more bytes of the object from the receiver.

    `is_whole`: the puller has the whole object.
    """

    object_id: ObjectID
    ticket: Natural
    is_whole: bool = False


class ReadInline(Message, tag=49):
    """object manager -> its local scheduler.  A pull has come.  The answer names the refs inside, and a small value."""

    object_id: ObjectID
    puller: Text


class InlineRead(Message, tag=50):
    """local scheduler -> its object manager.  The small value, and the refs inside the object.

    The value None means: not here, or in the arena.
    """

    object_id: ObjectID
    puller: Text
    value: Payload | None
    contained: Refs = ()
