"""Functions of spaces and their values that programs import from rllib.utils.spaces.space_utils."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from .environments import InvalidEnvironmentError

__all__ = [
    "OutsideSpace",
    "batch",
    "NotFiniteError",
    "check_finite",
    "check_form",
    "clip_action",
    "flat_size",
    "flatten_space",
    "flatten_to_single_ndarray",
    "misfit",
    "normalize_action",
    "holds_no_number",
    "not_finite_in_words",
    "one_hot",
    "unbatch",
    "unsquash_action",
]


class OutsideSpace(InvalidEnvironmentError, ValueError):
    """An observation has a form or a value that its space does not have."""


def flat_size(space: gymnasium.Space[Any]) -> int:
    """Return how many numbers an observation has as one row.

    Raises:
        NotImplementedError: a part of the space has no fixed number of numbers, or letters, whose codes are no numbers.
    """
    for each in flatten_space(space):
        if isinstance(each, (gymnasium.spaces.Text, gymnasium.spaces.Sequence, gymnasium.spaces.Graph)):
            raise NotImplementedError(
                "zray.rllib has observations of Box, Discrete, MultiDiscrete and MultiBinary spaces, and Tuple and "
                f"Dict of these, not of {type(each).__name__} yet.  Turn them into numbers in a wrapper of the "
                "environment."
            )
    return int(gymnasium.spaces.flatdim(space))


def check_finite(rows: np.ndarray, observations: Sequence[Any]) -> None:
    """Look at the observations that a program asks for actions.

    Raises:
        OutsideSpace: one of them holds NaN, infinity, or a number that is too large for float32.
    """
    if not np.isfinite(rows).all():
        number = int(np.argmin(np.isfinite(rows).reshape(len(rows), -1).all(axis=1)))
        which = f" {number} of {len(rows)}" if len(rows) > 1 else ""
        raise OutsideSpace(f"The observation{which} holds {not_finite_in_words(observations[number])}.")


class NotFiniteError(RuntimeError):
    """A loss, a gradient or an output of a model is NaN, or infinite."""


def check_outputs(outputs: np.ndarray) -> None:
    """Look at the outputs of a model, from which actions are taken.

    Raises:
        NotFiniteError: one of them is NaN.  Minus infinity is that of an action that is not possible.
    """
    if np.isnan(outputs).any():
        raise NotFiniteError(
            "The outputs of the model hold NaN, and give no action.  Look at the weights and at the model's layers, or "
            "restore an earlier checkpoint."
        )


def holds_no_number(observation: Any) -> bool:
    """Whether an observation holds NaN, infinity, or a number that is too large for float32.

    One of another form than numbers holds none of these: `check_form` names it.
    """
    try:
        with np.errstate(over="ignore"):
            return not all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in _leaves(observation))
    except (TypeError, ValueError):
        return False


def not_finite_in_words(observation: Any) -> str:
    """Return words for the content of an observation that is not finite in float32."""
    numbers = np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in _leaves(observation)])
    largest = numbers[np.argmax(np.abs(numbers))]  # NaN, if there is one
    is_cast = np.isfinite(largest) and abs(largest) > np.finfo(np.float32).max
    return f"{largest:g}, which is too large for float32" if is_cast else "NaN or infinity"


def misfit(space: gymnasium.Space[Any], value: Any, part: str = "") -> OutsideSpace:
    """The error about an observation, or about a part of one, of another form than its space."""
    try:
        shape = f" of shape {np.shape(value)}"
    except ValueError:  # lists of several lengths
        shape = " without a shape"
    return OutsideSpace(f"The observation{part} is {type(value).__name__}{shape}, where the space is {space}.")


def one_hot(space: gymnasium.Space[Any], observation: Any) -> np.ndarray:
    """An observation as one row, with the discrete parts one-hot.

    Raises:
        OutsideSpace: the observation has other keys, parts or shapes than its space, or a discrete part has a value
            outside of its space.  numpy would count a negative one from the end.
    """
    check_form(space, observation)
    return np.asarray(gymnasium.spaces.flatten(space, observation))


def check_form(space: gymnasium.Space[Any], value: Any, part: str = "") -> None:
    """Compare the form of an observation with its space: keys, lengths and shapes, and the values of discrete parts.

    Args:
        part: of an observation, as "['action_mask']".

    Raises:
        OutsideSpace: names the part.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        if not isinstance(value, Mapping):
            raise misfit(space, value, part)
        if value.keys() != space.spaces.keys():
            missing = [repr(key) for key in space.spaces if key not in value]
            more = [repr(key) for key in value if key not in space.spaces]
            said = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(more)} too"
            raise OutsideSpace(f"The observation{part} {said}, where the space is {space}.")
        for key, each in space.spaces.items():
            check_form(each, value[key], f"{part}[{key!r}]")
    elif isinstance(space, gymnasium.spaces.Tuple):
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(space.spaces):
            raise misfit(space, value, part)
        for number, each in enumerate(space.spaces):
            check_form(each, value[number], f"{part}[{number}]")
    else:
        _check_part(space, value, part)


