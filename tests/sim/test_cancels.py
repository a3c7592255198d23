"""Programs that cancel, in simulated clusters with deaths: each task has its value or TaskCancelledError."""

import pytest

from tests.sim.sweeps import MIXTURES
from zray.sim.main import sweep_program

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_tasks_that_run_longer_than_they_may_end_and_the_others_do_not(options):
    for seed in range(1, 11):
        outcome = sweep_program("time_limits", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_tasks_that_have_not_begun_are_cancelled_and_the_others_run(options):
    for seed in range(1, 11):
        outcome = sweep_program("futures", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("program", ["tree", "chain", "deep", "fan_in", "returns", "borrowed", "refs_inside"])
@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_no_task_that_others_want_is_cancelled_as_unreferenced(options, program):
    for seed in range(1, 4):
        outcome = sweep_program(program, seed=seed, cancels_unreferenced=True, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"


@pytest.mark.parametrize("options", MIXTURES.values(), ids=MIXTURES)
def test_cancelled_tasks_end_and_the_others_are_not_disturbed(options):
    for seed in range(1, 21):
        outcome = sweep_program("cancels", seed=seed, **options)
        assert not outcome.error, f"seed {seed}: {outcome.error}"
