"""Tasks that wait lend their CPU; actors keep theirs, and a task whose CPU an actor has got goes on all the same."""

import pytest

from zray.sim.language import Call, Create, Drop, Get, MakeGroup, RemoveGroup, Sleep, Submit, remote
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.where import Where

pytestmark = pytest.mark.sim

ONE = {"CPU": RESOURCE_UNIT}


class World:
    """One node, and a program on it."""

    def __init__(self, program, args=(), *, cpus=1, seed=1, nodes=1):
        self.sim = Simulator(Options(seed=seed, nodes=nodes, cpus=cpus))
        self.node = self.sim.nodes["n1"]
        self.driver = self.sim.start_driver(self.node, 1, program, args)

    def ends(self, seconds=30.0):
        """What the program returns, within that time."""
        assert self.sim.run(self.sim.now + seconds, unless=lambda: self.driver.is_done), "it hangs"
        return self.driver.result

    def free(self):
        return self.node.scheduler.resources.free["CPU"] / RESOURCE_UNIT


@remote
class OfOneCpu:
    """Holds a CPU; waits in its constructor or in a method where it is told to."""

    def __init__(self, ref=None):
        self.ref = ref

    def begin(self):
        if self.ref:
            yield Get(self.ref[0])

    def add(self, number):
        return number + 1

    def wait_for(self, box):
        return (yield Get(box[0]))

    def ask(self, number):
        return (yield Get((yield Submit(plus_one, (number,)))))


@remote
def plus_one(number):
    return number + 1


@remote
def busy(seconds):
    yield Sleep(seconds)
    return seconds


@remote
def use_actor(count, cpus):
    """An actor that can only be made with the CPU of this task."""
    actor = yield Create(OfOneCpu, (), resources={"CPU": cpus * RESOURCE_UNIT})
    found = []
    for number in range(count):
        found.append((yield Get((yield Call(actor, "add", (number,))))))
    return found


@remote
def use_group(count):
    group = yield MakeGroup([ONE])
    where = Where(group=group)
    actor = yield Create(OfOneCpu, (), resources=ONE, where=where)
    found = []
    for number in range(count):
        found.append((yield Get((yield Call(actor, "add", (number,))))))
    yield RemoveGroup(group)
    return found


def several(function, args, count, resources):
    refs = []
    for _ in range(count):
        refs.append((yield Submit(function, args, resources=resources)))
    return (yield Get(refs))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cpus, count", [(1, 1), (2, 1), (1, 3), (2, 2), (3, 5)])
def test_task_that_waits_for_an_actor_made_of_its_cpu_goes_on(cpus, count, seed):
    resources = {"CPU": cpus * RESOURCE_UNIT}
    world = World(several, (use_actor, (4, cpus), count, resources), cpus=cpus, seed=seed)
    assert world.ends() == [[1, 2, 3, 4]] * count
    world.sim.run(world.sim.now + 1.0)
    assert world.free() == cpus


@pytest.mark.parametrize("count", [1, 3])
def test_task_that_waits_for_a_group_made_of_its_cpu_goes_on(count):
    world = World(several, (use_group, (3,), count, ONE))
    assert world.ends() == [[1, 2, 3]] * count
    world.sim.run(world.sim.now + 1.0)
    assert world.free() == 1


def beside_a_long_task():
    long = yield Submit(busy, (100.0,), resources=ONE)
    found = yield Get((yield Submit(use_actor, (3, 1), resources=ONE)))
    yield Drop([long])
    return found


def test_task_goes_on_at_once_while_others_run():
    world = World(beside_a_long_task, cpus=2)
    assert world.ends(2.0) == [1, 2, 3]


@remote
def waits_at_all_depths(depth):
    """Only tasks wait; each makes an actor of its own out of what it lends."""
    actor = yield Create(OfOneCpu, (), resources=ONE)
    below = 0
    if depth:
        below = yield Get((yield Submit(waits_at_all_depths, (depth - 1,), resources=ONE)))
    return (yield Get((yield Call(actor, "add", (below,)))))


@pytest.mark.parametrize("cpus, depth", [(1, 0), (4, 2), (5, 3)])
def test_tasks_that_make_actors_inside_each_other_end(cpus, depth):
    world = World(several, (waits_at_all_depths, (depth,), 1, ONE), cpus=cpus)
    assert world.ends() == [depth + 1]
    world.sim.run(world.sim.now + 1.0)
    assert world.free() == cpus


def waiting_actors(in_constructor):
    """Tasks as many as CPUs; each waits for a task that takes none."""
    late = yield Submit(busy, (10.0,), resources={})
    actors, refs = [], []
    for _ in range(4):
        actors.append((yield Create(OfOneCpu, ([late],) if in_constructor else (), resources=ONE)))
        call = ("add", (0,)) if in_constructor else ("wait_for", ([late],))
        refs.append((yield Call(actors[-1], *call)))
    own = yield Submit(plus_one, (1,), resources=ONE)
    yield Sleep(20.0)
    yield Drop(actors)
    return (yield Get([*refs, own]))


@pytest.mark.parametrize("in_constructor", [True, False])
def test_actor_that_waits_keeps_its_cpu(in_constructor):
    world = World(waiting_actors, (in_constructor,), cpus=2)
    for _ in range(20):
        world.sim.run(world.sim.now + 0.9)
        assert world.free() == 0
        assert sum(process.actor_id != b"" for process in world.node.processes.values()) == 2
        assert world.node.scheduler.dispatch.ready_count == 1
    assert world.ends() == [1] * 4 + [2] if in_constructor else [10.0] * 4 + [2]


def test_idle_actor_lends_nothing():
    def program():
        actor = yield Create(OfOneCpu, (), resources=ONE)
        yield Get((yield Call(actor, "add", (1,))))
        ref = yield Submit(plus_one, (1,), resources=ONE)
        yield Sleep(5.0)
        yield Drop([actor])
        return (yield Get(ref))

    world = World(program)
    world.sim.run(4.0)
    assert world.free() == 0 and world.node.scheduler.dispatch.ready_count == 1
    assert world.ends() == 2
