"""Nested tasks that pass large values on: whatever dies, nothing that a living program needs is lost."""

from random import Random

import pytest

from zray.sim.object_programs import run_grove
from zray.sim.options import Options, turns_between_checks
from zray.sim.simulator import Simulator

pytestmark = pytest.mark.sim


def options_of(seed):
    random = Random(f"groves {seed}")
    cpus = random.choice((1, 2))
    return Options(
        seed=seed,
        check_every=turns_between_checks(seed),
        nodes=random.choice((4, 5)),
        cpus=cpus,
        head_cpus=cpus,
        delay=random.choice(("even", "local", "loaded")),
        bandwidth=random.choice((0.0, 5e7, 5e8)),
        shards=random.choice((1, 2)),
        replicas=random.choice((0, 2)),
        global_schedulers=random.choice((1, 2)),
        capacity=1 << 25,
        head_kills=random.choice((0, 1, 2)),
        head_kill_probability=random.choice((0.0005, 0.002, 0.005)),
        node_kills=random.choice((0, 1, 2)),
        node_kill_probability=random.choice((0.0005, 0.002)),
        node_freezes=random.choice((0, 1)),
        kills=random.choice((0, 3)),
        kill_probability=0.003,
        has_guest=random.random() < 0.5,
        fault_seconds=random.choice((2.0, 6.0)),
    )


@pytest.mark.parametrize("seed", range(1, 19))
def test_the_tree_is_whole(seed):
    world = Simulator(options_of(seed))
    world.faults.start()
    assert world.run(60.0, unless=world.heads.all_have_met)
    depth, width = ((3, 3), (4, 2))[seed % 2]
    program = (depth, width, 20_000, seed % 3 == 0)
    driver = world.start_driver(world.nodes[world.heads.home], 1, run_grove, program)
    assert world.run(world.now + 100.0, unless=lambda: driver.is_done)
    fill = 1
    for _ in range(depth):
        fill = 1 + width * fill % 249
    assert driver.result == [fill, fill]
