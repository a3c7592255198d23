"""Files of a checkpoint: weights in msgpack, for zray and for plain msgpack-numpy; damaged ones are named."""

import pathlib
import pickle

import cloudpickle
import msgpack
import msgpack_numpy
import numpy as np
import pytest
import torch

from zray import tune
from zray.rllib.algorithm import STATE, Algorithm
from zray.rllib.algorithms.dqn import DQNConfig
from zray.rllib.algorithms.es import ESConfig
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.env.multi_agent_env import MultiAgentCartPole
from zray.rllib.weight_files import FILE, read_weights


def built(env="CartPole-v1", **options):
    config = PPOConfig().environment(env).env_runners(num_groups=1, rollout_fragment_length=8)
    return config.update_from_dict({"num_epochs": 1, **options}).build_algo()


def of_two(agent, *_, **__):
    return "a" if agent == 0 else "b"


def kinds():
    filtered = {"observation_filter": "MeanStdFilter"}
    two = {"env_config": {"num_agents": 2}, "policies": ["a", "b"], "policy_mapping_fn": of_two}
    yield "PPO", lambda: built(**filtered)
    yield "several agents", lambda: built(MultiAgentCartPole, **two, **filtered)
    yield "DQN", lambda: DQNConfig().environment("CartPole-v1").training(learning_starts=32).build_algo()
    yield "ES", lambda: ESConfig().environment("CartPole-v1").training(episodes_per_batch=8).build_algo()


each_kind = pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in kinds()])


def changed(folder, change):
    """Change the content of the file as another program does, by plain msgpack."""
    path = pathlib.Path(folder, FILE)
    content = msgpack.unpackb(path.read_bytes(), object_hook=msgpack_numpy.decode)
    change(content)
    path.write_bytes(msgpack.packb(content, default=msgpack_numpy.encode))


def bits(algo):
    return {
        (policy, name): (value.dtype, value.shape, value.tobytes())
        for policy, weights in algo.get_weights().items()
        for name, value in weights.items()
    }


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
    assert np.array_equal(found["filter"].pop("mean"), algo.policy.filter.mean) and found["filter"].pop("count") == 32.0
    assert found["filter"].keys() == {"squares"}
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


# --- the file as the one place of weights and filters ---


def assert_equal_next_iteration(algo, restored):
    """Both algorithms train once more, to the same return and weights, and stop."""
    ends = [(each.train()["episode_reward_mean"], bits(each)) for each in (algo, restored)]
    assert ends[0] == ends[1]
    for each in (algo, restored):
        each.stop()


@each_kind
def test_algorithm_goes_on_bit_for_bit_from_the_file(make, tmp_path):
    algo = make()
    algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path)))
    assert bits(restored) == bits(algo)
    assert_equal_next_iteration(algo, restored)


def test_weights_and_numbers_of_filters_are_not_in_the_pickle(tmp_path):
    algo = built(observation_filter="MeanStdFilter")
    algo.train()
    algo.save(str(tmp_path))
    pickled = (tmp_path / STATE).read_bytes()
    arrays = [*algo.get_policy().get_weights().values(), algo.policy.filter.mean, algo.policy.filter.squares]
    assert not any(array.any() and array.tobytes() in pickled for array in arrays)
    algo.stop()


@each_kind
def test_changed_file_is_what_a_restored_algorithm_has(make, tmp_path):
    algo = make()
    algo.train()
    path = algo.save(str(tmp_path))

    def change(content):
        for own in content.values():
            own["weights"] = {name: np.full_like(value, 7) for name, value in own["weights"].items()}
            own["filter"] = {name: value * 2 for name, value in own["filter"].items()}

    changed(path, change)
    restored = Algorithm.from_checkpoint(path)
    algo.restore(path)
    for each in (restored, algo):
        assert all((value == 7).all() for own in each.get_weights().values() for value in own.values())
    for name in algo.policy_ids():
        assert vars(algo.get_policy(name).filter).keys() == vars(restored.get_policy(name).filter).keys()
        if hasattr(algo.get_policy(name).filter, "count"):
            assert algo.get_policy(name).filter.count == restored.get_policy(name).filter.count > 2
    for each in (restored, algo):
        each.train()
        each.stop()


