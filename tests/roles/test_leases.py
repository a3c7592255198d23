"""A node is a member for as long as its lease lasts, and ends when that is over (docs/design/membership.md)."""

import pytest

from tests.roles.desk import Desk
from zray.roles import effects as e
from zray.roles.effects import Finding, HeadChanged, HostProbed, ProbeHost
from zray.roles.local_scheduler.membership.lease import RETURN_SECONDS
from zray.roles.local_scheduler.membership.members import LOAD_SECONDS
from zray.roles.monitor import RETURN_TICKS_MAX, TICK_SECONDS
from zray.roles.work_effects import HoldBack, StopWorkers
from zray.wire.gcs import Heartbeat, HeartbeatReply, NodeJoined, NodeLost

N2 = "n2/local"


@pytest.fixture
def desk():
    """A local scheduler with one CPU, and a peer."""
    desk = Desk(cpus=1)
    desk.scheduler.members.start()
    desk.tell("monitor", NodeJoined(N2, {}))
    desk.take_sent()
    return desk


def fence_of(desk):
    """What the scheduler does that is no message, from now on."""
    done = []
    desk.scheduler.perform = lambda effect: done.append(effect)
    return done


def test_a_node_that_is_declared_lost_kills_its_workers_and_ends(desk):
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    done = fence_of(desk)
    desk.tell("monitor", NodeLost("local", "silent"))
    assert done[0] == e.KillWorker(worker) and type(done[1]) is e.EndSession


@pytest.mark.parametrize(
    ("reason", "advice"), [("silent", "--driver-wait"), ("its key was revoked", "zray keys token")]
)
def test_a_program_outside_is_told_what_to_do(reason, advice, desk):
    desk.scheduler.members.facts = ("driver", "", b"")
    done = fence_of(desk)
    desk.tell("monitor", NodeLost("local", reason))
    assert reason in done[-1].reason and advice in done[-1].reason


@pytest.mark.parametrize("kind", ["node", "driver"])
def test_who_was_in_a_cluster_whose_head_has_ended_is_told_what_to_do(kind, desk):
    desk.scheduler.members.facts = (kind, "", b"")
    desk.scheduler.members.lease.head_has_ended = True
    done = fence_of(desk)
    desk.tell("monitor", NodeLost("local", "the head has ended"))
    assert "objects there are gone; start a cluster" in done[-1].reason and "--driver-wait" not in done[-1].reason


def run_lease(desk, seconds):
    """So much time passes in steps, without an answer.  The number of the last heartbeat."""
    for _ in range(round(seconds / LOAD_SECONDS)):
        desk.now += LOAD_SECONDS
        if desk.timers.named("Members.report"):  # else it has ended
            desk.timer("Members.report")
    beats = [message.number for _, message in desk.take_sent(Heartbeat)]
    return beats[-1] if beats else 0


def is_suspended(done):
    """What comes of a lease that is over."""
    return [effect for effect in done if type(effect) is not ProbeHost] == [HoldBack(True), StopWorkers(True)]


@pytest.mark.parametrize("head_wait", [0.0, 10.0])
def test_a_node_whose_lease_is_over_does_nothing_any_more_and_ends_when_it_has_waited(desk, head_wait):
    """The node ends before it is declared dead."""
    desk.scheduler.members.lease.head_wait = head_wait
    desk.submit(desk.new_spec())
    worker = desk.give_birth()
    done = fence_of(desk)
    number = run_lease(desk, 1.0)
    run_lease(desk, 1.0)
    desk.tell("monitor", HeartbeatReply(number))  # it took a second: the lease runs from when that was sent
    run_lease(desk, 1.0)
    desk.tell("host", HostProbed("monitor", Finding.OUT_OF_REACH))
    assert {type(effect) for effect in done} == {ProbeHost}
    run_lease(desk, 0.4)
    if head_wait:
        assert is_suspended(done)
        run_lease(desk, head_wait - 2.0)
    assert done[-2] == e.KillWorker(worker)
    assert type(done[-1]) is e.EndSession and "may be cut off" in done[-1].reason and done[-1].may_rejoin


def test_the_lease_is_as_long_as_the_monitor_says(desk):
    """That of a program outside of the cluster: it does not wait for longer."""
    desk.scheduler.members.facts = ("driver", "", b"")
    done = fence_of(desk)
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1), 30.0))
    run_lease(desk, 29.0)
    assert {type(effect) for effect in done} <= {ProbeHost}
    run_lease(desk, 1.5)
    assert type(done[-1]) is e.EndSession and "for 30 s" in done[-1].reason


