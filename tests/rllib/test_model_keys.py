"""Keys of `model`: each is read, or refused, or said to change nothing."""

import os
import sys

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from tests.rllib.test_messages import Shelf, small  # noqa: E402
from zray.rllib import spellings  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.model_keys import ABSENT, NEUTRAL  # noqa: E402
from zray.rllib.models.catalog import MODEL_DEFAULTS  # noqa: E402
from zray.rllib.policies import Policy  # noqa: E402
from zray.rllib.small_networks import SmallNetwork  # noqa: E402

BOX, TWO = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(2)
IMAGE = gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)
CONFIGS = {"A2C": A2CConfig, "A3C": A3CConfig, "DQN": DQNConfig, "ES": ESConfig, "PPO": PPOConfig, "SAC": SACConfig}


class Moved(Shelf):
    """An environment with a Box action."""

    action_space = BOX


class Plain(torch.nn.Module):
    """A model of the program."""

    def __init__(self, observation_space, action_space, num_outputs):
        super().__init__()
        self.layer = torch.nn.Linear(2, num_outputs)

    def forward(self, rows):
        return self.layer(rows)


@pytest.fixture
def said(monkeypatch, caplog):
    """The lines that were logged; each is said anew."""
    monkeypatch.setattr(spellings, "_said", set())
    return lambda: [record.getMessage() for record in caplog.records]


def built(name, model, env=None):
    config = small(CONFIGS[name](), env or (Moved if name == "SAC" else Shelf)).training(model=model)
    return (config.training(noise_size=1_000) if name == "ES" else config).build_algo()


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("ES", {"custom_model": Plain}, "ES has no custom_model yet: leave it out, and give fcnet_hiddens; or use PPO"),
        ("SAC", {"custom_model": Plain}, "SAC has no custom_model yet"),
        ("ES", {"use_lstm": True}, "ES has no recurrent models yet: use PPO, or give the last observations"),
        ("SAC", {"use_lstm": True}, "SAC has no recurrent models yet"),
        ("ES", {"use_attention": True}, "no use_attention yet: use_lstm"),
        *((name, {"no_final_linear": True}, "no no_final_linear yet: give a custom_model") for name in CONFIGS),
        ("PPO", {"custom_action_dist": "mine"}, "no custom_action_dist yet: give the action space another form"),
        ("PPO", {"custom_preprocessor": "mine", "custom_model": Plain}, "no custom_preprocessor yet: change observ"),
    ],
)
def test_model_that_an_algorithm_does_not_have_is_refused_before_the_first_rollout(name, model, message):
    with pytest.raises(NotImplementedError, match=message):
        built(name, model)


def test_shared_layers_are_those_of_policy_and_value():
    policy = Policy(BOX, TWO, {"fcnet_hiddens": [5], "fcnet_activation": "tanh", "vf_share_layers": True})
    shapes = {name: tuple(value.shape) for name, value in policy.model.state_dict().items() if "weight" in name}
    assert sorted(shapes.values()) == [(1, 5), (2, 5), (5, 2)]
    assert not SmallNetwork.fits(policy.model) and policy.unread_keys == {}
    parameters, values = policy.forward(np.ones((3, 2), np.float32))
    assert parameters.shape == (3, 2) and values.shape == (3,)


def test_layers_behind_convolutions_have_an_activation_of_their_own():
    model = {"fcnet_hiddens": [], "fcnet_activation": "tanh", "conv_filters": [[4, 8, 1]], "post_fcnet_hiddens": [3]}
    policy = Policy(IMAGE, TWO, {**model, "post_fcnet_activation": "tanh"})
    kinds = [type(layer) for layer in policy.model.body.layers]
    assert kinds[-1] is torch.nn.Tanh and torch.nn.ReLU in kinds


def test_shared_layers_are_trained():
    algo = built("PPO", {"vf_share_layers": True})
    *_, biases = algo.policy.model.body.parameters()
    before = biases.detach().clone()
    algo.train()
    assert not torch.equal(before, biases)
    algo.check(verbose=False)
    algo.stop()


