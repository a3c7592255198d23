"""A2C and A3C: losses against plain recomputations, the same curve for A2C, and workers of A3C that are killed."""

import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    torch.set_num_threads(1)
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def a2c(workers=0, **options):
    config = A2CConfig().environment("CartPole-v1").debugging(seed=3)
    config.env_runners(num_env_runners=workers, num_envs_per_env_runner=2, num_groups=2)
    return config.training(**{"updates_per_iteration": 4, "model": {"fcnet_hiddens": [16]}, **options})


def digest(algo):
    return {name: value.tobytes() for name, value in algo.get_weights().items()}


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
    """R of Algorithm S3, backwards, and A = R - V."""
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
    weights = algo.get_weights()
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
