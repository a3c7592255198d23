"""Runs of many seeds: those that failed once, and sweeps over seeds of no history."""

from zray.sim.main import run_seed, sweep_seed
from zray.sim.options import Wanted

# Seeds of one test: as many as fit into a check of every change; scripts/simulate runs more.
CHUNK = 12
HALF = CHUNK // 2


def assert_all_is_well(seeds, run=run_seed, **asked):
    """Seeds that failed once: their invariants are checked after each turn."""
    wanted = Wanted(**asked)
    failed = [outcome for outcome in (run(seed, wanted) for seed in seeds) if outcome.error]
    told = [f"scripts/simulate --seed {it.seed} --runs 1{wanted.flags()}\n{it.error}" for it in failed]
    assert not failed, "\n\n".join(told)


def sweep(seeds, **asked):
    """Seeds of no history, most of them with fewer checks on their way."""
    assert_all_is_well(seeds, run=sweep_seed, **asked)
