"""Distributions of actions: drawn with numpy where environments run, differentiated with torch where a learner runs."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch

from .boxes import BoxActions
from .masks import LOWEST

__all__ = ["Categorical", "Gaussian", "Joint", "MultiCategorical", "distribution_of", "rows_to_environment"]

# Values of all numbers of an integer Box, at most, for which each value has an output of the model.
VALUES_MAX = 1024


def _entropy(log_p: torch.Tensor) -> torch.Tensor:
    """Entropies; an action of probability 0 adds 0, where 0 times minus infinity is NaN."""
    return -(log_p.exp() * log_p.clamp(min=LOWEST)).sum(-1)


def _divergence(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Divergences of log probabilities; an action that had probability 0 adds 0."""
    return (old.exp() * (old.clamp(min=LOWEST) - new.clamp(min=LOWEST))).sum(-1)


class Categorical:
    """A choice of n actions, by logits."""

    is_continuous = False

    def __init__(self, space: gymnasium.spaces.Discrete) -> None:
        self.start, self.outputs = int(space.start), int(space.n)
        self.shape: tuple[int, ...] = ()
        self.dtype: Any = np.int64
        self.sizes, self.width = [self.outputs], 1

    def draw(self, logits: np.ndarray, log_std: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions and their log probabilities, one for each row.  Gumbel's trick: one number for each logit."""
        noise = rng.random(logits.shape)  # computed in place: a step of 16 environments waits for each call of numpy
        np.log(np.negative(np.log(noise, out=noise), out=noise), out=noise)
        actions = np.subtract(logits, noise, out=noise).argmax(axis=-1)
        shifted = logits - np.maximum.reduce(logits, axis=-1, keepdims=True)
        chosen = shifted[np.arange(len(actions)), actions]
        return actions, chosen - np.log(np.add.reduce(np.exp(shifted, out=shifted), axis=-1))

    def greedy(self, logits: np.ndarray) -> np.ndarray:
        """The most likely actions."""
        return np.asarray(logits.argmax(axis=-1))

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it."""
        return int(action) + self.start

    def rows_to_environment(self, actions: np.ndarray) -> list[int]:
        """Actions of several environments, one for each row."""
        found: list[int] = (actions + self.start).tolist()
        return found

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
    """Several independent actions, each with a number of its own, by consecutive logits."""

    is_continuous = False

    def __init__(self, space: Any) -> None:
        dtype: Any = space.dtype
        start: Any
        if isinstance(space, gymnasium.spaces.MultiBinary):
            counts, start = np.full(space.shape, 2), np.zeros(space.shape, np.int64)
        elif isinstance(space, gymnasium.spaces.Box):
            start = np.asarray(space.low, np.int64)
            counts = np.asarray(space.high, np.int64) - start + 1
        else:
            counts, start = space.nvec, np.array(space.start)
        self.sizes = [int(size) for size in np.ravel(counts)]
        self.outputs, self.width = sum(self.sizes), len(self.sizes)
        self.ends = np.cumsum(self.sizes)[:-1].tolist()
        self.start, self.shape, self.dtype = start, counts.shape, dtype

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
    """Independent normal numbers, by means and free log standard deviations.

    Args:
        space, normalize, clip: see BoxActions.
    """

    is_continuous = True
    sizes = None

    def __init__(self, space: gymnasium.spaces.Box, normalize: bool = True, clip: bool = True) -> None:
        self.shape = space.shape
        self.outputs = self.width = int(np.prod(space.shape))
        self.to_environment = BoxActions(space, normalize, clip)
        self.rows_to_environment = self.to_environment.of_rows
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

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        return self.to_environment.numbers(action)

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


class Joint:
    """Independent parts of a Tuple or Dict action: outputs and numbers of the parts are one behind another.

    Args:
        space: of the actions.
        options: of the parts, for `distribution_of`.
    """

    def __init__(self, space: gymnasium.spaces.Tuple | gymnasium.spaces.Dict, **options: Any) -> None:
        self.names = list(space.spaces) if isinstance(space, gymnasium.spaces.Dict) else None
        spaces = list(space.spaces.values()) if isinstance(space, gymnasium.spaces.Dict) else list(space.spaces)
        self.parts = [distribution_of(each, **options) for each in spaces]
        self.is_continuous = any(part.is_continuous for part in self.parts)
        self.sizes = None if self.is_continuous else [size for part in self.parts for size in part.sizes]
        self.outputs, self.width = sum(part.outputs for part in self.parts), sum(part.width for part in self.parts)
        self.dtype: Any = np.float32
        ends, columns = np.cumsum([[part.outputs, part.width] for part in self.parts], axis=0).T.tolist()
        self._outputs = [slice(end - part.outputs, end) for end, part in zip(ends, self.parts, strict=True)]
        self._columns: list[Any] = [
            end - 1 if isinstance(part, Categorical) else slice(end - part.width, end)
            for end, part in zip(columns, self.parts, strict=True)
        ]

    def _each(self, parameters: Any, log_std: Any) -> list[tuple[Any, Any, Any]]:
        """Each part, with its outputs and log standard deviations."""
        return [
            (part, parameters[..., own], log_std[..., own] if part.is_continuous else None)
            for part, own in zip(self.parts, self._outputs, strict=True)
        ]

    def draw(self, parameters: np.ndarray, log_std: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Actions, a row of numbers for each row, and their log probabilities."""
        found = [part.draw(own, std, rng) for part, own, std in self._each(parameters, log_std)]
        return self._row([actions for actions, _ in found]), np.sum([logs for _, logs in found], axis=0)

    def greedy(self, parameters: np.ndarray) -> np.ndarray:
        """The most likely actions."""
        return self._row(
            [part.greedy(parameters[..., own]) for part, own in zip(self.parts, self._outputs, strict=True)]
        )

    def _row(self, actions: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([each.reshape(len(each), -1) for each in actions], axis=1).astype(np.float32)

    def to_environment(self, action: Any) -> Any:
        """An action as the environment takes it: a tuple, or a dict."""
        found = tuple(part.to_environment(action[own]) for part, own in zip(self.parts, self._columns, strict=True))
        return found if self.names is None else dict(zip(self.names, found, strict=True))

    def from_environment(self, action: Any) -> Any:
        """An action of the environment as the distribution has it."""
        own = action if self.names is None else [action[name] for name in self.names]
        found = [np.ravel(part.from_environment(each)) for part, each in zip(self.parts, own, strict=True)]
        return np.concatenate(found).astype(np.float32)

    def log_probability(self, parameters: torch.Tensor, log_std: Any, actions: torch.Tensor) -> torch.Tensor:
        """Log probabilities of actions: the sums over their parts."""
        parts = zip(self._each(parameters, log_std), self._columns, strict=True)
        found = [part.log_probability(own, std, actions[..., place]) for (part, own, std), place in parts]
        return torch.stack(found).sum(0)

    def entropy(self, parameters: torch.Tensor, log_std: Any) -> torch.Tensor:
        """Entropies: the sums over the parts."""
        return torch.stack([part.entropy(own, std) for part, own, std in self._each(parameters, log_std)]).sum(0)

    def divergence(self, old: torch.Tensor, old_std: Any, new: torch.Tensor, new_std: Any) -> torch.Tensor:
        """Kullback-Leibler divergences of the old from the new distributions: the sums over the parts."""
        parts = zip(self._each(old, old_std), self._each(new, new_std), strict=True)
        found = [part.divergence(first, before, second, after) for (part, first, before), (_, second, after) in parts]
        return torch.stack(found).sum(0)


def distribution_of(space: gymnasium.Space[Any], normalize: bool = True, clip: bool = True) -> Any:
    """The distribution of actions in a space.

    Args:
        space: of the actions.
        normalize, clip: of Box actions, see BoxActions.

    Raises:
        NotImplementedError: the space is of another kind.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return Categorical(space)
    if isinstance(space, (gymnasium.spaces.MultiDiscrete, gymnasium.spaces.MultiBinary)) or _has_few_values(space):
        return MultiCategorical(space)
    if isinstance(space, gymnasium.spaces.Box):
        return Gaussian(space, normalize, clip)
    if isinstance(space, (gymnasium.spaces.Tuple, gymnasium.spaces.Dict)):
        return Joint(space, normalize=normalize, clip=clip)
    raise NotImplementedError(
        "zray.rllib has actions of Discrete, MultiDiscrete, MultiBinary and Box spaces, and Tuple and Dict of these, "
        f"not of {type(space).__name__} yet.  Give the space another form in a wrapper of the environment."
    )


def _has_few_values(space: Any) -> bool:
    """Whether a space is a Box of integers with few enough values for an output each."""
    if not isinstance(space, gymnasium.spaces.Box) or not np.issubdtype(space.dtype, np.integer):
        return False
    return float((space.high.astype(np.float64) - space.low + 1).sum()) <= VALUES_MAX


def rows_to_environment(distribution: Any, actions: np.ndarray) -> list[Any]:
    """Actions as environments take them, one for each row; some distributions have one call for all rows."""
    together = getattr(distribution, "rows_to_environment", None)
    found: list[Any] = together(actions) if together is not None else list(map(distribution.to_environment, actions))
    return found
