"""Learning: the steps and seconds to a level, for algorithms of zray.rllib and of Stable-Baselines3.

Every `EVERY` steps, the greedy policy plays `EPISODES` episodes.  The clock stands still meanwhile.
"""

from __future__ import annotations

import importlib.util
import time
from typing import Any, NamedTuple

import numpy as np

EVERY = 10_000
EPISODES = 20


class Learned(NamedTuple):
    """One run.

    points: (steps, greedy return) of each evaluation.  seconds: of training, until the level or the end.
    """

    points: list[tuple[int, float]]
    seconds: float
    is_reached: bool


def learn(row: dict[str, Any], seed: int, every: int = EVERY, episodes: int = EPISODES, stops: bool = True) -> Learned:
    """Train by a row of the tuned options.

    Args:
        every, episodes: steps between evaluations, and their episodes.
        stops: whether the level ends the training; else the last step does.
    """
    from zray.rllib.algorithms.registry import get_algorithm_class

    level, last = row["stop"]["episode_reward_mean"], row["stop"]["timesteps_total"]
    algo = get_algorithm_class(row["run"])(config={**row["config"], "seed": seed}, env=row["env"])
    points: list[tuple[int, float]] = []
    seconds = 0.0
    try:
        while algo.steps_sampled < last:
            begin = time.perf_counter()
            goal = (algo.steps_sampled // every + 1) * every
            while algo.steps_sampled < goal:
                algo.train()
            seconds += time.perf_counter() - begin
            points.append((algo.steps_sampled, algo.evaluate(episodes)["episode_reward_mean"]))
            if stops and points[-1][1] >= level:
                return Learned(points, seconds, algo.steps_sampled <= last)
    finally:
        algo.stop()
    return Learned(points, seconds, False)


def policy_after(row: dict[str, Any], steps: int) -> dict[str, np.ndarray]:
    """The weights of a policy that has been trained by a row for so many steps."""
    from zray.rllib.algorithms.registry import get_algorithm_class

    algo = get_algorithm_class(row["run"])(config=row["config"], env=row["env"])
    while algo.steps_sampled < steps:
        algo.train()
    weights: dict[str, np.ndarray] = algo.get_policy().get_weights()
    algo.stop()
    return weights


def has_baselines() -> bool:
    """Whether Stable-Baselines3 is installed."""
    return importlib.util.find_spec("stable_baselines3") is not None


def baseline(name: str, seed: int, level: float, last: int) -> Learned:
    """The same task by Stable-Baselines3, with the settings of its zoo."""
    import gymnasium
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    points: list[tuple[int, float]] = []
    paused = 0.0

    class Watch(BaseCallback):
        next_at = EVERY

        def _on_step(self) -> bool:
            nonlocal paused
            if self.num_timesteps < self.next_at:
                return True
            before = time.perf_counter()
            self.next_at += EVERY
            points.append((self.num_timesteps, greedy(self.model, gymnasium.make("CartPole-v1"))))
            paused += time.perf_counter() - before
            return points[-1][1] < level

    if name == "cartpole-ppo":
        envs = make_vec_env("CartPole-v1", n_envs=8, seed=seed)
        options: dict[str, Any] = {"n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8}
        model: Any = PPO("MlpPolicy", envs, learning_rate=lambda left: 1e-3 * left, seed=seed, device="cpu", **options)
    else:
        envs = make_vec_env("CartPole-v1", n_envs=1, seed=seed)
        options = {"batch_size": 64, "buffer_size": 100_000, "learning_starts": 1_000, "target_update_interval": 10}
        options |= {"train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16}
        options |= {"exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]}}
        model = DQN("MlpPolicy", envs, learning_rate=2.3e-3, gamma=0.99, seed=seed, device="cpu", **options)
    began = time.perf_counter()
    model.learn(last, callback=Watch())
    seconds = time.perf_counter() - began - paused
    return Learned(points, seconds, bool(points) and points[-1][1] >= level)


def greedy(model: Any, env: Any) -> float:
    """The mean return of episodes by the most likely actions."""
    returns = []
    for episode in range(EPISODES):
        observation, _ = env.reset(seed=1_000_000 + episode)
        total, is_over = 0.0, False
        while not is_over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(int(action))
            total, is_over = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))
