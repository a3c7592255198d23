"""Generators in simulated clusters with deaths: each item comes once, in its order."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim


# Items that are not drawn yet stay in the store, which cannot be as small as for other programs.
ROOM = {"slow lines": {"capacity": 2_000_000}}


@pytest.mark.parametrize("name", MIXTURES)
def test_each_item_comes_once_and_in_order(name):
    for seed in range(1, 21):
        outcome = sweep_program("generators", seed=seed, **{**MIXTURES[name], **ROOM.get(name, {})})
        assert not outcome.error, f"seed {seed}: {outcome.error}"