@pytest.mark.parametrize("finding", [Finding.ENDED, Finding.STANDS_STILL])
def test_a_node_waits_for_a_head_that_can_give_no_verdict_but_not_for_ever(desk, finding):
    desk.scheduler.members.lease.head_wait = 10.0
    done = fence_of(desk)
    for _ in range(20):
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", finding))
        assert {type(effect) for effect in done} == {ProbeHost} or desk.now > 10.0
    assert type(done[-1]) is e.EndSession and "for 10 s" in done[-1].reason


def test_a_head_is_waited_for_from_when_it_was_found_to_have_ended(desk):
    """A program that had been cut off from it for a minute has not waited for it yet."""
    desk.scheduler.members.lease.head_wait = 30.0
    done = fence_of(desk)
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1), 30.0))
    for finding in [Finding.OUT_OF_REACH] * 28 + [Finding.ENDED] * 28:
        run_lease(desk, 1.0)
        desk.tell("host", HostProbed("monitor", finding))
    assert {type(effect) for effect in done} == {ProbeHost}
    run_lease(desk, 3.0)
    assert type(done[-1]) is e.EndSession and "was not started again for 30 s" in done[-1].reason


def test_a_head_that_was_started_again_has_time_to_answer(desk):
    """It counts those that it knew from its start on, and for longer: a machine that is busy starts slowly."""
    done = fence_of(desk)
    run_lease(desk, 1.0)
    desk.tell("host", HostProbed("monitor", Finding.ENDED))
    ended_at = desk.now - 0.5
    while desk.now < ended_at + 7.0:
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", Finding.ANSWERS))
    assert {type(effect) for effect in done} == {ProbeHost}
    run_lease(desk, 2.0)
    assert is_suspended(done)
    assert desk.now < ended_at + RETURN_TICKS_MAX * TICK_SECONDS


def test_a_head_that_stands_still_once_it_was_started_again_has_time_to_answer_when_it_goes_on(desk):
    """It counts from then on those that it knew."""
    done = fence_of(desk)
    for finding, steps in ((Finding.ENDED, 2), (Finding.STANDS_STILL, 15), (Finding.ANSWERS, 5)):
        for _ in range(steps):
            run_lease(desk, 0.6)
            desk.tell("host", HostProbed("monitor", finding))
    assert {type(effect) for effect in done} == {ProbeHost}
    run_lease(desk, RETURN_SECONDS)
    assert is_suspended(done)


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (Finding.OUT_OF_REACH, "has not answered for 21 s, and this node may be cut off"),
        (Finding.ANSWERS, "no heartbeat for 21 s, though a process listens there: it may have been started again"),
    ],
)
def test_who_is_cut_off_says_for_how_long_it_has_heard_nothing(desk, finding, why):
    """Its lease was shorter: it has waited for a head that had ended."""
    desk.scheduler.members.lease.head_wait = 20.0
    done = fence_of(desk)
    desk.tell("monitor", HeartbeatReply(run_lease(desk, 0.1)))
    for found in [Finding.ENDED] * 20 + [finding] * 13:
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", found))
    run_lease(desk, 2.0)
    assert type(done[-1]) is e.EndSession and why in done[-1].reason


def test_what_the_head_was_before_it_answered_extends_no_lease(desk):
    done = fence_of(desk)
    number = run_lease(desk, 1.0)
    desk.tell("host", HostProbed("monitor", Finding.ENDED))
    desk.tell("monitor", HeartbeatReply(number))
    run_lease(desk, 2.4)
    assert is_suspended(done)


def test_a_look_at_the_head_before_this_one_extends_no_lease(desk):
    """It was under way when the new head was found."""
    done = fence_of(desk)
    run_lease(desk, 1.0)
    desk.tell("host", HeadChanged("head", "again", ["again/global"]))
    desk.tell("host", HostProbed("monitor", Finding.ENDED))
    run_lease(desk, 2.4)
    assert is_suspended(done)


def test_an_answer_that_comes_after_the_wait_extends_the_lease(desk):
    done = fence_of(desk)
    for _ in range(20):
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", Finding.ENDED))
    number = run_lease(desk, 0.1)
    desk.tell("monitor", HeartbeatReply(number))
    run_lease(desk, 2.0)
    assert {type(effect) for effect in done} == {ProbeHost}


def test_a_node_that_was_stopped_asks_before_it_gives_up(desk):
    """Time under SIGSTOP or a closed lid does not count."""
    done = fence_of(desk)
    run_lease(desk, 0.3)
    desk.now += 600.0
    desk.timer("Members.report")
    assert {type(effect) for effect in done} <= {ProbeHost}
    number = run_lease(desk, 0.1)
    desk.tell("monitor", HeartbeatReply(number))
    run_lease(desk, 2.0)
    assert {type(effect) for effect in done} <= {ProbeHost}
