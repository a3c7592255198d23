"""Environments of a checkpoint beside those of the algorithm that takes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .environments import name_of

__all__ = ["differing"]

# Options that make other environments, so that those of a checkpoint do not fit.
OPTIONS = ("env", "env_config", "horizon", "num_groups", "num_envs_per_env_runner")
_PLAIN = (bool, int, float, str, bytes, type(None))


def differing(saved: Any, own: Any) -> list[str]:
    """The options by which the environments of a checkpoint are others than those of an algorithm.

    Args:
        saved: the configuration of the checkpoint.
        own: the configuration of the algorithm.
    """
    return [name for name in OPTIONS if name in saved and name in own and _differs(saved[name], own[name])]


def _differs(left: Any, right: Any) -> bool:
    """Whether two values are surely not the same; objects that cannot be compared count as the same."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() != right.keys() or any(_differs(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) != len(right) or any(map(_differs, left, right))
    if isinstance(left, (np.ndarray, np.generic)) or isinstance(right, (np.ndarray, np.generic)):
        return not np.array_equal(left, right)
    if isinstance(left, _PLAIN) or isinstance(right, _PLAIN):
        is_nan = all(isinstance(each, float) and math.isnan(each) for each in (left, right))
        return not is_nan and bool(left != right)
    if callable(left) and callable(right):  # a class of a program is another object in the next one
        return name_of(left) != name_of(right)
    return False
