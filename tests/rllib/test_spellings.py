"""Options in the spellings of 2018, of the middle and of today, in one table."""

import inspect
import logging
import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib import spellings  # noqa: E402
from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.algorithms.registry import get_algorithm_class  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.config import AlgorithmConfig  # noqa: E402
from zray.rllib.doors import ALGORITHMS  # noqa: E402
from zray.rllib.replay import updates_of  # noqa: E402
from zray.rllib.spellings import OPTIONS, UNSET  # noqa: E402

from ..scripts import ROOT  # noqa: E402


@pytest.mark.parametrize(
    "given, today",
    [
        ({"num_workers": 3}, {"num_env_runners": 3}),
        ({"num_rollout_workers": 3, "num_envs_per_worker": 5}, {"num_env_runners": 3, "num_envs_per_env_runner": 5}),
        ({"sgd_stepsize": 1e-3, "sgd_batchsize": 64}, {"lr": 1e-3, "minibatch_size": 64}),
        ({"sgd_minibatch_size": 64, "num_sgd_iter": 3}, {"minibatch_size": 64, "num_epochs": 3}),
        ({"timesteps_per_batch": 512, "lambda": 0.9}, {"train_batch_size": 512, "lambda_": 0.9}),
        ({"use_gae": False}, {"lambda_": 1.0}),
        ({"use_gae": True}, {"lambda_": 0.95}),
        ({"lr_schedule": [[0, 1e-3], [9, 0]]}, {"lr": 1e-3, "lr_schedule": [[0, 1e-3], [9, 0.0]]}),
        ({"lr": [[0, 1e-3], [9, 1e-4], [20, 0]]}, {"lr": 1e-3, "lr_schedule": [[0, 1e-3], [9, 1e-4], [20, 0.0]]}),
        ({"entropy_coeff": ((0, 0.1), (9, 0))}, {"entropy_coeff": 0.1, "entropy_coeff_schedule": [[0, 0.1], [9, 0.0]]}),
        ({"framework": "tf", "seed": None}, {"framework": "torch", "seed": None}),
        ({"evaluation_num_episodes": 3, "evaluation_interval": None}, {"evaluation_duration": 3}),
        ({"multiagent": {"policies": {"a"}, "policies_to_train": ["a"]}}, {"policies": {"a"}}),
        ({"observation_filter": "MeanStdFilter", "tf_session_args": {"x": 1}}, {"observation_filter": "MeanStdFilter"}),
    ],
)
def test_former_options_of_ppo_mean_those_of_today(given, today):
    config = PPOConfig().update_from_dict(given)
    assert {name: config[name] for name in today} == today
    assert config.options.keys() == PPOConfig().options.keys() | {"policies"}


