"""Values larger than the stores of simulated nodes: spilled, restored, damaged, with deaths and full disks."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim

SPILLS = {"capacity": 200_000, "spill_above": 0.8}
DISKS = {
    "damaged files": {"nodes": 1, "cpus": 2, "spill_damage_probability": 0.1},
    "damaged files of three nodes": {"nodes": 3, "cpus": 1, "spill_damage_probability": 0.1, "delay": "far"},
    "full disk": {"nodes": 1, "cpus": 2, "spill_bytes_max": 300_000},
    "high threshold": {"nodes": 2, "cpus": 1, "spill_above": 1.0},
}


@pytest.mark.parametrize("name", [*MIXTURES, *DISKS])
def test_values_come_back_from_disk_with_equal_bytes(name):
    for seed in range(1, 9):
        outcome = sweep_program("spills", seed=seed, **SPILLS | (MIXTURES | DISKS)[name] | {"capacity": 200_000})
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("nodes", [1, 2])
def test_calls_of_an_actor_that_share_spilled_arguments_all_run(nodes):
    for seed in range(1, 9):
        outcome = sweep_program("shared_arguments", seed=seed, nodes=nodes, cpus=1, **SPILLS)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("name", [*MIXTURES, *DISKS])
def test_tasks_take_arguments_of_which_some_are_made_and_others_have_left(name):
    for seed in range(1, 7):
        outcome = sweep_program("shuffle", seed=seed, **SPILLS | (MIXTURES | DISKS)[name] | {"capacity": 100_000})
        assert not outcome.error, f"seed {seed}: {outcome.error}"
