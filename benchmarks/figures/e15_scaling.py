"""Evolution strategies on up to 8192 cores, simulated with costs that are measured here.

One iteration is some ten thousand rollouts of uneven length.  The update is a sum of noise vectors, one for each pair
of rollouts.

tree      an aggregator has some cores.  It waits for one rollout at a time, submits the next one, and adds the vectors.
          The driver adds one vector of each of its children in the tree.
flat      the driver alone does what an aggregator does, for all cores
at once   a flat driver that submits all rollouts at the beginning, and fetches them in the order of their ends
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import zray

CORES = (256, 512, 1024, 2048, 4096, 8192)
ROLLOUTS = 10_000  # of an iteration, as in the paper
LENGTHS = (10, 1_000)  # steps
PARAMETERS = 166_000  # 348 observations, 256 and 256 units, 17 actions: Humanoid
CORES_OF_AGGREGATOR = 64
FAN_IN = 8  # vectors that an aggregator or the driver adds
STEP_SECONDS = 300e-6  # of Humanoid with such a policy on one core: an assumption, since MuJoCo is optional
WAITING = (64, 1_024)  # rollouts under way, for which a wait is measured
HOLD_SECONDS = 3_600.0  # of a task that never ends: its session ends before
SEED = 15


@dataclass(frozen=True)
class Costs:
    """CPU seconds of the process that collects: measured on this machine.

    result: submit one of many rollouts, and fetch its small result among many.
    wait: wait for one rollout, fetch its result, and submit another one; without `waiting`.
    waiting: what that wait takes more for each rollout that is under way.
    noise: find one noise vector, and add it times its weight.
    vector: fetch a vector from another process, and add it.
    """

    result: float
    wait: float
    waiting: float
    noise: float
    vector: float


def measured_costs(count: int) -> Costs:
    """Costs of a driver, from so many tasks; in sessions of their own."""
    with zray.init(num_cpus=2):
        result, vector = _result_seconds(count), _vector_seconds()
    few, many = (wait_seconds(under_way, max(count // 20, 100)) for under_way in WAITING)
    waiting = max(0.0, (many - few) / (WAITING[1] - WAITING[0]))
    return Costs(result, max(0.0, few - waiting * WAITING[0]), waiting, _noise_seconds(), vector)


def _rollout(index: int) -> tuple[int, float]:
    return index, float(index)


def _hold() -> None:
    time.sleep(HOLD_SECONDS)


def _partial_sum() -> np.ndarray:
    return np.ones(PARAMETERS, dtype=np.float32)


def _result_seconds(count: int) -> float:
    rollout = zray.remote(_rollout)
    zray.get([rollout.remote(index) for index in range(count)])
    begun = time.process_time()
    zray.get([rollout.remote(index) for index in range(count)])
    return (time.process_time() - begun) / count


def wait_seconds(under_way: int, count: int) -> float:
    """CPU seconds for a result, of a loop that waits for one; four rollouts under way end, the others do not."""
    rollout: Any = zray.remote(_rollout)
    hold: Any = zray.remote(num_cpus=0, resources={"held": 1})(_hold)
    with zray.init(num_cpus=2, resources={"held": 1}):
        zray.get([rollout.remote(index) for index in range(count)])
        flying = dict.fromkeys([hold.remote() for _ in range(under_way - 4)])
        flying.update(dict.fromkeys([rollout.remote(index) for index in range(4)]))
        begun = time.process_time()
        for index in range(count):
            (ref,), _ = zray.wait(list(flying))
            del flying[ref]
            zray.get(ref)
            flying[rollout.remote(index)] = None
        return (time.process_time() - begun) / count


def _noise_seconds() -> float:
    table = np.random.default_rng(SEED).standard_normal(20 * PARAMETERS, dtype=np.float32)
    total: np.ndarray = np.zeros(PARAMETERS, dtype=np.float32)
    count = 300
    begun = time.thread_time()
    for pair in range(count):
        start = np.random.default_rng([SEED, 1, pair]).integers(len(table) - PARAMETERS)
        total += np.float32(0.5) * table[start : start + PARAMETERS]
    return (time.thread_time() - begun) / count


def _vector_seconds() -> float:
    partial_sum = zray.remote(_partial_sum)
    total: np.ndarray = np.zeros(PARAMETERS, dtype=np.float32)
    refs = [partial_sum.remote() for _ in range(50)]
    zray.wait(refs, num_returns=len(refs))
    begun = time.process_time()
    for ref in refs:
        total += zray.get(ref)
    return (time.process_time() - begun) / len(refs)


def rollout_seconds() -> list[float]:
    """How long each rollout of an iteration takes."""
    dice = random.Random(SEED)
    return [dice.randint(*LENGTHS) * STEP_SECONDS for _ in range(ROLLOUTS)]


def tree(cores: int, costs: Costs) -> float:
    """Seconds of one iteration."""
    lengths = rollout_seconds()
    collectors = max(1, cores // CORES_OF_AGGREGATOR)
    level = sorted(_collected(lengths[each::collectors], cores // collectors, costs) for each in range(collectors))
    while len(level) > 1:
        level = [max(level[at : at + FAN_IN]) + FAN_IN * costs.vector for at in range(0, len(level), FAN_IN)]
    return level[0] + costs.vector


def flat(cores: int, costs: Costs) -> float:
    """Seconds of one iteration."""
    return _collected(rollout_seconds(), cores, costs)


def at_once(cores: int, costs: Costs) -> float:
    """Seconds of one iteration."""
    free, ends = [0.0] * cores, []
    for number, seconds in enumerate(rollout_seconds()):
        begun = max(heapq.heappop(free), (number + 1) * costs.result / 2)  # half of it is the submission
        heapq.heappush(free, begun + seconds)
        ends.append(begun + seconds)
    now = ROLLOUTS * costs.result / 2
    for end in sorted(ends):
        now = max(now, end) + costs.result / 2 + costs.noise / 2
    return now


WAYS: dict[str, Callable[[int, Costs], float]] = {
    "aggregation tree": tree,
    "flat driver": flat,
    "flat driver, all rollouts submitted at once": at_once,
}


def _collected(lengths: list[float], cores: int, costs: Costs) -> float:
    """When the last result of these rollouts has been handled.

    The collector handles results in the order of their ends; a core waits for its next rollout until then.
    """
    running: list[float] = []
    free_at, following = 0.0, iter(lengths)
    for seconds in (seconds for _, seconds in zip(range(cores), following, strict=False)):
        free_at += costs.result / 2
        heapq.heappush(running, free_at + seconds)
    while running:
        under_way = len(running)
        free_at = max(free_at, heapq.heappop(running)) + costs.wait + costs.waiting * under_way
        free_at += costs.noise / 2  # one vector for each antithetic pair
        for seconds in (seconds for _, seconds in zip(range(1), following, strict=False)):
            heapq.heappush(running, free_at + seconds)
    return free_at
