"""Checks of an algorithm with several agents, policy by policy: a part of `algo.check()`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .checks import Check, equal, of_batch
from .env.multi_agent_env import LimitedAgents

__all__ = ["of_agents"]


class Recorded(LimitedAgents):
    """An environment that keeps the last observations of truncated agents.

    last: pairs of agent and observation, of all episodes.
    """

    def __init__(self, env: Any, last: list[tuple[Any, Any]]) -> None:
        super().__init__(env, None)
        self.last = last
        self.have_acted: set[Any] = set()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.have_acted = set()
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        found = super().step(action)
        self.have_acted |= set(action)
        observations, _, terminateds, truncateds, _ = found
        if not terminateds.get("__all__"):
            for agent in self.have_acted & set(observations):
                if not terminateds.get(agent) and (truncateds.get(agent) or truncateds.get("__all__")):
                    self.last.append((agent, observations[agent]))
        return found


def of_agents(algorithm: Any, steps: int, of_learner: Callable[[Any], Iterator[Check]] | None) -> Iterator[Check]:
    """The checks of each policy: of the rollouts, and of its learner.

    Args:
        algorithm: the copy that is checked.
        steps: of the rollout.
        of_learner: the checks of the algorithm's learner.
    """
    last: list[tuple[Any, Any]] = []
    for group in algorithm.rollouts.host.groups:
        group.envs = [Recorded(env, last) for env in group.envs]
    filters = copy.deepcopy(algorithm.policy.filter)
    for member in algorithm.members.values():
        member.before_rollout()
    (rollout,) = algorithm.collect(steps)
    owners: dict[Any, str] = {}
    for owned in algorithm.rollouts.host.groups[0].owners:
        owners.update(owned)
    for name, batch in rollout.batches.items():
        policy = algorithm.policy.policies[name]
        found = list(of_batch(policy, batch))
        observations = [each for agent, each in last if owners.get(agent) == name]
        if observations and not policy.has_state:
            _, expected = policy.forward(filters[name](policy.flatten(observations)))
            behind = batch.next_values[(batch.ended > 0) & (batch.terminated == 0)]
            nearest = behind[np.abs(behind - expected[:, np.newaxis]).argmin(axis=1)]
            found.append(equal("truncation is bootstrapped by the value of the last observation", nearest, expected))
        if name in algorithm.members and of_learner is not None:
            member = algorithm.members[name]
            member.given = [batch]
            found += of_learner(member)
            member.given = []
        yield from (each._replace(name=f"{name}: {each.name}") for each in found)
