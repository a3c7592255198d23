"""Actions of all spaces: what the environment is given, and that the learner reads it so."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig, Squashed  # noqa: E402
from zray.rllib.boxes import BoxActions  # noqa: E402
from zray.rllib.distributions import Gaussian, Joint, MultiCategorical, distribution_of  # noqa: E402
from zray.rllib.vector_policy import VectorPolicy  # noqa: E402


class Target(gymnasium.Env):
    """An environment that takes actions of its space alone; the reward is larger the nearer they are to one of them."""

    def __init__(self, config):
        self.observation_space, self.action_space = Box(-1, 1, (1,)), config["space"]
        self.best = config.get("best")

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.t += 1
        reward = 0.0
        if self.best is not None:
            reward = -float(abs(action[0] - self.best) / (self.action_space.high - self.action_space.low)[0])
        return np.zeros(1, np.float32), reward, self.t >= 10, False, {}


def small(config, **env_config):
    made = config.environment(Target, env_config=env_config).training(model={"fcnet_hiddens": [4]})
    return made.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=16)


SPACES = {
    "wide": Box(100, 200, (2,)),
    "double": Box(-5, 5, (2, 2), np.float64),
    "integers": Box(-2, 3, (2,), np.int32),
    "many integers": Box(0, 100_000, (1,), np.int64),
    "bytes": Box(0, 255, (3,), np.uint8),
    "one number": Box(0, 4, ()),
    "half": Box(0, np.inf, (1,)),
    "bits": MultiBinary(3),
    "bits in rows": MultiBinary([2, 2]),
    "parts": MultiDiscrete([2, 3]),
    "tuple": Tuple((Discrete(3, start=1), Box(0, 10, (2,)))),
    "discrete tuple": Tuple((Discrete(3), MultiBinary(2))),
    "dict": Dict(a=Discrete(2), b=Tuple((Box(-1, 1, (1,)), MultiDiscrete([2, 2])))),
}


@pytest.mark.parametrize("name", SPACES)
def test_environment_is_given_actions_of_its_space(name):
    algo = small(PPOConfig(), space=SPACES[name]).training(kl_coeff=0.2).build_algo()
    for _ in range(2):
        result = algo.train()
    assert all(np.isfinite(value) for value in result["learners"]["default_policy"].values())
    for explore in (True, False):
        assert SPACES[name].contains(algo.compute_single_action(np.zeros(1, np.float32), explore=explore))
    algo.check(verbose=False)
    algo.stop()


def test_bounds_of_a_box_are_those_of_minus_one_to_one():
    scaled = BoxActions(Box(np.float32([100, -1]), np.float32([200, 1])))
    assert scaled(np.float32([0.4, 0.4])).tolist() == pytest.approx([170, 0.4])
    assert scaled(np.float32([-3, 3])).tolist() == [100, 1] and scaled(np.float32([0, 0])).dtype == np.float32
    assert BoxActions(Box(0, 255, (1,), np.uint8))(np.float32([-0.5])).tolist() == [64]


@pytest.mark.parametrize("space", [Box(-1, 1, (1,)), Box(0, np.inf, (1,)), Box(-3e38, 3e38, (1,))])
def test_actions_of_some_boxes_keep_their_scale(space):
    assert BoxActions(space)(np.float32([0.3])) == np.float32(0.3)


def test_actions_that_are_not_scaled_are_clipped_or_not():
    space = Box(0, 2, (1,))
    assert BoxActions(space, normalize=False)(np.float32([0.5])) == 0.5
    assert BoxActions(space, normalize=False)(np.float32([5])) == 2
    assert BoxActions(space, normalize=False, clip=False)(np.float32([5])) == 5


def test_options_of_actions_reach_the_policy():
    config = small(PPOConfig(), space=Box(0, 2, (1,)))
    assert (config["normalize_actions"], config["clip_actions"]) == (True, True)
    algo = config.environment(normalize_actions=False, clip_actions=False, disable_env_checking=True).build_algo()
    assert algo.policy.distribution.to_environment(np.float32([5])) == 5
    algo.stop()


def test_integers_of_few_values_have_an_output_for_each():
    assert isinstance(distribution_of(Box(-2, 3, (2,), np.int32)), MultiCategorical)
    assert isinstance(distribution_of(Box(0, 100_000, (1,), np.int64)), Gaussian)


def test_sac_gives_integers_of_a_box():
    space = Box(0, 10, (1,), np.int32)
    assert Squashed(space).to_environment(np.float32([0.19])).tolist() == [6]
    algo = small(SACConfig(), space=space).build_algo()
    algo.train()
    algo.stop()


def test_parts_of_an_action_are_independent():
    space = Dict(a=Discrete(3), b=Box(-1, 1, (2,)))
    joint = distribution_of(space)
    assert isinstance(joint, Joint) and (joint.outputs, joint.width, joint.sizes) == (5, 3, None)
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=(50, 5)).astype(np.float32)
    log_std = np.full(5, -0.5, np.float32)
    actions, logs = joint.draw(parameters, log_std, rng)
    rows, std, taken = torch.from_numpy(parameters), torch.from_numpy(log_std), torch.from_numpy(actions)
    np.testing.assert_allclose(joint.log_probability(rows, std, taken), logs, rtol=1e-4, atol=1e-4)
    one, two = distribution_of(space["a"]), distribution_of(space["b"])
    entropy = one.entropy(rows[:, :3], None) + two.entropy(rows[:, 3:], std[3:])
    torch.testing.assert_close(joint.entropy(rows, std), entropy)
    assert joint.divergence(rows, std.expand(50, 5), rows, std).abs().max() < 1e-6
    assert set(joint.to_environment(joint.greedy(parameters)[0])) == {"a", "b"}


def test_ppo_learns_in_a_box_far_from_zero():
    config = small(PPOConfig(), space=Box(100, 200, (1,)), best=170).training(gamma=0.0, lr=3e-3)
    algo = config.env_runners(num_envs_per_env_runner=4, rollout_fragment_length=128).build_algo()
    for _ in range(12):
        algo.train()
    assert abs(algo.compute_single_action(np.zeros(1, np.float32), explore=False)[0] - 170) < 15
    algo.stop()


def test_evolution_scales_actions_of_a_box():
    policy = VectorPolicy(Box(-1, 1, (1,)), Box(100, 200, (1,)), {"fcnet_hiddens": [], "fcnet_activation": "tanh"})
    assert policy.to_action(np.float32([0.0]), None).tolist() == [150]
    algo = small(ESConfig(), space=Box(0, 9, (1,), np.int32)).training(episodes_per_batch=4, noise_size=1000)
    algo = algo.build_algo()
    algo.train()
    algo.stop()


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (Box(100.0, 200.0, (2,), np.float32), np.array([125.0, 200.0], np.float32)),
        (Box(-np.inf, np.inf, (1,), np.float32), np.array([3.5], np.float32)),
        (Tuple([Discrete(3, start=1), Box(0.0, 1.0, (1,), np.float32)]), (2, np.array([0.25], np.float32))),
    ],
)
def test_actions_of_the_environment_have_numbers_of_the_policy(space, action):
    distribution = distribution_of(space)
    again = distribution.to_environment(distribution.from_environment(action))
    for found, expected in zip(np.atleast_1d(again) if isinstance(again, np.ndarray) else again, action, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Discrete(3, start=2),
        gymnasium.spaces.Box(-2, 5, (2, 3)),
        gymnasium.spaces.Box(-2, 5, ()),
        gymnasium.spaces.Box(-1, 1, (2,)),
        gymnasium.spaces.Box(-np.inf, np.inf, (2,)),
    ],
    ids=str,
)
def test_actions_of_all_rows_are_those_of_each(space):
    distribution = distribution_of(space)
    rows = np.linspace(-1.5, 1.5, 4 * distribution.width, dtype=np.float32).reshape(4, -1)
    if not distribution.is_continuous:
        rows = np.arange(3)
    for one, row in zip(distribution.rows_to_environment(rows), rows, strict=True):
        alone = distribution.to_environment(row)
        assert type(one) is type(alone) and np.asarray(one).dtype == np.asarray(alone).dtype
        assert np.shape(one) == np.shape(alone) and np.array_equal(one, alone)
