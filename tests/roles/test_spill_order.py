"""Spilling beside restores: nothing is written ahead of need while a process waits for a value from disk."""

import pytest

from tests.roles.desk import DRIVER, Desk
from zray.roles.work_effects import EvictObjects, NothingLeaves, ObjectsSpilled, SpillObjects, SpillWanted
from zray.wire.gcs import HoldAtNodeReply
from zray.wire.objects import FetchObject, ObjectFetched, PutObject, PutObjects, UnpinObjects
from zray.wire.task_spec import StoredValue
from zray.wire.tasks import WaitObjects

SIZE = 400_000
FIRST, SECOND = b"a" * 20, b"b" * 20


def put(desk, object_id, offset):
    desk.tell(DRIVER, PutObjects([PutObject(object_id, StoredValue(0, offset, SIZE))]))
    desk.tell(DRIVER, UnpinObjects([(object_id, 1)]))


def spill(desk):
    """The objects that are written now."""
    if desk.scheduler.acks.expected:
        desk.tell("gcs-0", HoldAtNodeReply(desk.scheduler.acks.request))
    return [object_id for _, message in desk.take_sent(SpillObjects) for object_id in message.object_ids]


@pytest.fixture
def desk():
    """The first value is on disk, and the driver waits for it; the second one is in the arena."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    put(desk, FIRST, 0)
    desk.tell("objects", SpillWanted(SIZE, False))
    assert spill(desk) == [FIRST]
    desk.tell("objects", ObjectsSpilled([FIRST], []))
    assert desk.take_sent(EvictObjects) == [("objects", EvictObjects([FIRST]))]
    desk.tell("objects", SpillWanted(0, False))
    put(desk, SECOND, SIZE)
    desk.tell(DRIVER, WaitObjects(1, [FIRST], 1, True, True))
    assert desk.take_sent(FetchObject)
    return desk


def test_nothing_is_written_ahead_of_need_while_a_value_is_restored(desk):
    desk.tell("objects", SpillWanted(SIZE, False))
    assert spill(desk) == []
    desk.tell("objects", ObjectFetched(FIRST, StoredValue(0, 0, SIZE)))
    assert spill(desk) == [SECOND]


def test_values_are_written_for_a_restore_that_finds_no_room(desk):
    desk.tell("objects", SpillWanted(SIZE, False, True))
    assert spill(desk) == [SECOND]


@pytest.fixture
def busy():
    """A node whose two workers run tasks that take the two values of its store, each by its worker's address."""
    desk = Desk()
    taken = {}
    for object_id in (FIRST, SECOND):
        put(desk, object_id, SIZE * len(taken))
        desk.submit(desk.new_spec(deps=[object_id]))
        worker = desk.give_birth()
        taken[worker] = object_id
    assert [desk.inflight(worker) for worker in taken] == [1, 1]
    return desk, list(taken)


def nothing_leaves(desk, writers):
    desk.take_sent()
    desk.tell("objects", SpillWanted(SIZE, True, True, frozenset(writers)))
    return bool(desk.take_sent(NothingLeaves))


def test_nothing_leaves_while_each_task_that_takes_a_value_waits_for_space(busy):
    desk, workers = busy
    assert nothing_leaves(desk, workers)


def test_value_of_a_task_that_runs_on_may_leave_at_its_end(busy):
    desk, workers = busy
    assert not nothing_leaves(desk, workers[:1])
    assert not nothing_leaves(desk, [])
