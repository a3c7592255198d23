"""Catch: a ball falls through a grid of pixels, and a paddle of three cells moves below it.

The reward is 1 for a ball that is caught and -1 for one that is not, at the end of the fall.
"""

import gymnasium
import numpy as np

SIDE = 8


class Catch(gymnasium.Env):
    """The observation is an image of 8 x 8 pixels of 8 bits; the actions are left, stay and right."""

    observation_space = gymnasium.spaces.Box(0, 255, (SIDE, SIDE, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, config=None):
        self.row = self.ball = self.paddle = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.ball = 0, int(self.np_random.integers(SIDE))
        self.paddle = int(self.np_random.integers(1, SIDE - 1))
        return self._image(), {}

    def step(self, action):
        self.row += 1
        self.paddle = int(np.clip(self.paddle + action - 1, 1, SIDE - 2))
        is_over = self.row == SIDE - 1
        reward = (1.0 if abs(self.ball - self.paddle) <= 1 else -1.0) if is_over else 0.0
        return self._image(), reward, is_over, False, {}

    def _image(self):
        image = np.zeros(self.observation_space.shape, np.uint8)
        image[self.row, self.ball] = 255
        image[SIDE - 1, self.paddle - 1 : self.paddle + 2] = 255
        return image
