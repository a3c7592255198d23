"""Trials that go on from the checkpoint of another one, as PBT's do, explore by random numbers of their own."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402

from .agents import Roles  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NAMES = ["PPO", "A2C", "A3C", "DQN", "SAC", "ES", "PPO of agents", "DQN of agents"]
FEW = {"learning_starts": 0, "updates_per_iteration": 1, "grads_per_step": 1, "num_epochs": 1, "minibatch_size": 8}
OF_ES = {"episodes_per_batch": 4, "noise_size": 10_000, "horizon": 20}


def made(name, trial_id="", **options):
    """An algorithm, as a trial's process makes one."""
    name, _, of_agents = name.partition(" ")
    config = get_algorithm_class(name).get_default_config()
    config.environment("Pendulum-v1" if name == "SAC" else "CartPole-v1").training(model={"fcnet_hiddens": [4]})
    if of_agents:
        config.environment(Roles).multi_agent(
            policies=["same", "other"], policy_mapping_fn=lambda agent, *args, **kwargs: agent
        )
    config.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=8)
    wanted = {**FEW, **(OF_ES if name == "ES" else {"train_batch_size": 16 if name == "PPO" else 8}), **options}
    config.update_from_dict({key: each for key, each in wanted.items() if key in config})
    algo = config.algo_class.__new__(config.algo_class)
    algo._trial_facts = {"trial_id": trial_id} if trial_id else {}
    algo.__init__(config)
    return algo


def went_on(name, path, trial_id, iterations=2, **options):
    """The weights behind some iterations of a trial that has loaded a checkpoint."""
    algo = made(name, trial_id, **options)
    algo.restore(path)
    for _ in range(iterations):
        algo.train()
    weights = algo.get_weights()
    algo.stop()
    return np.concatenate([np.ravel(each) for each in leaves(weights)])


def leaves(weights):
    for each in weights.values():
        yield from leaves(each) if isinstance(each, dict) else [each]


@pytest.mark.parametrize("name", NAMES)
def test_copy_of_a_trial_draws_other_numbers_than_its_source(name, tmp_path):
    source = made(name, "abcde_00000")
    source.train()
    path = source.save(str(tmp_path / "saved"))
    for _ in range(2):
        source.train()
    expected = np.concatenate([np.ravel(each) for each in leaves(source.get_weights())])
    source.stop()
    same, copied, again, third = (
        went_on(name, path, f"{experiment}_{number:05d}")
        for experiment, number in (("abcde", 0), ("abcde", 1), ("fffff", 1), ("abcde", 2))
    )
    assert np.array_equal(same, expected)
    assert np.array_equal(copied, again)  # of the same number in another experiment with these seeds
    assert not np.array_equal(copied, same) and not np.array_equal(third, copied)
    assert not np.array_equal(went_on(name, path, "abcde_00001", seed=5), copied)
    assert np.array_equal(went_on(name, path, ""), expected)  # no trial at all


@pytest.mark.parametrize("name", ["PPO", "DQN", "ES"])
def test_copy_goes_on_exactly_from_its_own_checkpoints(name, tmp_path):
    source = made(name, "abcde_00000")
    source.train()
    path = source.save(str(tmp_path / "saved"))
    source.stop()
    copied = made(name, "abcde_00001")
    copied.restore(path)
    copied.train()
    own = copied.save(str(tmp_path / "own"))
    copied.stop()
    assert np.array_equal(went_on(name, own, "abcde_00001", 1), went_on(name, path, "abcde_00001", 2))


def test_program_may_give_an_algorithm_other_numbers(tmp_path):
    algo = made("PPO")
    path = algo.save(str(tmp_path / "saved"))
    found = []
    for seed in (1, 1, 2):
        algo.restore(path)
        algo.reseed(seed)
        algo.train()
        found.append(np.concatenate([np.ravel(each) for each in leaves(algo.get_weights())]))
    algo.stop()
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[1], found[2])