@pytest.mark.parametrize(
    "given, today",
    [
        ({"buffer_size": 100, "prioritized_replay": False}, {"capacity": 100, "prioritized": False}),
        (
            {"replay_buffer_config": {"type": "MultiAgentPrioritizedReplayBuffer", "capacity": 9, "alpha": 0.5}},
            {"capacity": 9, "prioritized": True, "prioritized_alpha": 0.5},
        ),
        (
            {"schedule_max_timesteps": 1000, "exploration_fraction": 0.5, "exploration_final_eps": 0.02},
            {"epsilon": [[0, 1.0], [500, 0.02]]},
        ),
        (
            {"exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 0.1, "epsilon_timesteps": 50}},
            {"epsilon": [[0, 1.0], [50, 0.1]]},
        ),
        ({"num_steps_sampled_before_learning_starts": 5}, {"learning_starts": 5}),
        ({"timesteps_per_iteration": 200}, {"min_sample_timesteps_per_iteration": 200}),
    ],
)
def test_former_options_of_dqn_mean_those_of_today(given, today):
    config = DQNConfig().update_from_dict(given)
    assert {name: config[name] for name in today} == today


def test_configuration_of_the_middle_and_of_today_are_equal():
    middle = PPOConfig().environment("CartPole-v1").rollouts(num_rollout_workers=2, batch_mode="truncate_episodes")
    middle.training(sgd_minibatch_size=64, num_sgd_iter=4, model={"fcnet_hiddens": [8]}).framework("torch")
    middle.exploration(explore=True).reporting(min_time_s_per_iteration=0)
    today = PPOConfig().environment(env="CartPole-v1").env_runners(num_env_runners=2)
    today.training(minibatch_size=64, num_epochs=4, model={"fcnet_hiddens": [8]})
    today.api_stack(enable_rl_module_and_learner=True).learners(num_learners=0).debugging(seed=None)
    assert middle.to_dict() == today.to_dict()
    assert middle["model"] == {"fcnet_hiddens": [8], "fcnet_activation": "tanh"}


def test_option_is_an_attribute_and_an_item_in_each_spelling():
    config = PPOConfig()
    config.lr = 0.5
    config["num_workers"] = 2
    assert (config.lr, config["lr"], config.get("sgd_stepsize")) == (0.5, 0.5, 0.5)
    assert (config.num_workers, config.num_env_runners, config.get("nothing", 7)) == (2, 2, 7)
    assert "num_rollout_workers" in config and "nothing" not in config
    with pytest.raises(AttributeError, match="PPOConfig has no attribute 'nothing'"):
        config.nothing  # noqa: B018
    with pytest.raises(TypeError, match="has no option 'learnrate'"):
        config.learnrate = 1.0


def test_configuration_goes_through_a_dict_and_a_pickle():
    config = PPOConfig().environment("CartPole-v1").training(lr=1e-3)
    assert PPOConfig.from_dict(config.to_dict()).to_dict() == config.to_dict()
    assert pickle.loads(pickle.dumps(config)).to_dict() == config.to_dict()
    assert AlgorithmConfig("PPO").algo_class is PPO


@pytest.mark.parametrize(
    "name, message",
    [
        ("num_worker", r"PPOConfig.training has no option 'num_worker'.  Near: 'num_workers'"),
        ("learning_rate", r"It is 'lr' here, of training\(\)"),
        ("n_steps", r"It is 'rollout_fragment_length' here, of env_runners\(\)"),
        ("ent_coef", r"It is 'entropy_coeff' here, of training\(\)"),
        ("evaluation_intervall", r"Near: 'evaluation_interval', of evaluation\(\)"),
        ("entropy_coef", r"Near: 'entropy_coeff', of training\(\)"),
        ("qqqqq", r"PPOConfig.training has no option 'qqqqq'.$"),
    ],
)
def test_unknown_option_names_the_nearest_and_its_method(name, message):
    with pytest.raises(TypeError, match=message):
        PPOConfig().training(**{name: 1})


@pytest.mark.parametrize(
    "config, name, message",
    [
        (SACConfig, "ent_coef", r"SACConfig.training has no option 'ent_coef'.  It is 'alpha' here, of training\(\).$"),
        (DQNConfig, "exploration_initial_eps", r"It is 'epsilon' here, .*, as \[\[0, 1.0\], \[10000, 0.05\]\].$"),
        (DQNConfig, "start_e", r"It is 'epsilon' here, of training\(\), as"),
        (DQNConfig, "ent_coef", r"has no option 'ent_coef'.  It is 'entropy_coeff' of A2C and A3C and PPO.$"),
        (PPOConfig, "exploration_initial_eps", "It is 'epsilon' of DQN.$"),
        (SACConfig, "target_update_interval", "It is 'target_network_update_freq' of DQN.$"),
        (ESConfig, "gae_lambda", r"It is 'lambda_' of A2C and A3C and PPO.$"),
    ],
)
def test_unknown_option_of_another_library_is_named_as_the_algorithm_has_it(config, name, message):
    with pytest.raises(TypeError, match=message):
        config().training(**{name: 1})


def test_options_that_are_not_there_yet_say_what_to_do():
    with pytest.raises(NotImplementedError, match="option 'input_' of rllib yet.  Train from an environment"):
        PPOConfig().offline_data(input_="/tmp/recorded")
    with pytest.raises(ValueError, match='"episodes" or "timesteps", not \'agent_steps\''):
        PPOConfig().evaluation(evaluation_duration_unit="agent_steps")
    with pytest.raises(NotImplementedError, match="lr_schedule of this algorithm yet: give a number as lr"):
        ESConfig().training(lr=[[0, 1e-3], [10, 1e-4]])


def test_option_without_effect_is_said_once(caplog):
    spellings._said.discard("tf_session_args")
    with caplog.at_level(logging.WARNING, "zray.rllib"):
        for _ in range(2):
            PPOConfig().update_from_dict({"tf_session_args": {"x": 1}, "enable_rl_module_and_learner": True})
    assert [record.message for record in caplog.records] == [
        "The option 'tf_session_args' changes nothing: it is of TensorFlow, and models are torch's."
    ]


def test_entropy_of_a3c_had_another_sign():
    options = {**spellings.common_defaults(), "entropy_coeff": 0.01}
    assert spellings.translated({"entropy_coeff": -0.01}, options, "", "A3C") == {"entropy_coeff": 0.01}
    assert spellings.translated({"entropy_coeff": -0.01}, options, "", "PPO") == {"entropy_coeff": -0.01}


def test_one_spelling_belongs_to_one_option():
    former = [name for option in spellings.OPTIONS.values() for name in option.former]
    every = [*former, *spellings.OPTIONS, *spellings.CONVERTED, *spellings.IGNORED, *spellings.ABSENT]
    assert len(every) == len(set(every))
    assert {option.owner for option in spellings.OPTIONS.values()} <= set(dir(AlgorithmConfig))


def small(**options):
    config = PPOConfig().environment("CartPole-v1").training(num_epochs=1, model={"fcnet_hiddens": [8]})
    return config.env_runners(num_envs_per_env_runner=2, num_groups=1, rollout_fragment_length=16, **options)


def test_iteration_has_the_least_number_of_steps_and_episodes_the_most():
    config = small().environment(horizon=5).reporting(min_sample_timesteps_per_iteration=70)
    algo = config.build_algo()
    result = algo.train()
    algo.stop()
    assert result["timesteps_total"] == 96 and result["episode_len_mean"] == 5


def test_algorithm_takes_a_dict_in_former_spellings():
    algo = PPO(config={**small().to_dict(), "num_sgd_iter": 2, "env": None}, env="CartPole-v1")
    assert (algo.config["num_epochs"], algo.config["env"]) == (2, "CartPole-v1")
    assert isinstance(algo, Algorithm)
    algo.stop()


def test_resources_count_workers_in_each_spelling():
    request = PPO.default_resource_request({"env": "CartPole-v1", "num_workers": 2})
    assert request.bundles == [{"CPU": 1}, {"CPU": 1}, {"CPU": 1}]


def test_exploration_of_another_kind_is_refused():
    with pytest.raises(NotImplementedError, match="exploration 'Curiosity' of rllib yet.  Give `epsilon`"):
        PPOConfig().exploration(exploration_config={"type": "Curiosity"})
    config = PPOConfig().exploration(exploration_config={"type": "StochasticSampling"})
    assert config.to_dict() == PPOConfig().to_dict()


def test_options_of_an_optimizer_that_are_not_there_are_named(caplog, monkeypatch):
    monkeypatch.setattr(spellings, "_said", set())
    PPOConfig().update_from_dict({"optimizer": {"num_sgd_threads": 2}})
    assert "The option \"optimizer['num_sgd_threads']\" changes nothing" in caplog.text


METHODS = ("environment", "env_runners", "training", "evaluation", "multi_agent", "debugging", "reporting", "resources")


@pytest.mark.parametrize("name", ALGORITHMS.values())
def test_methods_have_the_options_as_keywords(name):
    config_class = get_algorithm_class(name).config_class
    own = config_class.defaults.keys() - {name for name, option in OPTIONS.items() if option.owner != "training"}
    for method in METHODS:
        keywords = [each.name for each in inspect.signature(getattr(config_class, method)).parameters.values()][1:-1]
        expected = {name for name, option in OPTIONS.items() if option.owner == method and option.default is not UNSET}
        assert set(keywords) == (expected | own if method == "training" else expected)


def test_option_of_a_keyword_is_in_the_table_of_the_page():
    page = (ROOT / "docs" / "rllib.md").read_text()
    names = {option for name in ALGORITHMS.values() for option in get_algorithm_class(name).config_class()}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_training_intensity_gives_the_updates_of_a_rollout():
    config = DQNConfig().training(training_intensity=4.0, train_batch_size=32)
    assert updates_of(config, 64) == 8 and updates_of(config, 1) == 1
    assert updates_of(DQNConfig(), 64) == DQNConfig().updates_per_iteration


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"replay_buffer_config": {"capacty": 9}}, "replay_buffer_config has no key 'capacty'.  Near: 'capacity'"),
        ({"multiagent": {"policy_mapping_fun": len}}, "multiagent has no key 'policy_mapping_fun'.  Near: 'policy_map"),
        ({"exploration_config": {"epsilon": 1}}, "exploration_config has no key 'epsilon'"),
    ],
)
def test_unknown_keys_of_dicts_are_named(option, message):
    with pytest.raises(TypeError, match=message):
        DQNConfig().update_from_dict(option)


