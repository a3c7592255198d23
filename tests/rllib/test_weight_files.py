"""Weights of a checkpoint in msgpack: read and written by zray and by plain msgpack-numpy."""

import pathlib

import msgpack
import msgpack_numpy
import numpy as np
import pytest

from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.env.multi_agent_env import MultiAgentCartPole
from zray.rllib.weight_files import FILE, read_weights


def built(env="CartPole-v1", **options):
    config = PPOConfig().environment(env).env_runners(num_groups=1, rollout_fragment_length=8)
    return config.update_from_dict({"num_epochs": 1, **options}).build_algo()


def equal(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def test_plain_msgpack_reads_weights_and_filter_of_a_checkpoint(tmp_path):
    algo = built(observation_filter="MeanStdFilter")
    algo.train()
    path = algo.save_to_path(tmp_path)
    found = msgpack.unpackb((tmp_path / FILE).read_bytes(), object_hook=msgpack_numpy.decode)["default_policy"]
    assert equal(found["weights"], algo.get_weights()) and equal(read_weights(path)["default_policy"], found["weights"])
    assert np.array_equal(found["filter"]["mean"], algo.policy.filter.mean) and found["filter"]["count"] == 32.0
    algo.stop()


def test_weights_that_plain_msgpack_has_written_are_taken(tmp_path):
    algo = built()
    changed = {name: value + 1 for name, value in algo.get_weights().items()}
    state = {"default_policy": {"weights": changed, "filter": {}}}
    (tmp_path / FILE).write_bytes(msgpack.packb(state, default=msgpack_numpy.encode))
    algo.learner_group.set_weights(read_weights(tmp_path))
    assert equal(algo.get_weights(), changed)
    algo.stop()


def test_file_has_the_weights_of_each_policy(tmp_path):
    algo = built(MultiAgentCartPole, policies=["a", "b"], policy_mapping_fn=lambda agent, *_, **__: "a")
    found = read_weights(algo.save_to_path(tmp_path))
    assert list(found) == ["a", "b"] and equal(found["b"], algo.get_policy("b").get_weights())
    algo.stop()


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=FILE):
        read_weights(pathlib.Path(tmp_path))
