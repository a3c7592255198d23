"""The steps of an episode so far, for callbacks that ask for more than the last one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["History"]

# Bytes of the observations that one episode keeps; episodes of images may have many thousands of steps.
BYTES_MAX = 64_000_000


def bytes_of(observation: Any) -> int:
    """The bytes of the arrays of an observation, which may be nested."""
    if isinstance(observation, dict):
        return sum(map(bytes_of, observation.values()))
    if isinstance(observation, (list, tuple)):
        return sum(map(bytes_of, observation))
    return int(getattr(observation, "nbytes", 32))  # 32: a number


class History:
    """Observations, actions, rewards and infos of one episode, in their order.

    Observations and infos begin with those of the reset.  Values of several agents are dicts by agent.
    """

    def __init__(self) -> None:
        self.observations: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[Any] = []
        self.infos: list[Any] = []
        self.bytes_each = 0
        self.is_cut = self.has_agents = False

    def begin(self, observation: Any, info: Any) -> None:
        """Take what a reset gives."""
        self.observations.append(observation)
        self.infos.append(info)
        self.bytes_each = bytes_of(observation)

    def add(self, action: Any, observation: Any, rewards: Any, info: Any) -> None:
        """Take a step."""
        self.has_agents = isinstance(rewards, dict)
        self.actions.append(action)
        self.rewards.append(rewards)
        self.infos.append(info)
        self.observations.append(observation)
        if len(self.observations) * self.bytes_each > BYTES_MAX:
            del self.observations[:-1]
            self.is_cut = True

    def at(self, kind: str, indices: Any) -> Any:
        """Values at a place, at a list of places or in a slice; None: all.  Those of agents are by agent.

        Raises:
            NotImplementedError: observations were too large to keep.
            IndexError: the episode has no such step.
        """
        kept = getattr(self, kind)
        if kind == "observations" and self.is_cut and indices != -1:
            raise NotImplementedError(
                f"The observations of this episode have more than {BYTES_MAX // 1_000_000} MB, so that only the last "
                "one is kept.  Append what on_episode_step sees to a list in episode.user_data."
            )
        if self.has_agents and not isinstance(indices, (int, np.integer)):
            return by_agent(self._chosen(kept, indices))
        return self._chosen(kept, indices)

    @staticmethod
    def _chosen(kept: list[Any], indices: Any) -> Any:
        if indices is None:
            return list(kept)
        if isinstance(indices, slice):
            return kept[indices]
        if isinstance(indices, Iterable):
            return [kept[int(each)] for each in indices]
        return kept[indices]


def by_agent(steps: list[dict[Any, Any]]) -> dict[Any, list[Any]]:
    """Lists by agent of the steps in which the agent took part."""
    found: dict[Any, list[Any]] = {}
    for step in steps:
        for agent, value in step.items():
            found.setdefault(agent, []).append(value)
    return found
