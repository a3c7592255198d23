"""Preprocessors: observations of a space as arrays that a model takes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ...on_import import shadows

__all__ = [
    "DictFlatteningPreprocessor",
    "FlatteningPreprocessor",
    "MultiBinaryPreprocessor",
    "NoPreprocessor",
    "OneHotPreprocessor",
    "Preprocessor",
    "TupleFlatteningPreprocessor",
    "get_preprocessor",
]

shadows.name_absent(__name__)


class Preprocessor:
    """A function of observations, with the space of its results.

    Args:
        obs_space: the space of the observations.
    """

    def __init__(self, obs_space: gymnasium.Space[Any], options: dict[str, Any] | None = None) -> None:
        self._obs_space, self._options = obs_space, options or {}
        self.shape = self._shape()

    def _shape(self) -> tuple[int, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no method _shape.")

    def transform(self, observation: Any) -> np.ndarray:
        """An observation as an array."""
        raise NotImplementedError(f"{type(self).__name__} has no method transform.")

    @property
    def size(self) -> int:
        """The numbers of a transformed observation."""
        return int(np.prod(self.shape))

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The space of transformed observations; its `original_space` is the one before."""
        space = gymnasium.spaces.Box(-np.inf, np.inf, self.shape, np.float32)
        space.original_space = self._obs_space  # type: ignore[attr-defined]
        return space


class NoPreprocessor(Preprocessor):
    """Observations of a Box as they are."""

    def _shape(self) -> tuple[int, ...]:
        return tuple(self._obs_space.shape or ())

    def transform(self, observation: Any) -> np.ndarray:
        return np.asarray(observation)

    @property
    def observation_space(self) -> Any:
        return self._obs_space


class FlatteningPreprocessor(Preprocessor):
    """Observations as one row of numbers: Discrete as one-hot, the parts of Dict and Tuple one behind another."""

    def _shape(self) -> tuple[int, ...]:
        return (int(gymnasium.spaces.flatdim(self._obs_space)),)

    def transform(self, observation: Any) -> np.ndarray:
        row: np.ndarray = np.asarray(gymnasium.spaces.flatten(self._obs_space, observation), dtype=np.float32)
        return row


# Ray has a class for each kind of space.
OneHotPreprocessor = DictFlatteningPreprocessor = TupleFlatteningPreprocessor = FlatteningPreprocessor
MultiBinaryPreprocessor = FlatteningPreprocessor


def get_preprocessor(space: gymnasium.Space[Any]) -> type[Preprocessor]:
    """The class of the preprocessor for a space: `get_preprocessor(space)(space).transform(observation)`."""
    return NoPreprocessor if isinstance(space, gymnasium.spaces.Box) else FlatteningPreprocessor
