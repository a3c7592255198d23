"""Tasks that wait long are moved again when another node has nothing to do."""

import pytest

from zray.roles.local_scheduler.forwarding.stealing import TRIPS_MAX
from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Get, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.wire.scheduling import SpillTask, StealTasks
from zray.wire.where import Where

pytestmark = pytest.mark.sim

TASK_SECONDS = 0.5
SCHEDULERS = pytest.mark.parametrize("schedulers", [1, 3])


class World:
    """A cluster of nodes with two CPUs each, and one driver on the first."""

    def __init__(self, program, *arguments, schedulers=1, nodes=2, **options):
        self.world = Simulator(
            Options(seed=1, nodes=nodes, cpus=2, check_every=1_000, global_schedulers=schedulers, **options)
        )
        self.trips = {}  # of each task that has gone up
        self.thefts = 0
        trace = self.world.trace
        trace.note, trace.message = trace.message, self._message
        self.world.run(MEETING_SECONDS)
        self.begun = self.world.now
        self.driver = self.world.start_driver(self.world.nodes["n1"], 1, program, arguments)

    def _message(self, now, source, target, message):
        self.world.trace.note(now, source, target, message)
        if type(message) is SpillTask:
            self.trips[message.spec.task_id] = message.trip
        self.thefts += type(message) is StealTasks

    def after(self, seconds, function, *args):
        self.world.call_at(self.begun + seconds, function, *args)

    def end(self, trips_max=TRIPS_MAX):
        """How many tasks each node has run, and the seconds that it took."""
        world = self.world
        assert world.run(1_000.0, unless=lambda: self.driver.is_done)
        seconds = world.now - self.begun
        assert all(count == 1 for count in world.runs.values()), "a task ran twice"
        assert max(self.trips.values(), default=0) <= trips_max
        return {name: node.scheduler.finished_count for name, node in world.nodes.items()}, seconds


def flood(count, seconds=TASK_SECONDS, where=None):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(nap, (seconds, None), where=where)))
    yield Get(refs)
    yield Drop(refs)


@SCHEDULERS
def test_a_node_that_joins_gets_its_share(schedulers):
    """120 tasks, of which some 112 are left then: a third of these, and all are done as soon as can be."""
    world = World(flood, 120, schedulers=schedulers)
    world.after(1.0, world.world.add_node, "n3", {})
    done, seconds = world.end()
    assert done["n3"] >= 0.8 * 112 / 3
    assert max(done["n1"], done["n2"]) <= 1.2 * min(done["n1"], done["n2"])
    assert seconds <= 1.0 + 1.2 * 112 / 6 * TASK_SECONDS


@SCHEDULERS
def test_long_tasks_do_not_wait_behind_those_that_run(schedulers):
    """Nothing has ended yet, so nobody knows what they take; and some stand in the queues of busy workers."""
    world = World(flood, 12, 8.0, schedulers=schedulers)
    world.after(1.0, world.world.add_node, "n3", {})
    done, seconds = world.end()
    assert done == {"n1": 4, "n2": 4, "n3": 4}
    assert seconds <= 18.0


@remote
def turncoat(seconds):
    yield Sleep(seconds)


def quick_then_slow(count):
    for seconds, number in ((0.0, 30), (TASK_SECONDS, count)):
        refs = []
        for _ in range(number):
            refs.append((yield Submit(turncoat, (seconds,))))
        yield Get(refs)
        yield Drop(refs)


@SCHEDULERS
def test_a_wrong_first_guess_is_repaired(schedulers):
    """Of a function that took no time at first."""
    done, seconds = World(quick_then_slow, 60, schedulers=schedulers, nodes=3).end()
    assert sum(done.values()) == 90
    assert seconds <= 1.2 * 60 / 6 * TASK_SECONDS


def test_a_node_that_was_cut_off_gets_its_share_when_it_is_back():
    world = World(flood, 120, nodes=3)
    for other in ("n1", "n2"):
        world.world.faults.partition(other, "n3")
        world.after(1.5, world.world.faults.repair, other, "n3")
    done, seconds = world.end()
    assert done["n3"] >= 0.8 * 108 / 3
    assert seconds <= 1.5 + 1.2 * 108 / 6 * TASK_SECONDS


def test_tasks_stay_where_no_node_is_idle():
    world = World(flood, 120)
    world.world.run(world.begun + 10.0)
    assert not world.thefts and set(world.trips.values()) == {1}
    done, _ = world.end()
    assert abs(done["n1"] - done["n2"]) <= 4


def test_tasks_that_name_their_node_stay_there():
    world = World(flood, 20, TASK_SECONDS, Where(node="n1"))
    world.after(1.0, world.world.add_node, "n3", {})
    done, _ = world.end()
    assert done == {"n1": 20, "n2": 0, "n3": 0}


@remote
class Occupant:
    def who(self):
        return 1


def residents_and_tasks(count):
    """Actors hold all CPUs that there are."""
    actors = []
    for _ in range(4):
        actors.append((yield Create(Occupant, (), resources={"CPU": 10_000})))
    for actor in actors:
        yield Get((yield Call(actor, "who", ())))
    yield from flood(count, 0.1)
    yield Drop(actors)


def test_what_nobody_has_room_for_goes_to_a_node_that_joins():
    world = World(residents_and_tasks, 20)
    world.after(3.0, world.world.add_node, "n3", {})
    done, seconds = world.end(trips_max=30)  # it asks again and again
    assert done["n3"] == 20
    assert seconds <= 3.0 + 1.0 + 1.2 * 20 / 2 * 0.1
