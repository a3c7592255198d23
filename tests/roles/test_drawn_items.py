"""Generators that calls of a recoverable actor call, at a node: the items are logged, held, and given once more."""

import pytest

from tests.roles.test_begun import N1, N2, OTHER, GuardedDesk, GuardianDesk
from tests.roles.test_journals import ACTOR
from tests.roles.test_recovered_generators import LARGE, CalledDesk, item_ids
from zray.ids import FIRST_RETURN, children_prefix
from zray.roles.local_scheduler.actor_logs import nested
from zray.wire.actors import CallResult, CallsFinished, ForwardCalls
from zray.wire.gcs import NodeLost
from zray.wire.homes import ActorLocated
from zray.wire.scheduling import ItemsMade
from zray.wire.task_spec import TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import CancelTask, ItemsYielded, LeaveGenerator, ObjectsReady, SubmitTasks
from zray.wire.wards import AnswersTaken, BegunCall, LogCalls, NestedAnswer

OPTIONS = encode_options(TaskOptions({}, actor_id=OTHER, method="items", max_retries=-1, is_generator=True))


class DrawingDesk(GuardedDesk):
    """A call of its recoverable actor has called a generator of the actor on the second node."""

    def __init__(self):
        super().__init__()
        outer = self.call()
        self.spec = TaskSpec(children_prefix(outer.task_id) + bytes(6), b"", options=OPTIONS, caller=ACTOR)
        self.tell(self.worker, SubmitTasks([self.spec]))
        self.logged(0, nested=1)
        self.tell("gcs-0", ActorLocated(OTHER, N2))
        self.take_sent()

    def comes(self, first, values, receipt=0):
        self.tell(N2, ItemsMade(self.spec.task_id, 0, first, values, receipt))

    def again(self):
        """The process dies, and the next one makes the call again.  Returns what is given to it."""
        self.die()
        self.start()
        self.take_sent()
        self.tell(self.worker, SubmitTasks([self.spec]))
        return self.given()

    def given(self):
        sent = [message for target, message in self.take_sent(ObjectsReady) if target == self.worker]
        return [value for message in sent for _, value in message.objects]

    def ends(self, value=b"\x02"):
        self.tell(N2, CallsFinished([CallResult(self.spec.task_id, [value])], 9))

    def sent_to_guardian(self):
        return [part for target, message in self.take_sent(LogCalls) if target == N1 for part in message.nested]

    def taken(self):
        return [message.receipt for target, message in self.take_sent(AnswersTaken) if target == N2]


def test_items_go_to_the_guardian_and_are_acknowledged_when_they_are_there():
    desk = DrawingDesk()
    desk.comes(0, [b"a", b"b"], receipt=1)
    assert desk.sent_to_guardian() == [NestedAnswer(desk.spec.task_id, OTHER, [b"a", b"b"], first=2)]
    assert not desk.taken()
    desk.comes(2, [b"c"], receipt=2)
    assert desk.sent_to_guardian() == [NestedAnswer(desk.spec.task_id, OTHER, [b"c"], first=4)]
    desk.logged(0, nested=2)
    assert desk.taken() == [1]
    desk.logged(0, nested=3)
    assert desk.taken() == [2]


def test_next_process_is_given_the_same_items_and_those_that_come_meanwhile():
    desk = DrawingDesk()
    desk.comes(0, [b"a", b"b"])
    assert desk.given() == [b"a", b"b"]
    desk.die()
    desk.comes(2, [b"c"])
    desk.start()
    desk.take_sent()
    desk.tell(desk.worker, SubmitTasks([desk.spec]))
    assert desk.given() == [b"a", b"b", b"c"]
    desk.comes(3, [b"d"])
    desk.ends()
    assert desk.given() == [b"d", b"\x02"]
    assert not desk.take_sent(ForwardCalls)


def test_next_process_is_given_the_items_of_a_generator_that_has_ended():
    desk = DrawingDesk()
    desk.comes(0, [b"a", b"b"])
    desk.ends()
    assert desk.again() == [b"a", b"b", b"\x02"]
    assert not desk.take_sent(ForwardCalls)


def test_items_are_let_go_of_when_the_call_is_in_a_checkpoint():
    desk = DrawingDesk()
    desk.comes(0, [b"a", b"b"])
    desk.ends()
    desk.logged(0, nested=4)
    desk.finish_one(desk.worker)
    desk.kill(desk.worker)
    held = set(item_ids(desk.spec, 0, 1))
    assert held <= desk.entries().keys()
    desk.start()
    journal = desk.scheduler.calls.actors[ACTOR].journal
    journal.nested.forget_all([children_prefix(journal.calls[0].task_id)])
    assert not held & desk.entries().keys() and desk.spec.task_id + FIRST_RETURN not in desk.entries()
    assert not desk.scheduler.generators.streams
    assert (journal.nested.count, journal.nested.size, journal.nested.stored) == (0, 0, 0)


def test_generator_that_was_left_is_not_cancelled_twice_and_gives_the_same():
    desk = DrawingDesk()
    desk.comes(0, [b"a", b"b"])
    desk.tell(desk.worker, LeaveGenerator(desk.spec.task_id, 2))
    assert [target for target, _ in desk.take_sent(CancelTask)] == [N2]
    assert desk.again() == [b"a", b"b"]
    assert not desk.take_sent(CancelTask)


def test_generator_of_an_actor_that_is_dead_for_good_is_cancelled():
    desk = DrawingDesk()
    desk.comes(0, [b"a"])
    desk.die()
    actor = desk.scheduler.calls.actors[ACTOR]
    desk.scheduler.ends.bury(actor, b"\x01dead")
    assert not desk.scheduler.generators.streams
    desk.tell(N1, AnswersTaken(0))
    assert [target for target, _ in desk.take_sent(CancelTask)] == [N2]


