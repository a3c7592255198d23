"""CPU time of the simulator."""

from __future__ import annotations

import time

SEEDS = 10


def simulation(scale: float) -> dict[str, float]:
    """Runs of three nodes, one seed after the other; a run that fails is no sample.

    Raises:
        RuntimeError: a run failed.
    """
    from zray.sim.main import run_seed
    from zray.sim.options import Wanted

    count = max(1, int(SEEDS * scale))
    begun = time.process_time()
    for seed in range(1, count + 1):
        outcome = run_seed(seed, Wanted(nodes=3))
        if outcome.error:
            raise RuntimeError(f"seed {seed} fails: {outcome.error.splitlines()[-1]}")
    return {"simulation.seeds": count / (time.process_time() - begun)}
