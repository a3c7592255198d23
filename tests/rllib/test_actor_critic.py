"""A2C and A3C: losses against plain recomputations, the same curve for A2C, and workers of A3C that are killed."""

import os
import pathlib
import signal

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    torch.set_num_threads(1)
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def a2c(workers=0, **options):
    config = A2CConfig().environment("CartPole-v1").debugging(seed=3)
    config.env_runners(num_env_runners=workers, num_envs_per_env_runner=2, num_groups=2)
    return config.training(**{"updates_per_iteration": 4, "model": {"fcnet_hiddens": [16]}, **options})


def a3c(workers=0, **options):
    config = A3CConfig().environment("CartPole-v1").debugging(seed=3)
    config.env_runners(num_env_runners=workers, num_envs_per_env_runner=2, num_groups=2)
    return config.training(**{"grads_per_step": 9, "model": {"fcnet_hiddens": [16]}, **options})


def digest(algo):
    return {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}


def curve(algo, iterations):
    found = [algo.train().get("episode_reward_mean") for _ in range(iterations)]
    weights = digest(algo)
    algo.stop()
    return found, weights


def network(weights, part, rows):
    """The outputs of a network of one hidden layer, in float64."""
    w = {name: np.asarray(value, np.float64) for name, value in weights.items()}
    hidden = np.tanh(rows @ w[f"{part}.0.weight"].T + w[f"{part}.0.bias"])
    return hidden @ w[f"{part}.2.weight"].T + w[f"{part}.2.bias"]


def returns_of(batch, gamma):
    """R of the pseudocode, backwards, and A = R - V."""
    targets = np.zeros(batch.rewards.shape)
    for env in range(batch.rewards.shape[1]):
        carried = 0.0
        for t in reversed(range(len(batch.rewards))):
            is_last = t == len(batch.rewards) - 1 or batch.ended[t, env]
            value = batch.next_values[t, env] * (1 - batch.terminated[t, env]) if is_last else carried
            carried = targets[t, env] = batch.rewards[t, env] + gamma * value
    return targets, targets - batch.values


def plain_loss(weights, batches, gamma, value_coeff, entropy_coeff):
    """The loss of the batches, with the policy loss, the value loss and the entropy."""
    logs, errors, entropies = [], [], []
    for batch in batches:
        targets, advantages = returns_of(batch, gamma)
        rows = batch.observations.astype(np.float64)
        logits = network(weights, "policy", rows)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        chosen = np.take_along_axis(log_p, batch.actions[..., None], -1)[..., 0]
        logs.append(chosen * advantages)
        errors.append((network(weights, "value", rows)[..., 0] - targets) ** 2)
        entropies.append(-(np.exp(log_p) * log_p).sum(-1))
    policy, value, entropy = -np.mean(logs), np.mean(errors), np.mean(entropies)
    return policy + value_coeff * value - entropy_coeff * entropy, policy, value, entropy


def numeric_gradient(weights, name, loss):
    """The slope of a loss along a fixed direction in one parameter."""
    direction = np.random.default_rng(0).standard_normal(weights[name].shape)
    step = 1e-5
    ends = [loss({**weights, name: weights[name] + sign * step * direction}) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step), direction


