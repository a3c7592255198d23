"""Membership: verdicts, leases, and monitors that follow one another (docs/design/membership.md)."""

import pytest

from tests.roles.desk import Desk
from tests.roles.rows_taken import record_rows
from zray.roles import effects as e
from zray.roles.effects import Finding, HeadChanged, HostLinkChanged, HostProbed, NoteLost, NoteMember, ProbeHost, Send
from zray.roles.local_scheduler.membership.lease import LEASE_SECONDS
from zray.roles.monitor import (
    LOOK_AT_TICKS,
    LOSSES_TOLD,
    RETURN_TICKS_MAX,
    STALL_SECONDS,
    TICK_SECONDS,
    TRANSITIONS,
    Member,
    MemberState,
    Monitor,
)
from zray.roles.role import Later
from zray.wire.gcs import GiveUpNode, Heartbeat, HeartbeatReply, NodeJoined, NodeLost, RegisterNode
from zray.wire.where import NODE_ID_LABEL

N1, N2, N3 = "n1/local", "n2/local", "n3/local"


@pytest.fixture
def desk():
    """A local scheduler with one CPU, and a peer."""
    desk = Desk(cpus=1)
    desk.scheduler.members.start()
    desk.tell("monitor", NodeJoined(N2, {}))
    desk.take_sent()
    return desk


def tick(monitor, now):
    """The effects of its timer."""
    return monitor.handle("timer", Later(monitor.tick, ()), now)


def sent(role, sender, message):
    effects = role.handle(sender, message, 1.0)
    return [(effect.destination, effect.message) for effect in effects if type(effect) is Send]


# --- the verdict ---


class Watch:
    """A monitor of three nodes, tick by tick."""

    def __init__(self):
        self.monitor = Monitor("monitor", ["global", "gcs-0"])
        self.ticks = 0
        self.now = 0.0
        self.looks = []  # where we look since the last tick
        for node in (N1, N2, N3):
            self.monitor.handle(node, RegisterNode(node, {}, endpoint=f"{node}:1"), 0.0)

    def tick(self, *alive, seconds=TICK_SECONDS):
        """The heartbeats of these, then a tick, so long after the last one.  Returns the nodes that are lost by it."""
        self.ticks += 1
        self.now += seconds
        for node in alive:
            self.monitor.handle(node, Heartbeat(node), self.now)
        effects = tick(self.monitor, self.now)
        self.looks = [effect.role for effect in effects if type(effect) is ProbeHost]
        told = [(effect.destination, effect.message) for effect in effects if type(effect) is Send]
        lost = {message.node for _, message in told if type(message) is NodeLost}
        for node in lost:
            listeners = {target for target, message in told if type(message) is NodeLost and message.node == node}
            assert listeners >= {"global", "gcs-0", *self.monitor.nodes}
        return lost

    def ticks_until_lost(self, node, *alive):
        before = self.ticks
        while not (lost := self.tick(*alive)):
            assert self.ticks - before < 400
        assert lost == {node}
        return self.ticks - before

    def link(self, node, is_up):
        """Its connection breaks, or is back.  Where we look then."""
        effects = self.monitor.handle("host", HostLinkChanged(node, is_up), self.now)
        return [effect for effect in effects if type(effect) is ProbeHost]

    def find(self, node, finding):
        """What the look told."""
        assert self.monitor.handle("host", HostProbed(node, finding), self.now) == []


@pytest.mark.parametrize("who", [N1, "replica/gcs-0"])
def test_whom_a_host_can_do_nothing_for_any_more_is_lost_to_all(who):
    """One decision: those that forgot it alone would wait for it for ever."""
    watch = Watch()
    told = sent(watch.monitor, who, GiveUpNode(N2, "it takes nothing"))
    verdicts = {target: message for target, message in told if type(message) is NodeLost}
    assert verdicts.keys() == {"global", "gcs-0", N1, N2, N3}
    assert all(message.node == N2 and "it takes nothing" in message.reason for message in verdicts.values())
    assert sent(watch.monitor, who, GiveUpNode(N2, "it takes nothing")) == []


