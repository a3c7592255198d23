"""Replay buffers: transitions in a ring, drawn evenly or by priority."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

__all__ = ["PrioritizedReplay", "Replay", "n_step", "updates_of"]


def updates_of(config: dict[str, Any], steps: int) -> int:
    """Gradient steps behind a rollout.

    Args:
        config: `training_intensity`, the steps that are trained on for each sampled one; None: `updates_per_iteration`.
        steps: of the rollout.
    """
    intensity = config["training_intensity"]
    if not intensity:
        return int(config["updates_per_iteration"])
    return max(1, round(intensity * steps / config["train_batch_size"]))


class Replay:
    """A ring of transitions, drawn evenly.

    Args:
        capacity: transitions.
        seed: of the draws.
    """

    def __init__(self, capacity: int, seed: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"The capacity of a replay buffer is at least 1, not {capacity}.")
        self.capacity = capacity
        self.rng = np.random.default_rng([seed, 7_000_003])
        self.columns: dict[str, np.ndarray] = {}
        self.size = self.place = 0

    def add(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Add transitions.

        Args:
            rows: arrays of equal length, by name.

        Returns:
            Their places.
        """
        count = len(next(iter(rows.values())))
        if not self.columns:
            self.columns = {
                name: np.zeros((self.capacity, *value.shape[1:]), value.dtype) for name, value in rows.items()
            }
        places: np.ndarray = (self.place + np.arange(count)) % self.capacity
        for name, value in rows.items():
            self.columns[name][places] = value
        self.place = int((self.place + count) % self.capacity)
        self.size = min(self.size + count, self.capacity)
        return places

    def draw(self, count: int, beta: float = 0.0) -> dict[str, np.ndarray]:
        """Draw a batch, with "weights" and "places".

        Args:
            count: transitions.
            beta: of no use here: each weight is 1.
        """
        del beta
        places = self.rng.integers(self.size, size=count)
        return self._rows(places, np.ones(count, np.float32))

    def _rows(self, places: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
        rows: dict[str, np.ndarray] = {name: column.take(places, axis=0) for name, column in self.columns.items()}
        return {**rows, "weights": weights, "places": places}

    def update(self, places: np.ndarray, errors: np.ndarray) -> None:
        """Take the errors of a batch, which are of no use here.

        Args:
            places: of its transitions.
            errors: one for each place.
        """

    def reseed(self, seed: int) -> None:
        """Draw by other random numbers."""
        self.rng = np.random.default_rng([seed, 7_000_003])

    def state(self) -> dict[str, Any]:
        """The state, without the unused part of the ring."""
        own = {key: copy.deepcopy(value) for key, value in self.__dict__.items() if key != "columns"}
        return {**own, "columns": {name: column[: self.size].copy() for name, column in self.columns.items()}}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        columns = state["columns"]
        self.__dict__.update({key: copy.deepcopy(value) for key, value in state.items() if key != "columns"})
        self.columns = {}
        for name, column in columns.items():
            self.columns[name] = np.zeros((self.capacity, *column.shape[1:]), column.dtype)
            self.columns[name][: len(column)] = column


class PrioritizedReplay(Replay):
    """A ring of transitions, drawn in proportion to their last error.

    Schaul et al., "Prioritized Experience Replay", ICLR 2016, section 3.3, the proportional variant:

        P(i) = p_i^alpha / sum of p_k^alpha,   p_i = |delta_i| + epsilon
        w_i  = (N P(i))^-beta / max w

    A sum tree finds a transition in log2(capacity) steps; a batch is drawn from equal segments of the total.

    Args:
        capacity, seed: as of `Replay`.
        alpha, epsilon: as in the formula.
    """

    def __init__(self, capacity: int, seed: int = 0, alpha: float = 0.6, epsilon: float = 1e-6) -> None:
        super().__init__(capacity, seed)
        self.alpha, self.epsilon = alpha, epsilon
        self.leaves = 1 << (capacity - 1).bit_length() if capacity > 1 else 1
        self.tree = np.zeros(2 * self.leaves)
        self.largest = 1.0

    def add(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Add transitions.

        Args:
            rows: arrays of equal length, by name.

        Returns:
            Their places.
        """
        places = super().add(rows)
        self._set(places, np.full(len(places), self.largest**self.alpha))
        return places

    def _set(self, places: np.ndarray, values: np.ndarray) -> None:
        nodes: np.ndarray = places + self.leaves
        self.tree[nodes] = values
        nodes = np.unique(nodes >> 1)
        while nodes[0] >= 1:
            self.tree[nodes] = self.tree[2 * nodes] + self.tree[2 * nodes + 1]
            nodes = np.unique(nodes >> 1)

    def draw(self, count: int, beta: float = 0.4) -> dict[str, np.ndarray]:
        """Draw a batch, with "weights" and "places".

        Args:
            count: transitions.
            beta: as in the formula.
        """
        total = self.tree[1]
        wanted = (np.arange(count) + self.rng.random(count)) * (total / count)
        nodes: np.ndarray = np.ones(count, dtype=np.int64)
        while nodes[0] < self.leaves:
            left = self.tree[2 * nodes]
            is_right = wanted >= left
            wanted = np.where(is_right, wanted - left, wanted)
            nodes = 2 * nodes + is_right
        places = np.minimum(nodes - self.leaves, self.size - 1)
        probabilities = self.tree[places + self.leaves] / total
        weights = (self.size * probabilities) ** -beta
        return self._rows(places, (weights / weights.max()).astype(np.float32))

    def update(self, places: np.ndarray, errors: np.ndarray) -> None:
        """Take the errors of a batch, which are the priorities of its transitions from now on.

        Args:
            places: of its transitions.
            errors: one for each place.
        """
        priorities = np.abs(errors) + self.epsilon
        self.largest = max(self.largest, float(priorities.max()))
        self._set(places, priorities**self.alpha)


def n_step(
    rewards: np.ndarray, terminated: np.ndarray, ended: np.ndarray, n: int, gamma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns of n steps within a rollout.

    Args:
        rewards, terminated, ended: arrays of shape [T, N].
        n: steps; fewer where an episode or the rollout ends before.

    Returns:
        (returns, last, terminated, discounts): the sum of discounted rewards; the step behind which the value counts;
        whether that is the end of the episode; gamma to the number of steps.
    """
    steps = len(rewards)
    returns = np.zeros_like(rewards)
    discounts = np.ones_like(rewards)
    alive = np.ones_like(rewards)
    last = np.zeros(rewards.shape, dtype=np.int64)
    is_terminal = np.zeros_like(rewards)
    rows = np.arange(steps)[:, None]
    for k in range(n):
        at = np.minimum(rows + k, steps - 1)
        inside = (rows + k < steps) * alive
        here = np.take_along_axis(rewards, np.broadcast_to(at, rewards.shape), 0)
        returns += inside * discounts * here
        last = np.where(inside > 0, at, last)
        is_terminal = np.where(
            inside > 0, np.take_along_axis(terminated, np.broadcast_to(at, rewards.shape), 0), is_terminal
        )
        discounts = np.where(inside > 0, discounts * gamma, discounts)
        alive = inside * (1.0 - np.take_along_axis(ended, np.broadcast_to(at, rewards.shape), 0))
    return returns, last, is_terminal, discounts