def test_a2c_loss_and_gradient_are_those_of_a_plain_recomputation():
    algo = a2c(updates_per_iteration=1, grad_clip=None, entropy_coeff=0.3, gamma=0.9).build_algo()
    for _ in range(5):
        algo.train()
    weights = algo.get_policy().get_weights()
    seen = []
    collect = algo.collect
    algo.collect = lambda steps: seen.extend(collect(steps)) or seen
    metrics = algo.train()["info"]["learner"]
    algo.stop()

    def loss(changed):
        return plain_loss(changed, seen, 0.9, 0.5, 0.3)

    _, policy, value, entropy = loss(weights)
    assert (metrics["policy_loss"], metrics["vf_loss"], metrics["entropy"]) == pytest.approx(
        (policy, value, entropy), rel=1e-4
    )
    for name, parameter in algo.policy.model.named_parameters():
        slope, direction = numeric_gradient(weights, name, lambda changed: loss(changed)[0])
        assert float((parameter.grad.numpy() * direction).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.fixture(scope="module")
def expected():
    return curve(a2c().build_algo(), 6)


@pytest.mark.parametrize("workers", [1, 2])
def test_a2c_curve_is_the_same_for_any_number_of_workers(expected, workers):
    assert curve(a2c(workers).build_algo(), 6) == expected


def test_a2c_goes_on_bit_for_bit_from_a_checkpoint(tmp_path):
    algo = a2c(lr_decay_steps=1_000).build_algo()
    for _ in range(3):
        algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    assert curve(restored, 3) == curve(algo, 3)


def test_a2c_has_box_actions():
    config = a2c(normalize_advantages=True, lambda_=0.9).environment("Pendulum-v1")
    algo = config.build_algo()
    before = digest(algo)
    algo.train()
    assert digest(algo)["log_std"] != before["log_std"]
    algo.stop()


def test_a3c_gradient_is_that_of_the_summed_loss_and_goes_into_shared_rmsprop():
    config = a3c(grads_per_step=1, grad_clip=None, entropy_coeff=0.3, gamma=0.9, lr=0.01)
    algo = config.build_algo()
    worker = algo.rollouts.host
    seen, squares = [], {name: 0.0 for name, _ in algo.policy.model.named_parameters()}
    for group in worker.groups:
        group.rollout = lambda *given, run=group.rollout: seen.append(run(*given)) or seen[-1]
    for _ in range(3):
        weights = algo.get_policy().get_weights()
        metrics = algo.train()["info"]["learner"]
        batch = seen[-1]

        def loss(changed, batch=batch):
            return batch.rewards.size * plain_loss(changed, [batch], 0.9, 0.5, 0.3)[0]

        for name, parameter in worker.policy.model.named_parameters():
            gradient = parameter.grad.numpy()
            slope, direction = numeric_gradient(weights, name, loss)
            assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-3, abs=1e-4)
            squares[name] = 0.99 * squares[name] + 0.01 * gradient**2
            step = 0.01 * gradient / (np.sqrt(squares[name]) + 1e-5)
            assert algo.get_policy().get_weights()[name] == pytest.approx(weights[name] - step, abs=1e-5)
        assert metrics["policy_loss"] == pytest.approx(plain_loss(weights, [batch], 0.9, 0.5, 0.3)[1], rel=1e-3)
    algo.stop()


def test_a3c_gradient_is_clipped_by_its_norm():
    algo = a3c(grads_per_step=1, grad_clip=0.1).build_algo()
    algo.train()
    algo.stop()
    parts = [parameter.grad.numpy().ravel() for parameter in algo.policy.model.parameters()]
    assert np.linalg.norm(np.concatenate(parts)) == pytest.approx(0.1, rel=1e-4)


def test_a3c_with_one_worker_is_that_without(tmp_path):
    """One worker alone has no gradients to overtake; a checkpoint of it holds everything too."""
    expected = curve(a3c(observation_filter="MeanStdFilter").build_algo(), 4)
    algo = a3c(1, observation_filter="MeanStdFilter").build_algo()
    algo.train()
    algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    algo.stop()
    first = expected[0][:2]
    assert (first + curve(restored, 2)[0], digest(restored)) == expected


def test_a3c_gradients_are_late_by_the_other_workers_on_average():
    """Each gradient that is applied makes those under way late by one: with two workers, one."""
    algo = a3c(2, grads_per_step=20).build_algo()
    result = algo.train()
    assert 0 < result["info"]["learner"]["gradient_lag"] <= 1
    assert result["timesteps_this_iter"] == algo.steps_sampled == 20 * 2 * 10
    algo.stop()


class KillsItself(gymnasium.Env):
    """An environment whose process dies at step 50, once."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.marker = pathlib.Path(config["marker"])
        self.is_deadly = config.vector_index == 0
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 50 and self.is_deadly and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps == 30 and self.marker.name == "faulty":
            raise ZeroDivisionError("by nought")
        return np.zeros(2, np.float32), 1.0, self.steps % 10 == 0, False, {}


def test_a3c_goes_on_when_a_worker_dies(tmp_path):
    marker = tmp_path / "killed"
    algo = a3c(2).environment(KillsItself, env_config={"marker": str(marker)}).build_algo()
    results = [algo.train() for _ in range(3)]
    assert marker.exists()
    assert [result["timesteps_this_iter"] for result in results] == [9 * 2 * 10] * 3
    assert results[-1]["episode_reward_max"] == 10
    algo.stop()


def test_fault_of_an_environment_of_a3c_is_named(tmp_path):
    config = a3c(1).environment(KillsItself, env_config={"marker": str(tmp_path / "faulty")})
    (tmp_path / "faulty").touch()
    algo = config.build_algo()
    with pytest.raises(InvalidEnvironmentError, match="by nought, in environment KillsItself number 0"):
        algo.train()
    algo.stop()
