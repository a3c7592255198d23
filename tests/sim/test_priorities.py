"""Tasks of many priorities, and their children: all of them run, with deaths too."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_tasks_of_all_priorities_have_their_values(options):
    for seed in range(1, 11):
        outcome = sweep_program("priorities", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
