"""Actors with handles of each other, on a simulated node: cycles end, actors that the program holds stay."""

import pytest

from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim
# A cycle whose handles are known to other nodes is not collected.
MIXTURES = {
    "one node": {"nodes": 1, "cpus": 2},
    "workers die": {"nodes": 1, "cpus": 2, "kills": 3, "kill_probability": 0.05, "breaks": 4},
    "slow lines": {"nodes": 1, "cpus": 2, "capacity": 200_000, "clogs": 3, "repeat_probability": 0.02},
}


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_cycles_end_and_no_actor_that_the_program_can_reach(options):
    for seed in range(1, 25):
        outcome = sweep_program("rings", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
