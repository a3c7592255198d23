"""Deep reconstruction: what is lost is made again from the first task on, though no ref has named that for long.

The tasks of a line hash to different shards, and each shard knows only its own.
"""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.language import Get, Sleep, Submit, Wait, remote
from zray.sim.main import run_program
from zray.sim.options import Options
from zray.sim.sequential import Sequential
from zray.sim.simulator import Simulator
from zray.sim.task_programs import outcomes
from zray.sim.where_programs import descend, make_big, run_ancestry
from zray.wire.where import Where

pytestmark = pytest.mark.sim

PAUSE_SECONDS = 5.0


def lost_and_made_again(depth, width, **options):
    """All of it lies on the second node, which dies while nobody looks.  The world after it."""
    world = Simulator(Options(nodes=3, delay="even", **options))
    world.run(MEETING_SECONDS)
    arguments = (depth, width, 5_000, PAUSE_SECONDS)
    driver = world.start_driver(world.nodes["n1"], 1, run_ancestry, arguments)
    made_by = world.now + depth * 0.1 + 1.0
    world.run(made_by)
    assert len(world.nodes["n2"].manager.objects) == width and not world.nodes["n1"].manager.objects
    world.faults.kill_node(world.nodes["n2"], "is killed")
    assert world.run(100.0, unless=lambda: driver.is_done)
    assert driver.result == Sequential().run(run_ancestry, arguments)
    world.run(world.now + 1.0)
    world.checkers.at_rest()
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


@pytest.mark.parametrize("replicas", [0, 1, 2])
@pytest.mark.parametrize("shards", [1, 2, 3, 7])
@pytest.mark.parametrize("depth, width", [(1, 1), (5, 1), (10, 3)])
def test_a_line_of_tasks_is_made_again_from_its_first_one_on(depth, width, shards, replicas):
    lost_and_made_again(depth, width, seed=1, shards=shards, replicas=replicas)


@pytest.mark.parametrize("shards, replicas", [(2, 0), (3, 0), (3, 2)])
def test_whatever_dies_meanwhile_nothing_is_left(shards, replicas):
    for seed in range(1, 11):
        world = {"nodes": 4, "shards": shards, "replicas": replicas, "node_kills": 2, "node_kill_probability": 0.002}
        if replicas:
            world |= {"spares": 1, "member_kills": 5, "member_kill_probability": 0.005}
        outcome = run_program("ancestry", seed=seed, delay=("even", "loaded")[seed % 2], breaks=seed % 4, **world)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@remote
def make_a_line(size):
    """A ref on the last one, which is made here."""
    last = yield Submit(make_big, (1, size))
    for _ in range(2):
        last = yield Submit(descend, (last, last))
    yield Wait([last], fetch=False)
    return [last]


def run_heir(size, seconds):
    """What a task on the second node has made is the driver's when that node is gone."""
    (last,) = yield Get((yield Submit(make_a_line, (size,), where=Where(node="n2", is_soft=True))))
    yield Sleep(seconds)
    return (yield from outcomes([last]))


@pytest.mark.parametrize("shards", [2, 3, 5])
def test_a_ref_leaves_its_node_when_the_slowest_shard_has_heard_how_it_is_made(shards):
    """Nobody else can tell that shard of the first task when the node is lost."""
    for slow in range(shards):
        world = Simulator(Options(seed=1, nodes=3, delay="even", shards=shards, replicas=1))
        world.run(MEETING_SECONDS)
        (replica,) = world.shards.members(f"gcs-{slow}")
        world.faults.partition("n2", world.homes[replica.address].name)
        arguments = (5_000, 3.0)
        driver = world.start_driver(world.nodes["n1"], 1, run_heir, arguments)
        world.run(world.now + 2.5)
        world.faults.kill_node(world.nodes["n2"], "is killed")
        assert world.run(100.0, unless=lambda driver=driver: driver.is_done), f"shard {slow} is out of reach"
        assert driver.result == Sequential().run(run_heir, arguments), f"shard {slow} is out of reach"
        world.end_driver(driver)
        world.run(world.now + 1.0)
        world.checkers.at_rest()
