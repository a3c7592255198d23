"""The file of a checkpoint with weights and filters alone: msgpack with the arrays of msgpack-numpy.

It runs no code when it is read, by this module or by another program:

    msgpack.unpackb(data, object_hook=msgpack_numpy.decode)

The file is a dict by policy; each has "weights", arrays by name, and "filter", the numbers of the observation filter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgpack
import msgpack_numpy
import numpy as np

__all__ = ["FILE", "read_weights", "write_weights"]

FILE = "module_state.msgpack"


def write_weights(folder: str, weights: Mapping[str, Any], filters: Mapping[str, Any]) -> None:
    """Write the file into the folder of a checkpoint.

    Args:
        weights: arrays by policy and name.
        filters: the filter of each policy.
    """
    state = {}
    for name, own in weights.items():
        facts = getattr(filters[name], "__dict__", {})
        numbers = {key: value for key, value in facts.items() if isinstance(value, (float, np.ndarray))}
        arrays = {key: np.ascontiguousarray(value) for key, value in own.items()}
        state[name] = {"weights": arrays, "filter": numbers}
    with open(os.path.join(folder, FILE), "wb") as file:
        file.write(msgpack.packb(state, default=msgpack_numpy.encode))


def read_weights(path: Any) -> dict[str, dict[str, np.ndarray]]:
    """The weights of a checkpoint, by policy and name, as `algo.learner_group.set_weights` takes them.

    Args:
        path: the folder of the checkpoint, or the file in it.

    Raises:
        FileNotFoundError: the checkpoint has no such file.
        ValueError: the file is damaged, or another program's.
    """
    place = os.fspath(getattr(path, "path", path))
    if os.path.isdir(place):
        place = os.path.join(place, FILE)
    with open(place, "rb") as file:
        data = file.read()
    try:
        state = msgpack.unpackb(data, object_hook=msgpack_numpy.decode)
        return {name: {key: np.array(value) for key, value in own["weights"].items()} for name, own in state.items()}
    except Exception as error:
        raise ValueError(
            f"The file {place} is damaged, or holds no weights of a checkpoint: {type(error).__name__}: {error}.  "
            "Take the weights of an earlier checkpoint, or of the algorithm: Algorithm.from_checkpoint(folder)."
        ) from error
