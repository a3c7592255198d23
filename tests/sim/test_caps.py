"""Caps that are lowered until small programs reach them: whatever holds back goes on again, and nobody notices."""

import pytest

from zray.roles.gcs import chain
from zray.sim.caps import LOWERED, chosen, lowered
from zray.sim.main import run_program, run_seed
from zray.sim.options import Wanted

ASKED = [
    {},
    {"nodes": 3, "curious": True},
    {"nodes": 3, "shards": 2, "replicas": 2},
    {"nodes": 4, "heads": True, "deaths": True},
    {"nodes": 5, "drains": True, "replicas": 2},
]


@pytest.mark.sim
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_programs_do_not_notice_how_much_may_wait(asked):
    wanted = Wanted(tight=True, **asked)
    failed = [outcome for seed in range(301, 305) if (outcome := run_seed(seed, wanted)).error]
    told = [f"scripts/simulate --seed {it.seed} --runs 1{wanted.flags()}\n{it.error}" for it in failed]
    assert not failed, "\n\n".join(told)


@pytest.mark.sim
def test_a_chain_that_takes_one_far_request_after_the_other_is_slow_and_not_stuck():
    """Programs whose actors recover ask it for 2,500 things, one each 0.16 s, though nothing fails."""
    options = {"nodes": 3, "cpus": 2, "drivers": 8, "delay": "far", "replicas": 3, "is_tight": True, "check_every": 10}
    outcome = run_program("ledger", seed=157, **options)
    assert not outcome.error, outcome.error


def test_caps_are_as_before_when_a_run_is_over():
    before = chain.ASIDE_MAX
    with lowered(dict.fromkeys(LOWERED, 1)):
        assert chain.ASIDE_MAX == 1
    assert chain.ASIDE_MAX == before


def test_a_seed_says_which_caps_it_lowers():
    assert chosen(5) == chosen(5)
    assert len({len(chosen(seed)) for seed in range(40)}) > 5
