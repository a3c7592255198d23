"""What a replica keeps on disk: its updates, and the epochs that it has entered; now and then all of its state.

Group commit: while one order is under way, what comes is gathered for the next.  The role counts on nothing that the
log has not confirmed (`logged`).  A full disk: the same order again, a little later, and until then no more requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from ...wire.chain import Update
from ...wire.message import Local
from ..effects import AppendToLog, LogAppended, LogRefused, SaveSnapshot
from .replica import Replica

if TYPE_CHECKING:
    from .chain import ChainMember

# A start reads at most about so much of a log, or twice the state if that is more.
SNAPSHOT_BYTES = 64 << 20
RETRY_SECONDS = 1.0


class Entry(Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """One record: the member has entered an epoch, or applied an update in it."""

    epoch: int
    update: Update | None


class RetryAppend(Local):
    """There may be space again."""


_encode = Encoder().encode
_decode = Decoder(Entry).decode


class Journal:
    """Of one member."""

    def __init__(self, member: ChainMember) -> None:
        self.member = member
        self.logged = 0  # all updates up to this one are there for good
        self.logged_epoch = 0  # and that this epoch was entered
        self.entered = 0  # the last epoch in which the member had all that its predecessor had
        self.refused = ""  # why the order under way was not taken; it will be given again
        self._gathered: list[bytes] = []
        self._gathered_to = 0  # the last update among them, or before them
        self._order: AppendToLog | SaveSnapshot | None = None  # under way
        self._order_to = 0  # the update up to which all is there once it is done
        self._order_epoch = 0
        self._token = 0
        self._is_replaced = False  # the log leads to something else than what the member has
        self._is_begun = True  # a record stands between its last snapshot and the next one
        self._bytes = 0  # since the last snapshot
        self._snapshot_bytes = 0

    def update(self, update: Update) -> None:
        """It has been applied."""
        self._gathered.append(_encode(Entry(self.entered, update)))
        self._gathered_to = update.sequence

    def epoch(self) -> None:
        """It has been entered, with all that was acknowledged before."""
        self.entered = self.member.epoch
        if self.member.replica is not None:
            self._gathered.append(_encode(Entry(self.entered, None)))
            self._gathered_to = self.member.replica.sequence

    def replaced(self) -> None:
        """The member got a whole state from its predecessor: that is what counts, whatever the log holds."""
        self._is_replaced = True
        self._is_begun = False
        self.logged = 0

    @property
    def is_saving(self) -> bool:
        """Whether a snapshot is under way, or about to be: then no page may be written that it does not know."""
        return self._is_replaced or type(self._order) is SaveSnapshot

    def end_turn(self) -> None:
        """Give the next order."""
        if self._order is not None:
            return
        if self._is_replaced and not self._is_begun:
            # A store takes a snapshot after the last record for one of the same state.
            self._is_begun = True
            self._gathered.clear()
            self._give(AppendToLog([_encode(Entry(self.logged_epoch, None))], self._token + 1), 0)
        elif self._is_replaced or (not self._gathered and self._bytes > max(SNAPSHOT_BYTES, 2 * self._snapshot_bytes)):
            replica = self.member.replica
            assert replica is not None
            parts = list(replica.dump(self.entered))
            self._is_replaced = False
            self._gathered.clear()
            self._bytes, self._snapshot_bytes = 0, sum(map(len, parts))
            self.member.flushing.void()
            self._give(SaveSnapshot(parts, self._token + 1, list(replica.shard.tasks.pages)), replica.sequence)
        elif self._gathered:
            gathered, self._gathered = self._gathered, []
            self._bytes += sum(map(len, gathered))
            self._give(AppendToLog(gathered, self._token + 1), self._gathered_to)

    def _give(self, order: AppendToLog | SaveSnapshot, upto: int) -> None:
        self._token = order.token
        self._order, self._order_to, self._order_epoch = order, upto, self.entered
        self.member.perform(order)

    def on_appended(self, message: LogAppended) -> None:
        """LogAppended."""
        if self._order is not None and message.token == self._token:
            self._order = None
            self.refused = ""
            if not self._is_replaced:
                self.logged, self.logged_epoch = self._order_to, self._order_epoch

    def on_refused(self, message: LogRefused) -> None:
        """LogRefused: try again soon."""
        if message.token != self._token or self._order is None:
            return
        if type(self._order) is SaveSnapshot and self.logged == self._order_to:
            self._order = None  # it would only have made the log shorter
        else:
            self.refused = message.reason
            self.member.set_timer(RETRY_SECONDS, RetryAppend())

    def on_retry(self) -> None:
        """RetryAppend: the same order; what has gathered meanwhile comes after it."""
        if self._order is not None and self.refused:
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
