"""The slots of a shard: requests for ids that it does not own go back, with the table of their owners.

    counts             SlotsChanged    the table, if newer; also that of other shards' changes
    local scheduler    AwaitReturns    AwaitReturnsReply, behind all that went back before
    any                a request for an id of another shard     SlotsMoved: nothing of it is done

Without a table the shard owns whatever it is asked about: it is one of those with which the cluster was born.

A table is part of the replicated state, so each member sends the same requests back.  Records do not move yet: a table
by which the shard loses a record is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ids import name_key
from ...wire.chain import SlotsMoved
from ...wire.keyed import has_ids, ids_of
from ...wire.shards import AwaitReturns, AwaitReturnsReply, SlotsChanged, SlotTable
from ..role import on

if TYPE_CHECKING:
    from .shard import GcsShard


def take(shard: GcsShard, table: SlotTable) -> None:
    """Take a newer table, by which requests are looked at from now on; without any, that costs nothing."""
    if shard.tasks.slots is None:
        shard.handlers |= {kind: _Guard(shard, handler) for kind, handler in shard.handlers.items() if has_ids(kind)}
    shard.tasks.take_slots(table)


class _Guard:
    """The handler of a request for what the shard owns; other such requests are sent back."""

    __slots__ = ("handler", "shard")

    def __init__(self, shard: GcsShard, handler: Callable[..., None]) -> None:
        self.shard = shard
        self.handler = handler

    def __call__(self, message: Any) -> None:
        shard, table = self.shard, self.shard.tasks.slots
        if table is None or all(table.owner(any_id) == _own(shard) for any_id in ids_of(message)):
            self.handler(message)
        else:
            shard.send(shard.sender, SlotsMoved(table, message))


def _own(shard: GcsShard) -> int:
    return int(shard.address.rpartition("-")[2])


def _keys(shard: GcsShard) -> list[bytes]:
    """Return the ids of all records."""
    names = [name_key(*name) for name in shard.actor_by_name]
    return [*shard.tasks.records, *shard.functions.by_id, *shard.homes.homes, *shard.groups.records, *names]


class SlotRequests:
    """The handlers of a shard for messages about slots."""

    def __init__(self, shard: GcsShard) -> None:
        self.shard = shard

    @on(SlotsChanged)
    def on_slots_changed(self, message: SlotsChanged) -> None:
        """SlotsChanged."""
        shard, table, tasks = self.shard, message.table, self.shard.tasks
        if tasks.slots is not None and table.epoch <= tasks.slots.epoch:
            shard.reject("a table of slots that is not newer")
        elif any(table.owner(key) != _own(shard) for key in _keys(shard)) or self._needs_move(table):
            shard.reject("a table of slots by which records would move")
        else:
            take(shard, table)

    def _needs_move(self, table: SlotTable) -> bool:
        """Whether a task of another shard that our records need belongs to a third one by the table."""
        keeping = self.shard.tasks.keeping
        return keeping is not None and any(keeping.shard_of(task) != table.owner(task) for task in keeping.abroad)

    @on(AwaitReturns)
    def on_await_returns(self, message: AwaitReturns) -> None:
        """AwaitReturns: what went back before is ahead of the answer."""
        self.shard.send(self.shard.sender, AwaitReturnsReply(message.number))
