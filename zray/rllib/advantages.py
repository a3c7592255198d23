"""Returns and advantages of rollouts, with bootstrap where an episode was cut off."""

from __future__ import annotations

import numpy as np

__all__ = ["generalized_advantages"]


def generalized_advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    gamma: float,
    lambda_: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Advantages by GAE, and the targets of the value function.

    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage Estimation", ICLR 2016:

        delta_t = r_t + gamma V(s_(t+1)) (1 - terminated_t) - V(s_t)
        A_t     = delta_t + gamma lambda (1 - ended_t) A_(t+1)

    A truncated episode ends too, but the value of its last state counts: `terminated` is False there, and `ended` True.

    Args:
        rewards, values, next_values, terminated, ended: arrays of shape [T, N]: T steps of N environments.
            next_values[t] is the value of the state that step t led to, before any reset.

    Returns:
        (advantages, targets), of shape [T, N].
    """
    alive = 1.0 - terminated
    deltas = rewards + gamma * next_values * alive - values
    carried = gamma * lambda_ * (1.0 - ended)
    advantages = np.empty_like(deltas)
    last = np.zeros(deltas.shape[1:], dtype=deltas.dtype)
    for t in range(len(deltas) - 1, -1, -1):
        last = deltas[t] + carried[t] * last
        advantages[t] = last
    return advantages, advantages + values
