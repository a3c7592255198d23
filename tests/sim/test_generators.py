"""Generators in simulated clusters with deaths: each item comes once, in its order."""

import pytest

from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 1, "cpus": 2},
        {"nodes": 3, "cpus": 1},
        {"nodes": 3, "cpus": 1, "kills": 3, "kill_probability": 0.05, "breaks": 4},
        {"nodes": 4, "cpus": 1, "node_kills": 2, "node_kill_probability": 0.003},
        {"nodes": 3, "cpus": 1, "shards": 2, "node_drains": 1},
        {"nodes": 4, "cpus": 1, "replicas": 2, "scheduler_kills": 1, "scheduler_kill_probability": 0.01},
        {"nodes": 3, "cpus": 1, "capacity": 2_000_000, "clogs": 3, "repeat_probability": 0.02},
    ],
    ids=["one node", "three nodes", "workers die", "nodes die", "nodes leave", "schedulers die", "slow lines"],
)
def test_each_item_comes_once_and_in_order(options):
    for seed in range(1, 21):
        outcome = sweep_program("generators", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
