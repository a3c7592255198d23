"""Virtual time that costs what was measured: turns that take time, and cores that are shared."""

import itertools

import pytest

from zray.roles.effects import Send
from zray.sim import language as say
from zray.sim.costs import Cores, Costs, Stopwatch, things_done, things_in
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.objects import ReleaseObjects
from zray.wire.session import Goodbye

WAVE = 512


@say.remote
def costs_nothing():
    return None


def wave(count, compute):
    refs = []
    for _ in range(count):
        refs.append((yield say.Submit(costs_nothing)))
    yield say.Compute(compute)
    yield say.Get(refs)
    yield say.Drop(refs)
    return True


def seconds_of(costs=None, stopwatch=None, nodes=1, compute=0.0):
    """The world, and the virtual time that a wave took."""
    world = Simulator(Options(seed=3, nodes=nodes, delay="even"), costs=costs, stopwatch=stopwatch)
    world.run(0.5)
    since = world.now
    driver = world.start_driver(world.nodes["n1"], 1, wave, (WAVE, compute))
    assert world.run(60.0, unless=lambda: driver.is_done)
    return world, world.now - since


def test_the_core_that_is_free_first_computes():
    cores = Cores(2)
    assert [cores.occupy(1.0, seconds) for seconds in (3.0, 1.0, 1.0, 1.0)] == [4.0, 2.0, 3.0, 4.0]
    assert cores.occupy(10.0, 1.0) == 11.0
    assert cores.used == 7.0


def test_what_a_handler_has_done_is_what_it_was_told_of_or_tells_of():
    ids = [b"a", b"b", b"c"]
    assert things_in(Goodbye()) == 1
    assert things_in(ReleaseObjects(ids)) == 3
    assert things_done(Goodbye(), [Send("x", ReleaseObjects(ids))]) == 3
    assert things_done(None, []) == 1


def test_a_wave_takes_as_long_as_its_tasks_cost():
    """512 tasks of 1 ms on two cores that the workers share: 0.256 s; and twice that for 2 ms."""
    times = [seconds_of(Costs(kinds={}, worker_task=cost))[1] for cost in (1e-3, 2e-3)]
    assert times[0] == pytest.approx(0.256, rel=0.1)
    assert times[1] / times[0] == pytest.approx(2.0, rel=0.1)


def test_a_turn_that_costs_holds_up_what_it_says():
    """Each submission costs the node 1 ms, and one process of it handles them one after the other."""
    _, free = seconds_of(Costs(kinds={}))
    _, slow = seconds_of(Costs(kinds={"LocalScheduler: SubmitTasks": 1e-3}))
    assert slow - free == pytest.approx(WAVE * 1e-3, rel=0.1)


def test_each_frame_costs():
    worlds = [seconds_of(Costs(kinds={}, frame=cost))[0] for cost in (0.0, 1e-6)]
    used = [world.nodes["n1"].cores.used for world in worlds]
    assert used[0] == 0.0 and 5e-6 < used[1] < 1e-3


def test_a_driver_that_computes_takes_a_core():
    world, _ = seconds_of(Costs(kinds={}), compute=0.5)
    assert world.nodes["n1"].cores.used == pytest.approx(0.5)


def test_the_stopwatch_finds_what_its_clock_says():
    """A clock that goes on by one at each look: every handler takes 1."""
    ticks = itertools.count()
    stopwatch = Stopwatch(lambda: float(next(ticks)))
    seconds_of(stopwatch=stopwatch)
    assert stopwatch.counts["LocalScheduler: SubmitTasks"] == WAVE
    messages = stopwatch.spent["LocalScheduler: SubmitTasks"]
    assert messages == int(messages) and messages < WAVE
    assert stopwatch.kinds()["LocalScheduler: SubmitTasks"] == messages / WAVE


def test_a_stopwatch_changes_nothing():
    digests = [seconds_of(stopwatch=watch, nodes=2)[0].trace.digest() for watch in (None, Stopwatch(lambda: 0.0))]
    assert digests[0] == digests[1]


def test_the_same_costs_give_the_same_run():
    costs = Costs(kinds={"LocalScheduler: SubmitTasks": 3e-6}, frame=1e-6, worker_task=1e-5)
    digests = [seconds_of(costs, nodes=2)[0].trace.digest() for _ in range(2)]
    assert digests[0] == digests[1]