def _check_part(space: gymnasium.Space[Any], value: Any, part: str) -> None:
    try:
        values = np.asarray(value)
    except ValueError:  # lists of several lengths
        raise misfit(space, value, part) from None
    is_wrong: Any = False
    if isinstance(space, (gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)):
        past: Any = space.start + (space.n if isinstance(space, gymnasium.spaces.Discrete) else space.nvec)
        is_wrong = values.dtype.kind not in "iub" or not np.all((values >= space.start) & (values < past))
        bounds = f": {space.start} to {past - 1}" if np.ndim(past) == 0 else ""
    elif values.dtype.kind not in "iubf" or values.shape != space.shape:
        raise misfit(space, value, part)
    elif isinstance(space, gymnasium.spaces.MultiBinary):
        is_wrong, bounds = not np.all((values == 0) | (values == 1)), ": 0 or 1"
    elif values.dtype.kind == "f" and np.dtype(space.dtype).kind in "iub" and not np.isfinite(values).all():
        is_wrong, bounds = True, ": whole numbers"  # a cast would make some number of NaN
    if is_wrong:
        raise OutsideSpace(f"The observation{part} is {str(value)[:200]}, which is not in {space}{bounds}.")


def flatten_space(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    """The spaces that a Tuple or Dict is made of, at any depth; of another space, the space itself."""
    if isinstance(space, gymnasium.spaces.Dict):
        parts: Iterable[Any] = space.spaces.values()
    elif isinstance(space, gymnasium.spaces.Tuple):
        parts = space.spaces
    else:
        return [space]
    return [each for part in parts for each in flatten_space(part)]


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def flatten_to_single_ndarray(input_: Any) -> np.ndarray:
    """All numbers of nested dicts and tuples, as one row."""
    return np.concatenate([np.asarray(leaf).ravel() for leaf in _leaves(input_)])


def _together(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {key: _together([each[key] for each in values]) for key in first}
    if isinstance(first, tuple):
        return tuple(_together(list(each)) for each in zip(*values, strict=True))
    return np.stack(values)


def batch(list_of_structs: list[Any], **ignored: Any) -> Any:
    """Nested values, one of each step, as one nested value of arrays with a row for each step."""
    return _together(list_of_structs)


def unbatch(batches_struct: Any) -> list[Any]:
    """A nested value of arrays as one nested value for each row."""
    if isinstance(batches_struct, dict):
        parts = {key: unbatch(each) for key, each in batches_struct.items()}
        return [dict(zip(parts, rows, strict=True)) for rows in zip(*parts.values(), strict=True)]
    if isinstance(batches_struct, tuple):
        return list(zip(*(unbatch(each) for each in batches_struct), strict=True))
    return list(batches_struct)


def _mapped(change: Any, action: Any, space: Any) -> Any:
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _mapped(change, action[key], part) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_mapped(change, each, part) for each, part in zip(action, space.spaces, strict=True))
    return change(action, space) if isinstance(space, gymnasium.spaces.Box) else action


def clip_action(action: Any, action_space: Any) -> Any:
    """Actions clipped to the bounds of their Box spaces, at any depth."""
    return _mapped(lambda value, space: np.clip(value, space.low, space.high), action, action_space)


def unsquash_action(action: Any, action_space_struct: Any) -> Any:
    """Actions from -1 to 1 as those between the bounds of their Box spaces, at any depth."""

    def change(value: Any, space: Any) -> Any:
        if not (space.is_bounded("both") and np.issubdtype(space.dtype, np.floating)):
            return value
        part = (np.clip(value, -1.0, 1.0) + 1.0) / 2.0
        return (space.low + part * (space.high - space.low)).astype(space.dtype)

    return _mapped(change, action, action_space_struct)


def normalize_action(action: Any, action_space_struct: Any) -> Any:
    """Actions between the bounds of their Box spaces as those from -1 to 1, at any depth."""

    def change(value: Any, space: Any) -> Any:
        if not (space.is_bounded("both") and np.issubdtype(space.dtype, np.floating)):
            return value
        return ((np.asarray(value) - space.low) * 2.0 / (space.high - space.low) - 1.0).astype(space.dtype)

    return _mapped(change, action, action_space_struct)
