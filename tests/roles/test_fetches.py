"""What is fetched and wanted no more; what there is no room for."""

import pytest

from tests.roles.desk import DRIVER, Desk
from tests.roles.object_desk import CHUNK, Fleet
from tests.roles.object_desk import Desk as Store
from zray.exceptions import ObjectStoreFullError, decode_system_error
from zray.ids import return_id
from zray.roles import effects as e
from zray.roles.local_scheduler.objects.fetches import ROOM_SECONDS_MAX
from zray.roles.local_scheduler.task import TaskState
from zray.roles.object_manager.pulls import ROOM_SECONDS
from zray.roles.work_effects import RoomWanted
from zray.wire.gcs import (
    AddLocations,
    FreeCopies,
    HoldAtNode,
    HoldAtNodeReply,
    NodeJoined,
    ObjectLocated,
    ReleaseAtNode,
    SubscribeObject,
)
from zray.wire.objects import (
    FetchFailed,
    FetchObject,
    FetchWaits,
    FreeObjects,
    HoldObjects,
    ObjectChunk,
    ObjectFetched,
    PutObject,
    PutObjects,
    ReleaseObjects,
    StopFetching,
    UnpinObjects,
)
from zray.wire.task_spec import RESOURCE_UNIT, StoredValue, TaskOptions, encode_options
from zray.wire.tasks import CancelWait, ObjectsReady, WaitObjects

ONE, TWO = b"1" * 20, b"2" * 20
INNER = return_id(b"3" * 16, 1)
SIZE = 40 * CHUNK
N2 = "n2/local"


# --- the object manager ---


def test_what_nobody_wants_any_more_is_not_pulled_to_its_end():
    fleet = Fleet(["n1", "n2"])
    fleet.desks["n1"].store(ONE, bytes(SIZE))
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    pull = fleet.desks["n2"].manager.pulls.coming[ONE]
    fleet.run(until=lambda: pull.here >= 5)
    fleet.tell("n2", N2, StopFetching(ONE))
    fleet.run()
    assert fleet.fetched["n2"] == [FetchFailed(ONE, "nobody wants it any more")]
    assert sum(len(message.data) for message in fleet.carried_from("n1", ObjectChunk)) < SIZE
    puller, giver = fleet.desks["n2"].manager, fleet.desks["n1"].manager
    assert not puller.ranges.used_bytes and not puller.pulls.windows.by_source
    assert not giver.gives.by_object and giver.objects[ONE].readers == 0
    fleet.fetch("n2", ONE, SIZE, ["n1"])  # and once more
    fleet.run()
    assert type(fleet.fetched["n2"][1]) is ObjectFetched


def test_what_is_here_already_was_said_to_be():
    fleet = Fleet(["n1", "n2"])
    fleet.desks["n1"].store(ONE, bytes(SIZE))
    fleet.fetch("n2", ONE, SIZE, ["n1"])
    fleet.run()
    fleet.tell("n2", N2, StopFetching(ONE))
    fleet.run()
    assert len(fleet.fetched["n2"]) == 1


def after(desk, seconds):
    """What the store says when so much time has gone by."""
    desk.now += seconds
    timers = desk.timers.named("Room.look")
    desk.timers.clear()
    return [said for timer in timers for said in desk.tell("timer", timer)]


@pytest.fixture
def full():
    """A store with room for one of two objects, the other one ordered."""
    desk = Store(capacity=SIZE + CHUNK, name="n2")
    desk.store(TWO, bytes(SIZE))
    assert desk.tell(N2, FetchObject(ONE, SIZE, ["n1/local"])) == [(N2, RoomWanted())]
    return desk


def test_a_store_that_stays_full_is_said_to_be_again_and_again(full):
    for number in (1, 2):
        ((target, message),) = after(full, ROOM_SECONDS)
        assert (target, message.object_id, message.seconds) == (N2, ONE, number * ROOM_SECONDS)
        assert TWO.hex() in message.reason
    assert full.tell(N2, StopFetching(ONE, "full")) == [(N2, FetchFailed(ONE, "full", is_definite=True))]
    assert after(full, ROOM_SECONDS) == [] and not full.timers


def test_who_has_waited_for_room_gets_it(full):
    full.manager.free(TWO)
    full.tell(N2, StopFetching(TWO))  # a turn
    full.tell_all_outcomes()
    assert ONE in full.manager.objects
    assert after(full, ROOM_SECONDS) == []
    assert not full.timers.named("Room.look")


