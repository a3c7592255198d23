"""An environment that wants memory: a signal to be repeated some steps later."""

import gymnasium
import numpy as np


class Signal(gymnasium.Env):
    """The first observation is the action that is rewarded at the end, some steps later; the others are 0."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        config = config or {}
        self.steps, self.is_cut = config.get("steps", 4), config.get("is_cut", False)
        self.step_number, self.signal = 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number, self.signal = 0, int(self.np_random.integers(2))
        return np.array([2.0 * self.signal - 1.0], np.float32), {}

    def step(self, action):
        self.step_number += 1
        is_over = self.step_number == self.steps
        reward = float(action == self.signal) if is_over else 0.0
        return np.zeros(1, np.float32), reward, is_over and not self.is_cut, is_over and self.is_cut, {}
