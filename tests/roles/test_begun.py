"""Calls that an actor that recovers has begun: known to its guardian before what they make leaves, first where it is
made again."""

import pytest

from tests.roles import test_journals
from tests.roles.desk import FUNCTION, JOB, Desk
from zray.ids import FIRST_RETURN, children_prefix
from zray.wire.actors import ActorStarted, CallsFinished, CreateActor, ForwardCalls, StartActor
from zray.wire.gcs import HoldAtNode, HoldAtNodeReply, NodeLost
from zray.wire.homes import ActorClaimed, ActorGuarded, ActorLife, ActorLocated, ActorRefused, GuardActor
from zray.wire.scheduling import JobFacts
from zray.wire.task_spec import ActorOptions, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import CancelTask, StartTasks, SubmitTasks
from zray.wire.wards import BegunCall, CallsLogged, LogCalls, LoggedCall, LogStart, NestedAnswer

ACTOR, OTHER, MADE = test_journals.ACTOR, b"another actor, so it is"[:16], b"one that it has made"[:16]
N1, N2 = "n1/local", "n2/local"
LIFE, AGAIN = ActorLife("n1/local#1", 0), ActorLife("n1/local#1", 1)


class GuardedDesk(test_journals.ActorDesk):
    """Its actor recovers on the first node; another one, that it calls, lives on the second."""

    def __init__(self):
        Desk.__init__(self)
        self.scheduler.is_embedded = False
        self.scheduler.members.peers.update({N1: {}, N2: {}})
        options = ActorOptions(class_name="C", max_restarts=-1, checkpoint_interval=2, detached=True)
        self.tell("driver-1", CreateActor(TaskSpec(ACTOR, FUNCTION), options))
        self.worker = self.start()[0]
        self.life = self.scheduler.calls.actors[ACTOR].life
        self.tell(N1, ActorGuarded(ACTOR, self.life.birth))
        self.logged(0)
        self.tell("gcs-0", ActorClaimed(ACTOR, self.life, is_held=True))
        self.take_sent()

    def logged(self, count, nested=0):
        """The guardian has so much."""
        self.tell(N1, CallsLogged(ACTOR, 1, count, nested=nested))

    def call_other(self, by, number):
        """A call of the actor's makes one on the other actor."""
        options = encode_options(TaskOptions({}, actor_id=OTHER, method="m", max_retries=-1))
        task_id = children_prefix(by.task_id) + number.to_bytes(6, "big")
        self.tell(self.worker, SubmitTasks([TaskSpec(task_id, b"", options=options, caller=ACTOR)]))
        return task_id

    def left(self):
        """Ids of the calls that have left since the last look."""
        if self.scheduler.routes.by_actor:
            self.tell("gcs-0", ActorLocated(OTHER, N2))
        return [spec.task_id for _, message in self.take_sent(ForwardCalls) for spec in message.specs]


def test_what_a_call_makes_leaves_when_the_guardian_knows_of_the_call():
    desk = GuardedDesk()
    call = desk.call()
    first = desk.call_other(call, 1)
    sent = desk.take_sent()
    assert OTHER not in desk.scheduler.routes.by_actor
    assert [message.begun for target, message in sent if (target, type(message)) == (N1, LogCalls)] == [
        [BegunCall(call, "local")]
    ]
    second = desk.call_other(call, 2)
    assert not desk.left()
    desk.logged(0, nested=1)
    assert desk.left() == [first, second]
    assert [desk.call_other(call, 3)] == desk.left()  # nothing is to be waited for any more
    journal = desk.scheduler.calls.actors[ACTOR].journal
    assert list(journal.begun) == [call.task_id]
    desk.run_calls(1)
    assert not journal.begun


def test_what_a_readonly_call_makes_waits_for_the_calls_that_it_may_have_seen():
    desk = GuardedDesk()
    desk.call()
    desk.run_calls(1)
    made = desk.call_other(desk.call(readonly=True), 1)
    sent = desk.take_sent()
    assert OTHER not in desk.scheduler.routes.by_actor
    assert not any(message.begun for _, message in sent if type(message) is LogCalls)
    desk.logged(1)
    assert desk.left() == [made]


