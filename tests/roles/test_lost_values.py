"""Values that a test has the stores lose (FreeValues.are_lost): what the shard, the processes and the store hear."""

import pytest

from tests.roles.desk import DRIVER, Desk
from zray.ids import return_id
from zray.wire.gcs import AddLocations, HoldAtNode, ObjectLocated, RebuildObject, RecordTasks, RemoveLocations
from zray.wire.objects import (
    FreeObjects,
    FreeValues,
    HoldObjects,
    ObjectFetched,
    ReleaseObjects,
    UnpinObjects,
    ValuesFreed,
)
from zray.wire.task_spec import StoredValue
from zray.wire.tasks import ObjectsReady, WaitObjects

PLACE = StoredValue(0, 0, 400_000)


@pytest.fixture
def desk():
    return Desk(cpus=1)


def made(desk):
    """A large value of a task, whose place the driver was told."""
    spec = desk.new_spec()
    (object_id,) = desk.submit(spec)
    desk.give_birth()
    desk.finish_one(next(iter(desk.queues)), PLACE)
    desk.take_sent()
    return spec, object_id


def lose(desk, object_id, sender=DRIVER):
    desk.tell(sender, FreeValues([object_id], are_lost=True))
    return desk.take_sent()


def kinds(sent, target):
    return [type(message) for to, message in sent if to == target]


def test_shard_hears_of_the_task_of_the_copy_and_of_its_loss_in_this_order(desk):
    _, object_id = made(desk)
    sent = lose(desk, object_id)
    told = kinds(sent, "gcs-0")
    assert told[0] is RecordTasks and told[-1] is RemoveLocations and HoldAtNode in told
    assert told.index(HoldAtNode) < told.index(AddLocations) < len(told) - 1
    assert (DRIVER, ValuesFreed([object_id], are_lost=True)) in sent
    assert desk.scheduler.objects.entries[object_id].value is None


def test_range_is_free_once_its_readers_have_dropped_it(desk):
    _, object_id = made(desk)
    assert kinds(lose(desk, object_id), "objects") == []
    desk.tell(DRIVER, UnpinObjects([(object_id, 1)]))
    for worker in desk.queues:
        desk.tell(worker, UnpinObjects([(object_id, 1)]))
    assert desk.take_sent(FreeObjects) == [("objects", FreeObjects([object_id]))]


def test_value_is_made_again_for_its_holder(desk):
    spec, object_id = made(desk)
    lose(desk, object_id)
    desk.tell("gcs-0", RebuildObject(object_id, spec))
    desk.run_all()
    assert (object_id, b"\x01") in [pair for _, message in desk.take_sent(ObjectsReady) for pair in message.objects]


def test_value_that_a_task_takes_stays(desk):
    _, object_id = made(desk)
    desk.submit(desk.new_spec(deps=[object_id]), desk.new_spec(deps=[object_id]))
    desk.take_sent()
    assert RemoveLocations not in kinds(lose(desk, object_id), "gcs-0")
    assert desk.scheduler.objects.entries[object_id].value == PLACE
    desk.run_all()
    assert RemoveLocations in kinds(lose(desk, object_id), "gcs-0")


def test_small_value_stays(desk):
    (object_id,) = desk.submit(desk.new_spec())
    desk.run_all()
    desk.take_sent()
    assert lose(desk, object_id) == []


def test_other_nodes_are_told_by_the_node_of_the_program_alone(desk):
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers["n1/local"] = {}
    _, object_id = made(desk)
    assert ("n1/local", FreeValues([object_id], are_lost=True)) in lose(desk, object_id)
    _, other_id = made_elsewhere(desk)
    assert not [message for to, message in lose(desk, other_id, "n1/local") if to == "n1/local"]


def made_elsewhere(desk):
    """A copy of another node's value, which the driver has read."""
    object_id = return_id(b"t" * 16, 1)
    desk.tell(DRIVER, HoldObjects([object_id]))
    desk.tell(DRIVER, WaitObjects(1, [object_id], 1, True, True))
    desk.tell("gcs-0", ObjectLocated(object_id, PLACE.size, ["n1/local"]))
    desk.tell("objects", ObjectFetched(object_id, PLACE))
    desk.take_sent()
    return None, object_id


def test_copy_that_nobody_here_refers_to_is_lost_too(desk):
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers["n1/local"] = {}
    _, object_id = made_elsewhere(desk)
    desk.tell(DRIVER, ReleaseObjects([object_id]))
    desk.tell(DRIVER, UnpinObjects([(object_id, 1)]))
    desk.take_sent()
    sent = lose(desk, object_id, "n1/local")
    assert ("gcs-0", RemoveLocations(desk.scheduler.address, [object_id])) in sent
    assert ("objects", FreeObjects([object_id])) in sent and object_id not in desk.scheduler.objects.entries
