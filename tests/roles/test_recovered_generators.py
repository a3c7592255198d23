"""Generators of actors that recover, at a node: items wait for the backup node; lost ones are made again."""

import pytest

from tests.roles.desk import DRIVER
from tests.roles.test_begun import N1, N2, GuardedDesk, GuardianDesk
from tests.roles.test_journals import ACTOR, ActorDesk
from zray.exceptions import decode_system_error
from zray.ids import item_id
from zray.wire.actors import ActorStarted, CallClosed, CallsFinished, ForwardCalls, StartActor
from zray.wire.gcs import NodeLost
from zray.wire.homes import ActorLocated
from zray.wire.objects import PutObject, PutObjects, ReleaseObjects
from zray.wire.scheduling import ItemsMade
from zray.wire.task_spec import GivenItems, StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import (
    CancelTask,
    InterruptTask,
    ItemsDrawn,
    ItemsYielded,
    LeaveGenerator,
    ObjectsReady,
    StartTasks,
    TaskResult,
    TasksFinished,
)
from zray.wire.wards import Answer, AnswersTaken, BegunCall, CallsLogged, LogCalls, LoggedCall

OPTIONS = encode_options(
    TaskOptions({}, actor_id=ACTOR, method="items", max_retries=-1, is_generator=True, is_logged=True)
)
LARGE = StoredValue(0, 0, 200_000)


def generator(number=7):
    return TaskSpec(number.to_bytes(16, "big"), b"", b"args", options=OPTIONS)


def item_ids(spec, *numbers):
    return [item_id(spec.task_id, number) for number in numbers]


def given(desk):
    return [value for _, message in desk.take_sent(ObjectsReady) for _, value in message.objects]


def begun_here(desk, items):
    """A local program's generator yields items."""
    spec = generator()
    desk.submit(spec)
    desk.tell(desk.worker, ItemsYielded(spec.task_id, 0, items))
    return spec


def test_items_leave_when_the_guardian_knows_of_their_call_and_the_end_leaves_behind_them():
    desk = GuardedDesk()
    call = begun_here(desk, [b"a", b"b"])
    sent = desk.take_sent()
    assert [message.begun for target, message in sent if (target, type(message)) == (N1, LogCalls)] == [
        [BegunCall(call, "local", items=GivenItems())]
    ]
    assert not any(type(message) is ObjectsReady for _, message in sent)
    desk.finish_one(desk.worker, b"\x02")
    assert not given(desk)
    desk.logged(0, nested=1)
    assert given(desk) == [b"a", b"b"]
    desk.logged(1, nested=1)
    assert given(desk) == [b"\x02"]


def test_items_that_come_later_leave_at_once():
    desk = GuardedDesk()
    call = begun_here(desk, [b"a"])
    desk.logged(0, nested=1)
    desk.take_sent()
    desk.tell(desk.worker, ItemsYielded(call.task_id, 1, [b"b"]))
    assert given(desk) == [b"b"]


def test_items_wait_for_the_calls_before_them():
    desk = GuardedDesk()
    desk.call()
    desk.run_calls(1)
    begun_here(desk, [b"a"])
    desk.logged(0, nested=1)
    assert not given(desk)
    desk.logged(1, nested=1)
    assert b"a" in given(desk)


def test_items_without_a_guardian_leave():
    desk = ActorDesk()
    begun_here(desk, [b"a"])
    assert b"a" in given(desk)


def test_call_that_runs_again_is_told_of_the_items_that_are_there_and_of_what_was_drawn():
    desk = ActorDesk()
    call = begun_here(desk, [b"a", b"b", LARGE])
    desk.tell(DRIVER, ItemsDrawn(call.task_id, 2))
    desk.die()
    desk.start()
    (started,) = [message for _, message in desk.take_sent(StartTasks)]
    assert started.again == [(call.task_id, GivenItems(3), 2)]
    desk.take_sent()
    desk.tell(desk.worker, ItemsYielded(call.task_id, 0, [b"a", b"b"]))
    desk.tell(desk.worker, ItemsYielded(call.task_id, 3, [b"d"]))
    assert given(desk) == [b"d"]


