"""Rollouts as arrays: episodes that have ended, batches, and what their numbers are looked at for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .advantages import generalized_advantages
from .sequences import Sequence

__all__ = ["FLOAT_MAX", "Batch", "Cut", "Episode", "clipped", "copied", "is_finite", "whole_episodes"]

# The largest reward: rewards have 32 bits.
FLOAT_MAX = float(np.finfo(np.float32).max)


class Episode(NamedTuple):
    """A finished episode.

    env: the number of the environment.  number: of the episode in it.  seed: that of its reset.
    custom_metrics, logged, hist_data: what callbacks have noted.
    policy_returns: of several agents: their returns, by policy.
    """

    episode_return: float
    length: int
    env: int
    number: int
    seed: int
    custom_metrics: dict[str, float] | None = None
    logged: dict[Any, tuple[str, list[float]]] | None = None
    policy_returns: dict[str, list[float]] | None = None
    hist_data: dict[str, Any] | None = None


class Batch(NamedTuple):
    """The rollout of a group: arrays of shape [T, N, ...], T steps of N environments.

    next_values: of the state that the step led to, before any reset.  counted: what the filter has seen.
    sequences, states: of a recurrent policy: the parts that it reads in order, and the states at their begins.
    next_observations: None where the policy does not ask for them; behind a terminal step they are of the next episode.
    num_failed: environments that failed and were made anew.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    ended: np.ndarray
    log_probabilities: np.ndarray
    parameters: np.ndarray
    values: np.ndarray
    next_values: np.ndarray
    episodes: list[Episode]
    counted: Any
    next_observations: np.ndarray | None = None
    sequences: list[Sequence] | None = None
    states: list[np.ndarray] | None = None
    num_failed: int = 0

    def advantages(self, gamma: float, lambda_: float) -> tuple[np.ndarray, np.ndarray]:
        """Advantages by GAE, and the targets of the value function."""
        return generalized_advantages(
            self.rewards, self.values, self.next_values, self.terminated, self.ended, gamma, lambda_
        )


class Cut(NamedTuple):
    """The end of a truncated episode: step and environment, and the resulting row and state."""

    step: int
    place: int
    row: np.ndarray
    states: list[np.ndarray]


def is_finite(reward: Any, most: float) -> bool:
    """Whether a reward is one number, and no larger than `most`."""
    try:
        return bool(-most <= reward <= most)
    except (TypeError, ValueError):
        return False


def clipped(reward: Any, clip: bool | float) -> Any:
    """Return a reward as the learner gets it.

    Args:
        reward: a number.
        clip: True: the reward's sign; another number: the bound of its size; False or 0: the reward itself.
    """
    if clip is True:
        return np.sign(reward)
    return min(max(reward, -clip), clip) if clip else reward


def copied(observation: Any) -> Any:
    """Return a copy of an observation: an environment may write the next one into the same array."""
    if isinstance(observation, np.ndarray):
        return observation.copy()
    if isinstance(observation, dict):
        return {name: copied(each) for name, each in observation.items()}
    if type(observation) in (tuple, list):
        return type(observation)(copied(each) for each in observation)
    return observation


def whole_episodes(batch: Batch, before: list[list[np.ndarray]]) -> tuple[Batch, list[list[np.ndarray]]]:
    """The steps up to the last end of each environment, one environment behind another, of shape [R, 1, ...].

    Args:
        batch: of shape [T, N, ...].
        before: the recurrent states of each step.
    """
    counts = [int(np.flatnonzero(column)[-1]) + 1 for column in batch.ended.T]
    steps = np.concatenate([np.arange(count) for count in counts])
    envs: np.ndarray = np.repeat(np.arange(len(counts)), counts)
    columns = {
        name: value[steps, envs][:, np.newaxis]
        for name, value in batch._asdict().items()
        if isinstance(value, np.ndarray)
    }
    states = [[each[env][np.newaxis] for each in before[step]] for step, env in zip(steps, envs, strict=True)]
    return batch._replace(**columns), states