def test_actor_that_has_drawn_too_much_does_not_recover(monkeypatch):
    monkeypatch.setattr(nested, "NESTED_BYTES_MAX", 3)
    desk = DrawingDesk()
    desk.comes(0, [b"aa", b"bb"], receipt=1)
    assert len(desk.sent_to_guardian()) == 1  # which sees that it is too much
    journal = desk.scheduler.calls.actors[ACTOR].journal
    assert journal.is_full and not journal.nested.by_parent
    desk.die()
    grave = desk.scheduler.ends.graves.get(ACTOR) or desk.scheduler.ended.actors[-1].error
    assert b"items" in grave and b"generators that its calls have called" in grave


# --- the node of the actor is lost ---


def drawn_elsewhere(desk, *parts, end=None):
    """The log of the first node has these items: (number of the first one, values)."""
    outer = desk.spec(1)
    task_id = children_prefix(outer.task_id) + bytes(6)
    found = [NestedAnswer(task_id, OTHER, values, first=first + 2) for first, values in parts]
    if end is not None:
        found.append(NestedAnswer(task_id, OTHER, [end]))
    desk.tell(N1, LogCalls(ACTOR, 1, [], begun=[BegunCall(outer, N2)]))
    desk.tell(N1, LogCalls(ACTOR, 1, [], nested=found))
    return TaskSpec(task_id, b"", options=OPTIONS, caller=ACTOR)


@pytest.mark.parametrize("end", [None, b"\x03"])
def test_next_home_gives_the_logged_items_and_asks_for_the_others(end):
    desk = GuardianDesk()
    spec = drawn_elsewhere(desk, (0, [b"a"]), (1, [b"b", b"c"]), end=end)
    desk.adopt()
    desk.take_sent()
    desk.tell(desk.worker, SubmitTasks([spec]))
    desk.tell("gcs-0", ActorLocated(OTHER, N2))
    sent = desk.take_sent()
    given = [value for _, message in sent if type(message) is ObjectsReady for _, value in message.objects]
    assert given == [b"a", b"b", b"c"] + [end] * (end is not None)
    actor = desk.scheduler.calls.actors[ACTOR]
    assert actor.journal.nested.items_of(spec.task_id) == 3


def test_guardian_that_sees_too_many_items_says_so(monkeypatch):
    monkeypatch.setattr(nested, "NESTED_BYTES_MAX", 3)
    desk = GuardianDesk()
    drawn_elsewhere(desk, (0, [b"aa"]), (1, [b"bb"]))
    copy = desk.scheduler.guards.guarded[ACTOR].copy
    assert "of generators that its calls have called" in copy.broken


def test_items_behind_a_large_one_that_has_not_come_are_not_taken_for_the_first():
    desk = GuardianDesk()
    spec = drawn_elsewhere(desk, (0, [b"a"]), (1, [LARGE.size]), (2, [b"c"]), end=b"\x03")
    copy = desk.scheduler.guards.guarded[ACTOR].copy
    assert [part.first for part in copy.journal.nested.answers()] == [2]
    desk.answer_shards()
    assert [part.first for part in copy.journal.nested.answers()] == [2, 3, 4, 1]
    assert spec.task_id in {part.task_id for part in copy.journal.nested.answers()}


# --- the node of the generator ---


class KeptDesk(CalledDesk):
    """A node whose generator was called by a recoverable actor on the second node."""

    def __init__(self):
        super().__init__()
        self.spec = TaskSpec(b"g" * 16, b"", b"args", options=self.spec.options, caller=b"c" * 16)
        self.finish_one(self.worker, b"\x01")
        self.logged(1, nested=1)
        self.tell(N2, ForwardCalls([self.spec]))
        self.yields(0, [b"a"])
        self.logged(1, nested=2)
        self.take_sent()

    def kept(self):
        return self.scheduler.calls.actors[ACTOR].shipping.answers.held.get(self.spec.task_id, [])


def test_items_for_a_recoverable_actor_are_kept_until_they_are_acknowledged():
    desk = KeptDesk()
    desk.yields(1, [b"b", b"c"])
    desk.yields(3, [b"d"])
    first, second = desk.receipts()
    assert desk.kept() == item_ids(desk.spec, 0, 1, 2, 3)
    desk.tell(N2, AnswersTaken(first))
    assert desk.kept() == item_ids(desk.spec, 3)
    desk.tell(N2, AnswersTaken(second))
    assert not desk.kept() and not set(item_ids(desk.spec, 0, 1, 2, 3)) & desk.entries().keys()


def test_kept_items_are_given_to_the_next_home_of_the_actor_and_kept_for_it():
    desk = KeptDesk()
    desk.yields(1, [b"b"])
    (receipt,) = desk.receipts()
    desk.tell(N2, AnswersTaken(receipt))
    desk.yields(2, [b"c", b"d"])
    desk.take_sent()
    desk.tell("monitor", NodeLost(N2, "it was unplugged"))
    desk.yields(4, [b"e"])
    desk.take_sent()
    desk.tell(N1, ForwardCalls([desk.spec], attempts=[1]))
    made = [(target, message.first, message.values) for target, message in desk.take_sent(ItemsMade)]
    assert made == [(N1, 2, [b"c"]), (N1, 3, [b"d"]), (N1, 4, [b"e"])]
    assert desk.kept() == item_ids(desk.spec, 2, 3, 4)
    desk.tell(desk.worker, ItemsYielded(desk.spec.task_id, 5, [b"f"]))
    assert [(message.first, message.values) for _, message in desk.take_sent(ItemsMade)] == [(5, [b"f"])]
