"""`reward_attr` of 2018: the metric of a scheduler, where larger is better."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["OF_2018", "with_reward_attr"]

# Arguments of 2018 that the signatures of schedulers do not show.
OF_2018 = ("reward_attr",)


def with_reward_attr(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor take `reward_attr` for `metric`, with mode "max"."""

    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        if "reward_attr" in kwargs:
            kwargs["metric"], kwargs["mode"] = kwargs.pop("reward_attr"), "max"
        mode = kwargs.get("mode")
        if mode not in (None, "min", "max"):
            raise ValueError(f'mode is "min" or "max", not {mode!r}.')
        init(self, *args, **kwargs)

    return wrapped
