"""The number of global schedulers: by the loads that they report, one change at a time, within limits."""

import pytest

from tests.roles.timers import Timers
from zray.roles.effects import Send
from zray.roles.replica_effects import (
    CpuMeasured,
    EndScheduler,
    MeasureCpu,
    ServiceAdded,
    ServiceEnded,
    StartScheduler,
)
from zray.roles.role import Later
from zray.roles.scheduler_count import LIMITS, Limits, SchedulerCount
from zray.wire.counts import SchedulerLoad, WatchLoad

OWN = "head/global"


class Desk:
    """A scheduler count with a clock, and global schedulers whose load is the test's."""

    def __init__(self, least=1, most=4, own=True, limits=LIMITS):
        self.role = SchedulerCount("head/counts", least, most, (OWN,) if own else (), limits)
        self.now = 0.0
        self.timers = Timers()
        self.load = SchedulerLoad(0.5, 0.0, 0.0, 64, 4.0)
        self.silent = set()
        self.started = self.ended = 0
        self.changes = []  # (when, how many are wanted)
        self.told = {}
        self.role.start()
        self.take(self.role.take_effects())

    def take(self, effects):
        self.timers.note(effects)
        for effect in effects:
            if type(effect) is Send:
                assert type(effect.message) is WatchLoad
                self.told[effect.destination] = effect.message.equals
            elif type(effect) is StartScheduler:
                self.changes.append((self.now, self.role.count))
            elif type(effect) is EndScheduler:
                self.changes.append((self.now, self.role.count))
                self.ended += 1
        return [effect for effect in effects if type(effect) in (StartScheduler, EndScheduler)]

    def say(self, message, sender="head/services"):
        return self.take(self.role.handle(sender, message, self.now))

    def listens(self, host):
        self.say(ServiceAdded(host, "scheduler", b"k", [f"{host}/global"]))

    def ends(self, host):
        self.say(ServiceEnded(host, "killed"))

    def second(self, *, obeys=True):
        """A second, or what a look takes: all report, the role looks, and its orders are done."""
        self.now += self.role.limits.report_s
        for role in list(self.role.watched):
            if role not in self.silent:
                self.say(self.load, sender=role)
        orders = self.say(self.timers.take("SchedulerCount.tick"), sender="timer")
        for order in orders if obeys else ():
            if type(order) is StartScheduler:
                self.started += 1
                self.listens(f"g{self.started}")
            else:
                self.ends(order.host)
        return orders

    def seconds(self, count):
        for _ in range(count):
            self.second()


BUSY = SchedulerLoad(0.9, 0.0, 0.05, 64, 4.0)
IDLE = SchedulerLoad(0.1, 0.0, 0.0, 64, 4.0)


def test_count_begins_with_the_least_and_stays_at_a_steady_load():
    desk = Desk()
    desk.seconds(200)
    assert desk.role.count == 1 and not desk.changes and desk.told == {OWN: 1}


def test_scheduler_is_added_after_ten_seconds_above_and_another_ten_seconds_later():
    desk = Desk()
    desk.load = BUSY
    desk.seconds(45)
    assert [count for _, count in desk.changes] == [2, 3, 4]
    times = [when for when, _ in desk.changes]
    assert 10.0 <= times[0] <= 12.0
    assert all(10.0 <= later - sooner <= 12.0 for sooner, later in zip(times, times[1:], strict=False))
    assert desk.told == {OWN: 4, "g1/global": 4, "g2/global": 4, "g3/global": 4}
    assert "the most that was asked for" in desk.role.in_words(desk.now)


def test_mean_of_the_ten_seconds_counts():
    desk = Desk()
    for seconds, busy in ((1, 0.45), (1, 0.9)) * 30:
        desk.load = SchedulerLoad(busy, 0.0, 0.05, 64, 4.0)
        desk.seconds(seconds)
    assert not desk.changes
    for seconds, busy in ((1, 0.6), (1, 0.9)) * 5:
        desk.load = SchedulerLoad(busy, 0.0, 0.05, 64, 4.0)
        desk.seconds(seconds)
    assert desk.role.count == 2


