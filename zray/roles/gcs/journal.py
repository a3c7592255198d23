"""The durable log of a replica: its updates and entered epochs; now and then its whole state.

Group commit: while an order is in flight, new records are gathered for the next.  The role relies only on confirmed
records (`logged`).  A full disk: the order is repeated a little later, with no more requests until then.

The state goes in parts, one in flight at a time, with updates applied meanwhile in between.  Only if the log belongs to
another state than the member's (a newly received one), records wait until the state is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from ...wire.chain import Update
from ..effects import AppendToLog, LogAppended, LogRefused, SaveSnapshot
from ..role import on
from . import entrance
from .replica import Dump, Replica

if TYPE_CHECKING:
    from .chain import ChainMember

# A start reads at most about so much of a log, or twice the state if larger.
SNAPSHOT_BYTES = 64 << 20
RETRY_SECONDS = 1.0
# Records that wait for the disk of a member on which no client waits: in the middle, or joining.  Beyond the limit it
# keeps none of them, and saves its state when the disk works again.  (For the disks of head and tail, and of a hosted
# tail's predecessor, clients wait: see entrance.)
GATHERED_MAX = 8_192


class Entry(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """A record: the member has entered an epoch, or applied an update in it."""

    epoch: int
    update: Update | None


_encode = Encoder().encode
_decode = Decoder(Entry).decode


class Journal:
    """The log of a member."""

    # A single append, with as many epochs.
    LASTING = {"_gathered": None, "waiting": lambda _: GATHERED_MAX + 2 * entrance.HISTORY_MAX}

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.logged = 0  # all updates up to this one are durable
        self.logged_epoch = 0  # and the entry into this epoch
        self.entered = 0  # the last epoch with all updates of the predecessor
        self.refused = ""  # why the order in flight was refused; it will be repeated
        self.trouble = ""  # the same, until the disk has taken something again: for people
        self._gathered: list[bytes] = []
        self._gathered_to = 0  # the last update among them, or before them
        self._order: AppendToLog | None = None  # under way
        self._order_to = 0  # the last update covered by that order
        self._order_epoch = 0
        self._token = 0  # of the last order of any kind
        self._is_replaced = False  # the log belongs to another state than the member's
        self._dump: Dump | None = None  # an unfinished snapshot
        self._part: SaveSnapshot | None = None  # under way
        self._parts = 0
        self._dump_epoch = 0
        self._is_paused = False  # no space for a snapshot, though one is required
        self._bytes = 0  # of records since the last snapshot began, in another life too
        self._snapshot_bytes = 0

    def recover(self, parts: Iterable[bytes], records: Iterable[bytes]) -> tuple[Replica | None, int]:
        """Recover as the function does.  The bytes found count: a log of many short lives is compacted as well."""
        found = list(parts)
        self._snapshot_bytes = sum(map(len, found))
        return recover(self.member.shard, found, self._counted(records))

    def _counted(self, records: Iterable[bytes]) -> Iterator[bytes]:
        for record in records:
            self._bytes += len(record)
            yield record

    def update(self, update: Update) -> None:
        """Log an applied update."""
        self._gather(Entry(self.entered, update), update.sequence)

    def epoch(self) -> None:
        """Log the epoch just entered, with all updates acknowledged before."""
        self.entered = self.member.epoch
        if self.member.replica is not None:
            if self._gathered and _decode(self._gathered[-1]).update is None:
                self._gathered.pop()  # a disk that takes nothing, and a series of epochs
            self._gather(Entry(self.entered, None), self.member.replica.sequence)

    def _gather(self, entry: Entry, upto: int) -> None:
        if len(self._gathered) >= GATHERED_MAX and not self.member.is_awaited and not self._is_replaced:
            self.replaced()
        if self._is_replaced and self._dump is None:
            return  # the snapshot will include it
        self._gathered.append(_encode(entry))
        self._gathered_to = upto

    def replaced(self) -> None:
        """Log the whole state, regardless of the log's content: the state was replaced, or the log is far behind."""
        self.forget()
        self._is_replaced = True
        self._gathered.clear()

    def forget(self) -> None:
        """Forget the logged position: the member's state was replaced."""
        self.logged = self.logged_epoch = 0
        self._drop()

    def _drop(self) -> None:
        """Drop a snapshot; parts in flight count no more."""
        if self._dump is not None:
            self._dump.close()
        self._dump = self._part = None

    @property
    def waiting(self) -> int:
        """Return the number of records waiting for the disk, without those during the writing of a new state."""
        return len(self._gathered) if not self._is_replaced else 0

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is under way, or about to be."""
        return self._is_replaced or self._dump is not None

    # --- at the end of the turn ---

    def end_turn(self) -> None:
        """Give the next orders."""
        if self._dump is None and self._must_save():
            self._begin()
        if self._dump is not None and self._part is None:
            self._save()
        if self._order is None and self._gathered and not self._is_replaced:
            gathered, self._gathered = self._gathered, []
            self._bytes += sum(map(len, gathered))
            self._token += 1
            self._order = AppendToLog(gathered, self._token)
            self._order_to, self._order_epoch = self._gathered_to, self.entered
            self.member.perform(self._order)

    def _must_save(self) -> bool:
        replica = self.member.replica
        if replica is None or replica.is_dumping:
            return False
        if self._is_replaced:
            # No earlier record of the member may come to the log after this.
            return self._order is None and not self._is_paused
        return self._bytes > max(SNAPSHOT_BYTES, 2 * self._snapshot_bytes)

    def _begin(self) -> None:
        assert self.member.replica is not None
        if self._is_replaced:
            self._gathered.clear()
        self._dump = Dump(self.member.replica, self.entered)
        self._dump_epoch = self.entered
        self._parts = self._bytes = self._snapshot_bytes = 0

    def _save(self) -> None:
        """The next part."""
        dump, replica = self._dump, self.member.replica
        assert dump is not None and replica is not None
        data, is_last = dump.take()
        self._parts += 1
        self._snapshot_bytes += len(data)
        self._token += 1
        # Pages of the snapshot and of the memory; a page being written now is newer than all.
        pages = list(dict.fromkeys((*dump.pages, *replica.shard.tasks.pages))) if is_last else []
        newest_page = self.member.flushing.newest_page if is_last else 0
        self._part = SaveSnapshot(data, self._parts, self._token, is_last, pages, newest_page)
        self.member.perform(self._part)

    # --- outcomes ---

    @on(LogAppended)
    def on_appended(self, message: LogAppended) -> None:
        """LogAppended."""
        part = self._part
        if part is not None and message.token == part.token:
            self._part = None
            if part.is_last:
                assert self._dump is not None
                self._saved(self._dump.sequence, self._dump_epoch)
                self._dump = None
                self.trouble = self.refused  # of what is appended
        elif self._order is not None and message.token == self._order.token:
            self._order = None
            self.refused = self.trouble = ""
            if not self._is_replaced:
                self._saved(self._order_to, self._order_epoch)

    def _saved(self, upto: int, epoch: int) -> None:
        self.logged, self.logged_epoch = max(self.logged, upto), max(self.logged_epoch, epoch)
        self._is_replaced = False

    @on(LogRefused)
    def on_refused(self, message: LogRefused) -> None:
        """Handle LogRefused: retry soon; a snapshot only for compaction, much later."""
        if self._part is not None and message.token == self._part.token:
            self._drop()
            if not self._is_replaced:
                return
            self._is_paused = True
        elif self._order is None or message.token != self._order.token:
            return
        self.refused = self.trouble = message.reason
        self.member.after(RETRY_SECONDS, self.retry)

    def retry(self) -> None:
        """Repeat the order: there may be space.  Records gathered meanwhile follow."""
        if self._is_paused:
            self._is_paused = False
            self.refused = ""
        elif self._order is not None and self.refused:
            self.member.perform(self._order)


def recover(shard: str, parts: list[bytes], records: Iterable[bytes]) -> tuple[Replica | None, int]:
    """Return the replica of a log (None: an empty log), and its epoch.

    Raises:
        ValueError: malformed data: the parts, or the record taken last.
    """
    replica: Replica | None = None
    epoch = 0
    if parts:
        replica, epoch = Replica.load(shard, parts)
    for record in records:
        try:
            entry = _decode(record)
        except (MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no record of a shard: {error}") from error
        replica = replica or Replica(shard)
        epoch = max(epoch, entry.epoch)
        update = entry.update
        if update is not None and update.sequence > replica.sequence:
            if update.sequence > replica.sequence + 1:
                raise ValueError(f"update {update.sequence} comes after {replica.sequence}")
            replica.apply(update)
    return replica, epoch
