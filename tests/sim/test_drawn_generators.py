"""Generators that calls of recoverable actors call, in simulated clusters: replays see the same items."""

import pytest

from tests.sim.test_recovered_generators import DEATHS
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", DEATHS)
def test_replays_of_an_actor_that_draws_see_the_same_items(name):
    for seed in range(1, 13):
        outcome = sweep_program("brook", seed=seed, **DEATHS[name])
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize(
    "name, seed",
    [
        ("workers and nodes die", 5),  # the end of a call on the same node went out as if to another node
        ("nodes die", 34),  # a call of a plain actor was asked for its items, and ran without its arguments
        ("nodes die", 29),  # a held-back generator waited for an actor that was dead for good
        ("workers and nodes die", 55),  # the same, and the shard still knew the dead actor
        ("nodes die", 213),  # items that were held had been drawn before the call left
        ("nodes are cut off", 310),  # items for a lost node had receipts
        ("nodes die", 410),  # a call was cancelled before it had left again
        # A node that was offered the callee sent a call once more whose result was on its way, and it ran twice.
        ("nodes die", 429),
    ],
)
def test_seeds_that_failed_once(name, seed):
    outcome = sweep_program("brook", seed=seed, **DEATHS[name])
    assert not outcome.error, outcome.error


# The caller's next process asked a call that ran already, in the actor's next process on the same node: the call was
# taken for one that nobody had asked for, and its last items went with its end, before they were drawn.
@pytest.mark.parametrize("seed", [*range(1, 13), 50, 148])
def test_actors_that_lose_their_node_together_give_each_other_all_items(seed):
    outcome = sweep_program("beck", seed=seed, nodes=3, cpus=1, node_kills=1, node_kill_probability=0.006)
    assert not outcome.error, outcome.error
