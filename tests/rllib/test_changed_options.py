"""Options that differ from a checkpoint's act from the restore on, as PBT needs them."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402

SMALL = {"model": {"fcnet_hiddens": [8]}}
RATES = {
    "ppo": (PPOConfig, {"num_epochs": 1, "minibatch_size": 16}, "lr"),
    "a2c": (A2CConfig, {}, "lr"),
    "a3c": (A3CConfig, {}, "lr"),
    "dqn": (DQNConfig, {"learning_starts": 16, "updates_per_iteration": 2}, "lr"),
    "sac": (SACConfig, {"learning_starts": 16}, "lr"),
    "es": (ESConfig, {"episodes_per_batch": 4, "noise_size": 10_000}, "stepsize"),
}


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def made(name, rate):
    config, options, key = RATES[name]
    env = "Pendulum-v1" if name == "sac" else "CartPole-v1"
    algo = config().environment(env).debugging(seed=3)
    if name != "es":
        algo.env_runners(num_envs_per_env_runner=2, num_groups=2, rollout_fragment_length=16)
    return algo.training(**options, **SMALL, **{key: rate}).build_algo()


def moved(name, path, rate):
    """How far the weights go in an iteration behind a restore, with this rate."""
    algo = made(name, rate)
    algo.restore(path)
    before = algo.get_policy().get_weights()
    algo.train()
    after = algo.get_policy().get_weights()
    algo.stop()
    return sum(float(abs(after[key].astype(float) - before[key]).sum()) for key in before)


@pytest.mark.parametrize("name", RATES)
def test_learning_rate_of_the_program_acts_after_a_restore(name, tmp_path):
    algo = made(name, 1e-2)
    for _ in range(3):
        algo.train()
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    assert moved(name, path, 1e-2) > 100 * moved(name, path, 1e-6)


def test_checkpoint_is_saved_again_under_a_bare_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    algo = made("ppo", 1e-2)
    for _ in range(2):
        algo.train()
        algo.save("ck")
    algo.stop()
    restored = made("ppo", 1e-2)
    restored.restore("ck")
    assert restored.iteration == 2
    restored.stop()


def test_checkpoint_of_another_algorithm_is_refused_before_anything_changes(tmp_path):
    algo = made("ppo", 1e-2)
    algo.train()
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    other = made("a2c", 1e-2)
    before = other.get_policy().get_weights()
    with pytest.raises(ValueError, match="is of PPO, and this algorithm is A2C"):
        other.restore(path)
    assert other.iteration == 0 and all(
        (before[key] == value).all() for key, value in other.get_policy().get_weights().items()
    )
    other.stop()


def test_checkpoint_of_other_shapes_is_refused_before_anything_changes(tmp_path):
    algo = made("ppo", 1e-2)
    algo.train()
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    other = PPOConfig().environment("CartPole-v1").training(model={"fcnet_hiddens": [9]}).build_algo()
    before = other.get_policy().get_weights()
    with pytest.raises(ValueError, match=r"\(8, 4\) there, \(9, 4\) here"):
        other.restore(path)
    assert other.iteration == 0 and all(
        (before[key] == value).all() for key, value in other.get_policy().get_weights().items()
    )
    other.stop()
