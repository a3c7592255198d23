"""Numbers of options outside of their ranges, which an error names before anything is built."""

import math

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

gymnasium = pytest.importorskip("gymnasium")

from zray import tune  # noqa: E402
from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.policy.policy import PolicySpec  # noqa: E402
from zray.rllib.trainers import get_agent_class  # noqa: E402

SHARE = "a number, at least 0 and at most 1"


def refusal(config, **options):
    """The message, and that it comes before an environment is made."""

    def made(env_config):
        raise AssertionError("an environment was made")

    with pytest.raises((TypeError, ValueError)) as caught:
        config.environment(made).update_from_dict(options).validate()
    return str(caught.value)


@pytest.mark.parametrize("wrong", [1.5, -0.1, math.nan, "much", None, True, [0.1]])
@pytest.mark.parametrize("name", ["initial_epsilon", "final_epsilon", "exploration_final_eps"])
def test_share_of_random_actions_lies_between_0_and_1(name, wrong):
    assert refusal(DQNConfig(), **{name: wrong}) == f"The option {name!r} of DQN is {SHARE}, not {wrong!r}."


@pytest.mark.parametrize("name", ["initial_epsilon", "final_epsilon", "epsilon_timesteps", "warmup_timesteps"])
@pytest.mark.parametrize("wrong", [-1, math.nan, "much", None])
def test_exploration_config_names_its_key(name, wrong):
    message = refusal(DQNConfig(), exploration_config={"type": "EpsilonGreedy", name: wrong})
    assert message.startswith(f"The option exploration_config[{name!r}] is a")
    assert message.endswith(f", not {wrong!r}.")


@pytest.mark.parametrize(
    "wrong",
    [1.5, -1.0, math.nan, "much", None, True, [], [1.0], [[0, 1.0], [10, 2.0]], [[10, 1.0], [0, 0.5]], [[0, "a"]]],
)
def test_epsilon_is_a_share_or_a_schedule_of_shares(wrong):
    message = refusal(DQNConfig(), epsilon=wrong)
    assert message.startswith("The option 'epsilon' of DQNConfig is a number, at least 0 and at most 1, or a schedule")
    assert message.endswith(f", not {wrong!r}.")


def test_steps_of_epsilon_do_not_fall():
    assert "with steps that do not fall, not [[10, 1.0], [0, 0.5]]." in refusal(
        DQNConfig(), epsilon=[[10, 1.0], [0, 0.5]]
    )


@pytest.mark.parametrize("fine", [0, 1, 0.5, [[0, 1.0], [10, 0.1]], ((0, 1.0), (10, 0.0)), [[0, 1.0], [0, 0.05]]])
def test_epsilon_may_be(fine):
    DQNConfig().environment("CartPole-v1").training(epsilon=fine).validate()


def test_options_of_2018_are_looked_at():
    with pytest.raises(ValueError, match="'exploration_final_eps' of DQNAgent is .* at most 1, not 2"):
        get_agent_class("DQN")(config={"exploration_final_eps": 2.0}, env="CartPole-v1")
    with pytest.raises(ValueError, match="'exploration_fraction' of DQNAgent is .* at most 1, not 10"):
        get_agent_class("DQN")(config={"exploration_fraction": 10}, env="CartPole-v1")


def test_epsilon_may_be_searched():
    config = DQNConfig().environment("CartPole-v1")
    config.training(initial_epsilon=tune.uniform(0.5, 1.0), final_epsilon=tune.grid_search([0.1, 0.2]))
    config.training(epsilon=tune.choice([0.1, 0.2]))


