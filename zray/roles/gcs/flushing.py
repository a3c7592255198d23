"""Lineage within a memory limit: specs of tasks recorded long ago move from memory to the replica's store.

They move in *pages*, the oldest first, when the specs in memory exceed the limit.  The place and a digest of each
remain (`tables.Flushed`), so that only reconstruction needs a read.  A page is written once, whatever snapshots follow
or are under way; the store drops it with a snapshot when neither the snapshot nor the memory needs it.

Each replica flushes by its own measure, which is not part of the replicated state: the shard's messages are the same
either way.  When a shard needs a spec to reconstruct an object (`GcsShard.wanted`), the head of the chain looks in
memory or in its store, and the result is a step of the chain like any other (`Update.found`).

A shard in an embedded session's node has no store: no other node can join, so nothing is ever reconstructed from its
records.  It keeps no large arguments (tables.NOWHERE).

A page: specs flushed from memory together, as bytes for a store.  Pages are immutable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from ...ids import task_of
from ...wire.chain import LineageFound, Update
from ...wire.task_spec import TaskSpec
from ..effects import PageLost, PageRead, PageRefused, PageWritten, ReadPage, WritePage
from ..role import on
from .tables import PLACE_BITS, Flushed, TaskTable, weight_of

if TYPE_CHECKING:
    from .chain import ChainMember

_encode = Encoder().encode
_decode_page = Decoder(list[bytes]).decode
_decode_spec = Decoder(TaskSpec).decode


def pack_spec(spec: TaskSpec) -> bytes:
    """Encode a spec for a page."""
    return _encode(spec)


def pack_page(specs: list[bytes]) -> bytes:
    """Encode a page of the specs, in order."""
    return _encode(specs)


def unpack_page(data: bytes) -> list[bytes]:
    """Decode a page.

    Raises:
        ValueError: the data is no page.
    """
    try:
        return _decode_page(data)
    except (MsgspecError, RecursionError) as error:
        raise ValueError(f"no page of specs: {error}") from error


def unpack_spec(specs: list[bytes], place: int) -> TaskSpec:
    """Return the spec at a place of an unpacked page.

    Raises:
        ValueError: the page has no such spec.
    """
    try:
        return _decode_spec(specs[place & (1 << PLACE_BITS) - 1])
    except (MsgspecError, UnicodeDecodeError, RecursionError, IndexError) as error:
        raise ValueError(f"no spec at place {place:#x}: {error}") from error


def spec_in(pages: Mapping[int, list[bytes]], place: int) -> TaskSpec:
    """Return the spec at a place, from unpacked pages.

    Raises:
        ValueError: no page has such a spec.
    """
    specs = pages.get(place >> PLACE_BITS)
    if specs is None:
        raise ValueError(f"no page {place >> PLACE_BITS}")
    return unpack_spec(specs, place)


# Default limit for the specs in a shard's memory: half a million without arguments.
LINEAGE_BYTES = 256 << 20
# Size of a page: small enough that a read for one spec costs a millisecond, large enough that a million tasks are few
# files.
PAGE_BYTES = 256 << 10
# Pages in flight: with these, a disk that takes milliseconds per page keeps up.
PAGES_MAX = 16
# Above the limit, specs are flushed down to this share.
STAYS = 0.75
# While the disk takes no pages (a full disk), this multiple of the limit stops new requests.
OVER = 2
RETRY_SECONDS = 1.0


class Flushing:
    """The flushing of a member.  limit: in bytes; 0: nothing is ever flushed."""

    PASSING = {"_going": "PAGES_MAX", "_reading": None}

    def __init__(self, member: ChainMember, limit: int) -> None:
        self.member = member
        self.limit = limit
        self.refused = ""  # why the last page was not taken
        self.trouble = ""  # the same, until a page is taken again
        self._oldest: deque[bytes] = deque()  # tasks with specs in memory, next to be flushed
        self._excess = 0  # bytes of them still to be flushed
        self._going: dict[int, list[tuple[bytes, TaskSpec]]] = {}  # token -> a page under way
        self._token = 0
        self.newest_page = 0  # the last one known to be written
        self._reading: dict[int, None] = {}
        self._last_read: tuple[int, list[bytes]] = (-1, [])  # tasks that need each other lie side by side

    def end_turn(self) -> None:
        """Report specs that the shard wants; write the next pages."""
        assert self.member.replica is not None
        if self.member.replica.shard.wanted:
            self._look()
        if self.limit and not self.refused:
            self._flush(self.member.replica.shard.tasks)

    # --- out of memory ---

    def _flush(self, tasks: TaskTable) -> None:
        while len(self._going) < PAGES_MAX:
            if self._excess <= 0:
                if self._going or tasks.weight <= self.limit:
                    return  # specs in flight still count
                self._excess = tasks.weight - int(self.limit * STAYS)
            if not self._oldest:
                if self._going:
                    return  # it must not be chosen again
                self._choose(tasks)
                if not self._oldest:
                    self._excess = 0
                    return
            self._write_page(tasks)

    def _write_page(self, tasks: TaskTable) -> None:
        specs: list[bytes] = []
        going: list[tuple[bytes, TaskSpec]] = []
        size = 0
        while self._oldest and self._excess > 0 and size < PAGE_BYTES and len(specs) < 1 << PLACE_BITS:
            task_id = self._oldest.popleft()
            record = tasks.records.get(task_id)
            if record is not None and type(record.spec) is TaskSpec:
                specs.append(pack_spec(record.spec))
                size += len(specs[-1])
                self._excess -= weight_of(record.spec)
                going.append((task_id, record.spec))
        if specs:
            self._token += 1
            self._going[self._token] = going
            self.member.perform(WritePage(pack_page(specs), self._token))

    def _choose(self, tasks: TaskTable) -> None:
        """Choose all tasks with specs in memory, in order of arrival; for calls without pages in flight.

        They lie behind all flushed ones, so the newest are examined first, and flushed ones not at all.
        """
        oldest, weight = self._oldest, 0
        for task_id, record in reversed(tasks.records.items()):
            spec = record.spec
            if type(spec) is TaskSpec:
                oldest.appendleft(task_id)
                weight += weight_of(spec)
            elif type(spec) is Flushed:
                break
        if weight < self._excess:  # some records came long before their specs
            oldest.clear()
            oldest.extend(task_id for task_id, record in tasks.records.items() if type(record.spec) is TaskSpec)

    @on(PageWritten)
    def on_written(self, message: PageWritten) -> None:
        """Handle PageWritten: remove its specs from memory."""
        self.trouble = ""
        going = self._going.pop(message.token, [])
        self.newest_page = max(self.newest_page, message.page)
        replica = self.member.replica
        if replica is not None:
            for index, (task_id, spec) in enumerate(going):
                replica.shard.tasks.flush(task_id, spec, message.page, index)

    @on(PageRefused)
    def on_refused(self, message: PageRefused) -> None:
        """PageRefused: try again soon."""
        going = self._going.pop(message.token, [])
        self._oldest.extendleft(task_id for task_id, _ in reversed(going))
        self._excess += sum(weight_of(spec) for _, spec in going)
        if not self.refused:
            self.member.after(RETRY_SECONDS, self.retry)
        self.refused = self.trouble = message.reason

    @property
    def is_over(self) -> bool:
        """Whether the specs in memory are too many, and the disk takes none."""
        replica = self.member.replica
        return self.trouble != "" and replica is not None and replica.shard.tasks.weight > OVER * self.limit

    def retry(self) -> None:
        """Continue writing at the end of this turn: there may be space again."""
        self.refused = ""

    def forget(self) -> None:
        """Forget pending pages: the member's state was dropped or replaced."""
        self._oldest.clear()
        self._excess = 0
        self._going = dict.fromkeys(self._going, [])  # pages no longer needed

    # --- back again ---

    def read(self, page: int) -> None:
        """Request a page, once."""
        if page not in self._reading:
            self._reading[page] = None
            self.member.perform(ReadPage(page))

    def _look(self) -> None:
        """Look up the specs wanted by the shard, as the head."""
        member = self.member
        assert member.replica is not None
        if not member.is_head or member.entrance.is_full:
            return
        records = member.replica.shard.tasks.records
        found: list[LineageFound] = []
        size = 0
        for object_id in list(member.replica.shard.wanted):
            record = records.get(task_of(object_id))
            spec = record.spec if record is not None else None
            if type(spec) is Flushed:
                if spec.place >> PLACE_BITS != self._last_read[0]:
                    self.read(spec.place >> PLACE_BITS)
                    continue
                spec = unpack_spec(self._last_read[1], spec.place)
            found.append(LineageFound(object_id, spec, "" if spec else "The record of its task is gone."))  # type: ignore[arg-type]
            size += len(spec.args) if type(spec) is TaskSpec else 0
            if size > PAGE_BYTES:
                self._say(found)
                found, size = [], 0
                if member.entrance.is_full:
                    return  # the rest later, when there is space
        if found:
            self._say(found)

    def _say(self, found: list[LineageFound]) -> None:
        replica = self.member.replica
        assert replica is not None
        now = max(self.member.now, replica.clock)
        self.member.apply(Update(replica.sequence + 1, now, "", 0, 0, [], found))

    def on_read(self, message: PageRead) -> None:
        """PageRead."""
        self._reading.pop(message.page, None)
        try:
            self._last_read = message.page, unpack_page(message.data)
        except ValueError as error:
            self.on_lost(PageLost(message.page, str(error)))
            return
        replica = self.member.replica
        if replica is not None and replica.shard.wanted:
            self._look()  # before another page takes its place

    def on_lost(self, message: PageLost) -> None:
        """Handle PageLost: objects of its tasks cannot be reconstructed."""
        self._reading.pop(message.page, None)
        replica = self.member.replica
        if replica is None or not self.member.is_head or self.member.entrance.is_full:
            return  # still wanted specs are looked up again
        reason = f"The record of its task cannot be read: {message.reason}"
        found = []
        for object_id in replica.shard.wanted:
            record = replica.shard.tasks.records.get(task_of(object_id))
            if record is not None and type(record.spec) is Flushed and record.spec.place >> PLACE_BITS == message.page:
                found.append(LineageFound(object_id, None, reason))
        if found:
            self._say(found)
