"""Filters of observations: normalisation by running mean and standard deviation."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["MeanStdFilter", "NoFilter", "filter_of"]


class NoFilter:
    """Observations as they are."""

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        return observations

    def merge(self, others: list[Any]) -> None:
        """Do nothing: no statistics are there to merge."""

    def fresh(self) -> NoFilter:
        """A filter that has seen nothing since."""
        return self

    def observe(self, observations: np.ndarray) -> None:
        """Do nothing: no statistics are learnt."""


class MeanStdFilter:
    """(x - mean) / (std + epsilon), clipped to [-10, 10].

    The statistics are fixed during a rollout.  Each group counts observations in a filter of its own, and the learner
    merges these in the order of the groups: the result does not depend on the number of processes.

    Chan et al., "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
    """

    kept: slice | None = None  # columns that stay as they are: the mask of actions
    _width: np.ndarray | None = None  # std + epsilon; None: the counts have changed since

    def __init__(self, shape: tuple[int, ...], kept: slice | None = None) -> None:
        self.count, self.kept = 0.0, kept
        self.mean = np.zeros(shape)
        self.squares = np.zeros(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_width"}

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        if self.count < 2:
            return observations.astype(np.float32)
        if self._width is None:  # once in a rollout: its statistics are fixed
            self._width = np.sqrt(self.squares / (self.count - 1)) + 1e-8
        found = (observations - self.mean) / self._width
        # np.clip takes longer than both of these.
        found = np.minimum(np.maximum(found, -10.0, out=found), 10.0, out=found).astype(np.float32)
        if self.kept is not None:
            found[..., self.kept] = observations[..., self.kept]
        return found

    def observe(self, observations: np.ndarray) -> None:
        """Count a batch."""
        count = float(len(observations))
        mean = observations.mean(axis=0, dtype=np.float64)
        squares = ((observations - mean) ** 2).sum(axis=0)
        self._add(count, mean, squares)

    def _add(self, count: float, mean: np.ndarray, squares: np.ndarray) -> None:
        total = self.count + count
        delta = mean - self.mean
        self.squares = self.squares + squares + delta**2 * (self.count * count / total)
        self.mean = self.mean + delta * (count / total)
        self.count, self._width = total, None

    def merge(self, others: list[MeanStdFilter]) -> None:
        """Add the counts of others, in order."""
        for other in others:
            if other.count:
                self._add(other.count, other.mean, other.squares)

    def fresh(self) -> MeanStdFilter:
        """A filter of the same shape that has counted nothing."""
        return MeanStdFilter(self.mean.shape, self.kept)


def filter_of(name: str, shape: tuple[int, ...], kept: slice | None = None) -> Any:
    """The filter of this name: "NoFilter" or "MeanStdFilter".

    Raises:
        ValueError: no filter has the name.
    """
    if name == "MeanStdFilter":
        return MeanStdFilter(shape, kept)
    if name == "NoFilter":
        return NoFilter()
    raise ValueError(f'observation_filter is "NoFilter" or "MeanStdFilter", not {name!r}.')
