"""Seconds that an environment costs which ends its worker's process in the middle of an iteration of PPO."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from zray.rllib.algorithms.ppo import PPOConfig

DEATH_AT = 150  # steps of the one environment
ITERATIONS = 4


class Mortal(gymnasium.Env):  # type: ignore[type-arg]
    """An environment that ends its process once; a file says that it has."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config: Any) -> None:
        self.config, self.steps = config, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of 20 steps."""
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step; the process of the first worker ends at one of them."""
        self.steps += 1
        mark = Path(self.config["mark"])
        if self.steps == DEATH_AT and self.config.worker_index == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return np.zeros(2, np.float32), 1.0, self.steps % 20 == 0, False, {}


def seconds_of_iterations() -> tuple[float, float]:
    """Longest and shortest iteration of a training with two workers, of which one dies once."""
    with tempfile.TemporaryDirectory(prefix="rllib-") as folder:
        mark = Path(folder, "has-died")
        config = PPOConfig().environment(Mortal, env_config={"mark": str(mark)})
        algo = config.env_runners(num_env_runners=2).training(train_batch_size=400).build()
        found = []
        for _ in range(ITERATIONS):
            began = time.perf_counter()
            algo.train()
            found.append(time.perf_counter() - began)
        algo.stop()
        assert mark.exists(), "no environment has ended its process"
    return max(found), min(found)
