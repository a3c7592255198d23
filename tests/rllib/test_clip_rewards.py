"""`clip_rewards`: a number cuts rewards, True takes their signs, for one agent and for several."""

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import make_multi_agent  # noqa: E402

REWARDS = [5.0, -3.0, 0.5, 0.0]


class Rewarding(gym.Env):
    """Four steps with the rewards above."""

    def __init__(self, config=None):
        config = config or {}
        self.rewards = config.get("rewards", REWARDS)
        self.observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (1,)) if config.get("is_box") else gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), self.rewards[self.t - 1], self.t >= len(self.rewards), False, {}


def collected(config, clip, steps=4, **env_config):
    """The rewards that the learner gets in one rollout, and the returns that are reported."""
    config.environment(env_config=env_config, clip_rewards=clip)
    config.env_runners(num_envs_per_env_runner=1, num_groups=1).debugging(seed=1)
    algo = config.build_algo()
    try:
        return [np.ravel(batch.rewards).tolist() for batch in algo.collect(steps)], algo
    finally:
        algo.stop()


CLIPPED = {
    None: REWARDS,
    False: REWARDS,
    True: [1.0, -1.0, 1.0, 0.0],
    2.0: [2.0, -2.0, 0.5, 0.0],
    np.float32(10): REWARDS,
    4: [4.0, -3.0, 0.5, 0.0],
}


@pytest.mark.parametrize("clip", CLIPPED, ids=str)
@pytest.mark.parametrize("config_class", [PPOConfig, A2CConfig, A3CConfig, DQNConfig])
def test_rewards_are_cut_or_signs(config_class, clip):
    (found,), _ = collected(config_class().environment(Rewarding), clip)
    assert found == CLIPPED[clip]


def test_rewards_of_sac_are_cut():
    (found,), _ = collected(SACConfig().environment(Rewarding), 2.0, is_box=True)
    assert found == CLIPPED[2.0]


def test_clip_of_one_is_a_number_and_no_sign():
    (found,), _ = collected(PPOConfig().environment(Rewarding), 1)
    assert found == [1.0, -1.0, 0.5, 0.0]


@pytest.mark.parametrize("clip", [2.0, True])
def test_rewards_of_several_agents_are_cut(clip):
    config = PPOConfig().environment(make_multi_agent(Rewarding))
    _, algo = collected(config, clip, num_agents=2)
    config = config.copy()
    algo = config.build_algo()
    try:
        batches = algo.rollouts.collect(algo.policy.get_weights(), algo.policy.filter, 4, clip)
        (rewards,) = [each.rewards for batch in batches for each in batch.batches.values()]
    finally:
        algo.stop()
    assert np.ravel(rewards).tolist() == CLIPPED[clip] * 2


def test_huge_reward_is_cut():
    (found,), _ = collected(PPOConfig().environment(Rewarding), 10.0, rewards=[1e300, -1e300, 1.0, 2.0])
    assert found == [10.0, -10.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("clip", "error"), [("2", TypeError), ([1], TypeError), (-1.0, ValueError), (float("nan"), ValueError)]
)
def test_another_value_is_an_error(clip, error):
    with pytest.raises(error, match="clip_rewards' of PPOConfig is True, .*, not"):
        PPOConfig().environment(Rewarding, clip_rewards=clip).validate()
