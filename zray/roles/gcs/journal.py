"""What a replica keeps on disk: its updates, and the epochs that it has entered; now and then all of its state.

Group commit: while one order is under way, what comes is gathered for the next.  The role counts on nothing that the
log has not confirmed (`logged`).  A full disk: the same order again, a little later, and until then no more requests.

The state goes in parts, one under way at a time, and what is applied meanwhile goes to the log between them.  Only
where the log leads to something else than the member has, a new one's, the records wait until the state is there.
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

# A start reads at most about so much of a log, or twice the state if that is more.
SNAPSHOT_BYTES = 64 << 20
RETRY_SECONDS = 1.0
# Records that wait for the disk of a member where nobody else does: one in the middle, or one that joins.  When it is
# so far behind it keeps none of them, and has its state saved when the disk takes something again.  (For the head's
# disk and the tail's, and for that of a hosted tail's predecessor, the clients wait: see entrance.)
GATHERED_MAX = 8_192


class Entry(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One record: the member has entered an epoch, or applied an update in it."""

    epoch: int
    update: Update | None


_encode = Encoder().encode
_decode = Decoder(Entry).decode


class Journal:
    """Of one member."""

    # One that is appended; with as many epochs.
    LASTING = {"_gathered": None, "waiting": lambda _: GATHERED_MAX + 2 * entrance.HISTORY_MAX}

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.logged = 0  # all updates up to this one are there for good
        self.logged_epoch = 0  # and that this epoch was entered
        self.entered = 0  # the last epoch in which the member had all that its predecessor had
        self.refused = ""  # why the order under way was not taken; it will be given again
        self.trouble = ""  # the same, until the disk has taken something again: for people
        self._gathered: list[bytes] = []
        self._gathered_to = 0  # the last update among them, or before them
        self._order: AppendToLog | None = None  # under way
        self._order_to = 0  # the update up to which all is there once it is done
        self._order_epoch = 0
        self._token = 0  # of the last order of any kind
        self._is_replaced = False  # the log leads to something else than what the member has
        self._dump: Dump | None = None  # a snapshot that has begun
        self._part: SaveSnapshot | None = None  # under way
        self._parts = 0
        self._dump_epoch = 0
        self._is_paused = False  # there was no space for a snapshot, and there must be one
        self._bytes = 0  # of records since the last snapshot began, in another life too
        self._snapshot_bytes = 0

    def recover(self, parts: Iterable[bytes], records: Iterable[bytes]) -> tuple[Replica | None, int]:
        """As the function.  What is found counts: a log of lives that each wrote little is made short as well."""
        found = list(parts)
        self._snapshot_bytes = sum(map(len, found))
        return recover(self.member.shard, found, self._counted(records))

    def _counted(self, records: Iterable[bytes]) -> Iterator[bytes]:
        for record in records:
            self._bytes += len(record)
            yield record

    def update(self, update: Update) -> None:
        """It has been applied."""
        self._gather(Entry(self.entered, update), update.sequence)

    def epoch(self) -> None:
        """It has been entered, with all that was acknowledged before."""
        self.entered = self.member.epoch
        if self.member.replica is not None:
            if self._gathered and _decode(self._gathered[-1]).update is None:
                self._gathered.pop()  # a disk that takes nothing, and one epoch after another
            self._gather(Entry(self.entered, None), self.member.replica.sequence)

    def _gather(self, entry: Entry, upto: int) -> None:
        if len(self._gathered) >= GATHERED_MAX and not self.member.is_awaited and not self._is_replaced:
            self.replaced()
        if self._is_replaced and self._dump is None:
            return  # it will be in the snapshot
        self._gathered.append(_encode(entry))
        self._gathered_to = upto

    def replaced(self) -> None:
        """The whole state is what counts, whatever the log holds: it is another one, or the log is far behind."""
        self.forget()
        self._is_replaced = True
        self._gathered.clear()

    def forget(self) -> None:
        """The member's state is not what it was."""
        self.logged = self.logged_epoch = 0
        self._drop()

    def _drop(self) -> None:
        """Of a snapshot; what is under way of it counts no more."""
        if self._dump is not None:
            self._dump.close()
        self._dump = self._part = None

    @property
    def waiting(self) -> int:
        """Records that the disk is still to be given; those that come while it gets the state before them aside."""
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
            # Nothing of what the member had before may come to the log after this.
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
        self._part = SaveSnapshot(data, self._parts, self._token, is_last)
        if is_last:
            # Those of the snapshot, and those of the memory; what is being written just now is newer than all.
            self._part.pages = list(dict.fromkeys((*dump.pages, *replica.shard.tasks.pages)))
            self._part.newest_page = self.member.flushing.newest_page
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
        """LogRefused: try again soon; a snapshot that would only have made the log shorter, much later."""
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
        """Give the same order again: there may be space.  What has gathered meanwhile comes after it."""
        if self._is_paused:
            self._is_paused = False
            self.refused = ""
        elif self._order is not None and self.refused:
            self.member.perform(self._order)


def recover(shard: str, parts: list[bytes], records: Iterable[bytes]) -> tuple[Replica | None, int]:
    """The replica that a log leads to (None: the log is empty), and its epoch.

    Raises:
        ValueError: something makes no sense: the parts, or the record that was taken last.
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