def test_a_node_that_is_silent_is_lost_within_three_seconds():
    watch = Watch()
    watch.tick(N1, N2, N3)
    assert LEASE_SECONDS + 0.3 < watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS < 3.0
    assert watch.monitor.nodes.keys() == {N1, N3}


def test_a_node_whose_process_has_ended_is_lost_within_half_a_second():
    watch = Watch()
    assert watch.link(N2, False) == [ProbeHost(N2, f"{N2}:1")]
    watch.find(N2, Finding.ENDED)
    assert watch.ticks_until_lost(N2, N1, N2, N3) * TICK_SECONDS < 0.4


@pytest.mark.parametrize("finding", [Finding.STANDS_STILL, Finding.ANSWERS, Finding.OUT_OF_REACH])
def test_a_connection_that_breaks_is_no_death(finding):
    """It may be cut off, and work on until its lease is over."""
    watch = Watch()
    watch.link(N2, False)
    watch.find(N2, finding)
    assert watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS > LEASE_SECONDS + 0.3


def test_a_connection_that_comes_back_in_time_costs_nothing():
    watch = Watch()
    for _ in range(20):
        watch.link(N2, False)
        assert not watch.tick(N1, N2, N3)
        watch.link(N2, True)
        watch.find(N2, Finding.ENDED)  # a look that has been overtaken
        assert not watch.tick(N1, N2, N3)


def test_who_is_cut_off_is_looked_at_again():
    """The process may end while it is."""
    watch = Watch()
    watch.link(N2, False)
    watch.find(N2, Finding.OUT_OF_REACH)
    effects = tick(watch.monitor, TICK_SECONDS)
    assert ProbeHost(N2, f"{N2}:1") in effects


def test_where_everybody_was_stopped_nobody_is_lost():
    """A laptop's lid: no tick of ours passed meanwhile, whatever the clock says."""
    watch = Watch()
    for _ in range(20):
        assert not watch.tick(N1)
    assert not watch.tick(seconds=36_000.0)
    for _ in range(20):
        assert not watch.tick(N1)


# --- programs outside of the cluster ---


@pytest.fixture
def watch_of_guest():
    """N2 is the node of a program outside, which may be silent for 30 s."""
    watch = Watch()
    watch.monitor = Monitor("monitor", ["global", "gcs-0"], driver_wait=30.0)
    for node, kind in ((N1, "node"), (N2, "driver"), (N3, "node")):
        watch.monitor.handle(node, RegisterNode(node, {}, kind, f"{node}:1"), 0.0)
    watch.tick(N1, N2, N3)
    return watch


def test_a_program_outside_may_be_silent_for_longer_and_is_told_so(watch_of_guest):
    """A laptop's lid, or a network that is away: its lease is over before the verdict falls, as a node's is."""
    watch = watch_of_guest
    assert sent(watch.monitor, N1, Heartbeat(N1, 1)) == [(N1, HeartbeatReply(1))]
    assert sent(watch.monitor, N2, Heartbeat(N2, 1)) == [(N2, HeartbeatReply(1, 30.0))]
    assert 30.0 + 0.3 < watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS < 31.0


def test_a_break_after_a_silence_is_no_end_of_a_program(watch_of_guest):
    """It is we who give up a connection on which nothing comes."""
    watch = watch_of_guest
    for _ in range(60):
        assert not watch.tick(N1, N3)
    watch.link(N2, False)
    watch.find(N2, Finding.OUT_OF_REACH)
    for _ in range(200):
        assert not watch.tick(N1, N3)
    watch.link(N2, True)
    assert not watch.tick(N1, N2, N3)


def test_a_program_whose_connection_is_closed_while_it_is_heard_of_has_ended(watch_of_guest):
    """Its machine does not have to be in reach (NAT): who lives is back at once."""
    watch = watch_of_guest
    watch.link(N2, False)
    watch.find(N2, Finding.OUT_OF_REACH)
    assert watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS < 3.0