def test_what_somebody_waits_for_who_runs_goes_ahead(full):
    """As it does when it was ordered for a task, and is waited for later."""
    small, smaller = b"3" * 20, b"4" * 20
    full.tell(N2, FetchObject(small, CHUNK // 2, ["n1/local"]))
    full.tell(N2, FetchObject(smaller, CHUNK // 4, ["n1/local"], is_urgent=True))
    assert smaller in full.manager.objects and small not in full.manager.objects
    full.tell(N2, FetchObject(small, CHUNK // 2, ["n1/local"], is_urgent=True))
    full.tell_all_outcomes()
    assert small in full.manager.objects and ONE not in full.manager.objects


def test_nothing_is_said_while_something_else_comes():
    desk = Store(capacity=2 * SIZE, name="n2")
    for object_id in (ONE, TWO, b"3" * 20):
        desk.tell(N2, FetchObject(object_id, SIZE, ["n1/local"]))
    desk.tell_all_outcomes()
    assert list(desk.manager.pulls.queue) == [b"3" * 20]
    assert after(desk, ROOM_SECONDS) == []
    for object_id in (ONE, TWO):
        desk.tell(N2, StopFetching(object_id))
    desk.tell_all_outcomes()
    assert not desk.manager.pulls.queue


# --- the local scheduler ---


@pytest.fixture
def desk():
    """A driver that waits for a large object of another node, which is ordered."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([ONE]))
    wait_for(desk, ONE)
    located(desk, ONE)
    ((_, order),) = desk.take_sent(FetchObject)
    assert order == FetchObject(ONE, SIZE, ["n1/local"], is_urgent=True)
    return desk


def wait_for(desk, object_id, request=1):
    desk.tell(DRIVER, WaitObjects(request, [object_id], 1, True, True))


def located(desk, object_id):
    desk.tell("gcs-0", ObjectLocated(object_id, SIZE, ["n1/local"]))


def let_go(desk):
    desk.tell(DRIVER, CancelWait(1))
    desk.tell(DRIVER, ReleaseObjects([ONE]))


def test_what_is_let_go_of_is_not_fetched_any_more(desk):
    let_go(desk)
    assert desk.take_sent(StopFetching) == [("objects", StopFetching(ONE))]
    desk.tell("objects", FetchFailed(ONE, "nobody wants it any more"))
    assert not desk.scheduler.fetches.ordered and ONE not in desk.scheduler.objects.entries


def test_what_was_made_here_meanwhile_is_not_fetched_any_more_when_it_is_freed(desk):
    """Its holder did not answer, and the shard asked for it to be made again (found by seed 30001358)."""
    (made,) = desk.submit(desk.new_spec())
    fetches, entry = desk.scheduler.fetches, desk.scheduler.objects.entries[made]
    entry.share()
    fetches.begin(entry, entry.shared)
    desk.finish_one(desk.give_birth())
    desk.tell(DRIVER, ReleaseObjects([made]))
    desk.take_sent()
    desk.tell("gcs-0", FreeCopies([made]))
    assert desk.take_sent(StopFetching) == [("objects", StopFetching(made))]
    desk.tell("objects", FetchFailed(made, "nobody wants it any more"))
    assert made not in fetches.ordered and made not in desk.scheduler.objects.entries


@pytest.mark.parametrize("answer", [ObjectFetched(ONE, StoredValue(0, 0, SIZE)), FetchFailed(ONE, "given up")])
def test_what_is_wanted_again_at_once_is_ordered_when_the_first_order_has_ended(desk, answer):
    let_go(desk)
    desk.tell(DRIVER, HoldObjects([ONE]))
    wait_for(desk, ONE, 2)
    located(desk, ONE)
    assert desk.take_sent(FetchObject) == []
    desk.tell("objects", answer)
    if type(answer) is FetchFailed:
        assert [message.object_id for _, message in desk.take_sent(SubscribeObject)] == [ONE]
        located(desk, ONE)
        assert len(desk.take_sent(FetchObject)) == 1
        desk.tell("objects", ObjectFetched(ONE, StoredValue(0, 0, SIZE)))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    assert ready.objects == [(ONE, StoredValue(0, 0, SIZE))]


def test_what_was_ordered_for_a_task_is_urgent_when_a_process_waits_for_it():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([ONE]))
    desk.submit(desk.new_spec(deps=[ONE]))
    located(desk, ONE)
    assert [order.is_urgent for _, order in desk.take_sent(FetchObject)] == [False]
    wait_for(desk, ONE)
    wait_for(desk, ONE, 2)
    assert [order.is_urgent for _, order in desk.take_sent(FetchObject)] == [True]


@pytest.fixture
def dying(desk):
    """It came, nobody holds it any more, here or elsewhere, and the driver still reads it.  Then it is wanted anew."""
    desk.tell("objects", ObjectFetched(ONE, StoredValue(0, 0, SIZE)))
    let_go(desk)
    desk.tell("gcs-0", FreeCopies([ONE]))
    assert ONE in desk.scheduler.objects.dying
    desk.tell(DRIVER, HoldObjects([ONE]))
    wait_for(desk, ONE, 2)
    located(desk, ONE)
    assert not [message for _, message in desk.take_sent() if type(message) in (FetchObject, FreeObjects)]
    return desk


def test_what_is_still_being_read_here_need_not_come(dying):
    """The order for it waited for its last reader, and that one for the order (found by seed 1700001217)."""
    wait_for(dying, ONE, 3)
    dying.timer("Fetches.take_what_is_here")
    sent = [message for _, message in dying.take_sent()]
    assert ObjectsReady([(ONE, StoredValue(0, 0, SIZE))]) in sent
    assert AddLocations("local", [(ONE, SIZE)]) in sent
    assert not any(type(message) is FetchObject for message in sent)
    objects = dying.scheduler.objects
    assert not (objects.dying or objects.revivable or dying.scheduler.fetches.ordered)


def test_what_its_last_reader_lets_go_of_in_that_moment_is_ordered(dying):
    dying.tell(DRIVER, UnpinObjects([(ONE, 1)]))
    assert dying.take_sent(FreeObjects) == [("objects", FreeObjects([ONE]))]
    dying.timer("Fetches.take_what_is_here")
    assert [message.object_id for _, message in dying.take_sent(SubscribeObject)] == [ONE]
    located(dying, ONE)
    assert len(dying.take_sent(FetchObject)) == 1


def test_what_is_wanted_no_more_in_that_moment_goes_when_its_last_reader_does(dying):
    dying.tell(DRIVER, CancelWait(2))
    dying.tell(DRIVER, ReleaseObjects([ONE]))
    dying.timer("Fetches.take_what_is_here")
    dying.tell("gcs-0", FreeCopies([ONE]))
    assert not dying.take_sent(FreeObjects)
    dying.tell(DRIVER, UnpinObjects([(ONE, 1)]))
    assert dying.take_sent(FreeObjects) == [("objects", FreeObjects([ONE]))]
    assert ONE not in dying.scheduler.objects.entries and not dying.scheduler.fetches.ordered


@pytest.fixture
def dying_with_a_ref(desk):
    """The same, of a value with a ref inside: this node holds what that refers to no more."""
    desk.tell("objects", ObjectFetched(ONE, StoredValue(0, 0, SIZE), (INNER,)))
    desk.tell("gcs-0", HoldAtNodeReply(1))
    let_go(desk)
    desk.tell("gcs-0", FreeCopies([ONE]))
    assert INNER not in desk.scheduler.objects.entries
    desk.tell(DRIVER, HoldObjects([ONE]))
    wait_for(desk, ONE, 2)
    located(desk, ONE)
    desk.take_sent()
    desk.timer("Fetches.take_what_is_here")
    assert desk.take_sent() == [("gcs-0", HoldAtNode("local", [INNER], 2, are_inside=True))]
    return desk


def test_what_is_still_being_read_here_and_has_refs_inside_is_here_when_these_are_held(dying_with_a_ref):
    desk = dying_with_a_ref
    desk.tell("gcs-0", HoldAtNodeReply(2))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    assert ready.objects == [(ONE, StoredValue(0, 0, SIZE))]
    assert desk.scheduler.objects.entries[INNER].count == 1
    assert not (desk.scheduler.objects.dying or desk.scheduler.fetches.ordered)


def test_what_is_still_being_read_here_with_something_inside_that_is_gone_comes_from_elsewhere(dying_with_a_ref):
    desk = dying_with_a_ref
    desk.tell("gcs-0", HoldAtNodeReply(2, are_gone=True))
    said = [message for _, message in desk.take_sent()]
    assert said == [SubscribeObject("local", ONE), ReleaseAtNode("local", [INNER])]
    located(desk, ONE)
    assert len(desk.take_sent(FetchObject)) == 1
    desk.tell(DRIVER, UnpinObjects([(ONE, 1)]))
    assert desk.take_sent(FreeObjects) == [("objects", FreeObjects([ONE]))]


def test_what_its_last_reader_lets_go_of_before_what_is_inside_is_held_is_freed_once(dying_with_a_ref):
    desk = dying_with_a_ref
    desk.tell(DRIVER, UnpinObjects([(ONE, 1)]))
    assert desk.take_sent(FreeObjects) == [("objects", FreeObjects([ONE]))]
    desk.tell("gcs-0", HoldAtNodeReply(2))
    said = [message for _, message in desk.take_sent()]
    assert said == [SubscribeObject("local", ONE), ReleaseAtNode("local", [INNER])]
    located(desk, ONE)
    assert len(desk.take_sent(FetchObject)) == 1


@pytest.mark.parametrize("value", [b"small", StoredValue(0, 0, SIZE)])
def test_what_has_refs_inside_is_here_when_these_are_held(desk, value):
    """Who is given it may take one, and record a task that takes that."""
    desk.tell("objects", ObjectFetched(ONE, value, (INNER,)))
    assert desk.take_sent(HoldAtNode) == [("gcs-0", HoldAtNode("local", [INNER], 1, are_inside=True))]
    assert not desk.take_sent(ObjectsReady)
    desk.tell("gcs-0", HoldAtNodeReply(1))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    assert ready.objects == [(ONE, value)]
    assert desk.scheduler.objects.entries[INNER].count == 1


@pytest.mark.parametrize("value", [b"small", StoredValue(0, 0, SIZE)])
def test_what_has_something_inside_that_is_gone_has_not_come(desk, value):
    """It was sent by a node that is lost, to one that was cut off for longer than it takes to know that."""
    desk.tell("objects", ObjectFetched(ONE, value, (INNER,)))
    desk.take_sent()
    desk.tell("gcs-0", HoldAtNodeReply(1, are_gone=True))
    said = [message for _, message in desk.take_sent()]
    freed = [] if value == b"small" else [FreeObjects([ONE])]
    assert said == [SubscribeObject("local", ONE), *freed, ReleaseAtNode("local", [INNER])]
    assert INNER not in desk.scheduler.objects.entries
    located(desk, ONE)  # it was made again
    assert len(desk.take_sent(FetchObject)) == 1
    desk.tell("objects", ObjectFetched(ONE, value, (INNER,)))
    desk.tell("gcs-0", HoldAtNodeReply(2))
    assert desk.take_sent(ObjectsReady)


@pytest.mark.parametrize("are_gone", [False, True])
def test_what_is_let_go_of_before_what_is_inside_is_held_leaves_nothing(desk, are_gone):
    desk.tell("objects", ObjectFetched(ONE, StoredValue(0, 0, SIZE), (INNER,)))
    let_go(desk)
    assert not {ONE, INNER} & desk.scheduler.objects.entries.keys()
    desk.take_sent()
    desk.tell("gcs-0", HoldAtNodeReply(1, are_gone))
    assert desk.take_sent() == [("objects", FreeObjects([ONE]))]
    fetches = desk.scheduler.fetches
    assert not (fetches.ordered or fetches.unheld or desk.scheduler.acks.expected)


def test_where_everybody_waits_for_room_it_is_an_error(desk):
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full of things"))
    assert desk.take_sent(StopFetching) == [("objects", StopFetching(ONE, "full of things"))]
    desk.tell("objects", FetchFailed(ONE, "full of things", is_definite=True))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    ((_, value),) = ready.objects
    error = decode_system_error(value)
    assert type(error) is ObjectStoreFullError and "full of things" in str(error)


def test_who_waits_for_tasks_without_room_for_what_they_take_makes_none():
    """However many tasks are between; of one that runs, or could, it may be that room comes."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([ONE]))
    (first,) = desk.submit(desk.new_spec(deps=[ONE]))
    (second,) = desk.submit(desk.new_spec(deps=[first]))
    (ready,) = desk.submit(desk.new_spec())
    located(desk, ONE)
    wait_for(desk, ready)
    desk.take_sent()
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert desk.take_sent(StopFetching) == []
    desk.finish_one(desk.give_birth())
    wait_for(desk, second, 2)
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert desk.take_sent(StopFetching) == [("objects", StopFetching(ONE, "full"))]


def test_a_program_that_has_nothing_here_makes_no_room(desk):
    """It is at its end, or at its prompt."""
    desk.tell("host", e.ProcessJoined("driver-2", "driver", 2, b"job-0002"))
    desk.tell("driver-2", HoldObjects([TWO]))
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert desk.take_sent(StopFetching) == []
    desk.tell("driver-2", ReleaseObjects([TWO]))
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert len(desk.take_sent(StopFetching)) == 1


def test_a_task_on_another_node_may_make_room():
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell("monitor", NodeJoined("n1/local", total={"CPU": 2 * RESOURCE_UNIT, "other": RESOURCE_UNIT}))
    desk.tell(DRIVER, HoldObjects([ONE]))
    desk.tell(DRIVER, PutObjects([PutObject(TWO, b"\x01")]))
    spec = desk.new_spec(deps=[TWO])
    spec.options = encode_options(TaskOptions(resources={"other": RESOURCE_UNIT}))
    desk.submit(spec)
    assert desk.tasks_in(TaskState.THROTTLED, TaskState.RECORDING) == [spec.task_id]
    wait_for(desk, ONE)
    located(desk, ONE)
    desk.take_sent()
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert desk.take_sent(StopFetching) == []


def test_who_runs_here_may_make_room_but_not_for_ever(desk):
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert desk.take_sent(StopFetching) == []
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS_MAX, "full"))
    assert len(desk.take_sent(StopFetching)) == 1
    desk.finish_one(worker)
    desk.tell("objects", FetchWaits(ONE, ROOM_SECONDS, "full"))
    assert len(desk.take_sent(StopFetching)) == 1