def test_a_load_that_is_over_is_no_reason_for_one_more():
    desk = Desk()
    desk.load = IDLE
    desk.seconds(20)
    desk.load = BUSY
    desk.seconds(7)
    desk.load = IDLE
    desk.seconds(60)
    assert not desk.changes


def test_scheduler_is_ended_after_a_minute_below_and_never_the_own_one():
    desk = Desk()
    desk.load = BUSY
    desk.seconds(25)
    assert desk.role.count == 3
    desk.load = IDLE
    begun = desk.now
    desk.seconds(200)
    fewer = [when - begun for when, _ in desk.changes[2:]]
    assert desk.role.count == 1 and len(fewer) == 2
    assert 50.0 <= fewer[0] <= 62.0 and 60.0 <= fewer[1] - fewer[0] <= 62.0
    assert desk.told[OWN] == 1 and list(desk.role.watched) == [OWN]


def test_the_last_one_that_came_is_the_first_to_go():
    desk = Desk(least=2, own=False)
    desk.listens("a")
    desk.listens("b")
    desk.load = BUSY
    desk.seconds(12)
    desk.load = IDLE
    desk.seconds(62)
    assert list(desk.role.watched) == ["a/global", "b/global"]
    desk.seconds(200)
    assert desk.role.count == 2


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (SchedulerLoad(0.95, 0.0, 0.0, 64, 4.0), "no request waits"),
        (SchedulerLoad(0.95, 0.2, 0.2, 1, 4.0), "only 1 of the nodes have a free CPU"),
        (SchedulerLoad(0.95, 0.2, 0.2, 64, 0.2), "no core of the head's machine is free"),
    ],
    ids=["nobody waits", "nodes are full", "the machine is full"],
)
def test_not_more_where_that_would_not_help_and_status_says_why(load, why):
    desk = Desk()
    desk.load = load
    desk.seconds(60)
    assert not desk.changes and why in desk.role.in_words(desk.now)
    desk.load = BUSY
    while not desk.changes:
        desk.second()
    assert desk.role.count == 2 and desk.now <= 71.0


def test_never_more_than_nodes_with_a_free_cpu():
    desk = Desk(most=8)
    desk.load = SchedulerLoad(0.95, 0.0, 0.05, 3, 8.0)
    desk.seconds(120)
    assert desk.role.count == 3


def test_old_requests_count_as_slow_placements_do():
    desk = Desk()
    desk.load = SchedulerLoad(0.95, 0.05, 0.0, 64, 4.0)
    desk.seconds(12)
    assert desk.role.count == 2


def test_count_changes_once_at_a_time():
    desk = Desk()
    desk.load = BUSY
    while not desk.second(obeys=False):
        pass
    desk.seconds(20)
    assert len(desk.changes) == 1 and "(2 wanted)" in desk.role.in_words(desk.now)
    desk.listens("g1")
    desk.seconds(8)
    assert len(desk.changes) == 1
    desk.seconds(4)
    assert desk.role.count == 3


def test_scheduler_that_does_not_come_up_is_given_up_and_tried_again():
    desk = Desk()
    desk.load = BUSY
    while not desk.second(obeys=False):
        pass
    since = desk.now
    while not (orders := desk.second(obeys=False)):
        pass
    assert orders == [EndScheduler("")] and 30.0 <= desk.now - since <= 32.0
    assert desk.role.count == 1 and "did not come up in 30 s" in desk.role.in_words(desk.now)
    desk.seconds(12)
    assert desk.role.count == 2 and list(desk.role.watched) == [OWN, "g1/global"]
    desk.load = SchedulerLoad(0.5, 0.0, 0.0, 64, 4.0)
    desk.seconds(60)
    assert desk.role.count == 2


def test_scheduler_that_comes_up_after_it_was_given_up_is_ended():
    desk = Desk()
    desk.load = BUSY
    while not desk.second(obeys=False):
        pass
    while not desk.second(obeys=False):
        pass
    desk.listens("late")
    assert desk.second() == [EndScheduler("late")]
    assert list(desk.role.watched) == [OWN]


def test_a_silent_one_stops_all_changes():
    desk = Desk()
    desk.load = BUSY
    desk.seconds(12)
    desk.silent.add("g1/global")
    desk.seconds(60)
    assert desk.role.count == 2


