"""Keywords of methods that programs for Ray pass: those without effect are taken, and others are refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

__all__ = ["ABOUT_THE_PAST", "check_keywords", "check_scaling"]

# What models with the former actions and rewards as inputs read: there are none here.
ABOUT_THE_PAST = (
    *("prev_action", "prev_reward", "info", "timestep", "episode", "episodes"),
    *("prev_action_batch", "prev_reward_batch", "info_batch"),
)


def check_keywords(call: str, given: Mapping[str, Any], taken: tuple[str, ...] = (), **refused: str) -> None:
    """Look at keywords that a method has for programs written for Ray.

    Args:
        call: the method, as "compute_actions".
        given: the keywords.
        taken: those that change nothing, with any value.
        refused: what to do instead of those that are absent; None and False as their values ask for nothing.

    Raises:
        NotImplementedError: a keyword is one of `refused`.
        TypeError: a keyword is none of Ray's.
    """
    for name, value in given.items():
        if name in taken or (name in refused and (value is None or value is False)):
            continue
        if name in refused:
            raise NotImplementedError(f"zray does not have the keyword {name!r} of {call} yet.  {refused[name]}")
        near = difflib.get_close_matches(name, [*_OWN, *taken, *refused], 1, 0.7)
        hint = f"  Near: {near[0]!r}." if near else ""
        raise TypeError(f"{call} has no keyword {name!r}.{hint}")


_OWN = ("explore", "policy_id", "full_fetch", "state", "onnx")


def check_scaling(call: str, given: dict[str, Any], distribution: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Look at `unsquash_action` and `clip_action`, also in the plural, and return the other keywords.

    Actions are scaled and clipped as the environments of the training take them.

    Raises:
        NotImplementedError: another scale is asked for, of actions of a Box.
    """
    rest = dict(given)
    for name, option in (("unsquash_action", "normalize_actions"), ("clip_action", "clip_actions")):
        for spelling in (name, f"{name}s"):
            wanted = rest.pop(spelling, None)
            is_clipped = name == "clip_action" and config["normalize_actions"]  # scaled ones are within the bounds
            if wanted is None or bool(wanted) == bool(config[option]) or is_clipped:
                continue
            if getattr(distribution, "is_continuous", False):
                raise NotImplementedError(
                    f"zray does not have {spelling}={wanted!r} of {call} yet.  Actions are those that the environment "
                    f"takes: train with environment({option}={wanted!r})."
                )
    return rest
