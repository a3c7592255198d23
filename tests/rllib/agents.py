"""Environments of several agents, for tests."""

import gymnasium
import numpy as np

from zray.rllib.env.multi_agent_env import MultiAgentEnv

SIGNAL = gymnasium.spaces.Box(-1, 1, (2,))


class Roles(MultiAgentEnv):
    """Two agents see a signal: "same" is rewarded for the action of the signal, "other" for the other one."""

    possible_agents = ["same", "other"]
    observation_space, action_space = SIGNAL, gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.steps = 0
        return self._observations(), {}

    def _observations(self):
        self.signals = {agent: int(self.np_random.integers(2)) for agent in self.possible_agents}
        return {agent: np.eye(2, dtype=np.float32)[each] for agent, each in self.signals.items()}

    def step(self, actions):
        self.steps += 1
        rewards = {
            agent: float((actions[agent] == signal) == (agent == "same")) for agent, signal in self.signals.items()
        }
        return self._observations(), rewards, {"__all__": self.steps == 8}, {"__all__": False}, {}


class Visitors(MultiAgentEnv):
    """Agents that come and go by a table, in an episode of six steps.

    "host" acts in steps 0, 2 and 4, and has a reward of 1 in each step.  "guest" acts in steps 1 and 2, and leaves with
    a terminal step.  "late" acts from step 3 on, and its episode is truncated in step 4.  Observations are the numbers
    of the step and of the agent.
    """

    possible_agents = ["host", "guest", "late"]
    observation_space, action_space = gymnasium.spaces.Box(0, 10, (2,)), gymnasium.spaces.Discrete(2)
    acting = {"host": (0, 2, 4), "guest": (1, 2), "late": (3, 4)}

    def __init__(self, config=None):
        self.number = 0

    def reset(self, *, seed=None, options=None):
        self.number = 0
        return self._observations(), {}

    def _observations(self):
        return {agent: self._observation(agent) for agent, steps in self.acting.items() if self.number in steps}

    def _observation(self, agent):
        return np.array([self.number, self.possible_agents.index(agent)], np.float32)

    def step(self, actions):
        assert set(actions) == {agent for agent, steps in self.acting.items() if self.number in steps}
        rewards = {"host": 1.0, **{agent: 10.0 for agent in actions if agent != "host"}}
        self.number += 1
        observations = self._observations()
        terminateds, truncateds = {"__all__": self.number == 6}, {"__all__": False}
        if self.number == 3:
            terminateds["guest"] = True
            observations["guest"] = self._observation("guest")
        if self.number == 5:
            truncateds["late"] = True
            observations["late"] = self._observation("late")
        return observations, rewards, terminateds, truncateds, {}


class Old(MultiAgentEnv):
    """The spelling of former years: `reset` without arguments, `step` with four values."""

    def __init__(self, config=None):
        self.observation_space, self.action_space = SIGNAL, gymnasium.spaces.Discrete(2)
        self._agent_ids = {"a", "b"}

    def reset(self):
        return {agent: np.zeros(2, np.float32) for agent in "ab"}

    def step(self, actions):
        return self.reset(), dict.fromkeys(actions, 1.0), {"a": True, "b": True, "__all__": True}, {}
