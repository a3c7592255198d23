"""Lost nodes: the verdict, what a shard has made again, what a local scheduler takes back."""

import pytest

from tests.roles.desk import DRIVER, JOB, Desk
from zray.exceptions import decode_system_error
from zray.ids import put_id, return_id
from zray.roles import effects as e
from zray.roles.effects import Finding, HostLinkChanged, HostProbed, ProbeHost, Send
from zray.roles.gcs import GcsShard
from zray.roles.local_scheduler.lease import LEASE_SECONDS
from zray.roles.local_scheduler.members import LOAD_SECONDS, LoadTimeout
from zray.roles.monitor import TICK_SECONDS, Monitor, MonitorTimeout
from zray.wire.gcs import (
    AddLocations,
    CannotRebuild,
    Heartbeat,
    HeartbeatReply,
    HoldAtNode,
    NodeLost,
    ObjectLost,
    RebuildObject,
    RecordTasks,
    RegisterNode,
    SubscribeObject,
)
from zray.wire.objects import HoldObjects
from zray.wire.scheduling import JobFacts, PlaceTask, SpillTask, TaskPlaced
from zray.wire.task_spec import RESOURCE_UNIT, TaskOptions, TaskSpec, encode_options
from zray.wire.tasks import ObjectsReady

N1, N2, N3 = "n1/local", "n2/local", "n3/local"
TASK = b"t" * 16
OBJECT, PUT = return_id(TASK, 1), put_id(TASK, 0)
SPEC = TaskSpec(TASK, b"f" * 16)


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
        for node in (N1, N2, N3):
            self.monitor.handle(node, RegisterNode(node, {}, endpoint=f"{node}:1"), 0.0)

    def tick(self, *alive, seconds=TICK_SECONDS):
        """The heartbeats of these, then a tick, so long after the last one.  Returns the nodes that are lost by it."""
        self.ticks += 1
        self.now += seconds
        for node in alive:
            self.monitor.handle(node, Heartbeat(node), self.now)
        effects = self.monitor.handle("timer", MonitorTimeout(), self.now)
        told = [(effect.destination, effect.message) for effect in effects if type(effect) is Send]
        lost = {message.node for _, message in told if type(message) is NodeLost}
        for node in lost:
            listeners = {target for target, message in told if type(message) is NodeLost and message.node == node}
            assert listeners >= {"global", "gcs-0", *self.monitor.nodes}
        return lost

    def ticks_until_lost(self, node, *alive):
        before = self.ticks
        while not (lost := self.tick(*alive)):
            assert self.ticks - before < 100
        assert lost == {node}
        return self.ticks - before

    def link(self, node, is_up):
        """Its connection breaks, or is back.  Where we look then."""
        effects = self.monitor.handle("host", HostLinkChanged(node, is_up), self.now)
        return [effect for effect in effects if type(effect) is ProbeHost]

    def find(self, node, finding):
        """What the look told."""
        assert self.monitor.handle("host", HostProbed(node, finding), self.now) == []


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
    effects = watch.monitor.handle("timer", MonitorTimeout(), TICK_SECONDS)
    assert ProbeHost(N2, f"{N2}:1") in effects


def test_where_everybody_was_stopped_nobody_is_lost():
    """A laptop's lid: no tick of ours passed meanwhile, whatever the clock says (F04)."""
    watch = Watch()
    for _ in range(20):
        assert not watch.tick(N1)
    assert not watch.tick(seconds=36_000.0)
    for _ in range(20):
        assert not watch.tick(N1)


def test_the_verdict_is_final():
    watch = Watch()
    watch.tick(N1, N2, N3)
    watch.ticks_until_lost(N2, N1, N3)
    assert [type(message) for _, message in sent(watch.monitor, N1, Heartbeat(N1))] == [HeartbeatReply]
    ((target, verdict),) = sent(watch.monitor, N2, Heartbeat(N2))
    assert (target, type(verdict), verdict.node) == (N2, NodeLost, N2)
    assert sent(watch.monitor, N2, RegisterNode(N2, {})) == []
    assert N2 not in watch.monitor.nodes


