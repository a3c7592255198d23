"""Generators of actors that recover, in simulated clusters: each item comes once, in order, and no consumer notices."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim

DEATHS = {
    **MIXTURES,
    "slow lines": {**MIXTURES["slow lines"], "capacity": 2_000_000},  # items that are not drawn yet stay in the store
    "workers and nodes die": {**MIXTURES["workers die"], "nodes": 4, "node_kills": 2, "node_kill_probability": 0.006},
    "nodes are cut off": {"nodes": 4, "cpus": 1, "node_freezes": 2, "node_partitions": 2, "pair_cuts": 2},
}

DRAINS = {"nodes": 4, "shards": 1, "kills": 2, "kill_probability": 0.02}


@pytest.mark.parametrize("name", DEATHS)
def test_each_item_of_a_recovered_actor_comes_once_and_in_order(name):
    for seed in range(1, 13):
        outcome = sweep_program("spring", seed=seed, **DEATHS[name])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize(
    "name, seed, options",
    [
        ("nodes leave", 208, {}),  # a call that ran waited for a call that the drain held back
        ("nodes die", 1012, {"node_kill_probability": 0.01}),  # a checkpoint was ahead of items that had not left
        ("slow lines", 2031, {"capacity": 200_000}),  # a generator found no room for an item
        # A call was cancelled before the log of its actor had come.
        ("workers and nodes die", 4008, {"kills": 4, "kill_probability": 0.03, "breaks": 3}),
        # Items overtook the results of earlier calls.
        ("workers and nodes die", 6043, {"kills": 4, "kill_probability": 0.03, "breaks": 3}),
        # An actor that found no node any more was to give a lost item again.
        ("nodes leave", 4039, {**DRAINS, "node_drains": 2, "node_kills": 1, "node_kill_probability": 0.002}),
        # The program's node had become the actor's, and knew what was drawn.
        ("nodes die", 4062, {"node_kills": 1, "head_kills": 1, "head_kill_probability": 0.01}),
        # A call was replayed on a further node before the node of its consumer was declared dead.
        ("workers and nodes die", 23, {}),
        ("nodes are cut off", 22, {}),  # a consumer had died, and its held-back generator kept the actor
    ],
)
def test_seeds_that_failed_once(name, seed, options):
    outcome = sweep_program("spring", seed=seed, **{**DEATHS[name], **options})
    assert not outcome.error, outcome.error
