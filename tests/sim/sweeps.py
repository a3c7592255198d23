"""Runs of many seeds: those that failed once, and sweeps over seeds of no history."""

from zray.sim.main import run_seed, sweep_seed
from zray.sim.options import Wanted

# Seeds of one test: as many as fit into a check of every change; scripts/simulate runs more.
CHUNK = 10
HALF = CHUNK // 2

# Options of `sweep_program` for programs that are tried with each kind of fault.
MIXTURES = {
    "one node": {"nodes": 1, "cpus": 2},
    "three nodes": {"nodes": 3, "cpus": 1},
    "workers die": {"nodes": 3, "cpus": 1, "kills": 3, "kill_probability": 0.05, "breaks": 4},
    "nodes die": {"nodes": 4, "cpus": 1, "node_kills": 2, "node_kill_probability": 0.003},
    "nodes leave": {"nodes": 3, "cpus": 1, "shards": 2, "node_drains": 1},
    "schedulers die": {"nodes": 4, "cpus": 1, "replicas": 2, "scheduler_kills": 1, "scheduler_kill_probability": 0.01},
    "slow lines": {"nodes": 3, "cpus": 1, "capacity": 200_000, "clogs": 3, "repeat_probability": 0.02},
}


def assert_all_is_well(seeds, run=run_seed, **asked):
    """Seeds that failed once: their invariants are checked after each turn."""
    wanted = Wanted(**asked)
    failed = [outcome for outcome in (run(seed, wanted) for seed in seeds) if outcome.error]
    told = [f"scripts/simulate --seed {it.seed} --runs 1{wanted.flags()}\n{it.error}" for it in failed]
    assert not failed, "\n\n".join(told)


def sweep(seeds, **asked):
    """Seeds of no history, most of them with fewer checks on their way."""
    assert_all_is_well(seeds, run=sweep_seed, **asked)