# --- the shard ---


@pytest.fixture
def shard():
    return GcsShard("gcs-0")


def lose(shard, node):
    return sent(shard, "monitor", NodeLost(node, "silent"))


def test_what_somebody_waits_for_is_made_again_once(shard):
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    sent(shard, N2, AddLocations(N2, [(OBJECT, 9)]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    sent(shard, N1, SubscribeObject(N1, OBJECT))
    assert lose(shard, N2) == []  # nobody waits
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC))]
    # The one that makes it is asked, not another one.
    assert sent(shard, N1, SubscribeObject(N1, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC))]
    assert lose(shard, N3) == [(N1, RebuildObject(OBJECT, SPEC))]


def test_who_has_the_task_in_hand_is_asked_first(shard):
    sent(shard, N1, RecordTasks(N1, [SPEC]))
    sent(shard, N3, HoldAtNode(N3, [OBJECT], 0))
    lose(shard, N2)
    assert sent(shard, N3, SubscribeObject(N3, OBJECT)) == [(N1, RebuildObject(OBJECT, SPEC))]
    assert sent(shard, N1, CannotRebuild(N1, OBJECT)) == [(N3, RebuildObject(OBJECT, SPEC))]
    assert sent(shard, N3, CannotRebuild(N3, OBJECT)) == []


def test_when_its_creators_node_is_dead_a_holder_makes_it(shard):
    """USERS U05."""
    sent(shard, N2, RecordTasks(N2, [SPEC]))
    sent(shard, N1, HoldAtNode(N1, [OBJECT], 0))
    sent(shard, N1, SubscribeObject(N1, OBJECT))
    assert lose(shard, N2) == [(N1, RebuildObject(OBJECT, SPEC))]


def test_a_put_that_is_gone_is_lost_and_so_is_what_may_run_once_only(shard):
    once = TaskSpec(TASK, b"f" * 16, options=encode_options(TaskOptions(max_retries=0)))
    sent(shard, N1, RecordTasks(N1, [once]))
    for object_id in (PUT, OBJECT):
        sent(shard, N1, HoldAtNode(N1, [object_id], 0))
        sent(shard, N2, AddLocations(N2, [(object_id, 9)]))
    lose(shard, N2)
    for object_id, word in ((PUT, "was put"), (OBJECT, "once only")):
        ((target, message),) = sent(shard, N1, SubscribeObject(N1, object_id))
        assert (target, type(message)) == (N1, ObjectLost)
        assert word in message.reason and object_id.hex() in message.reason


# --- the local scheduler ---


@pytest.fixture
def desk():
    """With one CPU that is busy, and a peer."""
    desk = Desk(cpus=1)
    desk.scheduler.is_embedded = False
    desk.scheduler.members.peers[N2] = {"CPU": RESOURCE_UNIT, "disk": RESOURCE_UNIT}
    return desk


def spilled(desk, **options):
    """A task that N2 runs for this node."""
    spec = desk.new_spec()
    spec.options = encode_options(TaskOptions(resources={"disk": RESOURCE_UNIT}, **options))
    desk.submit(spec)
    acknowledge(desk)
    desk.tell("global", TaskPlaced(spec.task_id, N2))
    return spec


def acknowledge(desk):
    from zray.wire.gcs import RecordTasksReply

    for target, message in desk.take_sent():
        if type(message) is RecordTasks and message.request:
            desk.tell(target, RecordTasksReply(message.request))


def test_a_task_of_a_lost_node_goes_up_again_as_often_as_it_may(desk):
    spec = spilled(desk, max_retries=1)
    desk.take_sent()
    desk.tell("monitor", NodeLost(N2, "killed"))
    acknowledge(desk)
    assert [message.spec for _, message in desk.take_sent(SpillTask)] == [spec]
    desk.tell("global", TaskPlaced(spec.task_id, N3, 2))
    desk.tell("monitor", NodeLost(N3, "killed too"))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    ((_, value),) = ready.objects
    error = decode_system_error(value)
    assert type(error).__name__ == "NodeDiedError" and "2 attempts" in str(error) and "killed too" in str(error)


