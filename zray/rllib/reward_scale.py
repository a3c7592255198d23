"""Scale of rewards: division by the standard deviation of the discounted return so far."""

from __future__ import annotations

import numpy as np

from .filters import MeanStdFilter

__all__ = ["RewardScale"]

# Scaled rewards are cut to this size, as in the authors' code of PPO (openai/baselines, VecNormalize).
LARGEST = 10.0


class RewardScale:
    """Divides rewards by the standard deviation of the running discounted return, and cuts them to [-10, 10].

    Each environment has a running return: R = gamma R + r, and 0 behind the end of an episode.  The deviation counts
    all of them.  Groups are counted in their order, so that the number of processes changes nothing.

    Args:
        gamma: the discount.
    """

    def __init__(self, gamma: float) -> None:
        self.gamma = gamma
        self.running: list[np.ndarray] = []  # of each group, for each environment
        self.seen = MeanStdFilter((1,))

    def observe(self, rewards: list[np.ndarray], ended: list[np.ndarray]) -> None:
        """Count the rollouts of all groups, in arrays of shape [T, N]."""
        if not self.running:
            self.running = [np.zeros(each.shape[1]) for each in rewards]
        for number, (of_group, ends) in enumerate(zip(rewards, ended, strict=True)):
            running = self.running[number]
            returns: np.ndarray = np.empty(of_group.shape)
            for step, (reward, end) in enumerate(zip(of_group, ends, strict=True)):
                running = running * self.gamma + reward
                returns[step] = running
                running = np.where(end, 0.0, running)
            self.running[number] = running
            self.seen.observe(returns.reshape(-1, 1))

    def __call__(self, rewards: np.ndarray) -> np.ndarray:
        """Scaled rewards."""
        if self.seen.count < 2:
            return rewards
        deviation = float(np.sqrt(self.seen.squares[0] / (self.seen.count - 1)))
        return np.clip(rewards / (deviation + 1e-8), -LARGEST, LARGEST).astype(np.float32)