def test_keys_of_dicts_without_effect_are_said_once(caplog):
    from zray.rllib import spellings

    spellings._said.clear()
    for _ in range(2):
        config = DQNConfig().training(replay_buffer_config={"storage_unit": "sequences", "num_replay_buffer_shards": 2})
        config.update_from_dict({"multiagent": {"policies": {"a"}, "count_steps_by": "agent_steps"}})
    assert (config.num_replay_buffer_shards, config.policies) == (2, {"a"})
    said = [each.getMessage() for each in caplog.records]
    assert len(said) == 2 and said[0].startswith("The option \"replay_buffer_config['storage_unit']\" changes nothing")


RELU = {"fcnet_activation": "relu"}
SAC_RATES = {"actor_learning_rate": 0.5, "critic_learning_rate": 0.5, "entropy_learning_rate": 0.25}


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        (PPOConfig, {"use_kl_loss": False, "shuffle_batch_per_epoch": True}, {"kl_coeff": 0.0}),
        (PPOConfig, {"grad_clip_by": "global_norm", "grad_clip": 2.0}, {"grad_clip": 2.0}),
        (DQNConfig, {"noisy": False, "num_atoms": 1, "initial_epsilon": 0.5}, {"epsilon": [[0, 0.5], [10_000, 0.05]]}),
        (SACConfig, {"lr": None, "actor_lr": 0.5, "critic_lr": 0.5}, {"lr": 0.5}),
        (SACConfig, {"optimization": SAC_RATES, "twin_q": True}, {"lr": 0.5, "alpha_lr": 0.25}),
        (
            SACConfig,
            {"q_model_config": {"fcnet_hiddens": [9]}},
            {"model": {"fcnet_hiddens": [9], "fcnet_activation": "relu"}},
        ),
    ],
)
def test_options_of_ray_that_have_another_form_here_are_taken(config, given, expected):
    made = config().training(**given)
    assert {name: made[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("config", "given", "message"),
    [
        (DQNConfig, {"num_atoms": 51}, "does not have num_atoms=51 .* leave num_atoms out"),
        (DQNConfig, {"tau": 0.5}, "does not have tau=0.5 .* each `target_network_update_freq` steps"),
        (PPOConfig, {"grad_clip_by": "value"}, "does not have grad_clip_by='value' .* Give `grad_clip`"),
        (SACConfig, {"actor_lr": 0.1, "critic_lr": 0.2}, "different rates of actor and critic"),
    ],
)
def test_values_of_rays_options_that_are_not_there_are_refused(config, given, message):
    with pytest.raises(NotImplementedError, match=message):
        config().training(**given)


def test_options_that_an_algorithm_does_not_have_are_said_once(caplog):
    spellings._said.clear()
    for _ in range(2):
        PPOConfig().training(final_epsilon=0.1, adam_epsilon=1e-8, buffer_size=5)
    assert [each.getMessage() for each in caplog.records] == [
        "The option 'final_epsilon' changes nothing: PPO has no such option.",
        "The option 'adam_epsilon' changes nothing: the epsilon of Adam is fixed.",
        "The option 'buffer_size' changes nothing: PPO has no such option.",
    ]
