"""The file of a checkpoint with the weights and filters: msgpack with the arrays of msgpack-numpy.

It runs no code when it is read, by this module or by another program:

    msgpack.unpackb(data, object_hook=msgpack_numpy.decode)

The file is a dict by policy; each has "weights", arrays by name, and "filter", the numbers of the observation filter.
A restore reads both from here, also where another program has changed them.  The pickle beside it has the rest: filters
without their numbers, optimisers, target networks, replay, environments, random states.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack
import msgpack_numpy
import numpy as np

__all__ = ["FILE", "blanks", "check_finite_parts", "read_modules", "read_weights", "write_weights"]

FILE = "module_state.msgpack"
ADVICE = "Start from an earlier checkpoint, or copy the file from where this one was saved."


class Blank(NamedTuple):
    """A filter as the pickle has it: without its numbers, and with the shape of each."""

    form: Any
    shapes: dict[str, tuple[int, ...]]


def _numbers_of(observation_filter: Any) -> dict[str, Any]:
    facts = getattr(observation_filter, "__dict__", {})
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, (float, np.ndarray)) and not name.startswith("_")
    }


def blanks(observation_filter: Any) -> Any:
    """The `Blank` of a filter; of filters by policy: a dict of them."""
    if isinstance(observation_filter, dict):
        return {name: blanks(each) for name, each in observation_filter.items()}
    form, numbers = copy.copy(observation_filter), _numbers_of(observation_filter)
    for name in numbers:
        delattr(form, name)
    return Blank(form, {name: np.shape(value) for name, value in numbers.items()})


def write_weights(folder: str, weights: Mapping[str, Any], filters: Mapping[str, Any]) -> None:
    """Write the file into the folder of a checkpoint.

    Args:
        weights: arrays by policy and name.
        filters: the filter of each policy.
    """
    state = {}
    for name, own in weights.items():
        arrays = {key: np.asarray(value) for key, value in own.items()}
        state[name] = {"weights": arrays, "filter": _numbers_of(filters[name])}
    with open(os.path.join(folder, FILE), "wb") as file:
        file.write(msgpack.packb(state, default=_encoded))


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        raise TypeError(
            f"get_weights of a policy gives arrays of numbers by name, and one is of objects: {value!r:.80}.  Convert "
            "it to numbers."
        )
    return msgpack_numpy.encode(value)


def _decoded(value: dict[Any, Any]) -> Any:
    if value.get(b"kind") == b"O":
        raise ValueError("an array of objects, which is a pickle, and may run code")
    found = msgpack_numpy.decode(value)
    return np.array(found) if isinstance(found, np.ndarray) else found  # that can be written to


def _content_of(path: Any) -> dict[Any, dict[str, dict[str, Any]]]:
    """The content of the file: "weights" and "filter" by policy.

    Args:
        path: the folder of the checkpoint, or the file in it.

    Raises:
        FileNotFoundError: the checkpoint has no such file.
        ValueError: the file is damaged, or another program's.
    """
    place = os.fspath(getattr(path, "path", path))
    if os.path.isdir(place):
        place = os.path.join(place, FILE)
    try:
        with open(place, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The file {place} with the weights of a checkpoint does not exist.  {ADVICE}"
        ) from None
    try:
        state = msgpack.unpackb(data, object_hook=_decoded, strict_map_key=False, use_list=False)
        found = {}
        for name, own in state.items():
            weights = {key: np.array(value) for key, value in own["weights"].items()}
            found[name] = {"weights": weights, "filter": dict(own.get("filter", {}))}
            for key, value in (*weights.items(), *found[name]["filter"].items()):
                if np.asarray(value).dtype.kind not in "biufc":
                    raise ValueError(f"{key} of {name!r} is no array of numbers")
        return found
    except Exception as error:
        raise ValueError(
            f"The file {place} is damaged, or holds no weights of a checkpoint: {type(error).__name__}: {error}.  "
            f"{ADVICE}"
        ) from error


def read_weights(path: Any) -> dict[Any, dict[str, np.ndarray]]:
    """The weights of a checkpoint, by policy and name, as `algo.learner_group.set_weights` takes them.

    Args:
        path: the folder of the checkpoint, or the file in it.

    Raises:
        FileNotFoundError: the checkpoint has no such file.
        ValueError: the file is damaged, or another program's.
    """
    return {name: own["weights"] for name, own in _content_of(path).items()}


def read_modules(folder: str, blank: Any) -> tuple[Any, Any]:
    """The weights and the filters of the checkpoint in a folder, each by policy if `blank` is.

    Args:
        blank: of `blanks`.

    Raises:
        FileNotFoundError: the checkpoint has no such file.
        ValueError: the file is damaged, or has other policies or other numbers of filters than the checkpoint.
    """
    content = _content_of(folder)
    by_policy = blank if isinstance(blank, dict) else {"default_policy": blank}
    wrong = ""
    if set(content) != set(by_policy):
        wrong = f"holds the policies {_listed(content)}, where the checkpoint has {_listed(by_policy)}"
    filters = {}
    for name in by_policy if not wrong else ():
        numbers, own = content[name]["filter"], by_policy[name]
        shapes = {key: np.shape(value) for key, value in numbers.items()}
        if shapes != own.shapes:
            wrong = f"is damaged: the filter of {name!r} has {_shown(shapes)}, not {_shown(own.shapes)}"
        filters[name] = copy.copy(own.form)
        for key, value in numbers.items():
            setattr(filters[name], key, value)
    if wrong:
        raise ValueError(f"The file {os.path.join(folder, FILE)} {wrong}.  {ADVICE}")
    weights = {name: each["weights"] for name, each in content.items()}
    return (weights, filters) if isinstance(blank, dict) else (*weights.values(), *filters.values())


def check_finite_parts(path: str, name: str, policy: Any, weights: Mapping[str, Any], observation_filter: Any) -> None:
    """Refuse NaN and infinity in what a policy is to learn from or to compute with.

    Buffers, parameters that are not trained, and infinity where the policy has it too count as part of the model: masks
    hold minus infinity.

    Args:
        path: the file of the weights, for the error.
        name: of the policy.

    Raises:
        ValueError: names file, policy and parameter.
    """
    own, trained = policy.get_weights(), policy.trained_names()
    wrong = [
        f"parameter {key!r}"
        for key, value in weights.items()
        if key in trained and not np.all(np.isfinite(value) | (np.isinf(value) & (np.asarray(value) == own[key])))
    ]
    numbers = _numbers_of(observation_filter)
    wrong += [f"filter's {key!r}" for key, value in numbers.items() if not np.isfinite(value).all()]
    if wrong:
        more = f", and in {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise ValueError(f"The file {path} holds NaN or infinity in the {wrong[0]} of policy {name!r}{more}.  {ADVICE}")


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"


def _shown(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "no numbers"