def test_nested_call_that_is_cancelled_while_it_waits_for_the_guardian_does_not_leave():
    desk = GuardedDesk()
    made = desk.call_other(desk.call(), 1)
    desk.tell(desk.worker, CancelTask(made))
    desk.logged(0, nested=1)
    assert not desk.left()
    assert b"CancelledError" in desk.entries()[made + FIRST_RETURN].value


def test_what_calls_make_goes_where_there_is_no_guardian_any_more():
    desk = GuardedDesk()
    call = desk.call()
    first = desk.call_other(call, 1)
    assert not desk.left()
    desk.tell(N1, CallsLogged(ACTOR, 1, 0, broken="there is no room"))
    assert desk.left() == [first]


def test_another_guardian_hears_of_calls_that_had_begun_before():
    desk = GuardedDesk()
    call = desk.call()
    first = desk.call_other(call, 1)
    desk.logged(0, nested=1)
    assert desk.left() == [first]
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    begun = [begun for target, message in desk.take_sent(LogCalls) if target == N2 for begun in message.begun]
    assert begun == [BegunCall(call, "local")]
    second = desk.call_other(call, 2)
    assert not desk.left()
    desk.tell(N2, ActorGuarded(ACTOR, desk.life.birth))
    desk.tell("gcs-0", ActorClaimed(ACTOR, desk.life, is_held=True))
    assert not desk.left()
    desk.tell(N2, CallsLogged(ACTOR, 2, 0, nested=1))
    assert desk.left() == [second]


class GuardianDesk(Desk):
    """It guards an actor of the first node."""

    def __init__(self):
        super().__init__()
        self.scheduler.is_embedded = False
        self.scheduler.members.peers.update({N1: {}, N2: {}})
        options = ActorOptions(class_name="C", max_restarts=-1, checkpoint_interval=2, detached=True)
        self.tell(N1, GuardActor(TaskSpec(ACTOR, FUNCTION), options, LIFE, JOB, JobFacts(home=N1)))
        self.tell(N1, LogStart(ACTOR, 1, 0))
        self.options = encode_options(TaskOptions({}, actor_id=ACTOR, method="m", max_retries=-1))

    def spec(self, number):
        return TaskSpec(number.to_bytes(16, "big"), b"", b"args", options=self.options)

    def answer_shards(self):
        """They have what was asked of them."""
        for target, message in self.take_sent(HoldAtNode):
            if message.request:
                self.tell(target, HoldAtNodeReply(message.request))

    def adopt(self):
        """The first node is lost.  What the actor's next process is to run again."""
        self.tell("monitor", NodeLost(N1, "it was unplugged"))
        self.tell("gcs-0", ActorClaimed(ACTOR, AGAIN, is_held=True))
        found = self.take_sent(StartActor)
        while not found:
            self.give_birth()
            found = self.take_sent(StartActor)
        self.worker, self.order = found[0]
        return self.order.calls

    def guarded_again(self, count):
        """By the second node, which has so many calls."""
        self.tell(N2, ActorGuarded(ACTOR, LIFE.birth))
        actor = self.scheduler.calls.actors[ACTOR]
        for _ in range(actor.unclaimed):
            self.tell("gcs-0", ActorClaimed(ACTOR, actor.life, is_held=True))
        self.tell(N2, CallsLogged(ACTOR, 1, count))

    def forwarded(self, spec, attempt):
        self.tell(N2, ForwardCalls([spec], attempts=[attempt]))


@pytest.mark.parametrize("asked", ["before it runs", "before its answer is seen", "later"])
def test_a_call_that_had_begun_runs_first_where_its_actor_is_made_again_and_once(asked):
    desk = GuardianDesk()
    ended, begun, other = (desk.spec(number) for number in (1, 2, 3))
    desk.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(ended)], begun=[BegunCall(begun, N2)]))
    assert (N1, CallsLogged(ACTOR, 1, 1, nested=1)) in desk.take_sent()
    assert desk.adopt() == [ended]
    desk.forwarded(other, 1)
    if asked == "before it runs":
        desk.forwarded(begun, 1)
    desk.tell(desk.worker, ActorStarted(ACTOR))
    sent = [spec.task_id for _, message in desk.take_sent(StartTasks) for spec in message.specs]
    assert sent == [begun.task_id, other.task_id]
    desk.finish_one(desk.worker, b"\x07")
    if asked == "before its answer is seen":
        desk.forwarded(begun, 1)
    assert not desk.take_sent(StartTasks)
    desk.finish_one(desk.worker)
    desk.guarded_again(3)
    if asked == "later":
        desk.forwarded(begun, 1)
    results = [
        result for target, message in desk.take_sent(CallsFinished) if target == N2 for result in message.results
    ]
    assert sorted((result.task_id, result.values) for result in results) == [
        (begun.task_id, [b"\x07"]),
        (other.task_id, [b"\x01"]),
    ]
    assert not desk.scheduler.tasks
    answers = desk.scheduler.calls.actors[ACTOR].shipping.answers
    assert (answers.inherited, answers.unasked) == ({}, {})


