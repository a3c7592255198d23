"""Advantages of one episode as programs for Ray compute them: columns of a batch, added in place."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Postprocessing", "compute_advantages", "discount_cumsum"]


class Postprocessing:
    """The names of the columns that `compute_advantages` adds."""

    ADVANTAGES, VALUE_TARGETS = "advantages", "value_targets"


def discount_cumsum(x: np.ndarray, gamma: float) -> np.ndarray:
    """The discounted sums of an array from each of its places on: y[t] = x[t] + gamma * y[t + 1]."""
    sums = np.empty_like(np.asarray(x, np.float64))
    last = 0.0
    for t in range(len(sums) - 1, -1, -1):
        sums[t] = last = x[t] + gamma * last
    return sums


def compute_advantages(
    rollout: Any,
    last_r: float,
    gamma: float = 0.9,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
    rewards: str = "rewards",
    vf_preds: str = "vf_preds",
) -> Any:
    """Add advantages and value targets to the steps of one episode, and return the batch.

    Args:
        rollout: a SampleBatch, or another dict of arrays, of the steps of one episode in order.
        last_r: the value of what follows on the last step; 0 at a terminal end.
        gamma: discount of rewards.
        lambda_: lambda of GAE.
        use_gae: whether advantages are those of GAE; False: discounted returns.
        use_critic: whether the values are subtracted from returns, and are in the batch.
        rewards, vf_preds: the columns of rewards and of values.

    Raises:
        ValueError: GAE is asked for without values.

    Example:
        batch = compute_advantages(SampleBatch(rewards=[1.0, 1.0], vf_preds=[0.5, 0.5]), last_r=0.0, gamma=0.99)
        batch["advantages"], batch["value_targets"]
    """
    given = np.asarray(rollout[rewards], np.float64)
    if use_gae and not (use_critic and vf_preds in rollout):
        raise ValueError(f"GAE takes the column {vf_preds!r} of values, and use_critic=True; or give use_gae=False.")
    values = np.asarray(rollout[vf_preds], np.float64) if use_critic and vf_preds in rollout else np.zeros(len(given))
    if use_gae:
        deltas = given + gamma * np.append(values[1:], last_r) - values
        advantages = discount_cumsum(deltas, gamma * lambda_)
        targets = advantages + values
    else:
        returns = discount_cumsum(np.append(given, last_r), gamma)[:-1]
        advantages, targets = returns - values, returns if use_critic else np.zeros(len(given))
    rollout[Postprocessing.ADVANTAGES] = advantages.astype(np.float32)
    rollout[Postprocessing.VALUE_TARGETS] = targets.astype(np.float32)
    return rollout