def test_a_task_placed_on_a_node_that_was_lost_before_uses_up_no_attempt(desk):
    desk.tell("monitor", NodeLost(N3, "killed"))
    spec = spilled(desk, max_retries=0)
    desk.take_sent()
    desk.tell("global", TaskPlaced(spec.task_id, N3, 1))
    acknowledge(desk)
    assert [message.spec for _, message in desk.take_sent(SpillTask)] == [spec]


def test_with_the_drivers_node_its_jobs_end(desk):
    spec = desk.new_spec()
    desk.tell("global", PlaceTask(spec, N2, b"job-0002", JobFacts(home=N2)))
    worker = desk.give_birth()
    assert desk.queues[worker] == [spec]
    desk.tell("monitor", NodeLost(N2, "killed"))
    assert desk.killed == [worker]
    assert set(desk.scheduler.jobs) == {JOB}
    desk.tell("global", PlaceTask(desk.new_spec(), N3, b"job-0002", JobFacts(home=N2)))
    assert set(desk.scheduler.jobs) == {JOB}


def test_an_order_to_rebuild_what_nobody_here_wants_is_declined(desk):
    desk.tell("gcs-0", RebuildObject(OBJECT, SPEC))
    assert desk.take_sent(CannotRebuild) == [("gcs-0", CannotRebuild("local", OBJECT))]


def test_what_is_lost_is_an_error_until_its_task_runs_again(desk):
    desk.tell(DRIVER, HoldObjects([PUT]))
    desk.tell("gcs-0", ObjectLost(PUT, "it is gone"))
    ((_, ready),) = desk.take_sent(ObjectsReady)
    error = decode_system_error(ready.objects[0][1])
    assert type(error).__name__ == "ObjectLostError" and "it is gone" in str(error)
    assert not desk.take_sent(AddLocations)


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


def run_lease(desk, seconds):
    """So much time passes in steps, without an answer.  The number of the last heartbeat."""
    for _ in range(round(seconds / LOAD_SECONDS)):
        desk.now += LOAD_SECONDS
        desk.tell("timer", LoadTimeout())
    beats = [message.number for _, message in desk.take_sent(Heartbeat)]
    return beats[-1] if beats else 0


def test_a_node_whose_lease_is_over_kills_its_workers_and_ends(desk):
    """DESIGN 11: it fences itself, before the verdict on it."""
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
    assert [effect for effect in done if type(effect) is not ProbeHost][0] == e.KillWorker(worker)
    assert type(done[-1]) is e.EndSession and "may be cut off" in done[-1].reason


@pytest.mark.parametrize("finding", [Finding.ENDED, Finding.STANDS_STILL])
def test_a_node_waits_for_a_head_that_can_give_no_verdict_but_not_for_ever(desk, finding):
    desk.scheduler.members.lease.head_wait = 10.0
    done = fence_of(desk)
    for _ in range(20):
        run_lease(desk, 0.6)
        desk.tell("host", HostProbed("monitor", finding))
        assert {type(effect) for effect in done} == {ProbeHost} or desk.now > 10.0
    assert type(done[-1]) is e.EndSession and "for 10 s" in done[-1].reason


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
    """SIGSTOP, or a lid: what it could not count does not count (F03, F04)."""
    done = fence_of(desk)
    run_lease(desk, 0.3)
    desk.now += 600.0
    desk.tell("timer", LoadTimeout())
    assert {type(effect) for effect in done} <= {ProbeHost}
    number = run_lease(desk, 0.1)
    desk.tell("monitor", HeartbeatReply(number))
    run_lease(desk, 2.0)
    assert {type(effect) for effect in done} <= {ProbeHost}
