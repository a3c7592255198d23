"""Results of an earlier experiment, from its folder: the start of a new search."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["FormerTrial", "flat_config", "former_trials"]


class FormerTrial(NamedTuple):
    """A trial of an earlier experiment.

    config: its parameters.  results: all of them, in order.
    """

    config: dict[str, Any]
    results: list[dict[str, Any]]


def former_trials(path: str) -> list[FormerTrial]:
    """Return the trials in the folder of an experiment, by their folders' names, without failed trials.

    Args:
        path: the folder of an experiment of zray or of Ray; each trial's folder has a result.json.

    Raises:
        ValueError: no trial with results is there.
    """
    path = os.path.abspath(os.path.expanduser(os.fspath(path)))
    found = []
    for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
        file = os.path.join(path, name, "result.json")
        if os.path.exists(file) and not os.path.exists(os.path.join(path, name, "error.txt")):
            results = _lines(file)
            if results:
                found.append(FormerTrial(dict(results[-1].get("config") or {}), results))
    if not found:
        raise ValueError(f"points_from={path!r} holds no trial with results: name the folder of an experiment.")
    return found


def _lines(path: str) -> list[dict[str, Any]]:
    results = []
    with open(path) as file:
        for line in file:
            try:
                results.append(json.loads(line))
            except ValueError:  # the last line of a program that was killed
                break
    return results


def flat_config(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The parameters by their path, as "net/width"."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat.update(flat_config(value, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
