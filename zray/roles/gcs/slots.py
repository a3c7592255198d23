"""The slots of a shard: requests for ids that it does not own go back, with the table of their owners.

    counts             SlotsChanged    the table, if newer; also that of other shards' changes
    local scheduler    AwaitReturns    AwaitReturnsReply, behind all that went back before
    any                a request for an id of another shard     SlotsMoved: nothing of it is done
    local scheduler    LineageMoved    words that have come back from another shard: keeping.py

Without a table the shard owns whatever it is asked about: it is one of those with which the cluster was born.

A table is part of the replicated state, so each member sends the same requests back.  Records move by moves.py: a
table by which the shard loses a record is refused otherwise.  The needs of records of other shards follow any table
(keeping.py).

A change of slots is made by one table, and the next one begins when all shards have that.  Before the first change all
shards have the present table.  A shard that gains a slot takes the table first, then the one that loses it, then the
others.  So each of these may take it from any shard that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ids import name_key
from ...wire.chain import SlotsMoved
from ...wire.gcs import LineageMoved
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
        if table is None or all(table.owner(any_id) == own_number(shard) for any_id in ids_of(message)):
            self.handler(message)
        else:
            shard.send(shard.sender, SlotsMoved(table, message))


def own_number(shard: GcsShard) -> int:
    """Return the number of a shard."""
    return int(shard.address.rpartition("-")[2])


def records_beside_tasks(shard: GcsShard) -> list[bytes]:
    """Return the ids of a shard's functions, actors, placement groups and names."""
    names = (name_key(*name) for name in shard.actor_by_name)
    return [*shard.functions.by_id, *shard.homes.homes, *shard.groups.records, *names]


def _moves_records(shard: GcsShard, table: SlotTable) -> bool:
    """Whether the shard loses a record by a newer table, or gains an id of which it has only needs."""
    own, tasks = own_number(shard), shard.tasks
    former = tasks.slots or (tasks.keeping.slots if tasks.keeping is not None else None)
    keys = (*tasks.records, *records_beside_tasks(shard))
    return any((former is None or former.owner(key) == own) != (table.owner(key) == own) for key in keys)


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
        elif _moves_records(shard, table):
            shard.reject("a table of slots by which records would move")
        else:
            take(shard, table)

    @on(LineageMoved)
    def on_lineage_moved(self, message: LineageMoved) -> None:
        """LineageMoved: the table comes from a shard that has taken it, and moves nothing here."""
        shard, table, keeping = self.shard, message.table, self.shard.tasks.keeping
        known = keeping.slots if keeping is not None else table
        if table.epoch > known.epoch and table.slots_of(own_number(shard)) != known.slots_of(own_number(shard)):
            shard.reject("a table of slots by which records would move")
            return
        words = keeping.came_back(message) if keeping is not None else None
        if keeping is None or words is None:
            shard.reject("a batch that was known to be heard")
            return
        if table.epoch > known.epoch:
            take(shard, table)
        keeping.say_again(message.target, words)

    @on(AwaitReturns)
    def on_await_returns(self, message: AwaitReturns) -> None:
        """AwaitReturns: what went back before is ahead of the answer."""
        self.shard.send(self.shard.sender, AwaitReturnsReply(message.number))
