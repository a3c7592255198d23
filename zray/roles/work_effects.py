"""Effects (as in effects.py) that hold back, stop or resume a node's work in exceptional states."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..wire.listing import ObjectFact
from ..wire.message import Local
from ..wire.task_spec import StoredValue


class HoldBack(Struct, gc=False):
    """Limit the messages of local processes to their link buffers; lifted when every requester agrees."""

    is_held: bool


class StopWorkers(Struct, gc=False):
    """Stop all workers and child processes (SIGSTOP), or let them continue (SIGCONT)."""

    are_stopped: bool


class InterruptWorker(Struct, gc=False):
    """Interrupt the user code of a worker; InterruptTask tells the worker which task is meant."""

    worker: str


class HearAgain(Struct):
    """Handle the kept messages now, in order, ahead of all others.

    kept: (sender, message)
    """

    kept: list[tuple[str, Any]]


class HeadIsAlone(Struct, gc=False):
    """Report that the head hears no other machine, or hears some machine again."""

    is_so: bool


class OthersUnheard(Local):
    """Host -> the head's local scheduler: no other machine is heard, in words; "": at least one is."""

    words: str


class RoomWanted(Local):
    """Object manager -> local scheduler: a writer, or an object that is being pulled, finds no room in the store."""


class SpillWanted(Local):
    """Object manager -> local scheduler: so many bytes of the store are lacking, or in use beyond the threshold.

    is_filling: the store is filled by half of its threshold.  is_lacking: a writer or a pull waits for the space.
    writers: the processes that wait.  Said again after each range that was freed meanwhile.
    """

    size: int
    is_filling: bool
    is_lacking: bool = False
    writers: frozenset[str] = frozenset()


class NothingLeaves(Local):
    """Local scheduler -> object manager: processes use all values in the store, and no task that runs frees any."""


class SpillObjects(Local):
    """Local scheduler -> object manager: write these sealed objects to disk.  Outcome: ObjectsSpilled for each."""

    object_ids: list[bytes]


class ObjectsSpilled(Local):
    """Object manager -> local scheduler: these objects have a copy on disk.  reason: they have none, for this reason.

    gone: objects that were freed meanwhile.
    """

    object_ids: list[bytes]
    gone: list[bytes]
    reason: str = ""


class EvictObjects(Local):
    """Local scheduler -> object manager: the ranges of these objects are free, and their copies on disk stay."""

    object_ids: list[bytes]


class SpilledCopyLost(Local):
    """Object manager -> local scheduler: the copy on disk cannot be read.  FetchFailed follows, or ObjectFetched from
    another node.
    """

    object_id: bytes
    reason: str


class CountStore(Local):
    """Local scheduler -> object manager: a request for the store's use in bytes."""


class StoreCounted(Local):
    """Object manager -> local scheduler: the bytes of the store in use."""

    used: int


class WatchMemory(Struct):
    """Tell of workers that use more memory than their limits; MemoryUse each second if tasks wait for free memory.

    limits: bytes by worker, counted from now on.
    """

    limits: dict[str, int]
    is_followed: bool


class MemoryUse(Local):
    """Host -> local scheduler: the memory of the node's machine, in bytes; said as WatchMemory says, and while `used`
    is more than `limit`.

    by_worker: what workers and their children have, in a shortage.  over: workers beyond their limits, and by how many
    bytes they have grown.  largest: the largest processes, for the user.
    """

    used: int
    limit: int
    total: int
    by_worker: dict[str, int] = {}
    over: dict[str, int] = {}
    largest: str = ""


class WriteLine(Struct, gc=False):
    """Write a line into the node's log."""

    text: str


class ReadEvents(Struct, gc=False):
    """Read the event rings of the node's processes, or their metrics, of at most so many bytes.  Outcome:
    EventsRead."""

    request: int
    bytes_max: int
    are_metrics: bool = False


class EventsRead(Local):
    """Outcome of ReadEvents.  left_out: the number of rings that did not fit."""

    request: int
    rings: list[bytes]
    left_out: int = 0


class ReadHeads(Struct, gc=False):
    """Set the first bytes of values in the arena, ahead of what is sent after this."""

    values: list[tuple[ObjectFact, StoredValue]]


class RecordWait(Struct, gc=False):
    """Record a wait of `count` tasks with consecutive ids (wire/events.py, Stage).

    begin, last_begin: when the waits of the first and of the last one began.  attempts: runs that each of them has had.
    """

    stage: int
    task_id: bytes
    begin: float
    last_begin: float
    end: float
    count: int
    name: str
    attempts: int = 0


class RecordFetch(Struct, gc=False):
    """Record the way of a value of `size` bytes to this node."""

    object_id: bytes
    begin: float
    end: float
    size: int


class RecordChange(Struct, gc=False):
    """Record that something enters a state (wire/events.py, Thing and State).

    number: the id of an actor, a group or a program, or the number of a worker; b"": a node, which has a name alone.
    """

    thing: int
    number: bytes
    state: int
    time: float
    name: str
    reason: str
    pid: int = 0


class SessionEnds(Local):
    """Host -> local scheduler: the session ends, so actors with shutdown code stop first.  Outcome:
    ActorsHaveStopped."""


class ActorsHaveStopped(Struct, gc=False):
    """The session may end now (SessionEnds)."""


WorkEffect = (
    HoldBack
    | StopWorkers
    | InterruptWorker
    | HearAgain
    | HeadIsAlone
    | ActorsHaveStopped
    | WatchMemory
    | WriteLine
    | ReadEvents
    | ReadHeads
    | RecordWait
    | RecordFetch
    | RecordChange
)
