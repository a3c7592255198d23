"""Rewards divided by the deviation of the discounted return, against a plain recomputation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import make_multi_agent  # noqa: E402
from zray.rllib.policies import Policy  # noqa: E402
from zray.rllib.reward_scale import RewardScale  # noqa: E402


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    rng, gamma = np.random.default_rng(0), 0.9
    scale = RewardScale(gamma)
    seen, running = [], np.zeros(3)
    for _ in range(4):  # returns go on from one rollout to the next
        rewards = rng.normal(2.0, 5.0, (7, 3)).astype(np.float32)
        ended = (rng.random((7, 3)) < 0.3).astype(np.float32)
        scale.observe([rewards], [ended])
        for reward, end in zip(rewards, ended, strict=True):
            running = gamma * running + reward
            seen.extend(running)
            running = running * (1 - end)
        assert scale(rewards) == pytest.approx(rewards / np.std(seen, ddof=1), rel=1e-5)


def test_scaled_rewards_are_cut():
    scale = RewardScale(0.9)
    scale.observe([np.array([[1.0], [-1.0]])], [np.ones((2, 1))])
    assert scale(np.array([1e9, -1e9])).tolist() == [10.0, -10.0]


def test_rewards_of_several_agents_are_not_scaled_yet():
    config = PPOConfig().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
    config.training(normalize_rewards=True)
    with pytest.raises(NotImplementedError, match="normalize_rewards of several agents"):
        config.build_algo()


@pytest.mark.parametrize("use_lstm", [False, True])
def test_standard_deviations_start_where_the_model_says(use_lstm):
    config = PPOConfig().environment("Pendulum-v1").training(model={"log_std_init": -2, "use_lstm": use_lstm})
    algo = config.build_algo()
    policy: Policy = algo.get_policy()
    assert policy.log_std().tolist() == [-2.0]
    algo.stop()
