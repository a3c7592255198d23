"""CartPole without velocities: an environment for recurrent policies."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

__all__ = ["StatelessCartPole"]

SEEN = [0, 2]  # of position, velocity, angle and angular velocity


class StatelessCartPole(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole-v1 of which position and angle are seen, and no velocity.

    One observation does not tell where the pole moves: a policy has to remember earlier ones.

    Args:
        config: options of CartPole-v1, as `{"render_mode": "rgb_array"}`.

    Example:
        config.environment("zray.rllib.env.stateless_cartpole:StatelessCartPole")
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(gymnasium.make("CartPole-v1", **(config or {})))
        whole: Any = self.env.observation_space
        self.observation_space = gymnasium.spaces.Box(whole.low[SEEN], whole.high[SEEN], dtype=whole.dtype)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Position and angle of an observation of CartPole-v1."""
        return observation[SEEN]
