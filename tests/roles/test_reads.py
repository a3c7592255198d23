"""Readonly calls of actors that recover whose answers are large: run again for these alone, each at its place."""

import pytest

from tests.roles.test_begun import ACTOR, N1, N2, GuardedDesk, GuardianDesk
from zray.ids import FIRST_RETURN, children_prefix
from zray.roles.local_scheduler.actor_logs import answers
from zray.wire.actors import CallsFinished, ForwardCalls
from zray.wire.gcs import HoldAtNode, HoldAtNodeReply, NodeLost
from zray.wire.homes import ActorClaimed, ActorGuarded
from zray.wire.task_spec import StoredValue, TaskOptions, TaskSpec, encode_options
from zray.wire.wards import Answer, AnswersTaken, CallsLogged, LogCalls, LoggedCall, NestedAnswer

PUT = b"an object that the call takes"[:20]


def read(number, deps=()):
    options = TaskOptions({}, actor_id=ACTOR, method="m", max_retries=-1, is_readonly=True)
    return TaskSpec((1000 + number).to_bytes(16, "big"), b"", b"args", deps, options=encode_options(options))


class ReadDesk(GuardedDesk):
    """Calls of the second node on its actor."""

    def __init__(self):
        super().__init__()
        self.stored = 0

    def ask(self, spec):
        self.tell(N2, ForwardCalls([spec]))

    def give_large(self):
        self.stored += 4096
        self.finish_one(self.worker, StoredValue(0, self.stored, 4000))

    def said(self):
        """What the guardian is told of calls."""
        sent = self.take_sent()
        self.left = [message for target, message in sent if (target, type(message)) == (N2, CallsFinished)]
        return [call for _, message in sent if type(message) is LogCalls for call in message.calls]


def test_a_large_answer_leaves_when_the_guardian_has_its_call_and_is_forgotten_when_it_was_taken():
    desk = ReadDesk()
    journal = desk.scheduler.calls.actors[ACTOR].journal
    spec = read(1)
    desk.ask(spec)
    desk.give_large()
    assert desk.said() == [LoggedCall(spec, answer=Answer(spec.task_id, N2, [4000]))]
    assert not desk.left
    desk.ask(read(2))
    desk.finish_one(desk.worker)  # of a small one the log has the answer alone, and not yet
    assert desk.said() == [] == desk.left  # in the order in which they ended
    desk.logged(0, nested=1)
    desk.said()
    assert [len(message.results) for message in desk.left] == [1, 1]
    assert list(journal.reads.by_id) == [spec.task_id]
    desk.tell(N2, AnswersTaken(desk.left[0].receipt))
    assert not journal.reads.by_id
    assert [message.taken for _, message in desk.take_sent(LogCalls)] == [[spec.task_id]]


def test_its_own_next_process_does_not_run_it_again():
    """What it returned lies in the store."""
    desk = ReadDesk()
    desk.ask(read(1))
    desk.give_large()
    desk.die()
    assert desk.start()[1].calls == []


def test_another_guardian_hears_of_what_may_still_be_asked_for():
    desk = ReadDesk()
    journal = desk.scheduler.calls.actors[ACTOR].journal
    first, second = read(1), read(2)
    desk.ask(first)
    desk.give_large()
    call = desk.call()
    desk.run_calls(1)
    desk.ask(second)
    desk.give_large()
    desk.logged(1, nested=2)
    desk.said()
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    assert [logged.spec for logged in desk.said()] == [first, call, second]
    assert len(journal.reads.by_id) == 2
    desk.tell(N2, ActorGuarded(ACTOR, desk.life.birth))
    desk.tell("gcs-0", ActorClaimed(ACTOR, desk.life, is_held=True))
    third = read(3)
    desk.ask(third)
    desk.give_large()
    assert [logged.spec for logged in desk.said()] == [third]
    for count in (2, 3):
        assert not desk.left
        desk.tell(N2, CallsLogged(ACTOR, 2, 1, nested=count))
        desk.said()
    assert len(desk.left) == 1


class WardDesk(GuardianDesk):
    """It is told of calls, and of what those that are readonly have returned."""

    def logs(self, *calls):
        self.tell(N1, LogCalls(ACTOR, 1, [self.logged(call) for call in calls]))

    def logged(self, call):
        if type(call) is int:
            return LoggedCall(self.spec(call))
        return LoggedCall(call, answer=Answer(call.task_id, N2, [4000]))

    def heard(self):
        return [(message.count, message.nested) for _, message in self.take_sent(CallsLogged)][-1]

    def numbers(self):
        return [int.from_bytes(spec.task_id, "big") for spec in self.adopt()]


def test_they_run_again_between_the_calls_that_they_had_seen_and_those_that_came_then():
    desk = WardDesk()
    desk.logs(1, read(1), 2, read(2))
    desk.logs(read(3), 3, read(4))
    assert desk.heard() == (3, 4)
    desk.tell(N1, LogCalls(ACTOR, 1, [], taken=[read(2).task_id]))
    assert desk.numbers() == [1, 1001, 2, 1003, 3, 1004]
    assert desk.order.again == [read(number).task_id + FIRST_RETURN for number in (1, 3, 4)]


def test_what_a_checkpoint_is_behind_is_not_run_again():
    desk = WardDesk()
    desk.logs(1, read(1), 2, read(2), 3)
    desk.scheduler.guards.guarded[ACTOR].copy.journal.goes_on_from(PUT, 2)
    assert desk.numbers() == [1002, 3]  # what one has seen that is in it, it sees again


def test_what_it_takes_is_held_here_and_the_word_that_says_so_comes_when_it_is():
    desk = WardDesk()
    desk.logs(read(1, (PUT,)), read(2))
    sent = desk.take_sent()
    assert [message.nested for _, message in sent if type(message) is CallsLogged] == [0, 0]
    for target, message in sent:
        if type(message) is HoldAtNode:
            desk.tell(target, HoldAtNodeReply(message.request))
    entry = desk.scheduler.objects.entries[PUT]
    desk.scheduler.object_is_here(entry, b"\x01what it takes")
    desk.tell(N2, AnswersTaken(0))  # which changes nothing, but a turn ends
    assert desk.heard() == (0, 2)
    assert entry.count == 1
    desk.tell(N1, LogCalls(ACTOR, 1, [], taken=[read(1).task_id]))
    assert entry.count == 0


def test_what_it_has_called_is_known_as_long_as_it_may_be_run_again():
    desk = WardDesk()
    nested = NestedAnswer(children_prefix(read(1).task_id) + bytes(6), b"one that it calls"[:16], [b"\x01"])
    desk.tell(N1, LogCalls(ACTOR, 1, [], nested=[nested]))
    desk.logs(read(1))
    known = desk.scheduler.guards.guarded[ACTOR].copy.journal.nested
    assert list(known.answers()) == [nested]
    desk.tell(N1, LogCalls(ACTOR, 1, [], taken=[read(1).task_id]))
    assert not list(known.answers())


@pytest.mark.parametrize("bound", ["READS_MAX", "READS_BYTES_MAX"])
def test_so_many_are_kept(bound, monkeypatch):
    desk = WardDesk()
    monkeypatch.setattr(answers, bound, {"READS_MAX": 2, "READS_BYTES_MAX": 8}[bound])
    desk.logs(*(read(number) for number in range(5)))
    assert desk.heard() == (0, 5)
    assert desk.numbers() == [1003, 1004]
