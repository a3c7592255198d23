"""A program is served soon though another one has more to do than there is room for; and that one goes on."""

import pytest

from zray.roles.local_scheduler.tasks.actor_room import SHORT_TASK_SECONDS
from zray.roles.local_scheduler.tasks.dispatch import LEASE_SECONDS
from zray.sim.actor_programs import Counter
from zray.sim.cuts import GUEST
from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Get, Kill, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import increment, nap
from zray.wire.task_spec import RESOURCE_UNIT

pytestmark = pytest.mark.sim

CPU = {"CPU": RESOURCE_UNIT}
# After so long leases end for others; a process is started, and a few messages are under way.
SOON_SECONDS = 0.1
BEGUN_SECONDS = 0.1


class World:
    """A flood of one driver, and another driver 0.1 s later."""

    def __init__(self, program, *arguments, count=2_000, seconds=0.0005, home="n1", others=(), **options):
        self.world = world = Simulator(Options(seed=1, delay="even", check_every=1_000, **options))
        if len(world.nodes) > 1:
            world.run(MEETING_SECONDS)
        self.begun = world.now
        self.drivers = {}
        for number, (of_others, seconds_of_others) in enumerate(others, 3):
            world.start_driver(world.nodes["n1"], number, flood, (of_others, seconds_of_others))
        world.call_at(self.begun + BEGUN_SECONDS / 2, self._start, "flood", "n1", flood, (count, seconds))
        world.call_at(self.begun + BEGUN_SECONDS, self._start, "other", home, program, arguments)

    def _start(self, name, home, program, arguments):
        number = len(self.drivers) + 1
        self.drivers[name] = self.world.start_driver(self.world.nodes[home], number, program, arguments), self.world.now

    def end(self):
        """How long the other one took, and the flood."""
        world, took = self.world, {}
        world.run(self.begun + BEGUN_SECONDS + 1e-6)
        while len(took) < len(self.drivers):
            left = [(name, driver) for name, (driver, _) in self.drivers.items() if name not in took]
            assert world.run(100.0, unless=lambda left=left: any(driver.is_done for _, driver in left))
            took.update((name, world.now - self.drivers[name][1]) for name, driver in left if driver.is_done)
        return took["other"], took["flood"]


def flood(count, seconds):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(nap, (seconds, None))))
    yield Get(refs)
    yield Drop(refs)


def use(resources, count=1, at_once=1):
    """Actors, so many at once, again and again."""
    for number in range(count):
        actors = []
        for _ in range(at_once):
            actors.append((yield Create(Counter, (number,), resources=resources)))
        for actor in actors:
            assert (yield Get((yield Call(actor, "add", ("driver", 1))))) == number + 1
        for actor in actors:
            yield Kill(actor)
        yield Drop(actors)


@pytest.mark.parametrize(("cpus", "amount"), [(2, 1), (4, 3), (3, 0.5), (2, 0)])
def test_an_actor_does_not_wait_until_anothers_tasks_are_done(cpus, amount):
    other, whole = World(use, {"CPU": int(amount * RESOURCE_UNIT)}, cpus=cpus).end()
    assert whole > 2 * SOON_SECONDS
    assert other < SOON_SECONDS


def test_actors_without_end_leave_anothers_tasks_their_room():
    """One after the other, on one of two CPUs."""
    other, whole = World(use, CPU, 300, cpus=2).end()
    assert other > whole
    assert whole < 1.1


def test_actors_beyond_that_room_come_after_the_tasks():
    """As many as there are CPUs: beside the last one no task could run."""
    world = World(use, CPU, 1, 2, cpus=2)
    other, whole = world.end()
    assert 0.5 < whole < other + BEGUN_SECONDS / 2


def test_on_a_single_cpu_tasks_come_first():
    other, whole = World(use, CPU, cpus=1, count=500).end()
    assert 0.25 < whole < 0.35
    assert other > whole - SOON_SECONDS


def test_what_is_kept_is_not_idle_behind_long_tasks():
    """An actor wants two CPUs of three; on two of them are tasks that take long."""
    other, whole = World(use, {"CPU": 2 * RESOURCE_UNIT}, cpus=3, others=[(2, 4.0)]).end()
    assert whole < 2_000 * 0.0005 + SHORT_TASK_SECONDS + SOON_SECONDS
    assert 3.5 < other < 5.0


def test_an_actor_that_nobody_can_hold_keeps_nothing():
    world = World(use_in_vain, cpus=2, nodes=2, infeasible="wait", seconds=0.001, count=500)
    other, whole = world.end()
    assert whole < 0.35
    assert other > whole


def use_in_vain():
    actor = yield Create(Counter, (0,), resources={"CPU": 9 * RESOURCE_UNIT})
    yield Sleep(1.0)
    yield Drop([actor])


def test_within_one_job_tasks_come_first():
    """Else actors that live as long as their program would take the room of tasks that it waits for."""
    begun = []
    world = World(tasks_and_an_actor, 500, lambda: begun.append(len(world.world.runs)), cpus=2, count=0)
    world.end()
    assert begun[0] >= 500


def tasks_and_an_actor(count, look):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(nap, (0.0005, None))))
    yield Sleep(0.01)
    actor = yield Create(Counter, (0,), resources=CPU)
    yield Get((yield Call(actor, "add", ("driver", 1))))
    look()
    yield Drop([actor, *refs])


@pytest.mark.parametrize("home", ["n1", "n2", GUEST])
def test_an_actor_of_another_node_finds_room(home):
    """Which has none, or as little; it asks again five times a second."""
    world = World(use, CPU, home=home, cpus=2, nodes=2, has_guest=home == GUEST, seconds=0.005, count=800)
    other, whole = world.end()
    assert whole > 1.0
    assert other < 0.8


@remote
def waits_for_another(number):
    return (yield Get([(yield Submit(increment, (number,)))]))


@pytest.mark.parametrize("function", [increment, waits_for_another])
@pytest.mark.parametrize("cpus", [1, 2])
def test_one_task_at_a_time_waits_for_one_lease_of_another_at_most(cpus, function):
    """And for what its worker has been sent by then: a task, and one behind it.  What it waits for goes along."""
    took = []
    seconds = 0.005
    world = World(
        one_at_a_time, function, 20, lambda: world.world.now, took, cpus=cpus, seconds=seconds, count=300 * cpus
    )
    world.end()
    assert max(took) < LEASE_SECONDS + 2 * seconds + 0.005
    assert len(took) == 20


def one_at_a_time(function, count, clock, took):
    yield Get((yield Submit(function, (1,))))  # there is a worker now
    for _ in range(count):
        begun = clock()
        ref = yield Submit(function, (1,))
        yield Get(ref)
        yield Drop([ref])
        took.append(clock() - begun)
