"""Helpers of Tune, under Ray's names."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..on_import import shadows
from .trainable import Trainable

__all__ = [
    "deep_update",
    "flatten_dict",
    "merge_dicts",
    "unflatten_dict",
    "validate_save_restore",
    "wait_for_gpu",
]

# `ray.tune.utils.util` and others are found in this module's place.
__path__: list[str] = []


def wait_for_gpu(
    gpu_id: int | str | None = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: int = 5,
    gpu_memory_limit: float | None = None,
) -> bool:
    """Wait until a GPU's memory is free, before a trial uses what another process may still hold.

    Args:
        gpu_id: index or UUID; None: the first one of this trial.
        target_util: the fraction of its memory that may be in use.
        retry: number of looks.
        delay_s: seconds between two of them.

    Returns:
        True.

    Raises:
        RuntimeError: the memory is still in use after the last look, or nvidia-smi does not know the GPU.
    """
    if gpu_id is None:
        import zray

        own = zray.get_gpu_ids()
        if not own:
            raise RuntimeError("This trial has no GPU: ask for one (resources_per_trial, with_resources).")
        gpu_id = own[0]
    share = 0.0
    for look in range(retry):
        share = _used_share(str(gpu_id))
        if share <= target_util:
            return True
        if look < retry - 1:
            time.sleep(delay_s)
    raise RuntimeError(
        f"GPU {gpu_id} still has {share:.0%} of its memory in use after {retry} looks, {delay_s} s apart; wanted: at "
        f"most {target_util:.0%}.  End the process that holds it, or pass a larger target_util."
    )


def _used_share(gpu_id: str) -> float:
    import subprocess

    command = ["nvidia-smi", f"--id={gpu_id}", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except OSError as error:
        raise RuntimeError(f"nvidia-smi, which says how much memory a GPU has in use, cannot be run: {error}") from None
    try:
        used, total = (float(part) for part in output.stdout.strip().split(","))
    except ValueError:
        said = (output.stdout or output.stderr).strip()
        raise RuntimeError(f"nvidia-smi does not say how much memory GPU {gpu_id} has in use: {said}") from None
    return used / total


def flatten_dict(dt: Mapping[str, Any], delimiter: str = "/", prevent_delimiter: bool = False) -> dict[str, Any]:
    """A nested dict as a flat one: {"a": {"b": 1}} becomes {"a/b": 1}.

    Raises:
        ValueError: `prevent_delimiter` is set, and a key contains the delimiter.
    """
    flat: dict[str, Any] = {}
    for key, value in dt.items():
        if prevent_delimiter and delimiter in str(key):
            raise ValueError(f"The key {key!r} contains {delimiter!r}.")
        if isinstance(value, Mapping) and value:
            for path, leaf in flatten_dict(value, delimiter, prevent_delimiter).items():
                flat[f"{key}{delimiter}{path}"] = leaf
        else:
            flat[key] = value
    return flat


def unflatten_dict(dt: Mapping[str, Any], delimiter: str = "/") -> dict[str, Any]:
    """A flat dict as a nested one: the opposite of `flatten_dict`."""
    nested: dict[str, Any] = {}
    for path, value in dt.items():
        *parents, last = path.split(delimiter)
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return nested


def deep_update(
    original: dict[str, Any],
    new_dict: Mapping[str, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: list[str] | None = None,
    override_all_if_type_changes: list[str] | None = None,
    override_all_key_list: list[str] | None = None,
) -> dict[str, Any]:
    """Put the values of one nested dict into another, in place.

    Raises:
        KeyError: a key is new, and new ones are not allowed there.
    """
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"Unknown config parameter {key!r}.  It has: {', '.join(map(str, original))}.")
        former = original.get(key)
        if isinstance(former, dict) and isinstance(value, Mapping):
            is_other = key in (override_all_if_type_changes or ()) and value.get("type") != former.get("type")
            if is_other or key in (override_all_key_list or ()):
                original[key] = dict(value)
            else:
                deep_update(former, value, new_keys_allowed or key in (allow_new_subkey_list or ()))
        else:
            original[key] = value
    return original


def merge_dicts(d1: Mapping[str, Any], d2: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new nested dict: the first, with the values of the second."""
    import copy

    return deep_update(copy.deepcopy(dict(d1)), d2, True)


def validate_save_restore(trainable_cls: Callable[..., Trainable], config: dict[str, Any] | None = None) -> bool:
    """Check that an object of a class trainable continues from another object's checkpoint.

    Returns:
        True.

    Raises:
        AssertionError: it begins anew.
    """
    first = trainable_cls(config=dict(config or {}))
    for _ in range(3):
        first.train()
    second = trainable_cls(config=dict(config or {}))
    second.restore(first.save())
    assert second.training_iteration == 3, f"It goes on at {second.training_iteration}, not at 3."
    second.train()
    first.stop()
    second.stop()
    return True


shadows.name_absent(__name__)
