"""Masks of actions: the part "action_mask" of a Dict observation says which actions are possible.

The outputs of the model for other actions are the lowest number of 32 bits: they are never drawn, and count neither in
entropies nor in divergences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from .environments import MASK

if TYPE_CHECKING:
    import torch

__all__ = ["LOWEST", "ActionMask", "is_masked", "mask_of"]

LOWEST = float(np.finfo(np.float32).min)


def is_masked(outputs: np.ndarray) -> np.ndarray:
    """Whether an output is of an action that is not possible: the lowest number, or minus infinity."""
    return np.asarray(outputs <= LOWEST / 2)


class ActionMask:
    """The mask in rows of flat observations.

    Args:
        begin: the first of its columns.
        sizes: actions, of each part of a MultiDiscrete space.
        is_kept: whether the model reads the mask too.
    """

    def __init__(self, begin: int, sizes: list[int], is_kept: bool) -> None:
        self.sizes, self.is_kept = sizes, is_kept
        self.columns = slice(begin, begin + sum(sizes))

    @property
    def width(self) -> int:
        """Columns that the model does not read."""
        return 0 if self.is_kept else sum(self.sizes)

    def inputs(self, rows: Any) -> Any:
        """The columns of rows that the model reads; rows are numpy arrays or tensors."""
        if self.is_kept:
            return rows
        if isinstance(rows, np.ndarray):
            return np.delete(rows, self.columns, axis=1)
        import torch

        return torch.cat((rows[:, : self.columns.start], rows[:, self.columns.stop :]), 1)

    def apply(self, outputs: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the outputs, with the lowest number for impossible actions.

        A mask that allows nothing, as games give behind their end, changes nothing.
        """
        import torch  # evolution does without

        parts = []
        for allowed in (rows[:, self.columns] > 0).split(self.sizes, -1):
            parts.append(allowed | ~allowed.any(-1, keepdim=True))
        return torch.where(torch.cat(parts, -1), outputs, torch.full_like(outputs, LOWEST))

    def nothing_allowed(self, rows: np.ndarray) -> int | None:
        """Return the first row with a mask that allows no action; None: no such row."""
        ends = np.cumsum(self.sizes)[:-1]
        parts = [each.any(axis=-1) for each in np.split(rows[:, self.columns] > 0, ends, axis=-1)]
        are_good = np.stack(parts).all(axis=0)
        return None if are_good.all() else int(np.argmin(are_good))


def mask_of(space: gymnasium.Space[Any], sizes: list[int] | None, is_custom: bool) -> ActionMask | None:
    """The mask in the observations of a space; None: it has none.

    Args:
        sizes: actions, of each part; None: the actions are not discrete.
        is_custom: whether the model is the program's own, which reads observations in their structure.

    Raises:
        ValueError: the mask has another size than the actions.
    """
    if sizes is None or not isinstance(space, gymnasium.spaces.Dict) or MASK not in space.spaces:
        return None
    begin, size = 0, int(gymnasium.spaces.flatdim(space.spaces[MASK]))
    for name, part in space.spaces.items():
        if name == MASK:
            break
        begin += int(gymnasium.spaces.flatdim(part))
    if size != sum(sizes):
        if is_custom:
            return None  # the model knows what it is
        raise ValueError(
            f"The action_mask of the observation space has {size} numbers, and there are {sum(sizes)} actions: give "
            "one number for each action, 1 where it is possible and 0 where not."
        )
    return ActionMask(begin, sizes, is_custom or size == int(gymnasium.spaces.flatdim(space)))
