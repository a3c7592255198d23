"""A node with an expired lease keeps what comes, and goes on as a member when it may (docs/design/membership.md)."""

import pytest

from tests.roles.desk import DRIVER, Desk
from tests.roles.test_leases import run_lease
from zray.roles import effects as e
from zray.roles.effects import Finding, HeadChanged, HostProbed
from zray.roles.local_scheduler.membership import lease
from zray.roles.local_scheduler.objects.lineage import YOUTH_SECONDS
from zray.roles.work_effects import HearAgain, HoldBack, OthersUnheard, StopWorkers
from zray.wire.gcs import HeartbeatReply, NodeJoined, NodeLost, RecordTasks, RegisterNode
from zray.wire.reasons import Explain, ExplainReply
from zray.wire.tasks import ObjectsReady

N2 = "n2/local"


class SuspendedDesk(Desk):
    """Notes what is done about workers, and has the role hear again what it has kept."""

    def __init__(self):
        self.done = []
        super().__init__(cpus=1)

    def _perform(self, effects):
        for effect in effects:
            if type(effect) in (HoldBack, StopWorkers, e.EndSession):
                self.done.append(effect)
            elif type(effect) is HearAgain:
                for sender, message in effect.kept:
                    self._perform(self.scheduler.handle(sender, message, self.now))
            else:
                super()._perform([effect])

    def suspend(self):
        run_lease(self, 2.5)
        assert self.done == [HoldBack(True), StopWorkers(True)]
        self.done.clear()


@pytest.fixture
def desk():
    """A node with a worker that runs one task, and a second task that waits for the first; suspended."""
    desk = SuspendedDesk()
    desk.scheduler.members.start()
    desk.refs = desk.submit(desk.new_spec(), desk.new_spec())
    desk.worker = desk.give_birth()
    desk.take_sent()
    desk.suspend()
    return desk


def finish_and_see_nothing(desk):
    desk.finish_one(desk.worker)
    assert not desk.take_sent(ObjectsReady)


def test_what_comes_is_kept_and_answered_when_the_monitor_answers(desk):
    finish_and_see_nothing(desk)
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    assert desk.done == [StopWorkers(False), HoldBack(False)]
    assert [target for target, _ in desk.take_sent(ObjectsReady)] == [DRIVER]
    desk.run_all()
    assert [target for target, _ in desk.take_sent(ObjectsReady)] == [DRIVER]


def test_nothing_is_handed_out_meanwhile(desk):
    desk.submit(*(desk.new_spec() for _ in range(10)))
    assert not any(type(message) is not Explain and target != "monitor" for target, message in desk.take_sent())
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    desk.run_all()
    assert not desk.scheduler.tasks


def test_other_timers_than_that_of_heartbeats_are_kept_too(desk):
    """Lineage would have the shards hear of tasks."""
    for _ in range(2):
        desk.now += YOUTH_SECONDS
        desk.timer("Lineage.send_portion", stays=True)
    assert not desk.take_sent(RecordTasks)
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    desk.now += YOUTH_SECONDS
    desk.timer("Lineage.send_portion")
    assert desk.take_sent(RecordTasks)


def test_an_answer_to_an_old_heartbeat_is_none(desk):
    """Whatever it was that the monitor knew then."""
    desk.tell("monitor", HeartbeatReply(1))
    finish_and_see_nothing(desk)
    assert not desk.done


@pytest.mark.parametrize("finding", list(Finding))
def test_no_look_from_outside_has_it_go_on(desk, finding):
    """Who has ended, or stands still, may have given the verdict before that."""
    for _ in range(5):
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", finding))
    finish_and_see_nothing(desk)
    assert not desk.done and desk.scheduler.members.suspension.is_on


def test_a_head_that_was_started_again_and_knows_it_has_it_go_on(desk):
    """It registers there, once what came before was heard."""
    finish_and_see_nothing(desk)
    desk.take_sent()
    desk.tell("host", HeadChanged("head", "again", ["again/global"]))
    assert desk.done == [StopWorkers(False), HoldBack(False)]
    sent = desk.take_sent()
    assert ("again/monitor", RegisterNode) in [(target, type(message)) for target, message in sent]
    assert DRIVER in [target for target, message in sent if type(message) is ObjectsReady]
    run_lease(desk, 2.0)
    assert not desk.scheduler.members.suspension.is_on


def test_the_verdict_ends_it(desk):
    desk.tell("monitor", NodeLost(desk.scheduler.address, "it has not been heard of"))
    assert desk.killed == [desk.worker] and type(desk.done[-1]) is e.EndSession


def test_the_verdict_on_another_node_is_heard_later(desk):
    desk.tell("monitor", NodeJoined(N2, {}))
    desk.tell("monitor", NodeLost(N2, "silent"))
    assert N2 not in desk.scheduler.recovery.lost and not desk.done
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    assert N2 in desk.scheduler.recovery.lost


def test_a_program_that_asks_is_told_why_nothing_happens(desk):
    desk.tell(DRIVER, Explain(1, [desk.refs[0]]))
    ((target, reply),) = desk.take_sent(ExplainReply)
    assert target == DRIVER and "this node is suspended, and waits up to 60 s for it" in reply.lines[0]


def test_a_program_beside_a_head_that_hears_of_nobody_is_told_that(desk):
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    for words in ("no other machine is heard of", ""):
        desk.tell("host", OthersUnheard(words))
        desk.take_sent()
        desk.tell(DRIVER, Explain(1, [desk.refs[1]]))
        ((_, reply),) = desk.take_sent(ExplainReply)
        assert (reply.lines[0] == words) is bool(words)


@pytest.mark.parametrize(
    ("finding", "why", "may_rejoin"),
    [
        (Finding.OUT_OF_REACH, "may be cut off", True),
        (Finding.ENDED, "was not started again for 60 s", False),
    ],
)
def test_it_does_not_wait_for_ever(desk, finding, why, may_rejoin):
    for _ in range(65):
        run_lease(desk, 1.0)
        desk.tell("host", HostProbed("monitor", finding))
    assert desk.killed == [desk.worker]
    end = desk.done[-1]
    assert type(end) is e.EndSession and why in end.reason and end.may_rejoin is may_rejoin


def test_more_than_it_can_keep_ends_it(desk, monkeypatch):
    monkeypatch.setattr(lease, "KEPT_MAX", 10)
    for _ in range(11):
        desk.submit(desk.new_spec())
    assert type(desk.done[-1]) is e.EndSession and "more than 10 messages" in desk.done[-1].reason


def test_a_second_silence_suspends_it_again(desk):
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    desk.done.clear()
    desk.suspend()
