"""Objects that come from other nodes, in chunks (Ray paper 4.2.3).

A pull waits in `queue` until the arena has room, in the order in which objects were wanted, without overtaking.  So the
arguments of the first task come first, and no two tasks wait for each other's arguments.  Only a pull for a running
process goes ahead (`is_urgent`), because a running process holds room that others need.  A pull then asks one *source*
for several chunks at a time, within the source's window (sources.py).  Chunks go straight from the received frame into
the arena.

The source is a node that has the whole object.  A busy node may redirect the pull to a node that is still pulling the
object (gives.py).  If the source is lost, refuses or falls silent, the pull asks another source for the missing chunks.
A pull that has a chunk already, or serves other nodes, then turns only to complete copies.  So the nodes that pull from
each other form trees, and no node waits for itself.

All requests to a source carry a *ticket*, and so do the answers.  Until PullDone gives the ticket back, the source
keeps the bytes unchanged.  CURVE authenticates every frame, so chunks arrive as sent.  The ticket ensures that chunks
were read from the right range: a chunk with an old ticket is refused.

A timeout for silent sources: pulls turn to other sources.

The first queued pull, while the store is full.

Objects leave the store when their last reference is gone, and the local scheduler counts references.  So the local
scheduler is told every ROOM_SECONDS how long the first pull has waited, while no other pull makes progress.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...wire import gcs, objects, task_spec
from ...wire.objects import FetchWaits
from ..effects import RangeWritten, WriteRange
from ..kept import LOST_MAX, Latest
from ..role import on
from ..work_effects import RoomWanted
from . import sources
from .overflow import GRACE_SECONDS
from .ranges import aligned
from .sources import Windows, object_manager_of

if TYPE_CHECKING:
    from .manager import ObjectManager

# A source that sends nothing for so long is left, if there is another: longer than the verdict on a lost node takes.
SILENCE_SECONDS = 5.0


class Patience:
    """The timer that checks the sources of a node's pulls."""

    def __init__(self, pulls: Pulls) -> None:
        self.pulls = pulls
        self.has_timer = False

    def begin(self) -> None:
        """Start the timer, if necessary, because a pull has begun."""
        if not self.has_timer:
            self.has_timer = True
            self.pulls.manager.after(SILENCE_SECONDS, self.leave_silent)

    def leave_silent(self) -> None:
        """Leave each source that was asked and has been silent for SILENCE_SECONDS, if another can serve the pull."""
        pulls, self.has_timer = self.pulls, False
        if not pulls.coming:
            return
        self.begin()
        for pull in list(pulls.coming.values()):
            is_asking = bool(pull.asked_at) or (pull.is_small and pull.source)
            if not is_asking or pulls.manager.now - pull.heard_at < SILENCE_SECONDS:
                continue
            if pull.source not in pull.sources:
                pull.wants_whole = True
                pulls.go_on(pull)
            elif len(pull.sources) > 1:
                pull.sources.append(pull.sources.pop(pull.sources.index(pull.source)))
                pulls.go_on(pull)


# The same time as a writer is held back in a full store (manager.FULL_SECONDS).
ROOM_SECONDS = 5.0


class Room:
    """The wait for room of a node's first queued pull."""

    def __init__(self, pulls: Pulls) -> None:
        self.pulls = pulls
        self.waiting: Pull | None = None  # the one in front, the last time that there was no room
        self.number = 0  # of its wait
        self.since = 0.0
        self.said = 0  # the wait of which the local scheduler was told that there is no room

    def is_missing(self, pull: Pull) -> None:
        """Begin or continue the wait of the first queued pull, and ask the local scheduler for room."""
        if pull is not self.waiting:
            self.waiting, self.since = pull, self.pulls.manager.now
            self.number += 1
            self._set_timer()
        manager = self.pulls.manager
        if manager.growing is None and self.said != self.number:  # else there are pages soon
            self.said = self.number
            manager.send(manager.local_scheduler, RoomWanted())

    def _set_timer(self) -> None:
        seconds = ROOM_SECONDS if self.pulls.manager.spill_bytes is None else GRACE_SECONDS
        self.pulls.manager.after(seconds, self.look, self.number)

    def give_up(self) -> None:
        """Have a file made for the first queued pull, if it still waits."""
        pull, overflow = self.waiting, self.pulls.manager.overflow
        if pull is not None and self.pulls.queue.get(pull.object_id) is pull and not overflow.is_coming(pull.object_id):
            overflow.waited_in_vain(self.pulls.manager.address, pull.object_id, pull.size)

    def look(self, number: int) -> None:
        """Check whether wait `number` still lasts, and report how long the pull has waited."""
        pull, pulls = self.waiting, self.pulls
        if pull is None or number != self.number:
            return
        if pulls.queue.get(pull.object_id) is not pull:
            self.waiting = None
            return
        manager = pulls.manager
        if len(pulls.coming) > len(pulls.queue) or manager.spill_files.is_busy:
            self.since = manager.now  # others come, and whoever waits for them goes on
        elif manager.spill_bytes is not None and not manager.overflow.is_coming(pull.object_id):
            manager.overflow.waited_in_vain(manager.address, pull.object_id, pull.size)
        else:
            seconds = manager.now - self.since
            manager.send(manager.local_scheduler, FetchWaits(pull.object_id, seconds, manager.explain(pull.size)))
        self._set_timer()


