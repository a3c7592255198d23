"""Tasks for whose arguments a node has no room."""

import pytest

from tests.roles.desk import DRIVER, Desk
from tests.roles.reasons_desk import Node, ref
from tests.roles.test_fetches import SIZE, located, wait_for
from zray.exceptions import ObjectStoreFullError, decode_system_error
from zray.roles.local_scheduler.objects.fetches import FULL_NEWS_SECONDS
from zray.roles.local_scheduler.task import TaskState
from zray.roles.object_manager.pulls import ROOM_SECONDS
from zray.wire.actors import CreateActor
from zray.wire.gcs import ObjectLocated
from zray.wire.objects import FetchFailed, FetchWaits, HoldObjects, ObjectFetched, ReleaseObjects, StopFetching
from zray.wire.task_spec import ActorOptions, StoredValue, TaskOptions, encode_options
from zray.wire.tasks import ObjectsReady

FOUR = [bytes([number]) * 20 for number in range(11, 15)]


def heard(desk):
    """The kinds and texts of the errors that the driver has been pushed, by object."""
    said = {}
    for target, message in desk.take_sent(ObjectsReady):
        said |= {key: decode_system_error(value) for key, value in message.objects if target == DRIVER}
    return said


@pytest.fixture
def hungry():
    """A task that takes one object that is here, one for which there is no room, one behind that, one not made yet."""
    desk = Desk()
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects(FOUR))
    (desk.result,) = desk.submit(desk.new_spec(deps=FOUR))
    for object_id in FOUR[:3]:
        located(desk, object_id)
    desk.tell("objects", ObjectFetched(FOUR[0], StoredValue(0, 0, SIZE)))
    wait_for(desk, desk.result, 7)
    desk.take_sent()
    return desk


def test_a_task_without_room_for_one_of_its_arguments_fails_at_once_and_lets_go_of_all(hungry):
    hungry.tell("objects", FetchWaits(FOUR[1], ROOM_SECONDS, "full of things"))
    assert hungry.take_sent(StopFetching) == [("objects", StopFetching(FOUR[1], "full of things"))]
    hungry.tell("objects", FetchFailed(FOUR[1], "full of things", is_definite=True))
    sent = list(hungry.sent)
    error = heard(hungry)[hungry.result]
    assert type(error) is ObjectStoreFullError
    assert "too full for task f: its 4 arguments" in str(error) and "full of things" in str(error)
    assert f"{3 * SIZE:,} bytes" in str(error)
    assert [message for _, message in sent if type(message) is StopFetching] == [StopFetching(FOUR[2])]
    entries = hungry.scheduler.objects.entries
    assert not any(entries[object_id].count or entries[object_id].waiting for object_id in FOUR)
    assert not any(entries[object_id].is_lost for object_id in FOUR)  # there may be room for it alone
    assert not hungry.scheduler.tasks
    hungry.tell("objects", FetchFailed(FOUR[2], "nobody wants it any more"))
    assert not hungry.scheduler.fetches.ordered
    hungry.tell(DRIVER, ReleaseObjects([*FOUR, hungry.result]))
    assert set(entries) == {FOUR[0]}  # the shard says when it goes


def test_what_another_task_or_process_waits_for_too_goes_on_coming(hungry):
    (other,) = hungry.submit(hungry.new_spec(deps=[FOUR[2]]))
    wait_for(hungry, FOUR[1])
    hungry.take_sent()
    hungry.tell("objects", FetchFailed(FOUR[1], "full", is_definite=True))
    assert not [message for _, message in hungry.sent if type(message) is StopFetching]
    errors = heard(hungry)
    assert set(errors) == {hungry.result, FOUR[1]} and other not in errors
    hungry.tell("objects", ObjectFetched(FOUR[2], StoredValue(0, 0, SIZE)))
    assert hungry.scheduler.tasks[other[:16]].state == TaskState.READY


def test_a_task_that_takes_what_another_one_returns_is_an_error_too(hungry):
    (after,) = hungry.submit(hungry.new_spec(deps=[FOUR[1], hungry.result]))
    hungry.tell("objects", FetchFailed(FOUR[1], "full", is_definite=True))
    assert set(heard(hungry)) == {hungry.result, after}
    assert not hungry.scheduler.tasks


def test_all_that_a_call_lacks_has_one_deadline():
    desk = Desk()
    desk.scheduler.is_embedded = False
    creation = desk.new_spec()
    desk.tell(DRIVER, CreateActor(creation, ActorOptions(resources={})))
    desk.tell(DRIVER, HoldObjects(FOUR))
    call = desk.new_spec(FOUR)
    call.function_id = b""
    call.options = encode_options(TaskOptions(resources={}, actor_id=creation.task_id, method="add"))
    desk.submit(call)
    for object_id in FOUR[:3]:
        located(desk, object_id)
    wait_for(desk, FOUR[2])  # which is another matter
    desk.take_sent()
    desk.tell("objects", FetchFailed(FOUR[0], "full", is_definite=True))
    assert desk.take_sent(StopFetching) == [("objects", StopFetching(FOUR[1], "full"))]


# --- why it takes long ---


def test_there_is_no_room_for_its_arguments():
    """What fills the store, and why that stays, as far as this node knows."""
    node = Node(is_embedded=False)
    here, one, two = (bytes([number]) * 20 for number in (1, 2, 3))
    node.tell(DRIVER, HoldObjects([here, one, two]))
    result = node.run_task(deps=[here, one, two])
    for object_id in (here, one, two):
        node.tell("gcs-0", ObjectLocated(object_id, 7_000_000, ["n1/local"]))
    node.tell(DRIVER, ReleaseObjects([here, one, two]))
    node.tell("objects", ObjectFetched(here, StoredValue(0, 0, 7_000_000)))
    node.give_birth()  # which has something to do: there may be room
    node.run_task("g")
    full = "7,000,000 bytes are needed; 7,000,000 of the store's 9,000,000 bytes are in use"
    node.tell("objects", FetchWaits(one, 5.0, f"{full}, by 1 objects.  The largest:"))
    expected = [
        f"{ref(result)}: task f waits for 2 arguments:",
        f"  {ref(one)}: 7,000,000 bytes wait for free space in the object store of node local:",
        f"    {full}, by 1 objects",
        "    7,000,000 bytes, 1 object: for task f, which waits for further arguments",
        f"  {ref(two)}: 7,000,000 bytes wait for free space in the object store of node local:",
        "    see above",
    ]
    assert node.ask(result) == expected
    node.now += FULL_NEWS_SECONDS + 1  # it would have been said again: something comes
    on_its_way = "7,000,000 bytes are on their way to node local from node n1"
    lines = [expected[0], f"  {ref(one)}: {on_its_way}", f"  {ref(two)}: {on_its_way}"]
    assert node.ask(result) == lines
    node.tell("objects", FetchWaits(two, 5.0, "7,000,000 bytes are needed.  And so on."))
    assert len(node.ask(result)) == len(expected)
    node.tell("objects", ObjectFetched(one, StoredValue(0, 7_000_000, 7_000_000)))
    assert node.ask(result) == [f"{ref(result)}: task f waits for an argument:", lines[2]]