def test_other_items_of_another_run_are_an_error():
    desk = ActorDesk()
    call = begun_here(desk, [b"a", b"b"])
    desk.die()
    desk.start()
    desk.take_sent()
    desk.tell(desk.worker, ItemsYielded(call.task_id, 0, [b"a", b"x"]))
    desk.finish_one(desk.worker, b"\x02")
    assert "item 1 differs" in str(decode_system_error(given(desk)[-1]))


def test_generator_that_was_left_runs_again_as_far_as_its_items_were_given():
    desk = ActorDesk()
    call = begun_here(desk, [b"a", b"b", b"c"])
    desk.take_sent()
    desk.tell(DRIVER, LeaveGenerator(call.task_id, 2))
    assert desk.take_sent(InterruptTask) == [(desk.worker, InterruptTask(call.task_id, 3))]
    desk.die()
    desk.start()
    sent = [message for _, message in desk.take_sent() if type(message) in (StartTasks, InterruptTask)]
    assert [type(message) for message in sent] == [StartTasks, InterruptTask]
    assert sent[1] == InterruptTask(call.task_id, 3)


def test_generator_that_was_left_before_its_first_item_does_not_run_again():
    desk = ActorDesk()
    call = begun_here(desk, [])
    desk.tell(DRIVER, LeaveGenerator(call.task_id, 0))
    desk.die()
    desk.start()
    assert not desk.take_sent(StartTasks)


def test_replay_is_told_behind_which_item_a_generator_was_closed():
    desk = ActorDesk(checkpoint_interval=0)
    call = begun_here(desk, [b"a", b"b"])
    desk.tell(desk.worker, CallClosed(call.task_id, 2))
    desk.tell(desk.worker, TasksFinished([TaskResult(call.task_id, [b"\x02"])]))
    desk.die()
    _, order = desk.start()
    assert order.closed == [(call.task_id, 2)]


# --- items for another node ---


class CalledDesk(GuardedDesk):
    """A program on the second node has called its generator, whose first items are there."""

    def __init__(self):
        super().__init__()
        self.spec = generator()
        self.tell(N2, ForwardCalls([self.spec]))
        self.yields(0, [b"a"])
        self.logged(0, nested=1)
        self.take_sent()

    def yields(self, first, items):
        self.tell(self.worker, ItemsYielded(self.spec.task_id, first, items))

    def receipts(self):
        return [message.receipt for target, message in self.take_sent(ItemsMade) if target == N2]

    def logged_items(self):
        return [item for target, message in self.take_sent(LogCalls) for item in message.items if target == N1]


def test_guardian_hears_which_large_items_the_callers_node_has():
    desk = CalledDesk()
    desk.yields(1, [LARGE])
    desk.yields(2, [b"c", LARGE])
    first, second = desk.receipts()
    assert first and second
    desk.tell(N2, AnswersTaken(second))
    assert desk.logged_items() == [(desk.spec.task_id, GivenItems(1, [2, 3]))]
    desk.tell(N2, AnswersTaken(first))
    assert desk.logged_items() == [(desk.spec.task_id, GivenItems(4))]


def test_small_items_have_a_receipt_now_and_then():
    desk = CalledDesk()
    for number in range(1, 130):
        desk.yields(number, [b"x"])
    receipts = desk.receipts()
    assert [number + 1 for number, receipt in enumerate(receipts) if receipt] == [63, 127]


def test_answer_is_kept_until_the_callers_node_has_all_large_items():
    desk = CalledDesk()
    desk.yields(1, [LARGE])
    (receipt,) = desk.receipts()
    desk.finish_one(desk.worker, b"\x02")
    desk.logged(1, nested=1)
    (end,) = [message.receipt for target, message in desk.take_sent(CallsFinished) if target == N2]
    answers = desk.scheduler.calls.actors[ACTOR].shipping.answers
    desk.tell(N2, AnswersTaken(end))
    assert desk.spec.task_id in answers.given
    desk.tell(N2, AnswersTaken(receipt))
    assert not answers.given and not desk.scheduler.calls.actors[ACTOR].items.by_call


def test_cancel_from_another_node_says_how_many_items_were_had():
    desk = CalledDesk()
    desk.tell(N2, CancelTask(desk.spec.task_id, items=1))
    assert desk.take_sent(InterruptTask) == [(desk.worker, InterruptTask(desk.spec.task_id, 1))]


# --- the actor's node is lost ---


