"""Messages about options, environments and models of a program's own, and old programs that need none."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.models.torch.torch_modelv2 import TorchModelV2  # noqa: E402
from zray.rllib.policy.policy import PolicySpec  # noqa: E402

BOX, TWO = gymnasium.spaces.Box(0, 1, (2,)), gymnasium.spaces.Discrete(2)


class Shelf(gymnasium.Env):
    """An environment whose observation and reward are given."""

    observation_space, action_space = BOX, TWO

    def __init__(self, config):
        self.observation, self.reward = config.get("observation", np.zeros(2, np.float32)), config.get("reward", 1.0)
        self.late, self.steps = config.get("late", 0), 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32) if self.late else self.observation, {}

    def step(self, action):
        self.steps += 1
        is_late = self.steps > self.late
        observation, reward = (self.observation, self.reward) if is_late else (np.zeros(2, np.float32), 1.0)
        return observation, reward, self.steps % 5 == 0, False, {}


def small(config=None, env=Shelf, **env_config):
    made = (config or PPOConfig()).environment(env, env_config=env_config)
    made.env_runners(num_groups=1, num_envs_per_env_runner=1, rollout_fragment_length=8)
    return made.training(model={"fcnet_hiddens": [4]})


@pytest.mark.parametrize(
    ("option", "kind", "message"),
    [
        ({"lr": "fast"}, TypeError, "The option 'lr' of PPOConfig is a number, at least 0, not 'fast'"),
        ({"lr": None}, TypeError, "The option 'lr' of PPOConfig is a number, at least 0, not None"),
        ({"num_epochs": 0}, ValueError, "'num_epochs' of PPOConfig is an integer, at least 1, not 0"),
        ({"gamma": 1.5}, ValueError, "'gamma' of PPOConfig is a number, at least 0 and at most 1, not 1.5"),
        ({"num_workers": "2"}, TypeError, "'num_env_runners' of PPOConfig is an integer, at least 0, not '2'"),
        ({"clip_param": None}, TypeError, "'clip_param' of PPOConfig is a number, at least 0, not None"),
        ({"num_groups": True}, TypeError, "'num_groups' of PPOConfig is an integer, at least 1, not True"),
        ({"model": {"fcnet_hiddens": 32}}, TypeError, "is a list of units, such as .64, 64., not 32"),
        ({"model": {"fcnet_hiddens": [32, 0]}}, ValueError, "A layer of .* is an integer, at least 1, not 0"),
    ],
)
def test_option_of_another_kind_or_size_is_named(option, kind, message):
    with pytest.raises(kind, match=message):
        small().update_from_dict(option).build_algo()


def test_model_that_is_no_dict_is_named():
    config = small()
    config.options["model"] = [32]
    with pytest.raises(TypeError, match="The option 'model' of PPOConfig is a dict"):
        config.build_algo()


def test_misspelt_key_of_the_model_names_the_nearest(caplog):
    small().training(model={"fcnet_hidens": [3], "free_log_std": True}).build_algo().stop()
    assert [each.getMessage() for each in caplog.records] == [
        "The option \"model['fcnet_hidens']\" changes nothing: near is 'fcnet_hiddens'."
    ]


def test_automatic_length_of_rollouts_is_the_default():
    assert DQNConfig().env_runners(rollout_fragment_length="auto")["rollout_fragment_length"] == 16


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({"reward": None}, "The reward of environment Shelf is a number, not NoneType"),
        ({"reward": np.ones(1)}, r"The reward of environment Shelf is one number, not an array of shape \(1,\)"),
        ({"reward": None, "late": 3}, "The reward in environment Shelf number 0, step 3 .* is a number, not NoneType"),
        ({"observation": np.full(2, 50.0)}, r"ndarray of shape \(2,\) with values from 50 to 50, where the space is"),
        ({"observation": [5, 0]}, r"list of shape \(2,\) with values from 0 to 5, where the space is Box"),
        ({"observation": [1.0], "late": 3}, r"The observation is list of shape \(1,\), where the space is Box"),
    ],
)
def test_fault_of_an_environment_is_named(env_config, message):
    with pytest.raises(InvalidEnvironmentError, match=message):
        small(**env_config).build_algo().train()


def test_plain_class_of_former_years_needs_no_close():
    class Corridor:
        observation_space, action_space = BOX, TWO

        def __init__(self, config):
            pass

        def reset(self):
            return [0.0, 0.0]

        def step(self, action):
            return [0.0, 0.0], 1.0, True, {}

    algo = small(env=Corridor).build_algo()
    assert algo.train()["episode_reward_mean"] == 1.0
    with pytest.raises(ValueError, match=r"The observation is list of shape \(3,\), where the space is Box"):
        algo.compute_single_action([0.0, 0.0, 0.0])
    algo.stop()


class Market(MultiAgentEnv):
    """Two agents, whose episode does not end, with parts of a step that are given."""

    observation_space, action_space = BOX, TWO
    possible_agents = ["buyer", "seller"]

    def __init__(self, config):
        self.given = config

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(self.possible_agents, np.zeros(2, np.float32)), {}

    def step(self, actions):
        observation = np.zeros(self.given.get("size", 2), np.float32)
        rewards = dict.fromkeys(actions, self.given.get("reward", 1.0))
        return dict.fromkeys(actions, observation), rewards, {self.given.get("key", "__all__"): False}, {}, {}


def market(policy=None, **env_config):
    policies = {"buyer": PolicySpec(config=policy), "seller": PolicySpec()}
    return small(env=Market, **env_config).multi_agent(policies=policies, policy_mapping_fn=lambda agent, *rest: agent)


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({"reward": None}, "The reward of agent 'buyer', in environment Market number 0, .* is a number, not NoneType"),
        (
            {"size": 3},
            r"The observation of agent 'buyer' is ndarray of shape \(3,\), where the space is Box.*step 1",
        ),
        ({"key": "buyer"}, 'step of Market returns terminateds without the key "__all__"'),
    ],
)
def test_fault_of_several_agents_is_named(env_config, message):
    with pytest.raises(InvalidEnvironmentError, match=message):
        market(**env_config).build_algo().train()


def test_horizon_truncates_the_episode_of_all_agents():
    algo = market().environment(horizon=3).build_algo()
    assert algo.train()["episode_len_mean"] == 3
    assert algo.get_policy("seller").observation_space == BOX
    assert all(check.holds for check in algo.check(verbose=False))
    algo.stop()


def test_options_of_a_policy_have_all_spellings():
    algo = market({"sgd_minibatch_size": 4, "lambda": 0.5}).build_algo()
    own, other = (algo.members[name].config for name in ("buyer", "seller"))
    assert (own["minibatch_size"], own["lambda_"], other["minibatch_size"]) == (4, 0.5, 128)
    algo.stop()
    with pytest.raises(TypeError, match="PolicySpec of 'buyer' has no option 'lrr'.  Near: 'lr'"):
        market({"lrr": 1}).build_algo()


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()


class OfConfig(TorchModelV2, torch.nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        torch.nn.Module.__init__(self)
        self.layer = torch.nn.Linear(2, num_outputs + model_config["custom_model_config"]["more"])

    def forward(self, input_dict, state, seq_lens):
        return self.layer(input_dict["obs"])[:, :2], state

    def value_function(self):
        return torch.zeros(1)


def test_constructor_of_a_model_is_named():
    with pytest.raises(TypeError, match=r"Plain is made by \(observation_space, .*does not take these: too many posi"):
        small().training(model={"custom_model": Plain}).build_algo()
    with pytest.raises(TypeError, match="custom_model is a class, or a registered name, not an object of Plain"):
        small().training(model={"custom_model": Plain()}).build_algo()


def test_model_of_former_years_reads_its_arguments_in_the_configuration():
    model = {"custom_model": OfConfig, "custom_model_config": {"more": 3}}
    algo = small().training(model=model).build_algo()
    assert algo.get_policy().get_weights()["inner.layer.weight"].shape == (5, 2)
    algo.stop()


def test_keys_of_results_have_names():
    from zray.rllib.utils.metrics import ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN, NUM_ENV_STEPS_SAMPLED_LIFETIME

    algo = small().build_algo()
    found = algo.train()[ENV_RUNNER_RESULTS]
    assert (found[EPISODE_RETURN_MEAN], found[NUM_ENV_STEPS_SAMPLED_LIFETIME]) == (4.0, 8)
    algo.stop()


def test_unknown_environment_says_how_one_of_the_program_is_named():
    with pytest.raises(ValueError, match=r"No environment is called 'maze': .*register_env\('maze', lambda"):
        PPOConfig().environment("maze").build_algo()