def test_a_call_that_is_in_the_log_has_ended():
    desk = GuardianDesk()
    first, second = desk.spec(1), desk.spec(2)
    desk.tell(N1, LogCalls(ACTOR, 1, [], begun=[BegunCall(first, N2)]))
    desk.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(first)], begun=[BegunCall(second, N2)]))
    desk.tell(N1, LogCalls(ACTOR, 1, [], forgotten=[second.task_id]))
    assert not desk.scheduler.guards.guarded[ACTOR].copy.journal.begun
    assert desk.adopt() == [first]
    desk.tell(desk.worker, ActorStarted(ACTOR))
    assert not desk.take_sent(StartTasks)


@pytest.mark.parametrize("is_granted", [False, True])
def test_whether_an_actor_is_gone_that_is_guarded_here_as_its_maker_is_says_the_answer_to_our_claim(is_granted):
    """The shard had not heard of its guardian, and said that it had gone with its node; then it was claimed, and made
    anew besides (found by seeds 1424 and 2343 of a program of actors that give out what they make)."""
    desk = GuardianDesk()
    desk.tell(N1, LogCalls(ACTOR, 1, [], nested=[NestedAnswer(MADE, MADE, [])]))
    desk.answer_shards()
    options = ActorOptions(class_name="D", max_restarts=-1, checkpoint_interval=2, detached=True)
    desk.tell(N1, GuardActor(TaskSpec(MADE, FUNCTION), options, LIFE, JOB, JobFacts(home=N1)))
    desk.tell(N1, LogStart(MADE, 1, 0))
    nested = desk.scheduler.guards.guarded[ACTOR].copy.journal.nested
    assert nested.has_made(MADE)
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell("gcs-0", ActorLocated(MADE, "", N1))
    assert nested.has_made(MADE)
    desk.tell("gcs-0", ActorClaimed(MADE, AGAIN, is_held=True) if is_granted else ActorRefused(MADE, LIFE.birth))
    assert nested.has_made(MADE) == is_granted
    assert (MADE + FIRST_RETURN in nested.handles()) == is_granted


@pytest.mark.parametrize("was_guarded", [False, True])
def test_an_actor_that_had_a_backup_is_not_made_anew_when_both_its_nodes_are_lost(was_guarded):
    """Callers have seen effects of its calls, which another one would not have."""
    desk = GuardianDesk()
    desk.tell(N1, LogCalls(ACTOR, 1, [], nested=[NestedAnswer(MADE, MADE, [])]))
    desk.answer_shards()
    nested = desk.scheduler.guards.guarded[ACTOR].copy.journal.nested
    desk.tell("monitor", NodeLost(N1, "it was unplugged"))
    desk.tell("gcs-0", ActorLocated(MADE, "", N1, was_guarded=was_guarded))
    assert nested.has_made(MADE) == was_guarded


@pytest.mark.parametrize("sender, stays", [(N1, True), ("gcs-0", False)])
def test_home_that_refuses_an_accepted_offer_has_its_backup_all_the_same(sender, stays):
    """A home that had asked twice for a place kept the actor: callers waited for ever for the lost log."""
    desk = GuardianDesk()
    desk.tell(sender, ActorRefused(ACTOR, LIFE.birth))
    assert (ACTOR in desk.scheduler.guards.guarded) == stays
    desk.take_sent()
    desk.tell(N1, LogCalls(ACTOR, 1, [LoggedCall(desk.spec(1))]))
    assert [message.count for _, message in desk.take_sent(CallsLogged)] == [1] * stays