# The unit of requests, resumption and forwarding: small, so that a heartbeat behind a chunk is not late on a slow link.
# On a fast link, several adjacent chunks travel as one piece (gives.py).  All nodes of a cluster cut objects at the
# same offsets.
CHUNK_BYTES = 256 << 10

MISSING, ASKED, WRITING, HERE = range(4)


class Pull(Struct, eq=False):
    """An object being pulled to the local node."""

    object_id: bytes
    size: int
    sources: list[str]  # nodes that are said to have it; the first one is asked next
    chunks: bytearray  # the state of each
    is_small: bool
    source: str = ""  # who is asked: one of those, or one that another one has named
    ticket: int = 0  # of what is asked of it
    asks_whole: bool | None = None  # whether that has to have all of it; None: nothing is asked of it yet
    is_urgent: bool = False  # whoever waits for it runs already
    is_attached: bool = False  # a chunk of it is here, or was
    wants_whole: bool = False  # where it was sent on to, nothing came of it
    place: task_spec.StoredValue | None = None
    reserved: int = 0  # bytes from the start whose pages are there
    here: int = 0  # how many are HERE
    writing: int = 0  # and WRITING
    asked_at: dict[int, float] = {}  # those that are ASKED: when
    heard_at: float = 0.0  # when a chunk came from the source, or it was first asked
    contained: tuple[bytes, ...] = ()
    since: float = 0.0  # when it was wanted


