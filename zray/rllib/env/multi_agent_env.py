"""Environments of several agents."""

from __future__ import annotations

from typing import Any

import gymnasium

from ..environments import EnvContext, make_environment

__all__ = ["ENV_STATE", "LimitedAgents", "MultiAgentCartPole", "MultiAgentDict", "MultiAgentEnv", "make_multi_agent"]

MultiAgentDict = dict[Any, Any]
# Key of observations with the state of all agents, which QMix reads in Ray.
ENV_STATE = "state"


class MultiAgentEnv(gymnasium.Env[Any, Any]):
    """An environment of several agents: observations, actions and rewards are dicts by agent.

    An agent acts in a step where it has an observation; agents may come and go within an episode.  The rewards of an
    agent between two of its actions are added up.

    Subclasses define `reset(*, seed=None, options=None)`, which returns (observations, infos), and `step(actions)`,
    which returns (observations, rewards, terminateds, truncateds, infos).  The key "__all__" of terminateds and
    truncateds says whether the episode is over.  `reset()` with observations alone, and a `step` with four values, are
    taken too.

    Spaces are `observation_space` and `action_space`: those of every agent, or dicts by agent;
    `observation_spaces` and `action_spaces` are dicts by agent.  `possible_agents` lists the agents.

    Example:
        class Pair(MultiAgentEnv):
            observation_space = action_space = gymnasium.spaces.Discrete(2)
            possible_agents = ["left", "right"]

            def reset(self, *, seed=None, options=None):
                return {"left": 0, "right": 1}, {}

            def step(self, actions):
                reward = float(actions["left"] == actions["right"])
                ends = {"__all__": True}
                return {}, {"left": reward, "right": reward}, ends, {"__all__": False}, {}
    """

    observation_space: Any
    action_space: Any

    def step(self, action: Any) -> Any:
        """Take the actions of agents."""
        raise NotImplementedError(
            f"{type(self).__name__} has no method step: it returns (observations, rewards, terminateds, truncateds, "
            "infos), which are dicts by agent."
        )

    def get_agent_ids(self) -> list[Any]:
        """The agents that are known before the first episode; empty: none are."""
        for name in ("possible_agents", "agents", "_agent_ids"):
            found = getattr(self, name, None)
            if found:
                return sorted(found, key=str) if isinstance(found, (set, frozenset)) else list(found)
        for name in ("observation_spaces", "action_spaces"):
            found = getattr(self, name, None)
            if found:
                return list(found)
        return []

    def get_observation_space(self, agent_id: Any) -> Any:
        """The space of an agent's observations."""
        return _of_agent(self, "observation_space", agent_id)

    def get_action_space(self, agent_id: Any) -> Any:
        """The space of an agent's actions."""
        return _of_agent(self, "action_space", agent_id)


class LimitedAgents(MultiAgentEnv):
    """An environment of several agents whose episodes are truncated.

    Args:
        env: the environment.
        horizon: the most steps of an episode; None: any number.
    """

    def __init__(self, env: MultiAgentEnv, horizon: int | None) -> None:
        self.env, self.horizon, self.steps = env, horizon, 0

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("__"):  # a copy asks before it has any attribute
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        from ..agent_groups import reset_agents

        self.steps = 0
        return reset_agents(self.env, seed)

    def step(self, action: Any) -> Any:
        """Take the actions of agents."""
        from ..agent_groups import step_agents

        observations, rewards, terminateds, truncateds, is_terminal, is_truncated, infos = step_agents(self.env, action)
        self.steps += 1
        is_truncated = is_truncated or (self.steps == self.horizon and not is_terminal)
        ends = {**terminateds, "__all__": is_terminal}
        return observations, rewards, ends, {**truncateds, "__all__": is_truncated}, infos

    def get_agent_ids(self) -> list[Any]:
        """The agents that are known before the first episode."""
        return self.env.get_agent_ids()

    def get_observation_space(self, agent_id: Any) -> Any:
        """The space of an agent's observations."""
        return self.env.get_observation_space(agent_id)

    def get_action_space(self, agent_id: Any) -> Any:
        """The space of an agent's actions."""
        return self.env.get_action_space(agent_id)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _of_agent(env: MultiAgentEnv, name: str, agent: Any) -> Any:
    for found in (getattr(env, f"{name}s", None), getattr(env, name, None)):
        if isinstance(found, (dict, gymnasium.spaces.Dict)):
            spaces = found if isinstance(found, dict) else found.spaces
            if agent in spaces:
                return spaces[agent]
    return getattr(env, name, None)


def make_multi_agent(env_name_or_creator: Any) -> type[MultiAgentEnv]:
    """A class of environments in which each of several agents has an environment of its own.

    Args:
        env_name_or_creator: a gymnasium id, a class, a function of the env_config, or a name of `register_env`.

    Returns:
        A class; its `env_config` has "num_agents", 1 by default, beside what the environments take.  The agents are
        0, 1, 2...

    Example:
        Carts = make_multi_agent("CartPole-v1")
        config.environment(Carts, env_config={"num_agents": 4})
    """

    class Copies(MultiAgentEnv):
        def __init__(self, config: dict[str, Any] | None = None) -> None:
            own = EnvContext(config)
            count = own.pop("num_agents", 1)
            self.copies = [make_environment(env_name_or_creator, EnvContext(own)) for _ in range(count)]
            self.possible_agents = list(range(count))
            self.observation_space = self.copies[0].observation_space
            self.action_space = self.copies[0].action_space
            self.over: set[int] = set()

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            self.over = set()
            seeds = [None if seed is None else seed + number for number in self.possible_agents]
            found = [env.reset(seed=each) for env, each in zip(self.copies, seeds, strict=True)]
            observations, infos = ({agent: each[place] for agent, each in enumerate(found)} for place in range(2))
            return observations, infos

        def step(self, action: Any) -> Any:
            found = {agent: self.copies[agent].step(each) for agent, each in action.items()}
            parts: list[dict[Any, Any]] = [{agent: each[place] for agent, each in found.items()} for place in range(5)]
            self.over |= {agent for agent, each in found.items() if each[2] or each[3]}
            is_over = len(self.over) == len(self.copies)
            parts[2]["__all__"], parts[3]["__all__"] = is_over, False
            return tuple(parts)

        def close(self) -> None:
            for env in self.copies:
                env.close()

    return Copies


MultiAgentCartPole = make_multi_agent("CartPole-v1")
