"""Copies of shared objects: each row of the table of their states is taken by messages."""

import pytest

from tests.roles.desk import DRIVER, Desk
from zray.exceptions import decode_system_error
from zray.ids import return_id
from zray.roles.local_scheduler.objects.sharing import AWAITED, FETCHING, LOST, ON_DISK, TRANSITIONS, Event, Shared
from zray.roles.work_effects import EvictObjects, ObjectsSpilled, SpilledCopyLost, SpillObjects, SpillWanted
from zray.wire.gcs import HoldAtNodeReply, ObjectLocated, ObjectLost, RebuildObject, RemoveLocations, SubscribeObject
from zray.wire.objects import (
    FetchFailed,
    FetchObject,
    FreeObjects,
    HoldObjects,
    ObjectFetched,
    ReleaseObjects,
    ReturnPlaces,
    UnpinObjects,
)
from zray.wire.task_spec import StoredValue, TaskSpec
from zray.wire.tasks import CancelWait, ObjectsReady, WaitObjects

TASK = b"t" * 16
OBJECT = return_id(TASK, 1)
SIZE = 400_000
COPY = ObjectFetched(OBJECT, StoredValue(0, 0, SIZE))


@pytest.fixture(scope="module")
def taken():
    """The rows that the tests of this file have taken."""
    return set()


@pytest.fixture(autouse=True)
def recorded(taken, monkeypatch):
    enter = Shared._enter

    def record(self, event):
        taken.add((self.copy, event))
        enter(self, event)

    monkeypatch.setattr(Shared, "_enter", record)


