"""Dialog: values put by processes, references to values, and the bytes in the arena.

driver, worker    AllocateObject    request of space for a large value
object manager    ObjectAllocated / AllocateRefused
driver, worker    PutObjects        values (small inline, large by location): sealed
driver, worker    AbandonObject     the writer stopped between the two
driver, worker    HoldObjects / ReleaseObjects    the process's first ref came / the last ref went
driver, worker    UnpinObjects      the process no longer reads these places
local scheduler   ReturnPlaces      to processes told of places -> UnpinObjects, of places not being read
driver, worker    FreeValues        the program needs the values no longer; to the other nodes too
local scheduler   ValuesFreed       to the processes with refs on them
local scheduler   SealObjects, FreeObjects, FetchObject, StopFetching    to its object manager
object manager    ClaimObject -> ObjectClaimed    the value is here already
object manager    ObjectFetched / FetchFailed    exactly one of the two, for each FetchObject
object manager    FetchWaits        for space -> StopFetching, if no space will come
object manager    PullObject -> ObjectChunk ..., ObjectInline, PullElsewhere or PullRefused    at another node's
object manager    PullDone          to the object manager that served the pull
local scheduler   PutMissing        to the node that runs the task: no copy exists of a value put by the task
local scheduler   ResultMissing     to the node that accepted the task: no copy exists of a return
"""

from typing import Annotated

from msgspec import Meta, Struct

from ..exceptions import encode_system_error
from ..ids import ObjectID
from .limits import Many, Payload, Plenty, Refs, Text
from .message import Bulk, Message, Natural, routed
from .task_spec import StoredValue


