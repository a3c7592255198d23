"""Items of generators, freed and lost while results computed from them are lost too: one run makes them again."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.faults import MEETING_SECONDS
from zray.sim.generator_programs import (
    run_held_back,
    run_left_and_read_elsewhere,
    run_left_squares,
    run_lost_squares,
)
from zray.sim.main import sweep_program
from zray.sim.options import Options
from zray.sim.sequential import Sequential
from zray.sim.simulator import Simulator
from zray.sim.values import Failed

pytestmark = pytest.mark.sim

COUNT = 10


@pytest.mark.parametrize("shards, replicas", [(1, 0), (3, 1)])
@pytest.mark.parametrize("lost", ["n2", "n3", "n2 n3"])
@pytest.mark.parametrize("way", ["one by one", "fetched at once", "submitted at once"])
@pytest.mark.parametrize("size, max_buffered, pace", [(0, 0, 0.0), (5_000, 0, 0.0), (5_000, 2, 0.0), (5_000, 0, 0.05)])
def test_one_more_run_of_a_generator_makes_all_lost_items(size, max_buffered, pace, way, lost, shards, replicas):
    world = Simulator(Options(seed=1, nodes=5, delay="even", shards=shards, replicas=replicas))
    world.run(MEETING_SECONDS)
    arguments = (COUNT, size, 1, max_buffered, way, pace, 8.0)
    driver = world.start_driver(world.nodes["n1"], 1, run_lost_squares, arguments)
    world.run(world.now + 2.5)
    for name in lost.split():
        world.faults.kill_node(world.nodes[name], "is killed")
    assert world.run(100.0, unless=lambda: driver.is_done)
    assert driver.result == Sequential().run(run_lost_squares, arguments)
    world.run(world.now + 1.0)
    world.checkers.at_rest()
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


NAMES = ("workers die", "nodes die", "nodes leave", "slow lines")
DEATHS = {name: {**MIXTURES[name], "capacity": 2_000_000} for name in NAMES}
DEATHS["nodes are cut off"] = {"nodes": 4, "cpus": 1, "node_freezes": 2, "node_partitions": 2, "pair_cuts": 2}


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("lost", ["n3", "n2 n3"])
@pytest.mark.parametrize(
    "maker, max_retries", [("task", 1), ("task", 0), ("actor", 2), ("actor", 0), ("recoverable", 2)]
)
@pytest.mark.parametrize("size, max_buffered, taken", [(0, 2, 3), (5_000, 0, 3), (5_000, 1, 1), (5_000, 2, 3)])
def test_a_generator_that_is_held_back_makes_lost_items_again(
    size, max_buffered, taken, maker, max_retries, lost, is_inside
):
    world = Simulator(Options(seed=1, nodes=6, delay="even"))
    world.run(MEETING_SECONDS)
    arguments = (maker, is_inside, COUNT, size, max_retries, max_buffered, taken, 4.0)
    driver = world.start_driver(world.nodes["n1"], 1, run_held_back, arguments)
    world.run(world.now + 2.5)
    for name in lost.split():
        world.faults.kill_node(world.nodes[name], "is killed")
    assert world.run(100.0, unless=lambda: driver.is_done)
    wanted = Sequential().run(run_held_back, arguments)
    if max_retries and maker != "recoverable" and lost == "n3":
        assert driver.result == wanted
    elif type(driver.result) is Failed:  # the generator was lost with its node
        assert not max_retries
        assert "n2" in driver.result.text or "lost" in driver.result.text
    else:
        found, others = driver.result
        assert others == wanted[1]
        for result, value in zip(found, wanted[0], strict=True):
            assert result == value or "was lost with its node" in result.text
    world.run(world.now + 1.0)
    world.checkers.at_rest()
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


@pytest.mark.parametrize("is_called", [False, True])
@pytest.mark.parametrize("max_buffered", [0, 2])
def test_a_generator_that_was_left_makes_no_more_items_again_than_were_drawn(max_buffered, is_called):
    """Where the node of its consumer has it run again.  Its first run was cancelled, and this one is not."""
    world = Simulator(Options(seed=1, nodes=5, delay="even"))
    world.run(MEETING_SECONDS)
    arguments = (250, max_buffered, 3, 4.0, is_called)
    driver = world.start_driver(world.nodes["n1"], 1, run_left_squares, arguments)
    world.run(world.now + 2.5)
    world.faults.kill_node(world.nodes["n3"], "is killed")
    assert world.run(world.now + 10.0, unless=lambda: driver.is_done)
    assert driver.result == Sequential().run(run_left_squares, arguments)
    world.run(world.now + 1.0)
    assert not any(node.scheduler.tasks for node in world.nodes.values())
    world.checkers.at_rest()
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


@pytest.mark.parametrize("shards, replicas", [(1, 0), (3, 1)])
@pytest.mark.parametrize("count", [250, 1_000_000])
def test_a_generator_that_was_left_ends_when_another_node_than_its_consumers_runs_it_again(count, shards, replicas):
    """The shard says how many items the consumer has had; the function has no end."""
    world = Simulator(Options(seed=1, nodes=5, delay="even", shards=shards, replicas=replicas))
    world.run(MEETING_SECONDS)
    arguments = (count, 3, 4.0)
    driver = world.start_driver(world.nodes["n1"], 1, run_left_and_read_elsewhere, arguments)
    world.run(world.now + 2.5)
    world.faults.kill_node(world.nodes["n3"], "is killed")
    assert world.run(world.now + 10.0, unless=lambda: driver.is_done)
    assert [value.fill for value in driver.result] == [0, 1, 4]
    world.run(world.now + 1.0)
    running = [task.spec.task_id for node in world.nodes.values() for task in node.scheduler.tasks.values()]
    assert not running
    world.end_driver(driver)
    world.run(world.now + 1.0)
    world.checkers.at_rest()


@pytest.mark.parametrize("name", DEATHS)
def test_whatever_dies_while_a_generator_is_held_back_all_results_come(name):
    for seed in range(1, 25):
        outcome = sweep_program("held_back", seed=seed, **DEATHS[name])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize(
    "name, seed",
    [
        ("workers die", 1),  # the consumer had died, and the node of the generator held its end, for which it waited
        ("workers die", 94),  # a task was ended on two trips, before either had arrived, and ran for the first one
    ],
)
def test_seeds_of_held_back_generators_that_failed_once(name, seed):
    outcome = sweep_program("held_back", seed=seed, **DEATHS[name])
    assert not outcome.error, outcome.error


@pytest.mark.parametrize("name", DEATHS)
def test_whatever_dies_meanwhile_all_results_come(name):
    for seed in range(1, 13):
        outcome = sweep_program("lost_squares", seed=seed, **DEATHS[name])
        assert not outcome.error, f"seed {seed}: {outcome.error}"