def test_a_program_that_sleeps_while_the_head_stands_still_has_not_ended(watch_of_guest):
    watch = watch_of_guest
    assert not watch.tick(N1, N3, seconds=60.0)
    watch.link(N2, False)
    assert 30.0 < watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS


def test_a_program_that_is_back_after_its_connection_was_closed_may_be_silent_again(watch_of_guest):
    watch = watch_of_guest
    watch.link(N2, False)
    assert not watch.tick(N1, N3)
    watch.link(N2, True)
    assert 30.0 < watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS


def test_a_program_whose_process_has_ended_is_lost_at_once_however_long_it_may_be_silent(watch_of_guest):
    watch = watch_of_guest
    watch.link(N2, False)
    watch.find(N2, Finding.ENDED)
    assert watch.ticks_until_lost(N2, N1, N3) * TICK_SECONDS < 0.4


def test_the_verdict_is_final():
    watch = Watch()
    watch.tick(N1, N2, N3)
    watch.ticks_until_lost(N2, N1, N3)
    assert [type(message) for _, message in sent(watch.monitor, N1, Heartbeat(N1))] == [HeartbeatReply]
    ((target, verdict),) = sent(watch.monitor, N2, Heartbeat(N2))
    assert (target, type(verdict), verdict.node) == (N2, NodeLost, N2)
    assert [type(message) for _, message in sent(watch.monitor, N2, RegisterNode(N2, {}))] == [NodeLost]
    assert N2 not in watch.monitor.nodes


# --- states of members ---


def test_each_row_is_taken(monkeypatch):
    taken = record_rows(monkeypatch, Member, "happened")
    monitor = Monitor("monitor", [], former=[registered(node) for node in (N1, N2, N3)])
    monitor.start()
    ticks(monitor, 1, N1, N2, N3)  # heartbeats of a former monitor's members change nothing
    for node in (N1, N2, N3):
        monitor.handle(node, registered(node), monitor.now)
    for sleep in (0.0, 2 * STALL_SECONDS):  # the head is cut off from all, and stands still before that or not
        monitor.now += sleep
        tick(monitor, monitor.now)
        for _ in range(LOOK_AT_TICKS + 1):
            for node in (N1, N2, N3):
                monitor.handle("host", HostProbed(node, Finding.OUT_OF_REACH), monitor.now)
            ticks(monitor, 1)
        ticks(monitor, 1, N1, N2)
        ticks(monitor, 1, N1, N2, N3)
    monitor.now += 2 * STALL_SECONDS
    tick(monitor, monitor.now)
    ticks(monitor, 1, N1, N2, N3)
    assert taken >= set(TRANSITIONS)
    assert {member.state for member in monitor.nodes.values()} == {MemberState.HEARD}


# --- a monitor that follows another one ---


def registered(node, *peers, last_lost=""):
    facts = {"endpoint": f"{node}:1", "public_key": b"k", "peers": list(peers), "last_lost": last_lost}
    return RegisterNode(node, {"CPU": 1}, **facts)


@pytest.fixture
def follower():
    """Of three nodes, and one that was lost; what its start says is in `said`."""
    monitor = Monitor("monitor", ["global"], former=[registered(node) for node in (N1, N2, N3)], lost=["n4/local"])
    monitor.start()
    monitor.said = monitor.take_effects()
    return monitor


def ticks(monitor, count, *alive):
    """The nodes that are lost by so many ticks; these are heard of before each."""
    lost = []
    for _ in range(count):
        monitor.now += TICK_SECONDS
        for node in alive:
            monitor.handle(node, Heartbeat(node, 1), monitor.now)
        effects = tick(monitor, monitor.now)
        lost += [effect.node for effect in effects if type(effect) is NoteLost]
    return lost