@pytest.mark.parametrize(
    ("config", "name", "wrong"),
    [
        (PPOConfig, "gamma", math.nan),
        (PPOConfig, "lambda_", math.nan),
        (PPOConfig, "lr", math.nan),
        (PPOConfig, "clip_param", -0.1),
        (PPOConfig, "clip_param", math.nan),
        (PPOConfig, "entropy_coeff", math.nan),
        (PPOConfig, "vf_clip_param", math.nan),
        (PPOConfig, "grad_clip", math.nan),
        (PPOConfig, "num_cpus_per_env_runner", -1),
        (PPOConfig, "num_gpus_per_env_runner", "one"),
        (PPOConfig, "entropy_coeff_schedule", [[0, math.nan]]),
        (PPOConfig, "lr_schedule", [[0, -1e-3], [10, 0.0]]),
        (A2CConfig, "lr_schedule", [[-5, 1e-3]]),
        (DQNConfig, "n_step", 0),
        (DQNConfig, "n_step", 2.5),
        (DQNConfig, "capacity", 0),
        (DQNConfig, "target_network_update_freq", -1),
        (DQNConfig, "target_network_update_freq", math.nan),
        (DQNConfig, "learning_starts", math.nan),
        (DQNConfig, "training_intensity", math.nan),
        (DQNConfig, "prioritized_alpha", -0.5),
        (DQNConfig, "prioritized_beta", math.nan),
        (DQNConfig, "train_batch_size", 0),
        (SACConfig, "tau", math.nan),
        (SACConfig, "initial_alpha", 0.0),
        (SACConfig, "initial_alpha", -1.0),
        (SACConfig, "alpha_lr", -1.0),
        (SACConfig, "target_entropy", math.nan),
        (ESConfig, "stepsize", -0.1),
        (ESConfig, "noise_stdev", -1),
        (ESConfig, "episodes_per_batch", 0),
        (ESConfig, "eval_prob", 1.5),
        (ESConfig, "l2_coeff", math.nan),
        (ESConfig, "momentum", 1.5),
        (ESConfig, "top_directions", 0),
        (ESConfig, "noise_size", 2.5),
        (ESConfig, "report_length", 0),
        (ESConfig, "action_noise_std", -1),
        (ESConfig, "fan_in", 1),
    ],
)
def test_number_out_of_its_range_is_named(config, name, wrong):
    message = refusal(config(), **{name: wrong})
    assert f"The option {name!r} of {config.__name__} is a" in message and message.endswith(f", not {wrong!r}.")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"model": {"lstm_cell_size": -1}}, "model['lstm_cell_size'] of PPOConfig is an integer, at least 1, not -1."),
        ({"model": {"max_seq_len": 0}}, "model['max_seq_len'] of PPOConfig is an integer, at least 1, not 0."),
        ({"model": {"post_fcnet_hiddens": [0]}}, "A layer of model['post_fcnet_hiddens'] of PPOConfig is an integer"),
        (
            {"evaluation_config": {"horizon": -1}},
            "The option 'horizon' of evaluation_config of PPOConfig is an integer",
        ),
    ],
)
def test_numbers_in_dicts_are_looked_at(option, message):
    assert refusal(PPOConfig(), **option).startswith(message)


def test_options_of_one_policy_are_looked_at():
    from .agents import Roles

    config = (
        PPOConfig()
        .environment(Roles)
        .multi_agent(
            policies={"same": PolicySpec(config={"gamma": 1.5}), "other": PolicySpec()},
            policy_mapping_fn=lambda agent, *args, **kwargs: agent,
        )
    )
    with pytest.raises(ValueError, match="'gamma' of policy 'same' is a number, at least 0 and at most 1, not 1.5"):
        config.build_algo()


@pytest.mark.parametrize("wrong", [0, -1, 1.5])
@pytest.mark.parametrize("kind", [PPOConfig, A2CConfig, DQNConfig, SACConfig])
def test_batch_has_at_least_one_step(kind, wrong):
    assert f"at least 1, not {wrong!r}" in refusal(kind(), train_batch_size=wrong)


ROLLOUTS = {"num_groups": 1, "num_envs_per_env_runner": 4, "rollout_fragment_length": 10}


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({**ROLLOUTS, "minibatch_size": 41}, 40),
        ({**ROLLOUTS, "minibatch_size": 200, "train_batch_size": 100}, 100),
        ({**ROLLOUTS, "sgd_minibatch_size": 5, "train_batch_size": 2}, 4),
        ({**ROLLOUTS, "minibatch_size": 64, "model": {"use_lstm": True}}, 40),
    ],
)
def test_minibatch_that_is_larger_than_the_batch_of_an_iteration_is_refused(options, steps):
    size = options.get("minibatch_size", 5)
    message = f"'minibatch_size' of PPOConfig is at most the steps of an iteration, not {size}: .* has {steps} "
    with pytest.raises(ValueError, match=message):
        PPOConfig().environment("CartPole-v1").update_from_dict(options).validate()
    tune.register_env("balanced", lambda env_config: gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match=message):
        PPOConfig().environment("balanced").update_from_dict(options).build_algo()


@pytest.mark.parametrize(
    "options",
    [
        {"minibatch_size": 40},
        {},  # the default size is cut to the batch
        {"minibatch_size": 100, "train_batch_size": 100},
        {"minibatch_size": 500, "batch_mode": "complete_episodes"},
        {"minibatch_size": 80, "policies": {"a", "b"}, "policy_mapping_fn": lambda agent, *rest: "a"},
    ],
)
def test_minibatch_that_may_fit_in_a_batch_is_taken(options):
    PPOConfig().environment("CartPole-v1").update_from_dict({**ROLLOUTS, **options}).validate()