# A value other than the default of each key that a policy may read; of each kind of policy, those that it reads.
OTHER = {
    "fcnet_hiddens": [5],
    "fcnet_activation": "relu",
    "conv_filters": [[4, 8, 1]],
    "conv_activation": "tanh",
    "post_fcnet_hiddens": [3],
    "post_fcnet_activation": "tanh",
    "log_std_init": -1.0,
    "vf_share_layers": True,
    "lstm_cell_size": 4,
    "max_seq_len": 3,
    "dim": 42,
    "framestack": False,
    "custom_model_config": {"a": 1},
}
KINDS = {
    "flat": (BOX, BOX, {}, {"fcnet_hiddens", "fcnet_activation", "log_std_init", "vf_share_layers"}),
    "discrete": (BOX, TWO, {}, {"fcnet_hiddens", "fcnet_activation", "vf_share_layers"}),
    "image": (
        IMAGE,
        TWO,
        {},
        {"conv_filters", "conv_activation", "post_fcnet_hiddens", "post_fcnet_activation", "vf_share_layers"},
    ),
    "lstm": (
        BOX,
        TWO,
        {"use_lstm": True, "lstm_cell_size": 2},
        {"fcnet_hiddens", "fcnet_activation", "lstm_cell_size", "max_seq_len", "vf_share_layers"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_policy_knows_which_keys_of_its_model_were_read(kind):
    observations, actions, own, read = KINDS[kind]
    policy = Policy(observations, actions, {"fcnet_hiddens": [2], "fcnet_activation": "tanh", **own, **OTHER})
    assert set(OTHER) - set(policy.unread_keys) == read
    without = Policy(observations, actions, {"fcnet_hiddens": [2], "fcnet_activation": "tanh", **own})
    assert str(policy.model) != str(without.model)


@pytest.mark.parametrize("name", CONFIGS)
def test_each_key_of_a_model_is_read_or_refused_or_said_to_change_nothing(name, said):
    without_word = {"dueling", "use_lstm", "custom_model", "free_log_std"}
    keys = {*MODEL_DEFAULTS, *NEUTRAL, "of_my_own", "fcnet_weights_initializer"} - without_word - set(ABSENT)
    algo = built(name, {key: OTHER.get(key, 7) for key in keys})
    algo.stop()
    lines = [line for line in said() if "model[" in line]
    assert {line.split("'")[1] for line in lines} == keys & set(algo.policy.unread_keys)


def test_defaults_of_ray_are_given_without_a_word(said):
    given = {key: value[0] for key, value in NEUTRAL.items() if key != "dueling"}
    built("PPO", {**given, "use_attention": False, "no_final_linear": False, "custom_action_dist": None}).stop()
    assert said() == []


def test_cells_without_an_lstm_are_said_with_what_to_do(said):
    built("PPO", {"lstm_cell_size": 32}).stop()
    (line,) = said()
    assert line == (
        "The option \"model['lstm_cell_size']\" changes nothing: the policy has no LSTM: give use_lstm=True too."
    )


@pytest.mark.parametrize(
    ("config", "space", "words"),
    [
        (DQNConfig, gymnasium.spaces.Box(0, 1, (1,)), "the action space is Box: use PPO or SAC"),
        (DQNConfig, gymnasium.spaces.Tuple([TWO, BOX]), "not those of Tuple yet: use PPO."),
        (DQNConfig, gymnasium.spaces.MultiDiscrete([2, 2]), "not those of MultiDiscrete yet: use PPO."),
        (SACConfig, gymnasium.spaces.Tuple([TWO, BOX]), "not of Tuple: use PPO for these"),
        (SACConfig, TWO, "not of Discrete: use DQN for these"),
    ],
)
def test_actions_that_an_algorithm_does_not_have_name_one_that_has_them(config, space, words):
    env = type("Acting", (Shelf,), {"action_space": space})
    with pytest.raises((ValueError, NotImplementedError), match=words):
        small(config(), env).build_algo()


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "ES"])
def test_learning_rate_is_a_number(name):
    with pytest.raises(TypeError, match=f"'lr' of {name}Config is a number, at least 0, not None"):
        CONFIGS[name]().environment(Shelf).training(lr=None).validate()
    ESConfig().environment(Shelf).training(lr=None).validate()


@pytest.mark.parametrize("name", CONFIGS)
def test_each_option_is_read_or_said_to_change_nothing(name, said):
    """Reads of an option are looked for while an algorithm is made, trained, and asked for an action."""
    config = small(CONFIGS[name](), Moved if name == "SAC" else Shelf)
    brief = {"noise_size": 1_000, "episodes_per_batch": 4, "learning_starts": 4, "grads_per_step": 2, "num_epochs": 1}
    more = {"updates_per_iteration": 1, "optimizer": "sgd", "kl_coeff": 0.1, "eval_prob": 0.5}
    config.training(**{key: value for key, value in {**brief, **more}.items() if key in config})
    config.evaluation(evaluation_interval=1, evaluation_duration=1)
    config.options = Traced(config.options)
    algo = config.build_algo()
    traced = algo.algorithm_config.options
    algo.train()
    algo.compute_single_action(np.zeros(2, np.float32))
    algo.stop()
    for option in set(traced) - traced.read - ELSEWHERE:
        assert option in algo.unread_options, option
        other = CONFIGS[name]().environment(Shelf)
        other.options[option] = {"batch_mode": "complete_episodes"}.get(option, 1 - bool(other.options[option]))
        other.validate()
        assert any(f"The option {option!r} changes nothing: " in line for line in said()), option


# Other tests look at these: they are said when they are given, are of several agents, or are those of an evaluation.
ELSEWHERE = {
    *("observation_space", "action_space", "framework", "policies_to_train", "policy_mapping_fn"),
    *("evaluation_duration", "evaluation_duration_unit", "evaluation_sample_timeout_s"),
}


class Traced(dict):
    """Options that note their names where a module of RLlib other than those of options reads them."""

    def __init__(self, options):
        super().__init__(options)
        self.read = set()

    def __deepcopy__(self, memo):
        return self

    def copy(self):
        return self

    def __getitem__(self, key):
        frame = sys._getframe(1)
        while frame.f_code.co_filename.endswith(("rllib/config.py", "rllib/schedules.py", "test_model_keys.py")):
            frame = frame.f_back
        is_whole = frame.f_code.co_name in ("translated", "options_of_evaluation")  # these read all of them
        if not is_whole and os.path.join("zray", "rllib") in frame.f_code.co_filename:
            self.read.add(key)
        return super().__getitem__(key)

    def get(self, key, default=None):
        return self[key] if key in self else default


def test_algorithm_without_several_agents_refuses_policies():
    for name in ("A2C", "ES", "SAC"):
        config = small(CONFIGS[name](), Moved if name == "SAC" else Shelf).multi_agent(policies={"one"})
        with pytest.raises(NotImplementedError, match=f"{name} has no environments of several agents yet"):
            config.build_algo()