def test_a_member_and_a_verdict_are_noted_before_anybody_hears_of_them():
    monitor = Monitor("monitor", ["global"])
    first = monitor.handle(N1, registered(N1), 0.0)[0]
    assert first == NoteMember(registered(N1))
    monitor.handle(N2, registered(N2), 0.0)
    effects = monitor.handle("host", e.HostLeft(N2, "told to stop"), 0.0)
    assert effects[0] == NoteLost(N2, "told to stop") and type(effects[1]) is Send


def test_a_program_that_sleeps_while_the_head_is_started_again_is_not_taken_for_one_that_has_ended():
    """This head has never had a connection of its that could be closed."""
    former = [registered(N1), RegisterNode(N2, {}, "driver", f"{N2}:1")]
    monitor = Monitor("monitor", ["global"], former=former, driver_wait=30.0)
    monitor.start()
    ticks(monitor, 10, N1)
    monitor.handle("host", e.HostLinkChanged(N2, False), monitor.now)
    assert ticks(monitor, 290, N1) == []
    assert ticks(monitor, 10, N1) == [N2]


def test_who_has_found_the_head_that_was_started_again_is_waited_for_from_then_on():
    """It takes itself for a member from when it hears of it, and what it says may come no further."""
    former = [registered(N1), RegisterNode(N2, {}, "driver", f"{N2}:1"), registered(N3)]
    monitor = Monitor("monitor", ["global"], former=former, driver_wait=30.0)
    monitor.start()
    ticks(monitor, 80, N1)
    for node in (N2, N3):
        monitor.handle("host", e.HostLinkChanged(node, True), monitor.now)
    assert ticks(monitor, RETURN_TICKS_MAX, N1) == []
    assert ticks(monitor, 1, N1) == [N3]
    assert ticks(monitor, 300 - RETURN_TICKS_MAX, N1) == []
    assert ticks(monitor, 10, N1) == [N2]


def test_it_tells_its_listeners_of_the_nodes_of_the_other_one(follower):
    told = [(effect.destination, effect.message.node) for effect in follower.said if type(effect) is Send]
    assert told == [("global", N1), ("global", N2), ("global", N3)]
    assert follower.nodes.keys() == {N1, N2, N3}


def test_who_comes_back_is_told_of_all_others_in_their_order_and_nobody_of_it(follower):
    told = sent(follower, N2, registered(N2, last_lost="n4/local"))
    assert [(target, message.node, message.is_earlier) for target, message in told] == [(N2, N1, True), (N2, N3, False)]
    assert sent(follower, N2, registered(N2)) == []  # a repeat


def test_who_comes_back_is_told_of_those_that_were_lost(follower):
    told = sent(follower, N2, registered(N2, N1, "n4/local", "n5/local"))
    assert [message.node for _, message in told if type(message) is NodeLost] == ["n4/local", "n5/local"]


@pytest.mark.parametrize(
    ("last_lost", "news"), [("a", ["b", "c"]), ("c", []), ("", ["a", "b", "c"]), ("long ago", ["a", "b", "c"])]
)
def test_who_comes_back_is_told_of_the_losses_that_it_has_missed_of_nodes_that_it_had_not_met_too(last_lost, news):
    """One that joins and is lost while a node has not found the head is named to that by shards, later."""
    monitor = Monitor("monitor", ["global"], former=[registered(N1)], lost=["a", "b", "c"])
    told = sent(monitor, N1, registered(N1, last_lost=last_lost))
    assert [message.node for _, message in told if type(message) is NodeLost] == news


@pytest.mark.parametrize(("count", "news"), [(LOSSES_TOLD, ["n4/local", N2, N1]), (2, [N2, N1]), (1, [N1])])
def test_a_newcomer_is_told_of_the_last_losses_before_it(follower, count, news, monkeypatch):
    """Shards may not have heard of these, and say that an actor lives there; by the last one a later monitor knows."""
    monkeypatch.setattr("zray.roles.monitor.LOSSES_TOLD", count)
    for node in (N2, N1):
        follower.handle("host", e.HostLeft(node, "told to stop"), 0.0)
    told = sent(follower, "n9/local", registered("n9/local"))
    assert [message.node for target, message in told if type(message) is NodeLost] == news


