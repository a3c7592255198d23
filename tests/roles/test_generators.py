"""Generators at a node: items of its workers and of other nodes, and hostile words about them."""

import pytest
from msgspec.structs import replace

from tests.roles.desk import DRIVER, Desk
from zray.exceptions import decode_system_error
from zray.ids import item_id, return_id
from zray.wire.actors import ResultsHeld
from zray.wire.gcs import SubscribeObject
from zray.wire.objects import HoldObjects, PutObject, PutObjects
from zray.wire.scheduling import ItemsMade
from zray.wire.task_spec import StoredValue, TaskOptions, encode_options
from zray.wire.tasks import InterruptTask, ItemsYielded, LeaveGenerator, ObjectsReady, WaitObjects

OPTIONS = encode_options(TaskOptions(is_generator=True))
LARGE = StoredValue(0, 0, 200_000)


@pytest.fixture
def desk():
    return Desk()


def begun(desk):
    """A generator that a worker runs: (task, worker)."""
    spec = replace(desk.new_spec(), options=OPTIONS)
    desk.submit(spec)
    worker = desk.give_birth()
    desk.take_sent()
    return spec.task_id, worker


def given(desk):
    """The items and ends that the driver was sent."""
    return [pair for _, message in desk.take_sent(ObjectsReady) for pair in message.objects]


def test_items_go_to_the_submitter_and_their_end_behind_them(desk):
    task_id, worker = begun(desk)
    desk.tell(worker, ItemsYielded(task_id, 0, [b"a", b"b"]))
    assert given(desk) == [(item_id(task_id, 0), b"a"), (item_id(task_id, 1), b"b")]
    desk.tell(worker, ItemsYielded(task_id, 2, [b"c"]))
    desk.finish_one(worker)
    assert [object_id for object_id, _ in given(desk)] == [item_id(task_id, 2), return_id(task_id, 1)]


def test_item_that_is_yielded_again_is_given_once(desk):
    task_id, worker = begun(desk)
    for first in (0, 0, 1):
        desk.tell(worker, ItemsYielded(task_id, first, [b"a", b"b"]))
    assert [object_id for object_id, _ in given(desk)] == [item_id(task_id, number) for number in (0, 1, 2)]


def test_items_of_a_task_that_the_worker_does_not_run_are_freed(desk):
    task_id, worker = begun(desk)
    desk.tell(worker, ItemsYielded(b"x" * 16, 0, [LARGE, b"b"]))
    desk.tell(DRIVER, ItemsYielded(task_id, 0, [b"a"]))
    assert not given(desk) and desk.scheduler.rejected
    assert item_id(b"x" * 16, 0) not in desk.scheduler.objects.entries


def test_process_that_draws_no_more_has_its_task_interrupted(desk):
    task_id, worker = begun(desk)
    desk.tell(worker, ItemsYielded(task_id, 0, [b"a", b"b", LARGE]))
    desk.take_sent()
    desk.tell(DRIVER, LeaveGenerator(task_id, 1))
    sent = desk.take_sent()
    assert (worker, InterruptTask(task_id)) in sent
    entries = desk.scheduler.objects.entries
    assert item_id(task_id, 0) in entries and item_id(task_id, 1) not in entries
    desk.tell(worker, ItemsYielded(task_id, 3, [b"d"]))
    assert not given(desk) and item_id(task_id, 3) not in entries


def test_generator_of_another_process_is_not_left(desk):
    task_id, worker = begun(desk)
    desk.tell(worker, LeaveGenerator(task_id, 0))
    desk.tell(DRIVER, LeaveGenerator(b"x" * 16, 0))
    assert task_id in desk.scheduler.generators.streams and not desk.take_sent(InterruptTask)


def test_end_alone_may_be_of_interest(desk):
    task_id, worker = begun(desk)
    desk.tell(DRIVER, LeaveGenerator(task_id, 0, ends=False))
    assert not desk.take_sent(InterruptTask)
    desk.finish_one(worker)
    assert [object_id for object_id, _ in given(desk)] == [return_id(task_id, 1)]


def test_items_that_another_node_keeps_for_nobody_are_let_go_of(desk):
    desk.tell("n2/local", ItemsMade(b"x" * 16, 1, 0, [200_000, b"small"]))
    assert desk.take_sent(ResultsHeld) == [("n2/local", ResultsHeld([item_id(b"x" * 16, 0)]))]


def test_items_that_overtake_others_wait_for_them(desk):
    task_id, _ = begun(desk)
    desk.tell("n2/local", ItemsMade(task_id, 0, 2, [b"c"]))
    assert not given(desk)
    desk.tell("n2/local", ItemsMade(task_id, 0, 0, [b"a", b"b"]))
    assert [value for _, value in given(desk)] == [b"a", b"b", b"c"]


def test_items_far_ahead_are_bounded(desk, monkeypatch):
    monkeypatch.setattr("zray.roles.local_scheduler.forwarding.generators.EARLY_MAX", 3)
    task_id, _ = begun(desk)
    desk.tell("n2/local", ItemsMade(task_id, 0, 5, [b"x"] * 10))
    assert len(desk.scheduler.generators.streams[task_id].early) == 3 and desk.scheduler.rejected


def test_value_that_is_put_again_reaches_a_process_that_waits_for_it(desk):
    """A generator that runs again puts what stands in its items; the program holds that and waits (found by a seed)."""
    task_id, worker = begun(desk)
    put = b"p" * 20
    desk.scheduler.is_embedded = False
    desk.tell(DRIVER, HoldObjects([put]))
    desk.tell(DRIVER, WaitObjects(1, [put], 1, True, False))
    desk.take_sent()
    desk.tell(worker, PutObjects([PutObject(put, b"value")]))
    assert (put, b"value") in given(desk)


def test_wait_for_an_item_behind_the_end_looks_for_nothing(desk):
    """The end is on its way to a worker that waits for either."""
    task_id, worker = begun(desk)
    desk.scheduler.is_embedded = False
    desk.tell(worker, ItemsYielded(task_id, 0, [b"a"]))
    desk.finish_one(worker)
    desk.take_sent()
    beyond = item_id(task_id, 1)
    desk.tell(DRIVER, WaitObjects(1, [beyond, return_id(task_id, 1)], 1, True, False))
    sent = [message for _, message in desk.take_sent()]
    assert not [message for message in sent if type(message) in (SubscribeObject, ObjectsReady)]
    assert beyond not in desk.scheduler.objects.entries


@pytest.mark.parametrize("is_embedded", [True, False])
def test_item_that_an_ended_task_has_made_is_looked_for_or_lost(desk, is_embedded):
    task_id, worker = begun(desk)
    desk.scheduler.is_embedded = is_embedded
    desk.finish_one(worker)
    desk.take_sent()
    desk.tell(DRIVER, WaitObjects(1, [item_id(task_id, 0)], 1, True, False))
    sent = desk.take_sent()
    if is_embedded:
        values = [value for _, message in sent if type(message) is ObjectsReady for _, value in message.objects]
        assert "was lost" in str(decode_system_error(values[0]))
    else:
        assert [message.object_id for _, message in sent if type(message) is SubscribeObject] == [item_id(task_id, 0)]
