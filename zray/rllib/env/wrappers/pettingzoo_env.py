"""Environments of PettingZoo as environments of several agents.  PettingZoo is not imported here."""

from __future__ import annotations

from typing import Any

from ..multi_agent_env import MultiAgentEnv

__all__ = ["ParallelPettingZooEnv", "PettingZooEnv"]


class PettingZooEnv(MultiAgentEnv):
    """An AEC environment of PettingZoo, in which agents act one after another.

    Args:
        env: the environment.

    Example:
        register_env("leduc", lambda config: PettingZooEnv(leduc_holdem_v4.env()))
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        env.reset()
        self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode: the first agent has an observation."""
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return {agent: self.env.observe(agent)}, {agent: {}}

    def step(self, action: Any) -> Any:
        """Return the action of the agent whose turn it is; finished agents leave on the way."""
        self.env.step(action[self.env.agent_selection])
        observations, rewards, terminateds, truncateds, infos = ({} for _ in range(5))  # type: ignore[var-annotated]
        while self.env.agents:
            agent = self.env.agent_selection
            (observations[agent], rewards[agent], terminateds[agent], truncateds[agent], infos[agent]) = self.env.last()
            if not (terminateds[agent] or truncateds[agent]):
                break
            self.env.step(None)
        is_over = not self.env.agents
        is_cut = is_over and any(truncateds.values()) and not any(terminateds.values())
        terminateds["__all__"], truncateds["__all__"] = is_over and not is_cut, is_cut
        return observations, rewards, terminateds, truncateds, infos

    def render(self) -> Any:
        """A picture, as the environment has it."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


class ParallelPettingZooEnv(MultiAgentEnv):
    """A parallel environment of PettingZoo, in which agents act at the same time.

    Args:
        env: the environment.

    Example:
        register_env("knights", lambda config: ParallelPettingZooEnv(knights_archers_zombies_v10.parallel_env()))
    """

    def __init__(self, env: Any) -> None:
        self.par_env = env
        self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode."""
        found = self.par_env.reset(seed=seed, options=options)
        return found if isinstance(found, tuple) else (found, {})

    def step(self, action: Any) -> Any:
        """Return the actions of all present agents."""
        observations, rewards, terminateds, truncateds, infos = self.par_env.step(action)
        is_over = not self.par_env.agents
        is_cut = is_over and any(truncateds.values()) and not any(terminateds.values())
        return (
            observations,
            rewards,
            {**terminateds, "__all__": is_over and not is_cut},
            {**truncateds, "__all__": is_cut},
            infos,
        )

    def render(self) -> Any:
        """A picture, as the environment has it."""
        return self.par_env.render()

    def close(self) -> None:
        """Close the environment."""
        self.par_env.close()
