"""Object manager: owns the node's arena; brings objects from other nodes.

Dialog (sender, message, reaction):

    driver, worker     AllocateObject    a range whose pages exist, or a clear refusal
    driver, worker     AbandonObject     the range is free again
    local scheduler    SealObjects       immutable from now on
    local scheduler    FreeObjects       the range is free once nothing refers to it or reads it
    local scheduler    ProcessGone       ranges that the process was writing are free
    local scheduler    ObjectClaimed     a writer needs no room after all
    local scheduler    CountStore        StoreCounted: how much is in use
    local scheduler    FetchObject       pull it from a node that has it, or from disk, then ObjectFetched
    local scheduler    SpillObjects, EvictObjects    copies on disk (spill_files.py)
    object manager     PullObject        answer with chunks (gives.py)
    object manager     ObjectChunk, ...  answers to ours (pulls.py)

Allocations are served at the end of the turn, so ranges freed in the same turn are reused warm.  Source: Ray paper
4.2.3.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from msgspec import Struct

from ...ids import is_put
from ...wire import objects, task_spec
from ..effects import CreateSegment, PagesAreThere, PagesRefused, ReservePages, SegmentCreated, SegmentCreateFailed
from ..kept import Latest
from ..role import Role, on
from ..work_effects import CountStore, NothingLeaves, RoomWanted, SpillWanted, StoreCounted
from .gives import GIVES_MAX, Gives
from .overflow import GRACE_SECONDS, Overflow
from .pulls import CHUNK_BYTES, Pulls
from .ranges import ALIGNMENT, Ranges, aligned
from .spill_files import SpillFiles

SEGMENT = 0
# Pages are reserved in steps, so that a writer can begin before a large range is complete.
RESERVE_BYTES = 64 << 20
# How long a writer is held back in a full store before it is told so.  Again so long, if one ahead of it has got room.
FULL_SECONDS = 5.0
# Values whose makers are known by name, also of those that are gone.
MADE_MAX = 10_000
# The limit for a process: each of its threads writes one value at a time.
ASKED_MAX = 10_000
# The number of objects named in the error of a full store.
SHOWN_MAX = 5
# Other remedies: if the store is too small, and if the machine lacks the memory for it.
LARGER_STORE = "start with a larger object_store_memory"
MORE_PAGES = "give this machine more shared memory (`df -h /dev/shm` shows what it has)"


class Asked(Struct, gc=False, eq=False):
    """A requested range that is not allocated yet."""

    process: str
    object_id: bytes
    size: int
    since: float
    waits: int = 0  # the number of its wait, once the store was full for it
    has_moved_up: bool = False  # one that was ahead of it has got room since its timer was set


class Stored(Struct, gc=False, eq=False):
    """An object in the arena."""

    object_id: bytes
    place: task_spec.StoredValue
    process: str  # who writes it; "" once it is sealed
    reserved: int  # bytes from the start that have pages
    told: bool = False  # the writer knows the place
    copies: int = 0  # chunks that the host is writing into it
    readers: int = 0  # nodes that pull it from here
    is_gone: bool = False  # freed: its range goes back when neither of these is left

    def is_read(self) -> None:
        """Count one more node that pulls the object from here."""
        self.readers += 1


class ObjectManager(Role):
    """The object manager of a node: arena, pulls and gives."""

    LASTING = {"made": "MADE_MAX"}
    PASSING = {"objects asked retired copying": None} | {
        "ranges": (lambda it: len(it.objects) + len(it.retired), lambda it: it.ranges.capacity // ALIGNMENT),
        "values of one process": (lambda it: Counter(item.process for item in it.asked).values(), "ASKED_MAX"),
    }

    def __init__(
        self,
        address: str,
        local_scheduler: str,
        *,
        capacity: int,
        reserve_bytes: int = RESERVE_BYTES,
        chunk_bytes: int = CHUNK_BYTES,
        gives_max: int = GIVES_MAX,
        is_outside: bool = False,
        spill_above: float | None = None,
    ) -> None:
        """spill_above: the filled part of the store from which on objects are spilled; None: spilling is off."""
        super().__init__(address)
        self.local_scheduler = local_scheduler
        self.reserve_bytes = reserve_bytes
        self.chunk_bytes = chunk_bytes
        self.ranges = Ranges(capacity)
        self.made: Latest[bytes, str] = Latest(MADE_MAX)  # where values are made, for the user
        self.objects: dict[bytes, Stored] = {}
        self.asked: deque[Asked] = deque()  # not served yet, in order
        self.waits = 0  # for room in a full store, so far
        self.retired: dict[tuple[int, int], Stored] = {}  # freed, and still read or written: by segment and offset
        self.growing: Stored | None = None  # the one whose pages are being reserved
        self.refusal = ""  # why its pages cannot be had, while those that could are still in use
        self.segment_state = ""  # "", "asked", "there", or why it cannot be had
        self.token = 0  # of the latest ReservePages
        self.reserving = 0  # bytes it asked for
        self.token_of_copies = 0  # of the latest WriteRange
        self.copying: dict[int, Stored] = {}  # by token
        self.pulls = Pulls(self)
        self.gives = Gives(self, gives_max, is_outside=is_outside)
        self.spill_bytes = None if spill_above is None else int(spill_above * capacity)
        self.spill_files = SpillFiles(self)
        self.overflow = Overflow(self)
        self.spill_wanted = SpillWanted(0, False)  # as the local scheduler was told
        self.has_freed = False  # a range, since then
        self.judged_bytes = -1  # in use when the need for space was looked at last; -1: it is looked at again
        self.handle_with(self.pulls, self.gives, self.spill_files, self.overflow)

    # --- allocation ---

    @on(objects.AllocateObject)
    def on_allocate_object(self, message: objects.AllocateObject) -> None:
        stored = self.objects.get(message.object_id)
        if message.made:
            self.made[message.object_id] = message.made
        if message.size < 0 or (stored is not None and stored.process == self.sender):
            self.reject("a range asked for twice, or of negative size")
            return
        if len(self.asked) >= ASKED_MAX and sum(item.process == self.sender for item in self.asked) >= ASKED_MAX:
            reason = f"{ASKED_MAX:,} other values of this process wait for free space"
            self.send(self.sender, objects.AllocateRefused(message.object_id, message.size, reason))
            return
        self.queue(self.sender, message.object_id, message.size)

    def queue(self, process: str, object_id: bytes, size: int, since: float | None = None) -> None:
        """Have a writer wait for space, or be told the place of a value that exists here.

        since: the time of its first request.
        """
        stored = self.objects.get(object_id)
        if stored is not None and not stored.process:
            # If the value is being freed, the writer gets room later.
            self.send(self.local_scheduler, objects.ClaimObject(object_id, process))
        self.asked.append(Asked(process, object_id, size, self.now if since is None else since))

    def end_turn(self, now: float) -> list[Any]:
        self.now = now
        if self.spill_files.evicting:
            self.spill_files.evict()
        if self.asked or self.pulls.queue:
            self._serve()
        if self.spill_bytes is not None:
            waits, used = bool(self.asked or self.pulls.queue), self.ranges.used_bytes
            if waits or self.has_freed or used != self.judged_bytes:  # nearly no turn changes anything
                self.judged_bytes = -1 if waits else used
                self._want_room(self.spill_bytes)
        return self.take_effects()

    def _want_room(self, threshold: int) -> None:
        """Have the local scheduler spill what is missing, or is above the threshold; again after each freed range."""
        used = self.ranges.used_bytes
        wanted, is_lacking, writers = max(0, used - threshold), False, frozenset[str]()
        if self.growing is None and (self.asked or self.pulls.queue):
            front = next(iter(self.pulls.queue.values()), None)
            lacking = sum(aligned(asked.size) for asked in self.asked) + (aligned(front.size) if front else 0)
            wanted, is_lacking = max(wanted, min(lacking, self.ranges.capacity)), True
            writers = frozenset(asked.process for asked in self.asked)
        said = SpillWanted(wanted, used > threshold // 2, is_lacking, writers)
        if said != self.spill_wanted or (wanted and self.has_freed):
            self.spill_wanted = said
            self.send(self.local_scheduler, said)
        self.has_freed = False

    def _serve(self) -> None:
        if self.segment_state == "":
            self.segment_state = "asked"
            self.perform(CreateSegment(SEGMENT, self.ranges.capacity))
        if self.segment_state == "asked":
            return
        front = next(iter(self.pulls.queue.values()), None)
        if self.spill_bytes is not None and front and self.asked and front.since <= self.asked[0].since:
            self.pulls.admit()  # else writers would take all the space that spilled objects leave
        waiting: deque[Asked] = deque()
        one_has_got_room = False
        while self.asked:
            asked = self.asked.popleft()
            if asked.object_id in self.objects:
                waiting.append(asked)
            elif self.segment_state != "there":
                self.send(asked.process, objects.AllocateRefused(asked.object_id, asked.size, self.segment_state))
            elif aligned(asked.size) > self.ranges.capacity and self.spill_bytes is not None:
                self.overflow.allocate(asked.process, asked.object_id, asked.size)
            elif aligned(asked.size) > self.ranges.capacity:
                self.send(asked.process, objects.AllocateRefused(asked.object_id, asked.size, self.explain(asked.size)))
            elif self.allocate(asked.process, asked.object_id, asked.size):
                one_has_got_room = one_has_got_room or asked.waits > 0
            elif self.overflow.is_at_once(asked.process):
                self.overflow.allocate(
                    asked.process, asked.object_id, asked.size, since=asked.since, has_waited=bool(asked.waits)
                )
            else:
                waiting.append(asked)
                asked.has_moved_up |= one_has_got_room
                if self.growing is None and not asked.waits:
                    self.waits += 1
                    asked.waits = self.waits
                    self.send(self.local_scheduler, RoomWanted())
                    self.after(self.patience, self.refuse_late, asked.waits)
        self.asked = waiting
        if not waiting:
            self.pulls.admit()  # what runs already goes first: it ends, and makes room

    @property
    def patience(self) -> float:
        """Return the time in seconds for which a writer waits for space."""
        return FULL_SECONDS if self.spill_bytes is None else GRACE_SECONDS

    def enter(self, object_id: bytes, place: task_spec.StoredValue, process: str) -> None:
        """Give a writer a place whose pages are all there."""
        stored = self.objects[object_id] = Stored(object_id, place, process, place.size)
        self._tell_writer(stored)

    def allocate(self, process: str, object_id: bytes, size: int) -> bool:
        """Allocate a range; return False if the request must wait for room or for earlier pages."""
        offset = self.ranges.take_warm(size)
        if offset is not None:
            self.enter(object_id, task_spec.StoredValue(SEGMENT, offset, size), process)
            return True
        if self.growing is not None:
            return False  # its turn comes when the pages before it are there
        extended = self.ranges.extend(size)
        if extended is None:
            return False
        offset, warm = extended
        stored = Stored(object_id, task_spec.StoredValue(SEGMENT, offset, size), process, min(warm, aligned(size)))
        self.objects[object_id] = stored
        self.growing = stored
        self._reserve_more()
        return True

    def _reserve_more(self) -> None:
        stored = self.growing
        assert stored is not None
        missing = aligned(stored.place.size) - stored.reserved
        if missing <= 0:
            self.growing = None
            self.retire(stored)
            return
        self.token += 1
        length = min(missing, self.reserve_bytes)
        self.perform(ReservePages(SEGMENT, stored.place.offset + stored.reserved, length, self.token))
        self.reserving = length

    @on(PagesAreThere)
    def on_pages_are_there(self, message: PagesAreThere) -> None:
        stored = self.growing
        if stored is None or message.token != self.token:
            return
        stored.reserved += self.reserving
        if not stored.is_gone:
            self._tell_writer(stored)
        self._reserve_more()

    @on(PagesRefused)
    def on_pages_refused(self, message: PagesRefused) -> None:
        stored = self.growing
        if stored is None or message.token != self.token:
            return
        self.refusal = message.reason
        # This writer is refused all the same, but the next one may reuse the pages of evicted objects.
        self.send(self.local_scheduler, RoomWanted())
        if not stored.is_gone and self.spill_bytes is not None and not stored.told:
            self.free(stored.object_id)
            self.overflow.allocate(stored.process, stored.object_id, stored.place.size)
        elif not stored.is_gone:
            process = stored.process
            size = stored.place.size
            self.free(stored.object_id)
            # The store is full of other processes' values.
            self.tell(
                process,
                objects.AllocateRefused(stored.object_id, size, f"{message.reason}.  {self.explain(size, MORE_PAGES)}"),
            )
        else:
            self.retire(stored)

    def _tell_writer(self, stored: Stored) -> None:
        reserved = min(stored.reserved, stored.place.size)
        if stored.told:
            self.tell(stored.process, objects.PagesReserved(stored.object_id, reserved))
        else:
            stored.told = True
            self.tell(stored.process, objects.ObjectAllocated(stored.object_id, stored.place, reserved))

    def tell(self, process: str, message: Any) -> None:
        """Send a message to a writer, possibly to a pull of the role itself."""
        if process == self.address:
            self.pulls.allocation_answered(message)
        else:
            self.send(process, message)

    @on(objects.ObjectClaimed)
    def on_object_claimed(self, message: objects.ObjectClaimed) -> None:
        self.asked = deque(
            item for item in self.asked if item.process != message.process or item.object_id != message.object_id
        )

    def refuse_late(self, number: int) -> None:
        """Refuse the writer of wait `number`, unless the request has moved up the queue meanwhile."""
        for asked in self.asked:
            if asked.waits == number:
                if asked.has_moved_up or self.spill_files.is_busy:
                    asked.has_moved_up = False
                    self.after(self.patience, self.refuse_late, number)
                    return
                self.asked.remove(asked)
                if self.spill_bytes is not None:
                    self.overflow.waited_in_vain(asked.process, asked.object_id, asked.size, asked.since)
                    return
                self.send(asked.process, objects.AllocateRefused(asked.object_id, asked.size, self.explain(asked.size)))
                return

    @on(NothingLeaves)
    def on_nothing_leaves(self, message: NothingLeaves) -> None:
        """NothingLeaves: the first writer or pull that waits for space gets a file at once."""
        if self.growing is not None or self.spill_files.is_busy:
            return
        if self.asked and self.asked[0].waits:
            asked = self.asked.popleft()
            self.overflow.waited_in_vain(asked.process, asked.object_id, asked.size, asked.since)
        else:
            self.pulls.room.give_up()

    def explain(self, size: int, remedy: str = LARGER_STORE) -> str:
        """Explain in words why `size` bytes do not fit, with the largest objects and their whole ids.

        If the value is larger than the store, the text says only that.
        """
        if aligned(size) > self.ranges.capacity:
            return (
                f"{size:,} bytes are needed, and the whole store has {self.ranges.capacity:,}: the value can never fit."
                f"  Divide it into smaller values, or {LARGER_STORE}."
            )
        largest = sorted(self.objects.values(), key=lambda stored: (-stored.place.size, stored.object_id))[:SHOWN_MAX]
        lines = "".join(f"\n  {self._describe(stored)}" for stored in largest)
        listed = f"  The largest:{lines}\n" if largest else "  "
        refused = self.spill_files.refusal
        refused = f"  Values could not be spilled to disk: {refused}." if refused else ""
        return (
            f"{size:,} bytes are needed; {self.ranges.used_bytes:,} of the store's {self.ranges.capacity:,} bytes are "
            f"in use, by {len(self.objects)} objects.{listed}"
            "An object stays while any process or another object has an ObjectRef to it, while a task that takes it "
            "has not ended, and while an array that get() returned of it is in use.  Drop refs and arrays that are "
            f"not needed any more, or {remedy}.{refused}"
        )

    def _describe(self, stored: Stored) -> str:
        origin = self.made.get(stored.object_id) or ("put" if is_put(stored.object_id) else "returned by a task")
        state = f", still being written by {stored.process}" if stored.process else ""
        if stored.process == self.address:
            state = ", still on its way from another node"
        return f"ObjectRef({stored.object_id.hex()}): {stored.place.size:,} bytes, {origin}{state}"

    @on(SegmentCreated)
    def on_segment_created(self, message: SegmentCreated) -> None:
        self.segment_state = "there"

    @on(SegmentCreateFailed)
    def on_segment_create_failed(self, message: SegmentCreateFailed) -> None:
        self.segment_state = f"No shared memory: {message.reason}"

    # --- the rest of an object's life ---

    @on(objects.SealObjects)
    def on_seal_objects(self, message: objects.SealObjects) -> None:
        come = set()
        for object_id in message.object_ids:
            stored = self.objects.get(object_id)
            if stored is not None and stored.process:
                if stored.process != self.address:
                    self.spill_files.forget(object_id)  # made anew
                stored.process = ""
                come.add(object_id)
        for asked in self.asked:  # to write what was still on its way here: it need not
            if asked.object_id in come:
                self.send(self.local_scheduler, objects.ClaimObject(asked.object_id, asked.process))

    @on(objects.FreeObjects)
    def on_free_objects(self, message: objects.FreeObjects) -> None:
        for object_id in message.object_ids:
            self.pulls.cancel(object_id)
            self.free(object_id)
            self.spill_files.forget(object_id)

    def free(self, object_id: bytes) -> None:
        """Retire a freed object: the range is reused when no copy or reader is left."""
        stored = self.objects.pop(object_id, None)
        if stored is not None:
            stored.is_gone = True
            self.gives.forget(stored)
            self.retired[stored.place.segment, stored.place.offset] = stored
            self.retire(stored)

    def free_pulled(self, object_id: bytes) -> None:
        """Free the partial copy written by a pull; an older copy still being read stays."""
        stored = self.objects.get(object_id)
        if stored is not None and stored.process == self.address:
            self.free(object_id)

    def retire(self, stored: Stored) -> None:
        """Free the range if the object is gone and no copy or read is under way."""
        if not stored.is_gone or stored.copies or stored.readers:
            return
        place = stored.place
        if place.segment != SEGMENT:
            self.overflow.retire(stored)
        elif stored is not self.growing:
            self.ranges.free(place.offset, place.size)
        elif self.refusal:
            self.growing, self.refusal = None, ""
            self.ranges.retract(place.offset, place.size, stored.reserved)
        else:
            return  # its pages are being reserved
        del self.retired[place.segment, place.offset]
        self.overflow.freed()
        if not place.segment:
            self.has_freed = True
            self.overflow.is_usual = False

    def end_reading(self, stored: Stored) -> None:
        """Count down the readers after another node has ended its pull."""
        stored.readers -= 1
        self.retire(stored)

    # --- chunks that are written by the host ---

    def keep_range(self, stored: Stored) -> None:
        """Count one more copy under way, from or into the range."""
        stored.copies += 1

    def keep_range_no_more(self, stored: Stored) -> None:
        """Count one copy less."""
        stored.copies -= 1
        self.retire(stored)

    def begin_copy(self, stored: Stored) -> int:
        """Return the token of a WriteRange; the range is not reused until `end_copy`."""
        self.token_of_copies += 1
        self.copying[self.token_of_copies] = stored
        self.keep_range(stored)
        return self.token_of_copies

    def end_copy(self, token: int) -> None:
        """Count down the copies of an object after a copy has succeeded or failed."""
        self.keep_range_no_more(self.copying.pop(token))

    @on(objects.AbandonObject)
    def on_abandon_object(self, message: objects.AbandonObject) -> None:
        stored = self.objects.get(message.object_id)
        if stored is not None and stored.process == self.sender:
            self.free(message.object_id)
        # Not served yet: it may come in the turn of its AllocateObject, or while the store is full.
        gone = (self.sender, message.object_id)
        self.asked = deque(item for item in self.asked if (item.process, item.object_id) != gone)
        self.overflow.abandoned(*gone)

    @on(objects.ProcessGone)
    def on_process_gone(self, message: objects.ProcessGone) -> None:
        for stored in [stored for stored in self.objects.values() if stored.process == message.process]:
            self.free(stored.object_id)
        self.asked = deque(item for item in self.asked if item.process != message.process)
        self.overflow.abandoned(message.process)

    @on(CountStore)
    def on_count_store(self, message: CountStore) -> None:
        self.send(self.local_scheduler, StoreCounted(self.ranges.used_bytes))

    def check_everything(self) -> None:
        self.ranges.check_everything()
        here = [stored for stored in (*self.objects.values(), *self.retired.values()) if not stored.place.segment]
        taken = sum(aligned(stored.place.size) for stored in here)
        assert taken == self.ranges.used_bytes, "ranges and objects disagree"
        self.pulls.check_everything()
        self.gives.check_everything()
        self.spill_files.check_everything()
        self.overflow.check_everything()

    def statistics(self) -> dict[str, Any]:
        return {
            "store_capacity_bytes": self.ranges.capacity,
            "store_used_bytes": self.ranges.used_bytes,
            "store_objects": len(self.objects),
            "spilled_objects": len(self.spill_files.by_object),
            "spill_file_bytes": self.spill_files.bytes,
            "overflow_bytes": self.overflow.bytes,
        }