@each_kind
def test_former_checkpoint_with_weights_in_the_pickle_is_read(make, tmp_path):
    algo = make()
    algo.train()
    path = algo.save(str(tmp_path))
    state = pickle.loads((tmp_path / STATE).read_bytes())
    state.update(weights=algo.policy.get_weights(), filter=algo.policy.filter)
    (tmp_path / STATE).write_bytes(cloudpickle.dumps(state))
    (tmp_path / FILE).unlink()  # the first checkpoints had none
    restored = Algorithm.from_checkpoint(path)
    assert_equal_next_iteration(algo, restored)


def test_numbers_without_dimensions_and_of_each_type_keep_dtype_and_shape(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self, observation_space, action_space, outputs):
            super().__init__()
            self.logits, self.values = torch.nn.Linear(4, outputs), torch.nn.Linear(4, 1)
            for number, dtype in enumerate((torch.int64, torch.float64, torch.bool, torch.float16, torch.uint8)):
                self.register_buffer(f"scalar_{number}", torch.ones((), dtype=dtype))
                self.register_buffer(f"empty_{number}", torch.ones((0, 3), dtype=dtype))
                self.register_buffer(f"turned_{number}", torch.ones((2, 3), dtype=dtype).T)

        def forward(self, rows):
            return self.logits(rows), self.values(rows)[:, 0]

    algo = built(model={"custom_model": Model})
    algo.train()
    path = algo.save(str(tmp_path))
    restored = Algorithm.from_checkpoint(path)
    assert bits(restored) == bits(algo)
    for name, value in algo.get_policy().get_weights().items():
        found = read_weights(path)["default_policy"][name]
        assert (found.dtype, found.shape) == (value.dtype, value.shape), name
    for each in (algo, restored):
        each.stop()


def lacking(content):
    del content["b"]


def without_filter(content):
    content["a"]["filter"] = {}


def of_text(content):
    content["a"]["filter"]["count"] = "many"


def renamed(content):
    content["a"]["filter"]["median"] = content["a"]["filter"].pop("mean")


def of_objects(content):
    content["a"]["weights"]["w"] = np.array([print], dtype=object)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "does not exist.*earlier checkpoint"),
        (lambda path: path.write_bytes(b"garbage"), "is damaged.*earlier checkpoint"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is damaged.*earlier checkpoint"),
        (lambda path: path.write_bytes(msgpack.packb({"a": {"weights": 1}})), "is damaged.*earlier checkpoint"),
        (lambda path: changed(path.parent, of_objects), "is damaged.*objects.*earlier checkpoint"),
        (lambda path: changed(path.parent, lacking), "holds the policies a, where the checkpoint has a, b.*earlier"),
        (
            lambda path: changed(path.parent, without_filter),
            "damaged: the filter of 'a' has no numbers, not .*mean.*earlier",
        ),
        (lambda path: changed(path.parent, of_text), "is damaged.*count of 'a' is no array of numbers.*earlier"),
        (lambda path: changed(path.parent, renamed), "damaged: the filter of 'a' has .*median.*, not .*mean.*earlier"),
    ],
    ids=[
        "absent",
        "text",
        "cut",
        "of another form",
        "objects",
        "policy",
        "no filter",
        "text as a number",
        "other filter",
    ],
)
def test_damaged_file_is_named_before_anything_changes(tmp_path, damage, words):
    algo = built(MultiAgentCartPole, policies=["a", "b"], observation_filter="MeanStdFilter", policy_mapping_fn=of_two)
    path = algo.save_to_path(tmp_path)
    algo.train()
    before = bits(algo)
    damage(tmp_path / FILE)
    for restore in (algo.restore, algo.restore_from_path, Algorithm.from_checkpoint):
        with pytest.raises((FileNotFoundError, ValueError), match=f"{FILE}.*{words}"):
            restore(path)
    assert bits(algo) == before and algo.iteration == 1
    algo.stop()


