"""Two agents with policies of their own meet, and learn to choose the same side.

Prints:

    ['left', 'right']
    they meet in 20 of 20 episodes
"""

import gymnasium
import numpy as np
import torch

import zray as ray
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.env.multi_agent_env import MultiAgentEnv


class Meeting(MultiAgentEnv):
    """Each agent sees a sign, which is the same for both, and takes a side: the reward is 1 if they meet."""

    possible_agents = ["left", "right"]
    observation_space, action_space = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)

    def __init__(self, env_config):
        super().__init__()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        sign = np.eye(2, dtype=np.float32)[self.np_random.integers(2)]
        return {agent: sign for agent in self.possible_agents}, {}

    def step(self, actions):
        reward = float(actions["left"] == actions["right"])
        return {}, dict.fromkeys(actions, reward), {"__all__": True}, {"__all__": False}, {}


torch.set_num_threads(1)
config = (
    PPOConfig()
    .environment(Meeting)
    .env_runners(rollout_fragment_length=32)
    .training(lr=1e-2, num_epochs=4)
    .multi_agent(policies={"left", "right"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: agent_id)
)

with ray.init(num_cpus=2):
    algo = config.build_algo()
    for _ in range(12):
        result = algo.train()
    print(sorted(result["policy_reward_mean"]))
    print(f"they meet in {algo.evaluate(20)['episode_reward_mean'] * 10:.0f} of 20 episodes")
    algo.stop()
