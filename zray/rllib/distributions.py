"""Distributions of actions: drawn with numpy where environments run, differentiated with torch where a learner runs."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch

from .masks import LOWEST

__all__ = ["Categorical", "Gaussian", "MultiCategorical", "distribution_of"]


def _entropy(log_p: torch.Tensor) -> torch.Tensor:
    """Entropies; an action of probability 0 adds 0, where 0 times minus infinity is NaN."""
    return -(log_p.exp() * log_p.clamp(min=LOWEST)).sum(-1)


def _divergence(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Divergences of log probabilities; an action that had probability 0 adds 0."""
    return (old.exp() * (old.clamp(min=LOWEST) - new.clamp(min=LOWEST))).sum(-1)


class Categorical:
    """One of n actions, by logits."""

    is_continuous = False

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        self.start, self.outputs = int(space.start), int(space.n)
        self.shape: tuple[int, ...] = ()
        self.dtype: Any = np.int64
        self.sizes = [self.outputs]

    def draw(self, logits: np.ndarray, log_std: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions and their log probabilities, one for each row.  Gumbel's trick: one number for each logit."""
        uniform = rng.random(logits.shape)
        actions = (logits - np.log(-np.log(uniform))).argmax(axis=-1)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return actions, log_probabilities[np.arange(len(actions)), actions]

    def greedy(self, logits: np.ndarray) -> np.ndarray:
        """The most likely actions."""
        return np.asarray(logits.argmax(axis=-1))

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it."""
        return int(action) + self.start

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        return int(action) - self.start

    def log_probability(self, logits: torch.Tensor, log_std: Any, actions: torch.Tensor) -> torch.Tensor:
        """Log probabilities of actions."""
        return torch.log_softmax(logits, -1).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, logits: torch.Tensor, log_std: Any) -> torch.Tensor:
        """Entropies."""
        return _entropy(torch.log_softmax(logits, -1))

    def divergence(self, old: torch.Tensor, old_std: Any, new: torch.Tensor, new_std: Any) -> torch.Tensor:
        """Kullback-Leibler divergences of the old from the new distributions."""
        old_log, new_log = torch.log_softmax(old, -1), torch.log_softmax(new, -1)
        return _divergence(old_log, new_log)


class MultiCategorical:
    """Several independent actions, each one of its own number, by logits that are one behind another."""

    is_continuous = False

    def __init__(self, space: gymnasium.spaces.MultiDiscrete) -> None:
        self.sizes = [int(size) for size in np.ravel(space.nvec)]
        self.outputs = sum(self.sizes)
        self.ends = np.cumsum(self.sizes)[:-1].tolist()
        self.start, self.shape = np.array(space.start), space.nvec.shape
        self.dtype: Any = space.dtype

    def draw(self, logits: np.ndarray, log_std: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions, a row for each row of logits, and their log probabilities.  Gumbel's trick, as in Categorical."""
        noisy = logits - np.log(-np.log(rng.random(logits.shape)))
        actions = self.greedy(noisy)
        log_probabilities: np.ndarray = np.zeros(len(actions), logits.dtype)
        for part, chosen in zip(np.split(logits, self.ends, -1), actions.T, strict=True):
            shifted = part - part.max(axis=-1, keepdims=True)
            log_probabilities += shifted[np.arange(len(chosen)), chosen] - np.log(np.exp(shifted).sum(axis=-1))
        return actions, log_probabilities

    def greedy(self, logits: np.ndarray) -> np.ndarray:
        """The most likely actions."""
        return np.stack([part.argmax(axis=-1) for part in np.split(logits, self.ends, -1)], axis=-1)

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it."""
        return (np.reshape(action, self.shape) + self.start).astype(self.dtype)

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        return (np.asarray(action) - self.start).ravel()

    def log_probability(self, logits: torch.Tensor, log_std: Any, actions: torch.Tensor) -> torch.Tensor:
        """Log probabilities of actions: the sums over their parts."""
        chosen = actions.long().unsqueeze(-1).unbind(-2)
        parts = zip(self._logs(logits), chosen, strict=True)
        return torch.stack([log_p.gather(-1, index).squeeze(-1) for log_p, index in parts]).sum(0)

    def entropy(self, logits: torch.Tensor, log_std: Any) -> torch.Tensor:
        """Entropies: the sums over the parts, which are independent."""
        return torch.stack([_entropy(log_p) for log_p in self._logs(logits)]).sum(0)

    def divergence(self, old: torch.Tensor, old_std: Any, new: torch.Tensor, new_std: Any) -> torch.Tensor:
        """Kullback-Leibler divergences of the old from the new distributions."""
        parts = zip(self._logs(old), self._logs(new), strict=True)
        return torch.stack([_divergence(old_log, new_log) for old_log, new_log in parts]).sum(0)

    def _logs(self, logits: torch.Tensor) -> list[torch.Tensor]:
        """The log probabilities of each part."""
        return [torch.log_softmax(part, -1) for part in logits.split(self.sizes, -1)]


class Gaussian:
    """Independent normal numbers, by means and free log standard deviations; clipped to the bounds of the space."""

    is_continuous = True
    sizes = None

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        self.shape = space.shape
        self.outputs = int(np.prod(space.shape))
        self.low, self.high = space.low, space.high
        self.dtype: Any = np.float32

    def draw(self, means: np.ndarray, log_std: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions and their log densities, one for each row."""
        noise = rng.standard_normal(means.shape).astype(np.float32)
        actions = means + np.exp(log_std) * noise
        log_density = -0.5 * (noise**2).sum(-1) - log_std.sum() - 0.5 * math.log(2 * math.pi) * means.shape[-1]
        return actions, log_density

    def greedy(self, means: np.ndarray) -> np.ndarray:
        """The means."""
        return means

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it."""
        return np.clip(np.reshape(action, self.shape), self.low, self.high)

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        return np.asarray(action, np.float32).ravel()

    def log_probability(self, means: torch.Tensor, log_std: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Log densities of actions."""
        noise = (actions - means) * torch.exp(-log_std)
        constant = 0.5 * math.log(2 * math.pi) * means.shape[-1]
        return -0.5 * (noise**2).sum(-1) - log_std.sum() - constant

    def entropy(self, means: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
        """Entropies."""
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand(means.shape[0])

    def divergence(
        self, old: torch.Tensor, old_std: torch.Tensor, new: torch.Tensor, new_std: torch.Tensor
    ) -> torch.Tensor:
        """Kullback-Leibler divergences of the old from the new distributions."""
        ratio = torch.exp(2 * (old_std - new_std))
        return (new_std - old_std + 0.5 * (ratio + ((old - new) * torch.exp(-new_std)) ** 2 - 1)).sum(-1)


def distribution_of(space: gymnasium.Space[Any]) -> Categorical | MultiCategorical | Gaussian:
    """The distribution of actions in a space.

    Raises:
        NotImplementedError: a space other than Discrete, MultiDiscrete and Box.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return Categorical(space)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return MultiCategorical(space)
    if isinstance(space, gymnasium.spaces.Box):
        return Gaussian(space)
    raise NotImplementedError(
        f"zray.rllib has actions of Discrete, MultiDiscrete and Box spaces, not of {type(space).__name__} yet.  "
        "Flatten the space in a wrapper of the environment."
    )
