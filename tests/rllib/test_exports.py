"""Policies and their states outside of an algorithm, in Ray's spellings."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.policy.policy import Policy  # noqa: E402

OBSERVATION = np.array([0.1, 0.2, 0.3, 0.4], np.float32)


@pytest.fixture(params=[PPOConfig, DQNConfig, ESConfig], ids=lambda each: each.__name__)
def algo(request):
    found = request.param().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]}).build_algo()
    yield found
    found.stop()


def is_same(policy, other):
    mine, its = policy.get_weights(), other.get_weights()
    assert list(mine) == list(its)
    return all(np.array_equal(mine[name], its[name]) for name in mine)


def test_policy_is_written_and_read(algo, tmp_path):
    policy = algo.get_policy()
    policy.export_checkpoint(str(tmp_path / "own"))
    algo.export_policy_checkpoint(str(tmp_path / "exported"))
    for name in ("own", "exported"):
        found = Policy.from_checkpoint(str(tmp_path / name))
        assert is_same(found, policy)
        rng = np.random.default_rng(0)
        assert found.act(OBSERVATION, False, rng) == policy.act(OBSERVATION, False, rng)


def test_policies_of_a_checkpoint_are_read_by_name(algo, tmp_path):
    saved = algo.save(str(tmp_path / "saved"))
    found = Policy.from_checkpoint(saved)
    assert list(found) == ["default_policy"] and is_same(found["default_policy"], algo.get_policy())
    assert Policy.from_checkpoint(saved, policy_ids=["other"]) == {}


def test_model_is_exported_in_each_form(algo, tmp_path):
    if not hasattr(algo.get_policy(), "model"):
        with pytest.raises(NotImplementedError, match="no module of torch"):
            algo.export_model(["model"], str(tmp_path))
        return
    algo.export_policy_model(str(tmp_path / "model"))
    assert os.path.exists(tmp_path / "model" / "model.pt")
    found = algo.export_model(["model", "checkpoint"], str(tmp_path))
    assert found == {"model": str(tmp_path / "model"), "checkpoint": str(tmp_path / "checkpoint")}
    assert is_same(Policy.from_checkpoint(found["checkpoint"]), algo.get_policy())
    with pytest.raises(ValueError, match="are 'model' and 'checkpoint', not 'h5'"):
        algo.export_model("h5")


def test_state_of_an_algorithm_is_taken_by_another_one(algo):
    other = algo.algorithm_config.copy().debugging(seed=7).build_algo()
    assert not is_same(other.get_policy(), algo.get_policy())
    other.set_state(algo.get_state())
    assert is_same(other.get_policy(), algo.get_policy())
    other.stop()


def test_checkpoint_is_saved_into_a_folder_that_is_made(algo, tmp_path):
    algo.save_checkpoint(str(tmp_path / "a" / "b"))
    again = Algorithm.from_checkpoint(str(tmp_path / "a" / "b"))
    assert is_same(again.get_policy(), algo.get_policy())
    again.stop()


def test_evaluation_has_a_configuration_and_no_processes():
    made = PPOConfig().environment("CartPole-v1").evaluation(evaluation_config={"env_config": {"a": 1}})
    algo = made.training(model={"fcnet_hiddens": [4]}).build_algo()
    found = algo.evaluation_config
    assert (found.explore, found["env_config"], found.lr) == (False, {"a": 1}, algo.config.lr)
    assert algo.config.explore and algo.config["env_config"] == {}
    for name in ("eval_env_runner_group", "evaluation_workers"):
        assert not hasattr(algo, name)
        with pytest.raises(AttributeError, match=r"algo.evaluate\(\) plays them in this process"):
            getattr(algo, name)
    algo.stop()