def test_who_was_lost_before_stays_lost(follower):
    ((target, message),) = sent(follower, "n4/local", registered("n4/local"))
    assert (target, type(message), message.node) == ("n4/local", NodeLost, "n4/local")


def test_who_does_not_come_back_is_lost_in_the_end_and_the_others_live_on(follower):
    for node in (N1, N3):
        sent(follower, node, registered(node))
    assert ticks(follower, RETURN_TICKS_MAX, N1, N3) == []
    assert ticks(follower, 1, N1, N3) == [N2]


def test_who_comes_back_late_has_missed_nothing(follower):
    ticks(follower, RETURN_TICKS_MAX - 1, N1, N3)
    sent(follower, N2, registered(N2))
    assert N2 not in ticks(follower, 20)
    assert N2 in ticks(follower, 20)  # from now on it counts as any other


def test_who_has_ended_meanwhile_is_looked_at_and_lost_at_once(follower):
    effects = tick(follower, TICK_SECONDS)
    assert [effect.role for effect in effects if type(effect) is ProbeHost] == [N1, N2, N3]
    follower.handle("host", HostProbed(N2, Finding.ENDED), TICK_SECONDS)
    follower.handle("host", HostProbed(N3, Finding.OUT_OF_REACH), TICK_SECONDS)
    assert ticks(follower, 3) == [N2]


def test_a_newcomer_and_those_that_come_back_hear_of_each_other(follower):
    told = sent(follower, "n9/local", registered("n9/local"))
    assert {target for target, message in told if message.node == "n9/local"} == {N1, N2, N3, "global"}
    met = {message.node for target, message in told if target == "n9/local" and type(message) is NodeJoined}
    assert met == {N1, N2, N3}


def test_a_node_registers_at_the_new_head_with_those_that_it_knows(desk):
    desk.tell("host", HeadChanged("n1", "n9", ["n9/global"]))
    again = RegisterNode("local", {"CPU": 10_000}, peers=[N2], labels={NODE_ID_LABEL: "local"})
    assert ("n9/monitor", again) in desk.sent
    assert desk.scheduler.addresses.global_schedulers == ["n9/global"]
    assert "n1/local" in desk.scheduler.recovery.lost  # what the head's node was is gone with it
    desk.timer("Members.report")
    assert "n9/monitor" in {target for target, message in desk.sent if type(message) is Heartbeat}


def test_a_node_registers_at_the_new_head_with_the_last_loss_that_it_was_told_of(desk):
    """What it has found out by itself, the head's end, says nothing of what it was told."""
    desk.tell("n1/monitor", NodeLost(N2, "silent"))
    desk.tell("host", HeadChanged("n1", "n9", ["n9/global"]))
    desk.tell("n9/monitor", NodeLost("n1/local", "lost"))
    desk.tell("host", HeadChanged("n9", "n10", ["n10/global"]))
    marks = [message.last_lost for _, message in desk.sent if type(message) is RegisterNode]
    assert marks[-2:] == [N2, "n1/local"]


def test_a_node_that_is_lost_already_is_forgotten_once(desk):
    """The former head's key is the key of the head that there is now."""
    desk.tell("host", HeadChanged("n1", "n9", ["n9/global"]))
    done = []
    desk.scheduler.perform = done.append
    desk.tell("n9/monitor", NodeLost("n1/local", "lost"))
    assert not done


def test_a_node_that_is_connected_and_never_registers_is_lost_to_all():
    """It may have said things to others before that (seed 961006963)."""
    watch = Watch()
    watch.link("n4/local", True)
    watch.link("n4/local", False)
    assert 100 <= watch.ticks_until_lost("n4/local", N1, N2, N3) <= 101
    watch.link("n5/local", True)
    watch.monitor.handle("n5/local", RegisterNode("n5/local", {}), watch.now)
    watch.ticks_until_lost("n5/local", N1, N2, N3)
    assert "n5/local" not in watch.monitor.strangers