class PutObject(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A value stored by a process.  The sender holds a ref on the object."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()  # refs inside the value, which live as long as the value
    made: Text = ""  # where a large value was put, for the user: file and line


class PutObjects(Message, tag=routed(30, "driver, worker -> local")):
    """Objects that the process has put, with their values."""

    objects: Plenty[PutObject]


class HoldObjects(Message, tag=routed(31, "driver, worker -> local")):
    """The process was handed these objects, and now has refs on them."""

    object_ids: Plenty[ObjectID]


class ReleaseObjects(Message, tag=routed(32, "driver, worker -> local")):
    """The process's last refs on these objects are gone."""

    object_ids: Plenty[ObjectID]


class FreeValues(Message, tag=routed(58, "driver, worker -> local -> local")):
    """The order to free the values of these objects, whoever has refs on them.

    An error takes the place of each value that is at the receiver.  A task's unfinished result stays.

    `are_lost`: a test has the stores lose large values.  Nothing takes their places, so that they are made again.
    """

    object_ids: Many[ObjectID]
    are_lost: bool = False


class ValuesFreed(Message, tag=routed(59, "local -> driver, worker")):
    """The values of these objects are freed.  The process has refs on them.

    `are_lost`: the process asks for them again.
    """

    object_ids: Many[ObjectID]
    are_lost: bool = False


def error_of_freed(object_id: ObjectID) -> bytes:
    """Return the value that replaces a freed value."""
    text = f"The value of ObjectRef({object_id.hex()}) was freed by the program, with zray.util.free."
    return encode_system_error("ObjectFreedError", text)


class UnpinObjects(Message, tag=routed(33, "driver, worker -> local")):
    """The process no longer reads these objects.

    Each count is the number of times that the process was told the place.
    """

    pins: Plenty[tuple[ObjectID, int]]


class ReturnPlaces(Message, tag=routed(283, "local -> driver, worker")):
    """The store is full: the process forgets the places of these values that no array reads.

    The process answers with UnpinObjects, and asks for a value again when the program needs the value.
    """

    object_ids: Many[ObjectID]


class InlineLimit(Message, tag=routed(24, "local -> driver, worker, local")):
    """Values larger than `bytes_max` are written into the arena from now on.

    To another local scheduler: keep the returns of the sender's tasks and calls that are larger than `bytes_max` until
    asked for them.
    """

    bytes_max: Natural


class PutMissing(Message, tag=routed(26, "local -> local")):
    """A process waits for this put object, and no copy exists.  The receiver runs the task that puts the object.

    If the task has put the object already, and will not do so again, the shard is told (CannotRebuild).
    """

    object_id: ObjectID


class ResultMissing(Message, tag=routed(27, "local -> local")):
    """A result has no copy.  The receiver accepted the task that returns the object.

    An item of a generator that still runs is made again by a further run.
    If a copy exists by now, or the task is in hand, the shard hears of the copy or task.  Otherwise the task is
    returned with these numbers (TaskGivenBack).
    """

    object_id: ObjectID
    trip: Natural
    attempts: Natural


class AllocateObject(Message, tag=routed(34, "driver, worker -> objects")):
    """A request of space in the arena.  `size` is in bytes; `made` says how the value is made, for the user."""

    object_id: ObjectID
    size: Natural
    made: Text = ""


class ObjectAllocated(Message, tag=routed(35, "objects, local -> driver, worker")):
    """The sender of the request may write the range, until PutObjects names the object.

    `reserved` counts the bytes from the start whose pages exist.  More bytes come in PagesReserved.

    A `reserved` of -1 means that a complete object already exists: a task that runs again puts the value of its
    first run.  The process then writes nothing and uses the place, which counts as told once.
    """

    object_id: ObjectID
    place: StoredValue
    reserved: Annotated[int, Meta(ge=-1)]


class PagesReserved(Message, tag=routed(36, "objects -> driver, worker")):
    """The first `reserved` bytes of the range may be written from now on."""

    object_id: ObjectID
    reserved: Natural


class AllocateRefused(Message, tag=routed(37, "objects -> driver, worker")):
    """No space is left.  The reason names the contents of the store (definite).

    `size` is that of the request, in bytes: a writer that has asked for another size since waits for its own answer.
    `is_disk_full`: values that nobody reads could not be spilled either.
    """

    object_id: ObjectID
    size: Natural
    reason: Text
    is_disk_full: bool = False


class AbandonObject(Message, tag=routed(38, "driver, worker -> objects")):
    """An allocated range that will not be sealed."""

    object_id: ObjectID


class ClaimObject(Message, tag=routed(51, "objects -> local")):
    """A process requests space for an object that is here, sealed."""

    object_id: ObjectID
    process: Text


class ObjectClaimed(Message, tag=routed(52, "local -> objects")):
    """The process was told the place of the object, and needs no space."""

    object_id: ObjectID
    process: Text


class SealObjects(Message, tag=routed(40, "local -> objects")):
    """Objects that are written, and immutable from now on."""

    object_ids: Plenty[ObjectID]


class FreeObjects(Message, tag=routed(41, "local -> objects")):
    """Objects without refs and without readers."""

    object_ids: Plenty[ObjectID]


class ProcessGone(Message, tag=routed(42, "local -> objects")):
    """Ranges that the process had allocated and not sealed are free again."""

    process: Text


class FetchObject(Message, tag=routed(43, "local -> objects")):
    """The order to bring the object here from the object manager of one of these nodes.

    `is_small`: the object travels inside messages, and needs no space in the arena.  `is_urgent`: the waiter is running
    already.  A second order may make a present order urgent.
    """

    object_id: ObjectID
    size: Natural
    holders: Many[Text]
    is_small: bool = False
    is_urgent: bool = False


class ObjectFetched(Message, tag=routed(44, "objects -> local")):
    """The object is here.  A small value stands inline."""

    object_id: ObjectID
    value: Payload | StoredValue
    contained: Refs = ()


class FetchFailed(Message, tag=routed(45, "objects -> local")):
    """No holder delivered the object.

    `is_definite`: the object can never be here.
    """

    object_id: ObjectID
    reason: Text
    is_definite: bool = False


class StopFetching(Message, tag=routed(56, "local -> objects")):
    """The order to stop the fetch, and to answer FetchFailed, unless the object has come already.

    `reason` says why the object can never be here (`is_definite`); "" if nobody wants the object any more.
    """

    object_id: ObjectID
    reason: Text = ""


class FetchWaits(Message, tag=routed(57, "objects -> local")):
    """The store has been full for `seconds`, and the object has no space.

    Nothing else arrives either.
    """

    object_id: ObjectID
    seconds: float
    reason: Text  # contents of the full store


class PullObject(Message, tag=routed(46, "objects -> objects")):
    """A request for the bytes [offset, offset + length), chunk by chunk.

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


class ObjectChunk(Message, tag=routed(47, "objects -> objects")):
    """Bytes [offset, offset + len(data)) of `size`."""

    object_id: ObjectID
    ticket: Natural
    size: Natural
    offset: Natural
    data: Bulk
    contained: Refs = ()  # the refs inside, with the first chunk


class ObjectInline(Message, tag=routed(53, "objects -> objects")):
    """A value outside the arena here.  The puller need not store it in an arena."""

    object_id: ObjectID
    ticket: Natural
    value: Payload
    contained: Refs = ()


class PullRefused(Message, tag=routed(48, "objects -> objects")):
    """The object is not here, or no longer here."""

    object_id: ObjectID
    ticket: Natural


class PullElsewhere(Message, tag=routed(54, "objects -> objects")):
    """The sender already serves the object to its maximum of nodes.

    Ask `source`, which pulls the object too, or has it.
    """

    object_id: ObjectID
    ticket: Natural
    source: Text


class PullDone(Message, tag=routed(55, "objects -> objects")):
    """The puller needs no more bytes of the object from the receiver.

    `is_whole`: the puller has the whole object.
    """

    object_id: ObjectID
    ticket: Natural
    is_whole: bool = False


class ReadInline(Message, tag=routed(49, "objects -> local")):
    """A pull has come.  The answer names the refs inside, and a small value."""

    object_id: ObjectID
    puller: Text


class InlineRead(Message, tag=routed(50, "local -> objects")):
    """The small value, and the refs inside the object.

    The value None means: not here, or in the arena.
    """

    object_id: ObjectID
    puller: Text
    value: Payload | None
    contained: Refs = ()