def test_begun_generator_runs_first_elsewhere_and_its_items_wait_for_the_caller():
    desk = GuardianDesk()
    call = generator()
    desk.tell(N1, LogCalls(ACTOR, 1, [], begun=[BegunCall(call, N2, items=GivenItems(1))]))
    desk.tell(N1, LogCalls(ACTOR, 1, [], items=[(call.task_id, GivenItems(2, [3]))]))
    desk.adopt()
    desk.tell(desk.worker, ActorStarted(ACTOR))
    (started,) = [message for _, message in desk.take_sent(StartTasks)]
    assert started.again == [(call.task_id, GivenItems(2, [3]), 0)]
    desk.tell(desk.worker, ItemsYielded(call.task_id, 0, [b"a", b"b", b"c"]))
    desk.guarded_again(0)
    desk.tell(N2, CallsLogged(ACTOR, 1, 0, nested=1))
    assert not desk.take_sent(ItemsMade)
    desk.forwarded(call, 1)
    assert [(message.first, message.values) for _, message in desk.take_sent(ItemsMade)] == [(2, [b"c"])]
    desk.tell(desk.worker, ItemsYielded(call.task_id, 4, [b"e"]))
    assert [(message.first, message.values) for _, message in desk.take_sent(ItemsMade)] == [(4, [b"e"])]


@pytest.mark.parametrize("is_begun", [True, False])
def test_generator_of_a_program_here_that_was_left_as_its_node_died_ends_behind_what_was_seen(is_begun):
    desk = GuardianDesk()
    call = generator()
    desk.tell("gcs-0", ActorLocated(ACTOR, N1))
    desk.submit(call)
    desk.tell("gcs-0", ActorLocated(ACTOR, N1))
    if is_begun:
        desk.tell(N1, LogCalls(ACTOR, 1, [], begun=[BegunCall(call, "local")]))
    desk.tell(N1, ItemsMade(call.task_id, 0, 0, [b"a", b"b"]))
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell(DRIVER, LeaveGenerator(call.task_id, 2))
    desk.adopt()
    desk.tell(desk.worker, ActorStarted(ACTOR))
    sent = [message for _, message in desk.take_sent() if type(message) in (StartTasks, InterruptTask)]
    assert [type(message) for message in sent] == [StartTasks, InterruptTask][: 2 * is_begun]
    assert not is_begun or sent[1] == InterruptTask(call.task_id, 2)


def test_items_of_an_ended_generator_that_the_caller_lacks_are_made_again():
    desk = GuardianDesk()
    call = generator()
    answer = Answer(call.task_id, N2, [b"\x04"], items=GivenItems(1))
    desk.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(call, answer=answer)]))
    desk.tell(N1, LogCalls(ACTOR, 1, [], items=[(call.task_id, GivenItems(2))]))
    desk.adopt()
    assert desk.order.items == [(call.task_id, GivenItems(2))]
    puts = [PutObject(object_id, value) for object_id, value in zip(item_ids(call, 2, 3), (b"c", LARGE), strict=True)]
    desk.tell(desk.worker, PutObjects(puts))
    desk.tell(desk.worker, ActorStarted(ACTOR))
    desk.guarded_again(1)
    asked = TaskSpec(call.task_id, b"", options=call.options)
    desk.tell(N2, ForwardCalls([asked], attempts=[1], answered=[call.task_id]))
    made = [(message.first, message.values) for _, message in desk.take_sent(ItemsMade)]
    assert made == [(2, [b"c"]), (3, [LARGE.size])]


def test_replay_elsewhere_ends_a_closed_generator_at_the_same_item():
    desk = GuardianDesk()
    desk.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(generator(), closed_at=5)]))
    desk.adopt()
    assert desk.order.closed == [(generator().task_id, 5)]
    assert type(desk.order) is StartActor and not desk.order.items


def test_generator_that_runs_delays_a_drain_for_some_seconds_only():
    """The generator may wait for a call that the drain holds back (found by a seed)."""
    desk = CalledDesk()
    going = desk.scheduler.drain.going
    counts = []
    for seconds in (0.0, 4.9, 0.2):
        desk.now += seconds
        desk.tell(DRIVER, ReleaseObjects([]))
        counts.append(going.hold_back())
    assert counts == [1, 1, 0]