@each_kind
@pytest.mark.parametrize(("value", "is_former"), [(np.nan, False), (np.inf, True)])
def test_weight_that_is_no_finite_number_is_named_before_anything_changes(make, value, is_former, tmp_path):
    algo = make()
    path = algo.save_to_path(tmp_path)
    name = list(algo.policy_ids())[-1]
    trained = algo.get_policy(name).trained_names()
    parameter = [key for key in algo.get_policy(name).get_weights() if key in trained][-1]

    def damage(content):
        content[name]["weights"][parameter] = content[name]["weights"][parameter].copy()
        content[name]["weights"][parameter].flat[-1] = value

    if is_former:
        weights = algo.get_weights()
        damage({each: {"weights": own} for each, own in weights.items()})
        state = pickle.loads((tmp_path / STATE).read_bytes())
        weights = weights if isinstance(state["filter"], dict) else weights[name]
        state.update(weights=weights, filter=algo.policy.filter)
        (tmp_path / STATE).write_bytes(cloudpickle.dumps(state))
    else:
        changed(path, damage)
    algo.train()
    before = bits(algo)
    words = f"{STATE if is_former else FILE} holds NaN or infinity in the parameter '{parameter}' of policy '{name}'"
    for restore in (algo.restore, algo.restore_from_path, Algorithm.from_checkpoint):
        with pytest.raises(ValueError, match=f"{words}.*earlier checkpoint"):
            restore(path)
    assert bits(algo) == before and algo.iteration == 1
    algo.stop()


@pytest.mark.parametrize("part", ["mean", "squares", "count"])
def test_statistic_of_a_filter_that_is_no_finite_number_is_named(part, tmp_path):
    algo = built(observation_filter="MeanStdFilter")
    algo.train()
    path = algo.save_to_path(tmp_path)
    changed(path, lambda content: content["default_policy"]["filter"].update({part: np.nan * algo.policy.filter.mean}))
    if part == "count":
        changed(path, lambda content: content["default_policy"]["filter"].update(count=float("inf")))
    with pytest.raises(
        ValueError, match=f"{FILE} holds NaN or infinity in the filter's '{part}' of policy 'default_pol"
    ):
        algo.restore(path)
    algo.stop()


def test_infinity_that_belongs_to_a_model_is_restored(tmp_path):
    class Model(torch.nn.Module):
        """A model with minus infinity in a mask, in a frozen parameter and in one that is trained; NaN in a buffer."""

        def __init__(self, observation_space, action_space, outputs):
            super().__init__()
            self.logits, self.values = torch.nn.Linear(4, outputs), torch.nn.Linear(4, 1)
            self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
            self.register_buffer("unset", torch.full((3,), torch.nan))
            self.frozen = torch.nn.Parameter(torch.full((2,), -torch.inf), requires_grad=False)
            self.least = torch.nn.Parameter(torch.tensor([0.0, -torch.inf]))

        def forward(self, rows):
            return self.logits(rows), self.values(rows)[:, 0]

    algo = built(model={"custom_model": Model})
    algo.train()
    path = algo.save(str(tmp_path))
    assert_equal_next_iteration(algo, Algorithm.from_checkpoint(path))


def test_random_numbers_of_the_program_are_in_no_checkpoint_and_stay(tmp_path):
    algo = built()
    own = torch.get_rng_state()
    algo.reseed(3)
    assert torch.equal(torch.get_rng_state(), own)
    path = algo.save(str(tmp_path))
    state = pickle.loads((tmp_path / STATE).read_bytes())
    assert "torch" not in state
    (tmp_path / STATE).write_bytes(cloudpickle.dumps({**state, "torch": own}))  # as in former checkpoints
    assert_equal_next_iteration(algo, Algorithm.from_checkpoint(path))


def test_weights_of_other_shapes_in_the_file_are_named(tmp_path):
    algo = built()
    path = algo.save_to_path(tmp_path)

    def change(content):
        content["default_policy"]["weights"]["policy.0.weight"] = np.zeros((2, 2), np.float32)

    changed(path, change)
    with pytest.raises(ValueError, match=r"other shapes.*policy.0.weight \(2, 2\) there"):
        algo.restore(path)
    algo.stop()


def test_file_in_the_checkpoint_of_a_trial_is_what_the_trial_goes_on_with(tmp_path):
    config = {"env": "CartPole-v1", "num_groups": 1, "rollout_fragment_length": 8, "num_epochs": 1, "lr": 0.0}
    options = {"storage_path": str(tmp_path), "checkpoint_at_end": True, "verbose": 0}
    first = tune.run("PPO", name="first", config=config, stop={"training_iteration": 1}, **options)
    path = first.get_last_checkpoint(first.trials[0]).path

    def change(content):
        weights = content["default_policy"]["weights"]
        content["default_policy"]["weights"] = {name: np.full_like(value, 0.5) for name, value in weights.items()}

    changed(path, change)
    second = tune.run("PPO", name="second", config=config, stop={"training_iteration": 2}, restore=path, **options)
    found = read_weights(second.get_last_checkpoint(second.trials[0]))["default_policy"]
    assert all((value == 0.5).all() for value in found.values())
