"""An environment of random observations and rewards, to try programs with any spaces."""

from __future__ import annotations

from typing import Any

import gymnasium

__all__ = ["RandomEnv"]


class RandomEnv(gymnasium.Env[Any, Any]):
    """An environment whose observations and rewards are drawn from their spaces.

    Args:
        config: `observation_space`, `action_space` and `reward_space`; `p_terminated`, the probability of an end at a
            step, 0.1; `max_episode_len`, after which an episode is truncated.
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        own = dict(config or {})
        self.observation_space = own.get("observation_space", gymnasium.spaces.Discrete(2))
        self.action_space = own.get("action_space", gymnasium.spaces.Discrete(2))
        self.reward_space = own.get("reward_space", gymnasium.spaces.Box(-1.0, 1.0, ()))
        self.p_terminated = own.get("p_terminated", own.get("p_done", 0.1))
        self.max_episode_len = own.get("max_episode_len")
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
            self.reward_space.seed(seed + 1)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        is_terminal = bool(self.np_random.random() < self.p_terminated)
        is_truncated = not is_terminal and self.max_episode_len is not None and self.steps >= self.max_episode_len
        return self.observation_space.sample(), float(self.reward_space.sample()), is_terminal, is_truncated, {}