def test_scheduler_that_dies_is_waited_for():
    """Our host starts another one in its place."""
    desk = Desk()
    desk.load = BUSY
    desk.seconds(12)
    desk.ends("g1")
    assert desk.told[OWN] == 1
    desk.load = IDLE
    desk.seconds(100)
    assert desk.role.count == 2
    desk.listens("again")
    assert desk.told == {OWN: 2, "g1/global": 2, "again/global": 2}
    desk.seconds(62)
    assert desk.role.count == 1 and list(desk.role.watched) == [OWN]


def test_scheduler_that_dies_while_it_is_ended_and_is_started_again_is_ended_then():
    desk = Desk()
    desk.load = BUSY
    desk.seconds(12)
    desk.load = IDLE
    while not desk.second(obeys=False):
        pass
    desk.ends("g1")
    desk.listens("again")
    assert desk.second() == [EndScheduler("again")]
    assert list(desk.role.watched) == [OWN] and desk.role.count == 1


def test_loads_of_others_are_rejected():
    desk = Desk()
    desk.say(BUSY, sender="stranger/global")
    assert desk.role.rejected == {"a load of no global scheduler": 1}


def test_the_text_has_the_number_the_change_and_why():
    desk = Desk()
    assert desk.role.in_words(5.0) == "1 global scheduler, 1 to 4"
    desk.load = BUSY
    desk.seconds(12)
    at = desk.changes[0][0]
    assert desk.role.in_words(at + 7) == (
        "2 global schedulers, 1 to 4; 7 s ago one more, since they were busy 0.90 of 10 s (above 0.7), and requests "
        "waited 50 ms for their placement"
    )


def test_a_constant_amount_of_work_never_goes_up_and_down():
    """Whatever it is, it is shared: the number settles, and then stays."""
    for tenths in range(1, 60):
        desk = Desk(most=10)
        work = tenths / 10
        for _ in range(600):
            each = min(1.0, work / max(1, len(desk.role.watched)))
            desk.load = SchedulerLoad(each, 0.0, 0.05 if each > 0.7 else 0.0, 64, 8.0)
            desk.second()
        counts = [count for _, count in desk.changes]
        assert counts == sorted(counts), work
        assert work / desk.role.count <= 0.7 or desk.role.count == 10


def test_a_scheduler_measures_nothing_before_it_is_asked_and_then_once_per_period():
    from zray.roles.global_scheduler import GlobalScheduler

    role = GlobalScheduler("g1/global", ["gcs-0"])
    assert role.end_turn(0.0) == []
    (effect,) = role.handle("head/counts", WatchLoad(3, 1.0), 1.0)
    assert type(effect) is MeasureCpu and role.equals == 3
    assert role.handle("head/counts", WatchLoad(2, 1.0), 1.0) == [] and role.equals == 2
    (timer,) = role.handle("host", CpuMeasured(5.0, 100.0), 1.0)
    assert timer.delay == LIMITS.report_s and type(timer.message) is Later
    (effect,) = role.handle("timer", timer.message, 2.0)
    assert type(effect) is MeasureCpu
    timer, said = role.handle("host", CpuMeasured(5.5, 101.0), 2.0)
    assert said == Send("head/counts", SchedulerLoad(0.5, 0.0, 0.0, 0, 1.0))


@pytest.mark.parametrize(
    "limits", [LIMITS, Limits(0.2, 2.0, 12.0), Limits(0.3, 1.0, 7.0), Limits(0.1, 0.1, 0.7)], ids=str
)
def test_samples_are_bounded_and_reach_back_far_enough(limits):
    """Also where looks are no whole parts of the times."""
    desk = Desk(limits=limits)
    looks = 0
    while not desk.changes:
        desk.load = BUSY
        desk.second()
        looks += 1
        assert looks * limits.report_s <= limits.up_s + 2 * limits.report_s
    desk.load, looks = IDLE, 0
    while desk.role.count > 1:
        desk.second()
        looks += 1
        assert looks * limits.report_s <= limits.down_s + 3 * limits.report_s
        assert len(desk.role.samples) <= desk.role.samples_max
