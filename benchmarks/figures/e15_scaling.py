"""Evolution strategies on up to 8192 cores, simulated with costs that are measured here.

One iteration is some ten thousand rollouts of uneven length.  Each core runs rollouts, and asks for the next one
as soon as it is free.  The update is a sum of noise vectors, one for each pair of rollouts.

flat    the driver submits every rollout, fetches every result, and adds every vector
tree    aggregators do so for some cores each, and the driver adds one vector of each of its children in the tree
"""

from __future__ import annotations

import heapq
import random
import time
from dataclasses import dataclass

import numpy as np

import zray

CORES = (256, 512, 1024, 2048, 4096, 8192)
ROLLOUTS = 10_000  # of an iteration, as in the paper
LENGTHS = (10, 1_000)  # steps
PARAMETERS = 166_000  # 348 observations, 256 and 256 units, 17 actions: Humanoid
CORES_OF_AGGREGATOR = 64
FAN_IN = 8  # vectors that an aggregator or the driver adds
STEP_SECONDS = 300e-6  # of Humanoid with such a policy on one core: an assumption, since MuJoCo is optional


@dataclass(frozen=True)
class Costs:
    """CPU seconds of the process that collects: measured on this machine.

    result: submit one rollout, and fetch its small result.
    noise: add one noise vector, times its weight.
    vector: fetch a vector from another process, and add it.
    """

    result: float
    noise: float
    vector: float


def measured_costs(count: int) -> Costs:
    """Costs of a driver, from so many tasks of a session that is running."""

    @zray.remote
    def rollout(index: int) -> tuple[int, float]:
        return index, float(index)

    @zray.remote
    def partial_sum() -> np.ndarray:
        return np.ones(PARAMETERS, dtype=np.float32)

    zray.get([rollout.remote(index) for index in range(count)])
    begun = time.thread_time()
    zray.get([rollout.remote(index) for index in range(count)])
    result = (time.thread_time() - begun) / count
    table = np.random.default_rng(15).standard_normal(20 * PARAMETERS, dtype=np.float32)
    total: np.ndarray = np.zeros(PARAMETERS, dtype=np.float32)
    starts = np.random.default_rng(1).integers(0, 19 * PARAMETERS, 300)
    begun = time.thread_time()
    for start in starts:
        total += 0.5 * table[start : start + PARAMETERS]
    noise = (time.thread_time() - begun) / len(starts)
    refs = [partial_sum.remote() for _ in range(50)]
    zray.wait(refs, num_returns=len(refs))
    begun = time.thread_time()
    for ref in refs:
        total += zray.get(ref)
    return Costs(result, noise, (time.thread_time() - begun) / len(refs))


def iteration_seconds(cores: int, costs: Costs, *, tree: bool, seed: int = 15) -> float:
    """Seconds of one iteration.

    Each collector (the driver, or an aggregator) is one process that handles results in the order of their arrival; a
    core waits until its collector has handled its result and so submitted the next rollout.
    """
    dice = random.Random(seed)
    lengths = [dice.randint(*LENGTHS) * STEP_SECONDS for _ in range(ROLLOUTS)]
    collectors = max(1, cores // CORES_OF_AGGREGATOR) if tree else 1
    per_result = costs.result + costs.noise / 2  # one vector for each antithetic pair
    ends = []
    for collector in range(collectors):
        mine = lengths[collector::collectors]
        ends.append(_collected(mine, max(1, cores // collectors), per_result))
    if not tree:
        return ends[0]
    level = sorted(ends)
    while len(level) > 1:
        level = [max(level[at : at + FAN_IN]) + FAN_IN * costs.vector for at in range(0, len(level), FAN_IN)]
    return level[0] + costs.vector


def _collected(lengths: list[float], cores: int, per_result: float) -> float:
    """When the last result of these rollouts has been handled."""
    running: list[float] = []
    free_at, waiting = 0.0, iter(lengths)
    for seconds in (seconds for _, seconds in zip(range(cores), waiting, strict=False)):
        free_at += per_result / 2  # half of it is the submission
        heapq.heappush(running, free_at + seconds)
    while running:
        free_at = max(free_at, heapq.heappop(running)) + per_result
        following = next(waiting, None)
        if following is not None:
            heapq.heappush(running, free_at + following)
    return free_at
