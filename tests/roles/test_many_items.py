"""Thousands of items of one generator at a shard: the end of each looks at no other."""

from zray.ids import item_id, return_id
from zray.roles.gcs import GcsShard
from zray.roles.gcs.tables import TaskTable
from zray.wire.gcs import AddLocations, FreeCopies, HoldAtNode, RecordTasks, ReleaseAtNode
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options

COUNT = 2_000
NODE = "n1/local"
OPTIONS = encode_options(TaskOptions())


def spec(number, deps=()):
    return TaskSpec(bytes([number]) * 16, b"f" * 16, deps=tuple(deps), options=OPTIONS)


def tell(shard, message):
    return [effect.message for effect in shard.handle(NODE, message, 0.0)]


def shard_with_items(maker, deps_of_another):
    """A shard that knows a generator's items, which one node holds, and a task that takes some of them."""
    shard = GcsShard("gcs-0")
    items = [item_id(maker.task_id, number) for number in range(COUNT)]
    tell(shard, RecordTasks(NODE, [maker], 0))
    tell(shard, HoldAtNode(NODE, items, 0))
    tell(shard, AddLocations(NODE, [(item, 100) for item in items]))
    if deps_of_another:
        tell(shard, RecordTasks(NODE, [spec(2, items[:deps_of_another])], 0))
    return shard, items


def test_end_of_an_item_looks_at_no_other(monkeypatch):
    looks = []
    monkeypatch.setattr(TaskTable, "_free_unheld", lambda self, record: looks.append(record))
    shard, items = shard_with_items(spec(1), 0)
    freed = [each for message in tell(shard, ReleaseAtNode(NODE, items)) for each in message.object_ids]
    assert freed == items and not looks
    tell(shard, ReleaseAtNode(NODE, [return_id(spec(1).task_id, 1)]))
    assert not shard.tasks.records


def test_items_that_another_task_has_taken_go_with_that_task():
    shard, items = shard_with_items(spec(1), 10)
    tell(shard, ReleaseAtNode(NODE, [*items, return_id(spec(1).task_id, 1)]))
    said = tell(shard, ReleaseAtNode(NODE, [return_id(spec(2).task_id, 1)]))
    assert not shard.tasks.records and all(type(message) is FreeCopies for message in said)
