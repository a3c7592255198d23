"""Where tasks go in a cluster: evenly (paper's figure E2), and to where their arguments are (E9)."""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Call, Create, Drop, Get, MakeGroup, Put, RemoveGroup, Sleep, Submit, remote
from zray.sim.object_programs import make_big
from zray.sim.options import Options
from zray.sim.simulator import Simulator
from zray.sim.task_programs import nap
from zray.sim.values import Big
from zray.wire.objects import FetchObject
from zray.wire.task_spec import RESOURCE_UNIT
from zray.wire.where import Where

pytestmark = pytest.mark.sim

TASK_SECONDS = 0.005


def world_after(program, arguments, bandwidth=0.0, **options):
    """What is left of a world when its driver's program has ended."""
    world = Simulator(Options(seed=1, check_every=1_000, capacity=1 << 30, **options))
    if bandwidth:
        for node in world.nodes.values():
            node.scheduler.load.bandwidth = bandwidth
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, program, arguments)
    assert world.run(1_000.0, unless=lambda: driver.is_done)
    return world


def flood(count, pause):
    refs = []
    for number in range(count):
        refs.append((yield Submit(nap, (TASK_SECONDS, None))))
        if pause and number % 20 == 19:
            yield Sleep(20 * pause)
    for ref in refs:
        yield Get(ref)


@pytest.mark.parametrize("schedulers", [1, 3])
@pytest.mark.parametrize("policy", ["bottom_up", "central", "no_locality"])
@pytest.mark.parametrize("pause", [0.0, 30e-6], ids=["at once", "one by one"])
def test_tasks_of_one_node_are_spread_over_all(policy, schedulers, pause):
    """E2: the busiest of 21 nodes has at most 1.15 times the mean, and none less than 0.85 times that."""
    world = world_after(flood, (2_100, pause), nodes=21, policy=policy, global_schedulers=schedulers)
    done = [node.scheduler.finished_count for node in world.nodes.values()]
    assert sum(done) == 2_100
    assert max(done) <= 1.15 * 100 and min(done) >= 0.85 * 100


def test_at_random_they_are_spread_less_evenly():
    world = world_after(flood, (4_200, 0.0), nodes=21, policy="random")
    done = [node.scheduler.finished_count for node in world.nodes.values()]
    assert sum(done) == 4_200
    assert max(done) > 1.15 * 200


@remote
def size_of(value):
    return value.size


def with_large_arguments(count, size):
    """Objects on both nodes; then one task per object and node, each with nothing to do but to look at its argument."""
    here = []
    for _ in range(count):
        here.append((yield Put(Big(1, size))))
    busy = []
    for _ in range(4):
        busy.append((yield Submit(nap, (1.0, None))))
    yield Sleep(0.05)
    elsewhere = []
    for _ in range(count):
        elsewhere.append((yield Submit(make_big, (2, size))))
    yield Get(busy)
    yield Sleep(0.5)
    found = []
    for ref in (*elsewhere, *here):
        found.append((yield Get((yield Submit(size_of, (ref,))))))
    assert found == [size] * 2 * count
    yield Drop([*here, *elsewhere])


def pulled_objects(**options):
    world = world_after(with_large_arguments, (6, 1_500_000), nodes=2, cpus=4, **options)
    said = [message for _, _, _, message in world.trace.lines]
    return sum(type(message) is FetchObject and message.size > 1_000_000 for message in said)


def test_tasks_go_to_their_arguments():
    """E9: what takes longer to come than a task should wait is left where it is, though there are CPUs here."""
    assert pulled_objects(bandwidth=1e7) == 0
    assert pulled_objects(bandwidth=1e7, policy="no_locality") >= 5


def test_what_comes_quickly_is_brought():
    assert pulled_objects(bandwidth=1e12) >= 5


def spread_behind_a_removed_group(count, cpus):
    """All CPUs of all nodes are a group's, which is removed; what is spread right behind that may have them."""
    group = yield MakeGroup([{"CPU": cpus * RESOURCE_UNIT}] * count, "STRICT_SPREAD")
    for bundle in range(count):
        yield Get((yield Submit(nap, (0.0, None), where=Where(group=group, bundle=bundle))))
    yield Sleep(0.5)  # all reports have it
    yield RemoveGroup(group)
    refs = []
    for _ in range(count * cpus):
        refs.append((yield Submit(nap, (0.2, None), where=Where(is_spread=True))))
    yield Get(refs)


@pytest.mark.parametrize("schedulers", [1, 2])
def test_what_is_spread_behind_a_removed_group_finds_its_nodes_free(schedulers):
    world = world_after(spread_behind_a_removed_group, (3, 2), nodes=3, cpus=2, global_schedulers=schedulers)
    assert [node.scheduler.finished_count for node in world.nodes.values()] == [1 + 2] * 3


# --- actors that say nothing of CPUs ---


@remote
class Idle:
    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def begin(self):
        yield Sleep(self.seconds)

    def answer(self, number):
        return number


def actors_beside(where, tasks, count, pause):
    """The given number of tasks of one CPU, then the actors."""
    busy = []
    for _ in range(tasks):
        busy.append((yield Submit(nap, (3.0, None), where=where)))
    yield Sleep(pause)
    actors = []
    for _ in range(count):
        actors.append((yield Create(Idle)))
    refs = []
    for number, actor in enumerate(actors):
        refs.append((yield Call(actor, "answer", (number,))))
    yield Get(refs)
    yield Sleep(1.0)
    yield Drop(actors)


def actors_by_node(arguments, **options):
    """How many actors each node has in the end, when the program that has made them still holds them."""
    world = Simulator(Options(seed=1, **options))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, actors_beside, arguments)
    most = dict.fromkeys(world.nodes, 0)
    while not driver.is_done:
        world.run(world.now + 0.05, unless=lambda: driver.is_done)
        for name, node in world.nodes.items():
            most[name] = max(most[name], len(node.scheduler.calls.actors) - len(node.scheduler.moves.asks))
    return list(most.values())


@pytest.mark.parametrize("cpus", [1, 4])
def test_actors_that_ask_for_no_cpu_are_on_all_nodes(cpus):
    found = actors_by_node((None, 0, 10, 0.0), nodes=3, cpus=cpus)
    assert sum(found) == 10 and min(found) >= 3


@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["at once", "later"])
def test_they_stay_off_a_node_that_is_full_of_tasks(pause):
    found = actors_by_node((Where(node="n1"), 2, 6, pause), nodes=3, cpus=2)
    assert found == [0, 3, 3]


def test_they_are_spread_where_all_nodes_are_full():
    found = actors_by_node((Where(is_spread=True), 3, 6, 0.5), nodes=3, cpus=1)
    assert found == [2, 2, 2]


def calls_on_slow_actors(count):
    actors, refs = [], []
    for number in range(count):
        actors.append((yield Create(Idle, (1.0,), max_restarts=1)))
        refs.append((yield Call(actors[-1], "answer", (number,), max_retries=-1)))
    return (yield Get(refs))


@pytest.mark.parametrize("seed", range(3))
def test_actor_whose_node_dies_in_its_constructor_starts_elsewhere(seed):
    world = Simulator(Options(seed=seed, nodes=3, cpus=2))
    world.run(MEETING_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, calls_on_slow_actors, (15,))
    world.run(world.now + 0.5)
    assert world.nodes["n3"].scheduler.calls.actors
    world.faults.kill_node(world.nodes["n3"], "is killed")
    assert world.run(60.0, unless=lambda: driver.is_done)
    assert driver.result == list(range(15))