@pytest.fixture
def desk():
    """A driver that waits for a large object of another node, which is ordered."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    hold_and_wait(desk, 1)
    desk.tell("gcs-0", ObjectLocated(OBJECT, SIZE, ["n1/local"]))
    assert len(desk.take_sent(FetchObject)) == 1 and copy_of(desk) is FETCHING
    return desk


def hold_and_wait(desk, request):
    desk.tell(DRIVER, HoldObjects([OBJECT]))
    desk.tell(DRIVER, WaitObjects(request, [OBJECT], 1, True, True))


def copy_of(desk):
    return desk.scheduler.objects.entries[OBJECT].shared.copy


def values(desk):
    """The values that the driver was sent."""
    return [value for _, message in desk.take_sent(ObjectsReady) for _, value in message.objects]


def held_anew(desk):
    """The driver lets go of the object and holds it again, while the order stands."""
    desk.tell(DRIVER, CancelWait(1))
    desk.tell(DRIVER, ReleaseObjects([OBJECT]))
    assert OBJECT not in desk.scheduler.objects.entries and OBJECT in desk.scheduler.fetches.ordered
    hold_and_wait(desk, 2)
    assert copy_of(desk) is AWAITED


def test_copy_that_was_ordered_before_the_object_was_held_anew_is_taken(desk, taken):
    held_anew(desk)
    desk.tell("objects", COPY)
    assert values(desk) == [COPY.value] and copy_of(desk) is AWAITED
    assert (AWAITED, Event.ENDED) in taken


def test_order_from_before_the_object_was_held_anew_may_fail(desk, taken):
    held_anew(desk)
    desk.take_sent()
    desk.tell("objects", FetchFailed(OBJECT, "nobody wants it any more"))
    desk.tell("gcs-0", ObjectLocated(OBJECT, SIZE, ["n1/local"]))
    assert len(desk.take_sent(FetchObject)) == 1 and copy_of(desk) is FETCHING
    assert (AWAITED, Event.ENDED) in taken


def test_failed_order_asks_the_shard_for_another_place(desk, taken):
    desk.tell("objects", FetchFailed(OBJECT, "its node does not answer"))
    assert [message.object_id for _, message in desk.take_sent(SubscribeObject)] == [OBJECT]
    assert copy_of(desk) is AWAITED
    assert (FETCHING, Event.ENDED) in taken


def test_object_that_is_lost_while_its_copy_comes_is_an_error(desk, taken):
    desk.tell("gcs-0", ObjectLost(OBJECT, "its node was lost", True))
    ((value),) = values(desk)
    assert "its node was lost" in str(decode_system_error(value)) and copy_of(desk) is LOST
    desk.tell("objects", COPY)  # too late: nobody was told of this copy
    assert desk.take_sent(FreeObjects) == [("objects", FreeObjects([OBJECT]))]
    assert copy_of(desk) is LOST
    assert (FETCHING, Event.LOST) in taken


def test_error_of_a_lost_object_goes_when_its_task_runs_again(desk, taken):
    desk.tell("objects", FetchFailed(OBJECT, "its node does not answer"))
    desk.tell("gcs-0", ObjectLost(OBJECT, "its node was lost", True))
    assert copy_of(desk) is LOST
    desk.tell("gcs-0", RebuildObject(OBJECT, TaskSpec(TASK, b"f" * 16)))
    entry = desk.scheduler.objects.entries[OBJECT]
    assert copy_of(desk) is AWAITED and entry.value is None and entry.task is not None
    assert {(AWAITED, Event.LOST), (LOST, Event.FORGOTTEN)} <= taken


def spilled(desk):
    """The copy is here, nobody reads it, and it leaves the arena for the disk."""
    desk.tell("objects", COPY)
    desk.take_sent()
    desk.tell("objects", SpillWanted(SIZE, True))
    assert desk.take_sent(ReturnPlaces) == [(DRIVER, ReturnPlaces([OBJECT]))]
    desk.tell(DRIVER, UnpinObjects([(OBJECT, 1)]))
    desk.tell("gcs-0", HoldAtNodeReply(desk.scheduler.acks.request))
    assert desk.take_sent(SpillObjects) == [("objects", SpillObjects([OBJECT]))]
    desk.tell("objects", ObjectsSpilled([OBJECT], []))
    assert desk.take_sent(EvictObjects) == [("objects", EvictObjects([OBJECT]))] and copy_of(desk) is ON_DISK


def test_copy_on_disk_is_restored_when_a_process_waits_for_it(desk, taken):
    spilled(desk)
    desk.take_sent()
    desk.tell(DRIVER, WaitObjects(3, [OBJECT], 1, True, True))
    ((_, order),) = desk.take_sent(FetchObject)
    assert order.holders[-1] == desk.scheduler.address and order.is_urgent
    desk.tell("objects", COPY)
    assert values(desk) == [COPY.value]
    assert {(AWAITED, Event.SPILLED), (ON_DISK, Event.ORDERED)} <= taken


def test_copy_on_disk_that_cannot_be_read_is_lost(desk, taken):
    spilled(desk)
    desk.tell(DRIVER, WaitObjects(3, [OBJECT], 1, True, True))
    desk.take_sent()
    desk.tell("objects", SpilledCopyLost(OBJECT, "damaged"))
    desk.tell("objects", FetchFailed(OBJECT, "no node has it"))
    assert desk.take_sent(RemoveLocations) and copy_of(desk) is AWAITED
    desk.tell("gcs-0", ObjectLost(OBJECT, "it is gone"))
    assert copy_of(desk) is LOST
    ((value),) = values(desk)
    assert "damaged" in str(decode_system_error(value))


def test_copy_on_disk_without_room_is_an_error(desk, taken):
    spilled(desk)
    desk.tell(DRIVER, WaitObjects(3, [OBJECT], 1, True, True))
    desk.take_sent()
    desk.tell("objects", FetchFailed(OBJECT, "the disk is full", True))
    ((value),) = values(desk)
    assert "the disk is full" in str(decode_system_error(value)) and copy_of(desk) is LOST
    assert (ON_DISK, Event.LOST) in taken


def test_copy_on_disk_that_is_read_in_vain_is_lost_though_nobody_waits(desk, taken):
    spilled(desk)
    desk.tell(DRIVER, WaitObjects(3, [OBJECT], 1, True, True))
    desk.tell(DRIVER, CancelWait(3))
    desk.tell("objects", FetchFailed(OBJECT, "nobody wants it any more"))
    assert copy_of(desk) is ON_DISK
    desk.take_sent()
    desk.tell("objects", SpilledCopyLost(OBJECT, "damaged"))
    assert desk.take_sent(RemoveLocations) and copy_of(desk) is AWAITED
    assert (ON_DISK, Event.ENDED) in taken


def test_rows_of_this_file_are_the_table(desk, taken):
    desk.tell("objects", COPY)
    for test in (
        test_copy_that_was_ordered_before_the_object_was_held_anew_is_taken,
        test_order_from_before_the_object_was_held_anew_may_fail,
        test_failed_order_asks_the_shard_for_another_place,
        test_object_that_is_lost_while_its_copy_comes_is_an_error,
        test_error_of_a_lost_object_goes_when_its_task_runs_again,
        test_copy_on_disk_is_restored_when_a_process_waits_for_it,
        test_copy_on_disk_without_room_is_an_error,
        test_copy_on_disk_that_is_read_in_vain_is_lost_though_nobody_waits,
    ):
        again = Desk()
        again.scheduler.is_embedded = False
        hold_and_wait(again, 1)
        again.tell("gcs-0", ObjectLocated(OBJECT, SIZE, ["n1/local"]))
        again.take_sent(FetchObject)
        test(again, taken)
    assert taken == set(TRANSITIONS)
