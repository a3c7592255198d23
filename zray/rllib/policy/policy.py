"""Policies and their specifications, where programs written for Ray import them."""

from __future__ import annotations

from typing import Any

from ..policies import Policy

__all__ = ["Policy", "PolicySpec"]


class PolicySpec:
    """A policy of several agents.

    Args:
        policy_class: a class derived from the algorithm's policy; None: that one.
        observation_space, action_space: None: those of the agents that are mapped to the policy.
        config: options of the algorithm that differ for this policy, such as `lr`, `gamma` and `model`.
    """

    def __init__(
        self,
        policy_class: type[Policy] | None = None,
        observation_space: Any = None,
        action_space: Any = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.policy_class, self.observation_space, self.action_space = policy_class, observation_space, action_space
        self.config: dict[str, Any] = dict(config) if isinstance(config, dict) else getattr(config, "options", {})
