"""Options of rllib that change nothing: defaults of Ray pass without a word, and other values are said or refused."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib import spellings  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.other_options import IGNORED, OF_REPLAY  # noqa: E402


@pytest.fixture
def said(monkeypatch, caplog):
    """The lines that were logged; each is said anew."""
    monkeypatch.setattr(spellings, "_said", set())
    return lambda: [record.getMessage() for record in caplog.records]


DEFAULTS = {
    **{"log_sys_usage": True, "count_steps_by": "env_steps", "policy_map_capacity": 100, "sample_async": False},
    **{"restart_failed_env_runners": True, "max_num_env_runner_restarts": 1000, "num_cpus_per_learner": 1},
    **{"shuffle_sequences": True, "synchronize_filters": True, "placement_strategy": "PACK", "soft_horizon": False},
    **{"_disable_preprocessor_api": False, "ignore_env_runner_failures": False, "num_learners": 0},
    **{"delay_between_env_runner_restarts_s": 60, "use_critic": True, "prioritized_replay_eps": 1e-6},
    **{"evaluation_num_env_runners": 0, "tf_session_args": {}, "eager_tracing": False, "replay_mode": "independent"},
}
OTHERS = {
    **{"log_sys_usage": False, "count_steps_by": "agent_steps", "policy_map_capacity": 2, "sample_async": True},
    **{"restart_failed_env_runners": False, "max_num_env_runner_restarts": 0, "num_cpus_per_learner": 4},
    **{"shuffle_sequences": False, "synchronize_filters": False, "placement_strategy": "SPREAD", "soft_horizon": True},
    **{"_disable_preprocessor_api": True, "ignore_env_runner_failures": True, "num_learners": 1, "hiddens": []},
    **{"delay_between_env_runner_restarts_s": 0, "prioritized_replay_eps": 0.0, "_disable_action_flattening": True},
    **{"evaluation_num_env_runners": 2, "tf_session_args": {"x": 1}, "replay_mode": "lockstep"},
    **{"evaluation_force_reset_envs_before_iteration": False, "create_local_env_runner": False},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_default_of_ray_passes_without_a_word(name, said):
    PPOConfig().update_from_dict({name: DEFAULTS[name]})
    assert said() == []


@pytest.mark.parametrize("name", OTHERS)
def test_another_value_is_said(name, said):
    PPOConfig().update_from_dict({name: OTHERS[name]})
    assert [line for line in said() if line.startswith(f"The option {name!r} changes nothing: ")]


@pytest.mark.parametrize("name", [name for name, reason in IGNORED.items() if reason])
def test_each_option_without_effect_is_said_at_a_value_that_is_no_default(name, said):
    PPOConfig().update_from_dict({name: "something else"})
    assert len(said()) == 1


@pytest.mark.parametrize("name", [name for name, reason in OF_REPLAY.items() if reason])
def test_each_key_of_the_memory_without_effect_is_said(name, said):
    DQNConfig().training(replay_buffer_config={name: "something else"})
    assert len(said()) == 1


def test_asynchronous_samples_are_those_of_a3c(said):
    A3CConfig().training(sample_async=True)
    assert said() == []
    A3CConfig().training(sample_async=False)
    assert said()[0].startswith("The option 'sample_async' changes nothing")


@pytest.mark.parametrize("config_class", [PPOConfig, A2CConfig, A3CConfig])
def test_learning_without_a_baseline_is_refused(config_class):
    with pytest.raises(NotImplementedError, match="use_critic=False .*The value function is the baseline"):
        config_class().training(use_critic=False)


def test_option_of_another_algorithm_is_said(said):
    DQNConfig().update_from_dict({"use_gae": False, "use_kl_loss": False})
    assert [line.split("'")[1] for line in said()] == ["use_gae", "use_kl_loss"]
    assert A2CConfig().training(use_gae=False)["lambda_"] == 1.0


class Boxed(gymnasium.Env):
    """Two actions, or a Box action."""

    def __init__(self, config=None):
        self.observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        is_box = (config or {}).get("is_box")
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,)) if is_box else gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize("is_box", [True, False])
def test_deviations_from_the_layers_are_said_for_box_actions(is_box, said):
    config = PPOConfig().environment(Boxed, env_config={"is_box": is_box})
    config.training(model={"free_log_std": False}).build_algo().stop()
    lines = [line for line in said() if "free_log_std" in line]
    assert len(lines) == is_box and all("deviations are free numbers" in line for line in lines)


DRAWN = "algorithms but DQN draw from a distribution of actions.  Leave exploration_config out"


@pytest.mark.parametrize(
    ("config_class", "kind", "words"),
    [
        (PPOConfig, "EpsilonGreedy", DRAWN),
        (A2CConfig, "EpsilonGreedy", DRAWN),
        (SACConfig, "EpsilonGreedy", DRAWN),
        (ESConfig, "EpsilonGreedy", DRAWN),
        (DQNConfig, "StochasticSampling", "DQN explores by epsilon.  Give EpsilonGreedy, or `epsilon`"),
        (DQNConfig, "zray.rllib.utils.exploration.StochasticSampling", "DQN explores by epsilon"),
    ],
)
def test_exploration_of_other_algorithms_is_refused(config_class, kind, words):
    with pytest.raises(NotImplementedError, match=words):
        config_class().env_runners(exploration_config={"type": kind})


def test_exploration_of_the_algorithm_passes(said):
    PPOConfig().env_runners(exploration_config={"type": "StochasticSampling", "random_timesteps": 0})
    SACConfig().env_runners(exploration_config={"type": "StochasticSampling"})
    PPOConfig().env_runners(exploration_config={})
    config = DQNConfig().env_runners(exploration_config={"final_epsilon": 0.5})
    assert config["epsilon"][-1][1] == 0.5 and said() == []


def test_keys_of_epsilon_are_unknown_to_other_algorithms():
    with pytest.raises(TypeError, match="exploration_config has no key 'final_epsilon'"):
        PPOConfig().env_runners(exploration_config={"final_epsilon": 0.5})


def test_rollouts_that_draw_all_the_same_are_said(said):
    config = PPOConfig().environment(Boxed)
    config.env_runners(explore=True).validate()
    assert said() == []
    config.env_runners(explore=False).validate()
    assert said() == [
        "The option 'explore' changes no rollout of the training: training draws its actions all the same, and "
        "compute_single_action does not."
    ]


class TextRewards(Boxed):
    def step(self, action):
        return np.zeros(2, np.float32), self.reward, True, False, {}


@pytest.mark.parametrize("reward", ["1", b"1", np.str_("1")])
def test_reward_that_is_a_text_is_an_error_before_the_first_rollout(reward):
    env = type("Rewarding", (TextRewards,), {"reward": reward})
    with pytest.raises(InvalidEnvironmentError, match="reward of environment Rewarding is a number, not .*, a text"):
        PPOConfig().environment(env).build_algo().train()


OF_RAY = {
    **{
        "torch_compile_learner": False,
        "torch_ddp_kwargs": {},
        "action_mask_key": "action_mask",
        "microbatch_size": None,
    },
    **{"gym_env_vectorize_mode": "SYNC", "episodes_to_numpy": True, "merge_env_runner_states": "training_only"},
    **{"log_gradients": False, "auto_wrap_old_gym_envs": True, "num_aggregator_actors_per_learner": 0},
    **{"evaluation_auto_duration_min_env_steps_per_sample": 100, "_torch_lr_scheduler_classes": None},
}


def test_further_defaults_of_ray_pass_without_a_word(said):
    PPOConfig().update_from_dict(OF_RAY)
    assert said() == []


def test_option_with_a_near_name_that_means_something_else_is_told_apart(said):
    A2CConfig().training(microbatch_size=10)
    PPOConfig().framework("torch", torch_compile_learner=True)
    reasons = ["an update reads its batch at once, with the same gradient.", "models run as they are, without "]
    assert all(reason in line for reason, line in zip(reasons, said(), strict=True))
    with pytest.raises(NotImplementedError, match="action_mask_key='mask' of rllib yet.  Name the mask 'action_mask'"):
        PPOConfig().environment(action_mask_key="mask")
    with pytest.raises(NotImplementedError, match="Give lr as a schedule"):
        PPOConfig().update_from_dict({"_torch_lr_scheduler_classes": [object]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PPOConfig().env_runners(epsilon=0.5), "env_runners has no option 'epsilon'.  It is one of DQN.$"),
        (lambda: A2CConfig().training(clip_param=0.5), "training has no option 'clip_param'.  It is one of PPO.$"),
        (lambda: DQNConfig().training(initial_alpha=0.5), "has no option 'initial_alpha'.  It is one of SAC.$"),
        (lambda: PPOConfig().training(gama=0.5), "has no option 'gama'.  Near: 'gamma'"),
    ],
)
def test_option_of_another_algorithm_is_named_with_it(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"log_level": "X"}, 'log_level is one of "DEBUG", "INFO", .*, not \'X\'.'),
        ({"log_level": True}, "log_level is one of .*, not True."),
        ({"preprocessor_pref": "junk"}, 'preprocessor_pref is "deepmind", "rllib" or None, not \'junk\'.'),
        ({"rl_module_spec": 1}, "rl_module_spec is an RLModuleSpec, .*, not 1."),
        ({"rl_module_spec": {"fcnet_hiddens": [4]}}, "rl_module_spec is an RLModuleSpec, .*, not {'fcnet_hiddens'"),
    ],
)
def test_junk_in_an_option_is_refused_with_what_it_takes(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PPOConfig().environment("CartPole-v1").update_from_dict(options).validate()


def test_junk_as_the_options_of_a_module_is_refused():
    with pytest.raises(TypeError, match="model_config is a dict or a DefaultModelConfig, not 1."):
        PPOConfig().rl_module(model_config=1)
    assert PPOConfig().rl_module(rl_module_spec=None)["model"] == PPOConfig()["model"]


@pytest.mark.parametrize("level", ["INFO", "info", "WARNING", 20, None])
def test_log_level_is_a_name_or_a_number_of_logging(level):
    from zray.rllib.spellings import logger

    before = logger.level
    try:
        PPOConfig().environment("CartPole-v1").debugging(log_level=level).build_algo().stop()
        assert logger.level == {"WARNING": 30, None: before}.get(level, 20)
    finally:
        logger.setLevel(before)
