"""Parts of RLlib against plain recomputations: advantages, returns, replay, filters, configurations."""

import copy
import itertools

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.advantages import generalized_advantages  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.distributions import Categorical, Gaussian, MultiCategorical  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError, make_environment  # noqa: E402
from zray.rllib.filters import MeanStdFilter  # noqa: E402
from zray.rllib.networks import mlp  # noqa: E402
from zray.rllib.replay import PrioritizedReplay, Replay, n_step  # noqa: E402


def rollout(seed, steps=20, envs=3):
    rng = np.random.default_rng(seed)
    rewards, values, next_values = (rng.standard_normal((steps, envs)) for _ in range(3))
    ended = (rng.random((steps, envs)) < 0.2).astype(float)
    terminated = ended * (rng.random((steps, envs)) < 0.5)
    return rewards, values, next_values, terminated, ended


def test_advantages_are_sums_of_discounted_errors():
    gamma, lambda_ = 0.9, 0.8
    rewards, values, next_values, terminated, ended = rollout(1)
    advantages, targets = generalized_advantages(rewards, values, next_values, terminated, ended, gamma, lambda_)
    for env in range(3):
        for t in range(20):
            expected, weight = 0.0, 1.0
            for k in range(t, 20):
                delta = rewards[k, env] + gamma * next_values[k, env] * (1 - terminated[k, env]) - values[k, env]
                expected += weight * delta
                weight *= gamma * lambda_
                if ended[k, env]:
                    break
            assert advantages[t, env] == pytest.approx(expected)
    assert targets == pytest.approx(advantages + values)


def test_truncated_episode_counts_the_value_of_its_last_state():
    ones, zeros = np.ones((1, 1)), np.zeros((1, 1))
    cut, _ = generalized_advantages(ones, zeros, 10 * ones, zeros, ones, 0.5, 1.0)
    over, _ = generalized_advantages(ones, zeros, 10 * ones, ones, ones, 0.5, 1.0)
    assert (cut[0, 0], over[0, 0]) == (6.0, 1.0)


def test_returns_of_n_steps_end_with_the_episode():
    gamma, n = 0.9, 3
    rewards, _, _, terminated, ended = rollout(2)
    returns, last, terminal, discounts = n_step(rewards, terminated, ended, n, gamma)
    for env in range(3):
        for t in range(20):
            total, k = 0.0, 0
            while True:
                total += gamma**k * rewards[t + k, env]
                if ended[t + k, env] or k + 1 == n or t + k + 1 == 20:
                    break
                k += 1
            assert returns[t, env] == pytest.approx(total)
            assert last[t, env] == t + k and discounts[t, env] == pytest.approx(gamma ** (k + 1))
            assert terminal[t, env] == terminated[t + k, env]


def test_priorities_are_drawn_in_proportion():
    memory = PrioritizedReplay(100, seed=1, alpha=0.5)
    memory.add({"x": np.arange(60)})
    errors = np.linspace(0.1, 3.0, 60)
    memory.update(np.arange(60), errors)
    counts = np.zeros(60)
    for _ in range(400):
        rows = memory.draw(50, beta=0.4)
        np.add.at(counts, rows["x"], 1)
    expected = np.sqrt(errors + 1e-6) / np.sqrt(errors + 1e-6).sum()
    assert counts / counts.sum() == pytest.approx(expected, abs=0.004)
    weights = (60 * expected[rows["x"]]) ** -0.4
    assert rows["weights"] == pytest.approx(weights / weights.max(), rel=1e-4)


def test_memory_is_a_ring_and_goes_on_from_its_state():
    memory = Replay(10, seed=1)
    memory.add({"x": np.arange(7)})
    memory.add({"x": np.arange(7, 14)})
    assert sorted(memory.columns["x"]) == list(range(4, 14))
    other = Replay(10, seed=2)
    other.set_state(memory.state())
    assert (other.draw(5)["x"] == memory.draw(5)["x"]).all()