class Pulls:
    """All pulls of this node."""

    PASSING = {"coming": None, "queue": "coming", "writing": "manager.copying"} | {
        "bytes asked for": (lambda pulls: pulls.windows.total + pulls.windows.copying, lambda pulls: pulls.asked_max)
    }

    def __init__(self, manager: ObjectManager) -> None:
        self.manager = manager
        self.chunk_bytes = manager.chunk_bytes
        self.coming: dict[bytes, Pull] = {}  # all of them, in the order in which they were wanted
        self.queue: dict[bytes, Pull] = {}  # those that wait for room, in that order
        self.writing: dict[int, tuple[Pull, range]] = {}  # by token: whose chunks
        self.lost: Latest[str, None] = Latest(LOST_MAX)  # object managers of lost nodes
        self.ticket = 0  # the latest
        self.windows = Windows(self.chunk_bytes)
        self.patience = Patience(self)
        self.room = Room(self)

    def _unasked(self, size: int) -> bytearray:
        """Return the chunk states of an object before any chunk is asked for."""
        return bytearray(max(1, -(-size // self.chunk_bytes)))

    @on(objects.FetchObject)
    def fetch(self, message: objects.FetchObject) -> None:
        """FetchObject: a pull begins; a repeated order may only make a known pull urgent."""
        known = self.coming.get(message.object_id)
        if known is not None:
            known.is_urgent = known.is_urgent or message.is_urgent
            return
        if self.manager.spill_files.is_still_here(message.object_id):
            place = self.manager.objects[message.object_id].place
            self.manager.send(self.manager.local_scheduler, objects.ObjectFetched(message.object_id, place))
            return
        sources = [object_manager_of(holder) for holder in message.holders]
        sources = [source for source in sources if source not in self.lost and source != self.manager.address]
        # Not all begin with the same one.
        start = zlib.crc32(self.manager.address.encode()) % len(sources) if sources else 0
        sources = sources[start:] + sources[:start]
        is_small = message.is_small and not self.manager.spill_files.has(message.object_id)
        pull = Pull(message.object_id, message.size, sources, self._unasked(message.size), is_small)
        pull.is_urgent, pull.since = message.is_urgent, self.manager.now
        self.coming[message.object_id] = pull
        if not is_small:
            self.queue[message.object_id] = pull
        else:
            self._ask_whether_small(pull)
        self.patience.begin()

    # --- room ---

    def admit(self) -> None:
        """Begin pulls at the front of the queue while the arena has room; called at the end of a turn."""
        manager = self.manager
        for pull in sorted(self.queue.values(), key=lambda pull: not pull.is_urgent):
            object_id = pull.object_id
            if object_id in manager.objects:
                continue  # its last copy here is being read to its end
            if manager.overflow.is_coming(object_id):
                continue
            if aligned(pull.size) > manager.ranges.capacity and manager.spill_bytes is not None:
                manager.overflow.allocate(manager.address, object_id, pull.size)
            elif aligned(pull.size) > manager.ranges.capacity:
                self._fail(pull, manager.explain(pull.size), is_definite=True)
            elif manager.segment_state != "there":
                self._fail(pull, manager.segment_state, is_definite=True)
            elif not manager.allocate(manager.address, object_id, pull.size):
                if manager.overflow.is_usual:
                    manager.overflow.allocate(manager.address, object_id, pull.size)
                    continue
                self.room.is_missing(pull)
                return

    def allocation_answered(self, message: Any) -> None:
        """ObjectAllocated (all reserved or not), PagesReserved, AllocateRefused: the arena answers a pull."""
        pull = self.coming[message.object_id]
        if type(message) is objects.AllocateRefused:
            manager = self.manager
            is_early = manager.now - pull.since < ROOM_SECONDS and aligned(pull.size) <= manager.ranges.capacity
            if manager.spill_bytes is not None and is_early:
                manager.overflow.is_usual = False  # the disk is full: readers may free some of it, or of the arena
            else:
                self._fail(pull, message.reason, is_definite=True)
            return
        if type(message) is objects.ObjectAllocated:
            self.queue.pop(message.object_id, None)
            pull.place = message.place
        pull.reserved = message.reserved
        self._ask_more(pull)

    # --- asking ---

    def _choose(self, pull: Pull) -> bool:
        """Choose a source if the pull has none.  Return False, with the pull failed, if no source is left."""
        if pull.source:
            return True
        if not pull.sources:
            self._fail(pull, "no node has it")
            return False
        self._turn_to(pull, pull.sources[0])
        return True

    def _turn_to(self, pull: Pull, source: str) -> None:
        self.ticket += 1
        pull.source, pull.ticket, pull.asks_whole = source, self.ticket, None
        if not pull.is_small:
            self.windows.enter(source, pull)

    def _ask_whether_small(self, pull: Pull) -> None:
        if self._choose(pull):
            pull.heard_at = self.manager.now
            self.manager.send(pull.source, objects.PullObject(pull.object_id, pull.ticket, 0, 1, pull.wants_whole))

    def _ask_more(self, pull: Pull) -> None:
        """Ask for as many chunks as the window allows, with one order per contiguous stretch."""
        if self.manager.spill_files.has(pull.object_id):
            self.manager.spill_files.restore(pull)
            return
        if pull.place is None or not self._choose(pull):
            return
        now = self.manager.now
        room = self.windows.room(pull.source, is_first=not pull.asked_at and not pull.writing)
        if not pull.asked_at:
            pull.heard_at = now
        index = -1
        while room > 0:
            first = pull.chunks.find(MISSING, index + 1)
            index = first
            while room > 0 and self._may_ask(pull, index):
                pull.chunks[index] = ASKED
                pull.asked_at[index] = now
                index += 1
                room -= self.chunk_bytes
            if index == first:
                return  # nothing is missing, or where it belongs there are no pages yet
            length = self._end(pull, index - 1) - first * self.chunk_bytes
            self.windows.asked(pull.source, length)
            if pull.asks_whole is None:  # what it has once agreed to give, it goes on giving
                is_giving = self.manager.gives.is_giving(pull.object_id)
                pull.asks_whole = pull.is_attached or pull.wants_whole or is_giving
            order = objects.PullObject(pull.object_id, pull.ticket, first * self.chunk_bytes, length, pull.asks_whole)
            self.manager.send(pull.source, order)

    def _may_ask(self, pull: Pull, index: int) -> bool:
        """Whether the chunk is missing, and pages are reserved for all of the chunk."""
        is_missing = 0 <= index < len(pull.chunks) and pull.chunks[index] == MISSING
        return is_missing and self._end(pull, index) <= pull.reserved

    def _end(self, pull: Pull, index: int) -> int:
        return min(pull.size, (index + 1) * self.chunk_bytes)

    def length(self, pull: Pull, index: int) -> int:
        """Return the length of a chunk, in bytes."""
        return min(self.chunk_bytes, pull.size - index * self.chunk_bytes)

    def _leave(self, pull: Pull, *, is_said: bool = True, is_whole: bool = False) -> None:
        """Leave the pull's source: no more chunks are expected.  is_whole: the object is complete here."""
        source, pull.source = pull.source, ""
        if not source:
            return
        if is_said:
            self.manager.send(source, objects.PullDone(pull.object_id, pull.ticket, is_whole))
        if pull.is_small:
            return
        for index in pull.asked_at:
            pull.chunks[index] = MISSING
            self.windows.answered(source, self.length(pull, index))
        pull.asked_at.clear()
        self.windows.leave(source, pull)

    def go_on(self, pull: Pull) -> None:
        """Continue the pull with another source."""
        self._leave(pull)
        self._ask(pull)

    def _ask(self, pull: Pull) -> None:
        if not pull.is_small:
            self._ask_more(pull)
        else:
            self._ask_whether_small(pull)

    # --- what comes of it ---

    def _of_ticket(
        self, message: objects.ObjectChunk | objects.ObjectInline | objects.PullRefused | objects.PullElsewhere
    ) -> Pull | None:
        """Return the pull that the message answers, if the ticket is still current."""
        pull = self.coming.get(message.object_id)
        if pull is None or pull.ticket != message.ticket or pull.source != self.manager.sender:
            self.manager.reject("an answer that nobody waits for")
            return None
        return pull

    @on(objects.ObjectChunk)
    def chunk(self, message: objects.ObjectChunk) -> None:
        """ObjectChunk."""
        pull = self._of_ticket(message)
        if pull is None:
            return
        if pull.is_small:
            # The value is large after all, and needs room in the arena.
            self._leave(pull)
            anew = Pull(pull.object_id, message.size, pull.sources, self._unasked(message.size), False)
            anew.is_urgent = pull.is_urgent
            self.coming[pull.object_id] = self.queue[pull.object_id] = anew
            return
        if message.size != pull.size:
            self._fail(pull, "it was made anew, and differs")  # the shard is asked where that is
            return
        first, within = divmod(message.offset, self.chunk_bytes)
        end = message.offset + len(message.data)
        indices = range(first, -(-end // self.chunk_bytes))
        asked = sum(index in pull.asked_at for index in indices)
        if not asked and indices:
            self.manager.reject("a chunk twice, or not asked for")
        elif within or asked < len(indices) or not indices or end != self._end(pull, indices[-1]):
            self.manager.reject("a piece that is cut where none should be")
            self._source_is_none(pull)
        else:
            self._take(pull, message, indices)

    def _take(self, pull: Pull, message: objects.ObjectChunk, indices: range) -> None:
        now, source = self.manager.now, pull.source
        waited = now - pull.asked_at[indices[0]]
        for index in indices:
            del pull.asked_at[index]
            pull.chunks[index] = WRITING
        pull.writing += len(indices)
        self.windows.answered(source, len(message.data), waited)
        self.windows.copying += len(message.data)
        pull.is_attached = True
        pull.heard_at = now
        pull.contained = pull.contained or message.contained
        assert pull.place is not None
        token = self.manager.begin_copy(self.manager.objects[message.object_id])
        self.writing[token] = (pull, indices)
        start = pull.place.offset + message.offset
        is_awaited = not pull.asked_at or self.manager.gives.is_giving(pull.object_id)
        self.manager.perform(WriteRange(pull.place.segment, start, message.data, token, is_awaited))
        # The room that it has made, to those that have waited for the same source the longest.
        self._ask_more(pull)
        for other in self.windows.pulls_of(source):
            if not self.windows.room(source):
                return
            self._ask_more(other)

    @on(RangeWritten)
    def written(self, message: RangeWritten) -> None:
        """RangeWritten."""
        pull, indices = self.writing.pop(message.token)
        self.windows.copying -= self._end(pull, indices[-1]) - indices[0] * self.chunk_bytes
        pull.writing -= len(indices)
        self.manager.end_copy(message.token)
        if self.coming.get(pull.object_id) is not pull:
            return
        for index in indices:
            pull.chunks[index] = HERE
        pull.here += len(indices)
        if pull.here == len(pull.chunks):
            self.is_here(pull)
        elif pull.source:
            self._ask_more(pull)
        self.manager.gives.chunks_are_here(pull, indices)

    @on(objects.ObjectInline)
    def inline(self, message: objects.ObjectInline) -> None:
        """ObjectInline."""
        pull = self._of_ticket(message)
        if pull is None:
            return
        self._leave(pull, is_said=False)  # it keeps no slot for such
        self._end_pull(pull)
        self.manager.free_pulled(pull.object_id)
        fetched = objects.ObjectFetched(pull.object_id, message.value, message.contained)
        self.manager.send(self.manager.local_scheduler, fetched)

    def restored(self, pull: Pull) -> None:
        """End a pull whose object was read from disk."""
        pull.chunks[:] = bytes([HERE]) * len(pull.chunks)
        pull.here = len(pull.chunks)
        self.is_here(pull)
        self.manager.gives.chunks_are_here(pull, range(len(pull.chunks)))

    def is_here(self, pull: Pull) -> None:
        """End a pull whose object is complete."""
        self._end_pull(pull, is_whole=True)
        assert pull.place is not None
        fetched = objects.ObjectFetched(pull.object_id, pull.place, pull.contained)
        self.manager.send(self.manager.local_scheduler, fetched)

    def _end_pull(self, pull: Pull, *, is_whole: bool = False) -> None:
        self._leave(pull, is_whole=is_whole)
        self.manager.overflow.abandoned(self.manager.address, pull.object_id)
        del self.coming[pull.object_id]
        self.queue.pop(pull.object_id, None)

    def _fail(self, pull: Pull, reason: str, *, is_definite: bool = False) -> None:
        self._end_pull(pull)
        self.manager.free_pulled(pull.object_id)
        self.manager.send(self.manager.local_scheduler, objects.FetchFailed(pull.object_id, reason, is_definite))

    def cancel(self, object_id: bytes) -> None:
        """Fail the pull of an object that is freed."""
        if object_id in self.coming:
            self._fail(self.coming[object_id], "it is freed")

    @on(objects.StopFetching)
    def stop(self, message: objects.StopFetching) -> None:
        """StopFetching."""
        if message.object_id in self.coming:
            reason = message.reason or "nobody wants it any more"
            self._fail(self.coming[message.object_id], reason, is_definite=bool(message.reason))

    # --- sources ---

    @on(objects.PullRefused)
    def refused(self, message: objects.PullRefused) -> None:
        """PullRefused: another source is asked for the missing chunks."""
        pull = self._of_ticket(message)
        if pull is not None:
            self._source_is_none(pull)

    def _source_is_none(self, pull: Pull) -> None:
        """Remove a source that is lost, lacks the object or sends wrong answers, and go on elsewhere."""
        source = pull.source
        if source in pull.sources:
            pull.sources.remove(source)
        else:
            pull.wants_whole = True  # whoever sent us there would send us there again
        self.go_on(pull)

    @on(objects.PullElsewhere)
    def elsewhere(self, message: objects.PullElsewhere) -> None:
        """PullElsewhere: the pull turns to a node with the object, or with an earlier pull of the object."""
        pull = self._of_ticket(message)
        if pull is None:
            return
        self._leave(pull)  # it may have had a slot for a later order of ours
        if message.source == self.manager.address or message.source in self.lost:
            pull.wants_whole = True
        else:
            self._turn_to(pull, message.source)
        self._ask(pull)

    @on(gcs.NodeLost)
    def node_lost(self, message: gcs.NodeLost) -> None:
        """NodeLost, from the local scheduler: pulls from the lost node go on elsewhere."""
        gone = object_manager_of(message.node)
        self.lost[gone] = None
        self.manager.gives.node_lost(gone)
        for pull in list(self.coming.values()):
            if pull.source == gone:
                self._source_is_none(pull)
            elif gone in pull.sources:
                pull.sources.remove(gone)

    # --- looking in from outside ---

    @property
    def asked_max(self) -> int:
        """Return the limit of bytes asked for from all nodes and not copied yet."""
        # A pull with nothing under way may always ask for a chunk; some pulls end before their last chunks are copied.
        over = {id(pull) for pull, _ in self.writing.values() if self.coming.get(pull.object_id) is not pull}
        return sources.WINDOWS_BYTES_MAX + self.chunk_bytes * (len(self.coming) + len(over))

    def check_everything(self) -> None:
        """Assert that counts of asked, copied and received chunks add up."""
        asked: dict[str, int] = {}
        for pull in self.coming.values():
            states = [pull.chunks.count(state) for state in (ASKED, WRITING, HERE)]
            assert all(pull.chunks[index] == ASKED for index in pull.asked_at)
            assert states == [len(pull.asked_at), pull.writing, pull.here]
            length = sum(self.length(pull, index) for index in pull.asked_at)
            asked[pull.source] = asked.get(pull.source, 0) + length
        for source, window in self.windows.by_source.items():
            assert window.asked == asked[source], "credits do not add up"
            assert all(pull.source == source for pull in window.pulls.values())
        copying = sum(self.length(pull, index) for pull, indices in self.writing.values() for index in indices)
        assert self.windows.copying == copying, "what is copied does not add up"
        assert all(self.coming[object_id] is pull for object_id, pull in self.queue.items())
