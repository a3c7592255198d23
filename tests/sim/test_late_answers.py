"""What a call on an ordinary actor has returned that is large, and went with its node, is made by one more call."""

import pytest

from zray.sim.faults import MEETING_SECONDS
from zray.sim.main import run_program
from zray.sim.options import Options
from zray.sim.sequential import Sequential
from zray.sim.simulator import Simulator
from zray.sim.where_programs import run_late_answers

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("shards, replicas", [(1, 0), (1, 2), (3, 0), (3, 1)])
@pytest.mark.parametrize("actors, count", [(1, 1), (2, 3), (3, 6)])
def test_large_answers_that_went_with_their_node_are_made_again(actors, count, shards, replicas):
    """All of it lies on the second node, which dies while nobody looks."""
    world = Simulator(Options(seed=actors, nodes=3, delay="even", shards=shards, replicas=replicas))
    world.run(MEETING_SECONDS)
    arguments = (actors, count, 5_000, 5.0)
    driver = world.start_driver(world.nodes["n1"], 1, run_late_answers, arguments)
    world.run(world.now + 2.5)
    assert world.nodes["n2"].manager.objects.keys() - world.nodes["n1"].manager.objects.keys()
    world.faults.kill_node(world.nodes["n2"], "is killed")
    assert world.run(100.0, unless=lambda: driver.is_done)
    assert driver.result == Sequential().run(run_late_answers, arguments)
    world.run(world.now + 1.0)
    world.checkers.at_rest()
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


@pytest.mark.parametrize("shards, replicas", [(1, 0), (3, 2)])
def test_whatever_dies_meanwhile_nothing_is_left(shards, replicas):
    for seed in range(1, 21):
        world = {"nodes": 4, "shards": shards, "replicas": replicas, "node_kills": 2, "node_kill_probability": 0.002}
        if replicas:
            world |= {"spares": 1, "member_kills": 5, "member_kill_probability": 0.005}
        outcome = run_program("late_answers", seed=seed, delay=("even", "loaded")[seed % 2], breaks=seed % 4, **world)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