def test_filter_follows_each_change_of_its_statistics():
    rng = np.random.default_rng(0)
    rows, used = rng.standard_normal((5, 3)).astype(np.float32), MeanStdFilter((3,))
    for scale in (1.0, 10.0, 100.0):
        used.observe(scale * rng.standard_normal((50, 3)))
        unused = MeanStdFilter((3,))
        unused.count, unused.mean, unused.squares = used.count, used.mean, used.squares
        assert np.array_equal(used(rows), unused(rows))
    copied = copy.copy(used)
    copied.squares = used.squares * 4
    assert np.abs(copied(rows) - used(rows)).max() > 1e-6


def test_merged_filters_are_one_filter():
    data = np.random.default_rng(0).standard_normal((300, 4)) * 5 + 2
    whole, merged = MeanStdFilter((4,)), MeanStdFilter((4,))
    whole.observe(data)
    parts = []
    for begin in range(0, 300, 100):
        part = merged.fresh()
        part.observe(data[begin : begin + 100])
        parts.append(part)
    merged.merge(parts)
    assert merged(data) == pytest.approx(whole(data), abs=1e-5)
    assert whole(data).mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-4)


@pytest.mark.parametrize("kind", ["categorical", "gaussian"])
def test_numpy_and_torch_agree_on_log_probabilities(kind):
    rng = np.random.default_rng(0)
    if kind == "categorical":
        distribution, log_std = Categorical(gymnasium.spaces.Discrete(4)), None
        parameters = rng.standard_normal((50, 4)).astype(np.float32)
    else:
        distribution, log_std = Gaussian(gymnasium.spaces.Box(-1, 1, (3,))), rng.standard_normal(3).astype(np.float32)
        parameters = rng.standard_normal((50, 3)).astype(np.float32)
    actions, logs = distribution.draw(parameters, log_std, rng)
    std = None if log_std is None else torch.from_numpy(log_std)
    found = distribution.log_probability(torch.from_numpy(parameters), std, torch.from_numpy(actions))
    assert found.numpy() == pytest.approx(logs, abs=1e-4)


def test_multidiscrete_is_a_joint_distribution_of_independent_actions():
    """Log probabilities, entropies and divergences are those of a plain sum over all joint actions."""
    rng = np.random.default_rng(0)
    distribution = MultiCategorical(gymnasium.spaces.MultiDiscrete([3, 2, 4], start=[1, 0, -2]))
    logits, others = rng.standard_normal((2, 20, 9))
    joint = list(itertools.product(range(3), range(2), range(4)))

    def probabilities(row):
        parts = [np.exp(part) / np.exp(part).sum() for part in (row[:3], row[3:5], row[5:])]
        return np.array([parts[0][a] * parts[1][b] * parts[2][c] for a, b, c in joint])

    tensors = [torch.from_numpy(each) for each in (logits, others)]
    for number, (row, other) in enumerate(zip(logits, others, strict=True)):
        p, q = probabilities(row), probabilities(other)
        found = distribution.log_probability(tensors[0][[number] * 24], None, torch.tensor(joint))
        assert found.numpy() == pytest.approx(np.log(p))
        assert distribution.entropy(tensors[0], None)[number].item() == pytest.approx(-(p * np.log(p)).sum())
        divergence = distribution.divergence(tensors[0], None, tensors[1], None)[number].item()
        assert divergence == pytest.approx((p * np.log(p / q)).sum())
        assert joint[p.argmax()] == tuple(distribution.greedy(row[None])[0])
    drawn, logs = distribution.draw(np.repeat(logits[:1], 20_000, 0), None, rng)
    counts = np.array([(drawn == each).all(axis=1).mean() for each in joint])
    assert counts == pytest.approx(probabilities(logits[0]), abs=0.02)
    assert logs[:24] == pytest.approx(np.log([probabilities(logits[0])[joint.index(tuple(a))] for a in drawn[:24]]))
    assert distribution.to_environment(drawn[0]).tolist() == (drawn[0] + [1, 0, -2]).tolist()


