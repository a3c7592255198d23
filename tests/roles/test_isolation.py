"""A head that is cut off itself: whom it judges, and when."""

import pytest

from tests.roles.test_monitor import N1, N2, N3, Watch
from zray.roles.effects import Finding
from zray.roles.local_scheduler.membership.lease import HEAD_WAIT_SECONDS
from zray.roles.monitor import LOOK_AT_TICKS, RETURN_TICKS_MAX, TICK_SECONDS, WAIT_SECONDS
from zray.wire.gcs import RegisterNode


def ticks_alone(watch, *nodes):
    """As long as these are silent, and a look finds none of them; no verdict falls.  Returns how many ticks that is."""
    before = watch.ticks
    while not (lost := watch.tick(*{N1, N2, N3} - {*nodes})):
        for node in nodes:
            watch.find(node, Finding.OUT_OF_REACH)
        assert watch.ticks - before < 1000
    return watch.ticks - before, lost


def test_a_head_that_hears_of_no_machine_judges_nobody_for_as_long_as_they_wait():
    watch = Watch()
    count, lost = ticks_alone(watch, N1, N2, N3)
    assert lost == {N1, N2, N3} and 600 <= count <= 630
    assert WAIT_SECONDS == HEAD_WAIT_SECONDS


def test_one_that_is_heard_of_shows_that_the_others_have_gone():
    watch = Watch()
    count, lost = ticks_alone(watch, N2, N3)
    assert lost == {N2, N3} and count <= 30


@pytest.mark.parametrize("finding", [Finding.STANDS_STILL, Finding.ANSWERS])
def test_a_machine_that_says_something_shows_that_the_head_is_not_cut_off(finding):
    watch = Watch()
    while not (lost := watch.tick()):
        for node in (N1, N2):
            watch.find(node, Finding.OUT_OF_REACH)
        watch.find(N3, finding)
    assert lost == {N1, N2, N3} and watch.ticks <= 30


def test_a_line_that_is_there_for_a_moment_is_looked_at_again():
    """What the look had found before that does not count any more (seed 971703840)."""
    watch = Watch()
    for _ in range(600):
        assert not watch.tick()
        for node in watch.looks:
            watch.find(node, Finding.OUT_OF_REACH)
        if watch.ticks == LOOK_AT_TICKS:
            watch.link(N1, True)
    assert watch.monitor.isolation.ticks > 0


def test_when_one_is_heard_of_again_the_others_have_time_to_be():
    watch = Watch()
    for _ in range(100):
        assert not watch.tick()
        for node in (N1, N2, N3):
            watch.find(node, Finding.OUT_OF_REACH)
    assert watch.ticks_until_lost(N3, N1, N2) > RETURN_TICKS_MAX
    assert watch.ticks_until_lost(N2, N1) <= 30, "who has been heard of since is judged as ever"


def test_a_program_that_sleeps_while_the_head_is_cut_off_may_sleep_on():
    """Its connection ends meanwhile, as those of machines that sleep do: it was not heard of then (seed 991941920)."""
    watch = Watch()
    guest, watch.monitor.driver_wait = "guest/local", 30.0
    watch.monitor.handle(guest, RegisterNode(guest, {}, "driver"), watch.now)
    for _ in range(30):
        assert not watch.tick()
        for node in (N1, N2, N3):
            watch.find(node, Finding.OUT_OF_REACH)
    assert not watch.tick(N1, N2, N3)  # and heard of again
    watch.link(guest, False)
    assert watch.ticks_until_lost(guest, N1, N2, N3) * TICK_SECONDS > 29.0
