"""Hosted actors on simulated nodes: their processes and nodes die, lines are cut, and each actor ends for itself."""

import pytest

from zray.sim.hosted_programs import Member
from zray.sim.language import Call, Create, Get, Sleep
from zray.sim.main import sweep_program
from zray.sim.options import Options
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim
LOST_WORKERS = {"kills": 3, "kill_probability": 0.05, "breaks": 4}
ONE_NODE = {
    "one node": {},
    "workers die": LOST_WORKERS,
    "workers do not start": {"start_failure_probability": 0.1, "capacity": 60_000, "pages_max": 20},
    "slow lines": {"capacity": 200_000, "clogs": 3, "repeat_probability": 0.02},
    "spilling, curious": {"capacity": 60_000, "spill_above": 0.5, "curious": True},
    "memory is short": {"is_tight": True, "memory_shortages": 2},
}
SEVERAL_NODES = {
    "nodes die": {"node_kills": 1, "node_kill_probability": 0.01, "node_freezes": 1},
    "cuts": {"node_partitions": 2, "head_cuts": 1, "pair_cuts": 1, "kills": 2, "kill_probability": 0.02},
    "drains": {"node_drains": 2, "kills": 1, "kill_probability": 0.02},
    "the head dies": {"head_kills": 1, "head_kill_probability": 0.01, "shards": 2, "replicas": 2},
}
DYING_DRIVERS = {"drivers": 2, "driver_kills": 1, "driver_kill_probability": 0.03, **LOST_WORKERS}


def assert_all_is_well(name, seeds, **options):
    for seed in seeds:
        outcome = sweep_program(name, seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("name", ["hosted", "hosted_names"])
@pytest.mark.parametrize("options", ONE_NODE.values(), ids=ONE_NODE)
def test_actors_of_one_process_answer_and_end(options, name):
    assert_all_is_well(name, range(1, 16), nodes=1, **options)


@pytest.mark.parametrize("name", ["hosted", "hosted_names"])
@pytest.mark.parametrize("options", SEVERAL_NODES.values(), ids=SEVERAL_NODES)
def test_actors_of_one_process_in_a_cluster(options, name):
    assert_all_is_well(name, range(1, 6), nodes=4, cpus=1, **options)


def test_actors_of_drivers_that_die():
    assert_all_is_well("hosted", range(1, 16), nodes=1, **DYING_DRIVERS)


@pytest.mark.parametrize("seed", range(1, 6))
def test_all_actors_of_a_dead_process_restart_in_one_other(seed):
    world = Simulator(Options(seed=seed))

    def program():
        members = []
        for number in range(5):
            members.append((yield Create(Member, (number,), max_restarts=-1, hosted=True)))
        calls = []
        for _ in range(2):
            for member in members:
                calls.append((yield Call(member, "walk", (0,), max_retries=-1)))
            yield Sleep(1.0)  # their process dies
        return (yield Get(calls))

    driver = world.start_driver(world.nodes["n1"], 1, program, ())
    world.run(0.5)
    (host,) = [process for process in world.nodes["n1"].processes.values() if process.is_host]
    assert len(list(host.served())) == 5
    world.end_process(host, "killed by signal 9")
    assert world.run(20.0, unless=lambda: driver.is_done)
    assert driver.result == [*range(5)] * 2
    (other,) = [process for process in world.nodes["n1"].processes.values() if process.is_host]
    assert other is not host