class Lock(gymnasium.Env):
    """Each right part of the action 1, 4 is rewarded by 0.5; an episode has 4 steps."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.MultiDiscrete([2, 3], start=[0, 2])

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        return np.zeros(1, np.float32), 0.5 * float((action == [1, 4]).sum()), self.steps % 4 == 0, False, {}


@pytest.mark.parametrize("make", [PPOConfig, A2CConfig])
def test_multidiscrete_actions_are_learnt(make):
    config = make().environment(Lock).training(model={"fcnet_hiddens": [8]}, lr=0.02, gamma=0.0)
    algo = config.env_runners(num_groups=1, num_envs_per_env_runner=4, rollout_fragment_length=16).build_algo()
    while algo.iteration < 20 and algo.evaluate(1)["episode_reward_mean"] < 4.0:
        algo.train()
    assert algo.compute_single_action(np.zeros(1, np.float32), explore=False).tolist() == [1, 4]
    assert algo.evaluate(1)["episode_reward_mean"] == 4.0
    algo.stop()


def test_dqn_says_that_it_has_one_discrete_action():
    with pytest.raises(NotImplementedError, match="not those of MultiDiscrete yet: use PPO"):
        DQNConfig().environment(Lock).build_algo()


class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.fault = (config or {}).get("fault")
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        if self.fault == "reset":
            return np.zeros(2, np.float32), {}, False
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.fault == "shape":
            return np.zeros(3, np.float32), 0.0, False, False, {}
        if self.fault == "raise" and self.steps > 3:
            raise ZeroDivisionError("by nought")
        reward = float("nan") if self.fault == "nan" and self.steps > 3 else 1.0
        return np.zeros(2, np.float32), reward, self.steps % 7 == 0, False, {}


@pytest.mark.parametrize(
    "fault, message",
    [
        ("reset", r"reset of environment Faulty returns \(observation, info\), not a tuple of 3"),
        ("shape", r"outside of its space: ndarray of shape \(3,\)"),
        ("raise", r"step raised ZeroDivisionError: by nought, in environment Faulty number 0, step 3 .* seed \d+"),
        ("nan", r"The reward is nan, in environment Faulty number 0, step 3"),
    ],
)
def test_faults_of_environments_are_named(fault, message):
    config = PPOConfig().environment(Faulty, env_config={"fault": fault}).env_runners(num_envs_per_env_runner=1)
    with pytest.raises(InvalidEnvironmentError, match=message):
        config.build_algo().train()


def test_unknown_environment_names_those_near():
    with pytest.raises(ValueError, match="No environment is called 'CartPole-v9'.*Near: CartPole-v0, CartPole-v1"):
        make_environment("CartPole-v9", {})


def test_unknown_options_name_the_nearest_and_its_method():
    with pytest.raises(
        TypeError, match=r"PPOConfig.training has no option 'clip_parm'.  Near: 'clip_param', of training"
    ):
        PPOConfig().training(clip_parm=0.1)
    with pytest.raises(TypeError, match=r"Near: 'num_env_runners', of env_runners\(\)"):
        PPOConfig().training(num_env_runner=1)


def test_configuration_of_an_algorithm_cannot_be_changed():
    algo = PPOConfig().environment("CartPole-v1").build_algo()
    algo.stop()
    with pytest.raises(RuntimeError, match=r"config.copy\(\)"):
        algo.config.training(lr=1.0)
    assert algo.config.copy().training(lr=1.0).lr == 1.0


def test_box_actions_are_not_for_dqn():
    with pytest.raises(ValueError, match="discrete actions only"):
        DQNConfig().environment("Pendulum-v1").build_algo()


def test_layers_compute_what_a_sequence_of_modules_computes_and_call_hooks():
    layers = mlp([3, 5, 2], "tanh", 1.0)
    rows = torch.randn(4, 3)
    expected = torch.nn.Sequential(*layers)(rows)
    assert torch.equal(layers(rows), expected)
    seen = []
    layers[0].register_forward_hook(lambda layer, given, found: seen.append(found.shape))
    assert torch.equal(layers(rows), expected)
    assert seen == [(4, 5)]
