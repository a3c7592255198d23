"""The move of slots: the tasks' records of the shard that loses them, as bytes, to the shard that gains them.

Both shards take the table with the move.  Needs of the records move too (keeping.py):

    tasks of a third shard         the loser keeps its need of these for the gainer, until the third one has heard of
                                   the gainer's: the gainer says then that they are freed
    tasks that the loser keeps     the loser keeps them for the gainer from now on
    moved tasks                    the gainer keeps them for all others that need them, also for the loser

So nothing is said of the last two, and no record is without its arguments at any moment.  For that, the gainer has no
batch under way, and both know the same lost nodes; whoever moves slots waits for that.

Only records of tasks move yet.  Slots with other records, and specs that are in a store, are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.msgpack import decode, encode

from ...ids import is_put, task_of
from ...wire.shards import SlotTable
from ...wire.task_spec import TaskSpec
from . import slots
from .state import TaskState, task_record, task_state
from .tables import parents_of

if TYPE_CHECKING:
    from .keeping import Keeping
    from .shard import GcsShard


class Moved(Struct, array_like=True, forbid_unknown_fields=True):
    """The records that move.  Dependents of the tasks are counted again by the gainer."""

    loser: int
    table: SlotTable
    lost: list[str]  # nodes
    has_lost_copies: bool
    tasks: list[TaskState] = field(default_factory=list)
    makers: list[tuple[bytes, str]] = field(default_factory=list)
    attempts: list[tuple[bytes, int]] = field(default_factory=list)
    drawn: list[tuple[bytes, int]] = field(default_factory=list)
    kept_for: list[tuple[bytes, list[int]]] = field(default_factory=list)


def give(shard: GcsShard, table: SlotTable) -> bytes:
    """Take a table by which slots move to one other shard, and return their records.

    Raises:
        ValueError: they cannot move; nothing has changed.
    """
    keeping, own, gainer = _keeping(shard, table), slots.own_number(shard), _gainer(shard, table)
    former, tasks = keeping.slots, shard.tasks
    going = [it for it in tasks.records if former.owner(it) == own != table.owner(it)]
    if any(former.owner(it) == own != table.owner(it) for it in keys_beside_tasks(shard)):
        raise ValueError("slots that have other records than of tasks")
    if any(type(tasks.records[it].spec) not in (TaskSpec, type(None)) for it in going):
        raise ValueError("slots with specs that are in a store")
    moved = Moved(own, table, list(shard.lost), shard.has_lost_copies)
    for name in ("makers", "attempts", "drawn"):
        found = getattr(tasks, name)
        getattr(moved, name).extend((it, found[it]) for it in going if it in found)
    slots.take(shard, table)
    inner: dict[bytes, int] = {}  # moved task -> its dependents among the moved ones
    taken: list[bytes] = []  # of tasks that stay, once for each object that a moved task takes
    records = {it: tasks.take_out(it) for it in going}
    for record in records.values():
        for object_id in parents_of(record.spec) if record.spec is not None else ():
            task_id = task_of(object_id)
            if task_id in records:
                inner[task_id] = inner.get(task_id, 0) + 1
                continue
            taken.append(task_id)
            if not is_put(object_id) and table.owner(task_id) != gainer:
                tasks.keep_for(task_id, gainer)
    for task_id, record in records.items():
        stay = record.dependents - len(keeping.kept_for.get(task_id, ())) - inner.get(task_id, 0)
        for _ in range(stay):
            tasks.taken_by_moved(task_id)
        kept = keeping.goes_to(gainer, task_id, is_needed=stay > 0)
        if kept:
            moved.kept_for.append((task_id, kept))
        moved.tasks.append(task_state(task_id, record))
    for task_id in taken:
        tasks.taken_no_more(task_id)
    return encode(moved)


def keys_beside_tasks(shard: GcsShard) -> list[bytes]:
    """Return the ids of all that a shard has beside records of tasks, also of things that it is asked for."""
    return [*slots.records_beside_tasks(shard), *shard.function_waiters, *shard.homes.askers]


def receive(shard: GcsShard, data: bytes) -> None:
    """Take the table and the records of slots that move to this shard.

    Raises:
        ValueError: this is not the moment; nothing has changed.
    """
    moved = decode(data, type=Moved)
    table, tasks = moved.table, shard.tasks
    may_receive(shard, table, moved.lost)
    keeping = _keeping(shard, table)
    needed = {task.task_id: tasks.take_out(task.task_id) for task in moved.tasks if task.task_id in tasks.records}
    slots.take(shard, table)
    keeping.has_gained()
    shard.has_lost_copies = shard.has_lost_copies or moved.has_lost_copies
    tasks.makers.update(moved.makers)
    tasks.attempts.update(moved.attempts)
    tasks.drawn.update(moved.drawn)
    for task in moved.tasks:
        tasks.put_in(task.task_id, task_record(task), needed.get(task.task_id))
    for task_id, shards in moved.kept_for:
        for number in shards:
            tasks.keep_for(task_id, number)
    needs: dict[bytes, None] = {}
    for task in moved.tasks:
        for object_id in parents_of(task.spec) if task.spec is not None else ():
            task_id = task_of(object_id)
            tasks.taken_by_moved(task_id)
            if not is_put(object_id) and table.owner(task_id) != keeping.own:
                needs[task_id] = None
    keeping.needs_moved(moved.loser, list(needs))
    for task in moved.tasks:
        tasks.look_at(task.task_id)


def may_receive(shard: GcsShard, table: SlotTable, lost: list[str]) -> None:
    """Check that slots may move to this shard now.  lost: nodes, as the loser knows.

    Raises:
        ValueError: not yet.
    """
    keeping = _keeping(shard, table)
    if any(peer.number != peer.heard for peer in keeping.peers.values()):
        raise ValueError("a batch is under way, which may say what is over by the move")
    if set(lost) != set(shard.lost):
        raise ValueError("one of both has not heard of a lost node")
    if any(keeping.slots.owner(it) != keeping.own == table.owner(it) for it in keeping.kept_for):
        raise ValueError("a task is kept for another shard, which has to tell its owner first")


def _keeping(shard: GcsShard, table: SlotTable) -> Keeping:
    if shard.tasks.slots is None or table.epoch != shard.tasks.slots.epoch + 1:
        raise ValueError("a table that does not follow ours")
    keeping = shard.tasks.keep(max(2, table.shards), shard.address, shard.groups.attending)
    assert keeping is not None
    return keeping


def _gainer(shard: GcsShard, table: SlotTable) -> int:
    former, own = shard.tasks.slots, slots.own_number(shard)
    assert former is not None
    gainers = {now for before, now in zip(former.owners, table.owners, strict=True) if before == own != now}
    if len(gainers) != 1:
        raise ValueError("no slots of ours move to one other shard")
    return gainers.pop()
