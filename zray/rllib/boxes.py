"""Actions of Box spaces: the numbers of a policy, scaled to the bounds."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

__all__ = ["BoxActions"]


class BoxActions:
    """Numbers of a policy as actions of a Box: -1 is the lower bound and 1 the upper one.

    Args:
        space: whose bounds are taken; of integers, actions are rounded.
        normalize: whether actions are scaled, where all bounds are finite.
        clip: whether actions that are not scaled are clipped to the bounds.
    """

    def __init__(self, space: gymnasium.spaces.Box, normalize: bool = True, clip: bool = True) -> None:
        self.shape, self.dtype, self.low, self.high = space.shape, space.dtype, space.low, space.high
        self.clips, self.is_whole = clip, np.issubdtype(space.dtype, np.integer)
        self.half: Any = None  # of the width; None: actions are not scaled
        if normalize and space.is_bounded("both"):
            half = (space.high.astype(np.float64) - space.low) / 2
            # Bounds that stand for none are no bounds; with -1 and 1 there is nothing to do.
            if half.max(initial=0.0) < 1e30 and not ((space.low == -1).all() and (space.high == 1).all()):
                self.half = half

    def __call__(self, numbers: Any) -> np.ndarray:
        """An action as the environment takes it."""
        return self._scaled(np.asarray(numbers).reshape(self.shape))

    def of_rows(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Actions of several environments, one for each row: a call of numpy costs as much for one as for all."""
        actions = self._scaled(np.reshape(numbers, (len(numbers), *self.shape)))
        return [actions[row, ...] for row in range(len(actions))]

    def _within(self, action: Any) -> Any:
        """Clip an action to the bounds: np.clip takes longer than a step of many environments."""
        return np.minimum(np.maximum(action, self.low), self.high)

    def _scaled(self, action: Any) -> np.ndarray:
        if self.half is not None:
            action = self._within(self.low + (action + 1.0) * self.half)
            return np.asarray((np.rint(action) if self.is_whole else action).astype(self.dtype))
        if self.clips or self.is_whole:
            action = self._within(action)
        return np.asarray(np.rint(action).astype(self.dtype) if self.is_whole else action)

    def numbers(self, action: Any) -> np.ndarray:
        """The numbers of a policy that stand for an action: the reverse of the scaling."""
        found = np.asarray(action, np.float64)
        if self.half is not None:
            width = np.where(self.half > 0, self.half, 1.0)
            found = np.where(self.half > 0, (found - self.low) / width - 1.0, 0.0)
        return np.asarray(found, np.float32).ravel()
