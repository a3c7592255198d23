"""A shard's reaction to a lost node: it forgets the node's copies, and has awaited objects reconstructed.

An object without a copy is made by the node that runs its task (`TaskTable.makers`).  If that node is lost, a node that
waits for the object re-executes the task from the recorded spec (Ray paper 4.8).  An actor's call is re-executed if
allowed, but never by, or for, an actor that recovers.  Lost arguments are requested in turn: so reconstruction is
recursive, across shards.  The order may find the work done or under way; the node says so instead (RebuildObject is no
second task).

A task with max_retries=n runs 1 + n times in all, so further runs are counted (`TaskTable.attempts`): those reported by
nodes, after a worker's death say, and those granted here.

A task's puts are made again when the task runs again.  So the node of the task is asked whether it does, and waiting
nodes keep waiting; a put not repeated by the end of the task is lost.

A shard of a chain may have the spec only in its store (flushing.py), while a replica has it in memory.  So the shard
asks its head for the spec (`GcsShard.wanted`) and continues with the answer, which is a step of the chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ids import FIRST_RETURN, is_put, task_of
from ...wire import chain, gcs, task_spec
from .tables import ObjectRecord

if TYPE_CHECKING:
    from .shard import GcsShard


def node_lost(shard: GcsShard, message: gcs.NodeLost) -> None:
    """Handle NodeLost: drop the node's holds and copies, and its tasks' makers.  A walk over all records."""
    node, tasks = message.node, shard.tasks
    if tasks.keeping is not None:
        tasks.keeping.node_lost(node)
    tasks.maker_lost(node)
    bereft: list[ObjectRecord] = []
    for task_id, record in list(tasks.records.items()):
        if tasks.frozen is not None and record.objects:
            tasks.changes(task_id, record)
        for item in list((record.objects or {}).values()):
            item.leaves(node)
            item.awaited_no_more(node)
            if item.subscribers and not item.sizes:
                bereft.append(item)
    for task_id, record in list(tasks.records.items()):
        if record.holder == node:
            shard.release(task_id + FIRST_RETURN, node, by_death=not message.is_drained)
        for item in list((record.objects or {}).values()):
            shard.release(item.object_id, node, by_death=not message.is_drained)
            tasks.drop_if_unused(item)
    bereft.sort(key=lambda item: is_put(item.object_id))  # by then the nodes that re-execute tasks are known
    for item in bereft:
        if tasks.find_object(item.object_id) is item:
            see_to(shard, item)


def see_to(shard: GcsShard, item: ObjectRecord, found: task_spec.TaskSpec | None = None) -> None:
    """Have an awaited object without a copy made, or report the loss.  found: by the head."""
    object_id = item.object_id
    task_id = task_of(object_id)
    tasks = shard.tasks
    spec = tasks.records[task_id].spec
    name = object_id.hex()
    if is_put(object_id) and (spec is None or task_id not in tasks.makers):
        _give_up_put(shard, item)
        return
    if spec is None:
        reason = f"Object {name} was lost with its node, and the record of its task was lost too."
        _give_up(shard, item, reason, has_task=True)
        return
    if shard.is_chained and found is None:
        shard.wants(object_id)
        return
    spec = found or spec
    assert type(spec) is task_spec.TaskSpec, "a spec that is in a store, and no chain to ask for it"
    options = task_spec.parse_options(spec.options)
    maker = tasks.makers.get(task_id)
    attempts = tasks.attempts.get(task_id, 0)
    is_granted = maker is None
    if maker is None:
        if not gcs.may_run_once_more(options, attempts):
            _give_up(shard, item, gcs.result_is_lost(object_id, options), has_task=True)
            return
        maker = next(iter(item.subscribers))
        tasks.is_made_by(task_id, maker)
    shard.send(maker, gcs.RebuildObject(object_id, spec, attempts, is_granted, tasks.drawn.get(task_id, 0)))


def lineage_found(shard: GcsShard, message: chain.LineageFound) -> None:
    """Handle LineageFound: continue, if still wanted."""
    item = shard.tasks.find_object(message.object_id)
    if item is None or item.sizes or not item.subscribers:
        return
    if is_put(message.object_id) and message.spec is None:
        _give_up_put(shard, item)
    elif message.spec is None:
        reason = f"Object {message.object_id.hex()} was lost with its node.  {message.reason}"
        _give_up(shard, item, reason, has_task=True)
    else:
        see_to(shard, item, message.spec)


def task_is_over(shard: GcsShard, task_id: bytes) -> None:
    """Report puts of an ended task lost, if awaited and without a copy."""
    record = shard.tasks.records.get(task_id)
    for item in list(record.objects.values()) if record is not None and record.objects else ():
        if is_put(item.object_id) and item.subscribers and not item.sizes:
            put = shard.tasks.find_object(item.object_id)
            assert put is item
            _give_up_put(shard, put)


def is_let_go(shard: GcsShard, object_id: bytes) -> None:
    """Treat a task as ended when no holder is left for any of its returns, since no node reports its end then."""
    task_id = task_of(object_id)
    record = shard.tasks.records.get(task_id)
    if record is None or record.holder or not record.objects or is_put(object_id):
        return
    if not any(item.holders for item in record.objects.values() if not is_put(item.object_id)):
        task_is_over(shard, task_id)


def _give_up_put(shard: GcsShard, item: ObjectRecord) -> None:
    how = "was put, or passed as a large argument, and all its copies are lost"
    _give_up(shard, item, f"Object {item.object_id.hex()} {how}.  {gcs.PUT_HELP}.")


def _give_up(shard: GcsShard, item: ObjectRecord, reason: str, *, has_task: bool = False) -> None:
    for node in item.take_subscribers():
        shard.send(node, gcs.ObjectLost(item.object_id, reason, has_task))
    shard.tasks.drop_if_unused(item)


def cannot_rebuild(shard: GcsShard, message: gcs.CannotRebuild) -> None:
    """Handle CannotRebuild: ask the next waiting node, if any; a put is lost, since its task does not run again."""
    if is_put(message.object_id):
        put = shard.tasks.find_object(message.object_id)
        if put is not None and not put.sizes:
            _give_up_put(shard, put)
        return
    task_id = task_of(message.object_id)
    makers = shard.tasks.makers
    if makers.get(task_id) == message.node:
        shard.tasks.made_no_more(task_id, was_granted=message.was_granted)
    item = shard.tasks.find_object(message.object_id)
    if item is not None and not item.sizes:
        item.awaited_no_more(message.node)
        if item.subscribers:
            see_to(shard, item)
        else:
            shard.tasks.drop_if_unused(item)
    if task_id not in makers:
        task_is_over(shard, task_id)
