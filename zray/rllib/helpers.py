"""Small functions that programs import from rllib.utils: decorators, dicts, a few functions of arrays."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "DEPRECATED_VALUE",
    "Deprecated",
    "DeveloperAPI",
    "ExperimentalAPI",
    "LARGE_INTEGER",
    "MAX_LOG_NN_OUTPUT",
    "MIN_LOG_NN_OUTPUT",
    "NotProvided",
    "OldAPIStack",
    "OverrideToImplementCustomLogic",
    "PublicAPI",
    "SMALL_NUMBER",
    "add_mixins",
    "check_learning_achieved",
    "deep_update",
    "deprecation_warning",
    "explained_variance",
    "force_list",
    "merge_dicts",
    "override",
    "relu",
    "sigmoid",
    "softmax",
]


# Values that programs compare with, or take as limits.
DEPRECATED_VALUE = -1
SMALL_NUMBER, LARGE_INTEGER = 1e-6, 100_000_000
MIN_LOG_NN_OUTPUT, MAX_LOG_NN_OUTPUT = -5, 2


class NotProvided:
    """The value of an argument that was not given."""


def _mark(value: Any = None, **options: Any) -> Any:
    """A decorator without effect, with or without arguments."""
    if value is None or isinstance(value, str):
        return lambda marked: marked
    return value


PublicAPI = DeveloperAPI = ExperimentalAPI = OldAPIStack = OverrideToImplementCustomLogic = _mark


def Deprecated(old: Any = None, **options: Any) -> Any:
    """A decorator without effect."""
    return _mark(old, **options)


def override(parent_cls: Any) -> Callable[[Any], Any]:
    """A decorator for methods that replace one of the parent class.

    Raises:
        NameError: the parent class has no such method.
    """

    def check(method: Any) -> Any:
        if isinstance(parent_cls, type) and not hasattr(parent_cls, method.__name__):
            raise NameError(f"{method.__name__} overrides no method of {parent_cls.__name__}.")
        return method

    return check


def deprecation_warning(old: str, new: str | None = None, *, error: Any = None, **options: Any) -> None:
    """Warn that a name is of the past.

    Raises:
        ValueError: `error` is True.
    """
    text = f"{old} is deprecated." + (f"  Use {new}." if new else "")
    if error:
        raise ValueError(text) if error is True else error(text)
    warnings.warn(text, DeprecationWarning, stacklevel=2)


def deep_update(original: dict[str, Any], new_dict: Mapping[str, Any], *args: Any, **options: Any) -> dict[str, Any]:
    """Update a dict in place, and the dicts in it too."""
    for key, value in new_dict.items():
        if isinstance(value, Mapping) and isinstance(original.get(key), dict):
            deep_update(original[key], value)
        else:
            original[key] = value
    return original


def merge_dicts(d1: Mapping[str, Any], d2: Mapping[str, Any]) -> dict[str, Any]:
    """A new dict of two, whose inner dicts are merged too."""
    return deep_update(copy.deepcopy(dict(d1)), d2)


def force_list(elements: Any = None, to_tuple: bool = False) -> Any:
    """A list of what may be one value or several."""
    each = [] if elements is None else list(elements) if isinstance(elements, (list, tuple, set)) else [elements]
    return tuple(each) if to_tuple else each


def add_mixins(base: type, mixins: list[type], reversed: bool = False) -> type:
    """A class of a base and of mixins, which come first."""
    return type(base.__name__, (*mixins, base), {})


def softmax(x: Any, axis: int = -1) -> np.ndarray:
    """exp(x) / sum of exp(x), along an axis."""
    shifted = np.exp(np.asarray(x) - np.max(x, axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def sigmoid(x: Any) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(x))))


def relu(x: Any, alpha: float = 0.0) -> np.ndarray:
    """x where it is positive, alpha * x elsewhere."""
    return np.maximum(np.asarray(x), np.asarray(x) * alpha)


def explained_variance(y: Any, pred: Any) -> float:
    """1 - var(y - pred) / var(y), at least -1."""
    return max(-1.0, 1.0 - float(np.var(np.asarray(y) - np.asarray(pred)) / max(float(np.var(y)), 1e-12)))


def check_learning_achieved(tune_results: Any, min_value: float, evaluation: bool = False, **options: Any) -> None:
    """Check that a trial has reached a mean return.

    Raises:
        ValueError: none has.
    """
    trials = getattr(tune_results, "trials", None) or list(tune_results)
    best = -float("inf")
    for trial in trials:
        own = getattr(trial, "latest_result", None) or getattr(trial, "last_result", None)
        found = [own] if own else [trial.metrics] if not evaluation else trial.rows()
        if evaluation:  # not every result has one
            found = [result["evaluation"] for result in found if result.get("evaluation")]
        best = max(best, found[-1].get("episode_reward_mean", best)) if found else best
    if best < min_value:
        raise ValueError(f"The largest mean return is {best}, which is below {min_value}.")
