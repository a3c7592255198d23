"""Files of a checkpoint: weights in msgpack, for zray and for plain msgpack-numpy; damaged ones are named."""

import pathlib
import pickle

import msgpack
import msgpack_numpy
import numpy as np
import pytest

from zray.rllib.algorithm import STATE, Algorithm
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
    assert equal(found["weights"], algo.get_policy().get_weights()) and equal(
        read_weights(path)["default_policy"], found["weights"]
    )
    assert np.array_equal(found["filter"]["mean"], algo.policy.filter.mean) and found["filter"]["count"] == 32.0
    algo.stop()


def test_weights_that_plain_msgpack_has_written_are_taken(tmp_path):
    algo = built()
    changed = {name: value + 1 for name, value in algo.get_policy().get_weights().items()}
    state = {"default_policy": {"weights": changed, "filter": {}}}
    (tmp_path / FILE).write_bytes(msgpack.packb(state, default=msgpack_numpy.encode))
    algo.learner_group.set_weights(read_weights(tmp_path))
    assert equal(algo.get_policy().get_weights(), changed)
    algo.stop()


def test_file_has_the_weights_of_each_policy(tmp_path):
    algo = built(MultiAgentCartPole, policies=["a", "b"], policy_mapping_fn=lambda agent, *_, **__: "a")
    found = read_weights(algo.save_to_path(tmp_path))
    assert list(found) == ["a", "b"] and equal(found["b"], algo.get_policy("b").get_weights())
    algo.stop()


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=FILE):
        read_weights(pathlib.Path(tmp_path))


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:-9], lambda data: b"hello", lambda data: msgpack.packb({"a": 1})],
    ids=["empty", "cut", "text", "another program's"],
)
def test_damaged_file_of_weights_is_named(tmp_path, damage):
    state = {"default_policy": {"weights": {"w": np.ones(9)}, "filter": {}}}
    (tmp_path / FILE).write_bytes(damage(msgpack.packb(state, default=msgpack_numpy.encode)))
    with pytest.raises(ValueError, match=rf"{FILE} is damaged.*earlier checkpoint"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "of a checkpoint is damaged: EOFError.*earlier checkpoint"),
        (b"hello", "of a checkpoint is damaged: UnpicklingError.*earlier checkpoint"),
        (None, "of a checkpoint is damaged: .*earlier checkpoint"),
        (pickle.dumps({"weights": 1}), "holds no checkpoint of an algorithm but dict without filter, .*earlier"),
        (pickle.dumps([1]), "holds no checkpoint of an algorithm but list.*earlier"),
        (b"cabsent_module\nState\n.", "of a checkpoint cannot be read.*absent_module.*Make the module importable"),
    ],
    ids=["empty", "text", "cut", "dict", "list", "of an absent module"],
)
def test_damaged_state_of_an_algorithm_is_named(tmp_path, data, words):
    algo = built()
    path = algo.save_to_path(tmp_path)
    (tmp_path / STATE).write_bytes((tmp_path / STATE).read_bytes()[:-100] if data is None else data)
    for restore in (algo.restore, algo.restore_from_path, Algorithm.from_checkpoint):
        with pytest.raises(ValueError, match=f"{STATE} {words}"):
            restore(path)
    algo.stop()
