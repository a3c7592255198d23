"""Learners of PPO and DQN: options at their bounds, and the penalty of the divergence."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402


class Still(gymnasium.Env):
    """An environment whose observation stays."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, config):
        self.action_space = config.get("action_space", gymnasium.spaces.Discrete(2))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, False, False, {}


def small(config, **options):
    config.environment(Still, env_config=options).env_runners(num_groups=1, num_envs_per_env_runner=1)
    return config.env_runners(rollout_fragment_length=8).training(model={"fcnet_hiddens": [4]})


def test_divergence_begins_at_the_deviations_of_the_rollout():
    config = small(PPOConfig(), action_space=gymnasium.spaces.Box(-1, 1, (1,)))
    algo = config.training(kl_coeff=1.0, vf_loss_coeff=0.0, grad_clip=None).build_algo()
    data = algo._data()
    data["advantages"] = torch.zeros_like(data["advantages"])
    log_std = algo.policy.model.log_std
    with torch.no_grad():
        log_std += 0.5
    algo._update(data)
    # KL(old, new) is 0.5 - 0.5 + exp(2 (old - new)) / 2, where the means are equal.
    assert log_std.grad.item() == pytest.approx(1 - np.exp(-1.0), rel=1e-4)
    algo.stop()


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig])
def test_none_stands_for_no_bound(config):
    options = {"vf_clip_param": None, "minibatch_size": 8} if config is PPOConfig else {"learning_starts": 0}
    algo = small(config()).training(grad_clip=None, **options).build_algo()
    assert np.isfinite(list(algo.train()["learners"]["default_policy"].values())).all()
    algo.stop()


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (0.25, [0.25, 0.25, 0.25]),
        ([[0, 1.0], [100, 0.5], [300, 0.1]], [1.0, 0.5, 0.3]),
        ([[100, 1.0], [200, 0.0]], [1.0, 1.0, 0.0]),
    ],
)
def test_epsilon_follows_all_points_of_its_schedule(epsilon, expected):
    algo = small(DQNConfig()).training(epsilon=epsilon).build_algo()
    found = []
    for algo.steps_sampled in (0, 100, 200):
        algo.before_rollout()
        found.append(algo.policy.epsilon)
    assert found == pytest.approx(expected)
    algo.stop()


def test_ppo_reports_the_share_of_clipped_ratios_and_the_explained_variance():
    algo = small(PPOConfig()).training(kl_coeff=0.5, num_epochs=1, minibatch_size=8, clip_param=0.0).build_algo()
    data = algo._data()
    with torch.no_grad():
        data["old_log_p"][:6] += 0.1  # of these 6 rows in 8 the ratio is not 1
    assert algo._update(data)["clip_fraction"] == pytest.approx(6 / 8)
    data["old_values"], data["targets"] = torch.arange(8.0), 2 * torch.arange(8.0)
    algo._data = lambda: data
    found = algo.train()["info"]["learner"]
    assert found["explained_variance"] == pytest.approx(0.75)
    assert found["curr_kl_coeff"] == algo.kl_coeff != 0.5  # the mean of kl is far from its target
    algo.stop()


def test_benchmark_of_rollouts_takes_the_weights_of_a_trained_policy():
    from benchmarks.rllib_learning import policy_after
    from benchmarks.rllib_loads import Sampler
    from zray.rllib.tuned import TUNED

    weights = policy_after(TUNED["cartpole-ppo"], 1)
    policy = Sampler("CartPole-v1", 2, weights).policy
    assert all((value == weights[name]).all() for name, value in policy.get_weights().items())
