"""The modules and classes by which programs of 2018, of the middle and of today find an algorithm."""

import importlib
import pickle

import gymnasium
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.callbacks import DefaultCallbacks  # noqa: E402

import zray  # noqa: E402
from zray import rllib, tune  # noqa: E402
from zray.rllib import doors  # noqa: E402
from zray.rllib.algorithms.dqn import DQN  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402

TINY = {
    "num_workers": 0,
    "num_envs_per_worker": 2,
    "num_groups": 1,
    "timesteps_per_batch": 32,
    "num_sgd_iter": 1,
    "model": {"fcnet_hiddens": [8]},
}


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_program_of_2018(tmp_path):
    from zray.rllib.agent import get_agent_class
    from zray.rllib.ppo import DEFAULT_CONFIG, PPOAgent

    config = DEFAULT_CONFIG.copy()
    config.update(TINY)
    agent = PPOAgent(config=config, env="CartPole-v0")
    result = agent.train()
    assert {"episode_reward_mean", "episode_len_mean", "timesteps_total", "training_iteration"} <= result.keys()
    assert agent.compute_action([0.0, 0.0, 0.0, 0.0]) in (0, 1)
    path = agent.save(str(tmp_path / "saved"))
    other = get_agent_class("PPO")(env="CartPole-v0", config=config)
    other.restore(path)
    assert (other.iteration, agent.iteration) == (1, 1)
    assert all(
        (other.get_policy().get_weights()[name] == value).all()
        for name, value in agent.get_policy().get_weights().items()
    )
    agent.stop()
    other.stop()


def test_program_of_the_middle():
    from zray.rllib.agents import ppo

    config = ppo.DEFAULT_CONFIG.copy()
    config["num_workers"] = 0
    config["num_sgd_iter"] = 1
    config["sgd_minibatch_size"] = 16
    config["framework"] = "torch"
    config["num_envs_per_worker"] = 2
    config["train_batch_size"] = 32
    trainer = ppo.PPOTrainer(config=config, env="CartPole-v1")
    assert trainer.train()["timesteps_total"] == 32
    assert trainer.compute_single_action([0.0, 0.0, 0.0, 0.0], explore=False) in (0, 1)
    actions = trainer.compute_actions({"a": [0.0, 0.0, 0.0, 0.0], "b": [1.0, 0.0, 0.0, 0.0]})
    assert set(actions) == {"a", "b"} and set(actions.values()) <= {0, 1}
    assert trainer.get_policy() is trainer.policy
    trainer.stop()


def test_classes_of_each_time_are_those_of_today():
    from zray.rllib.agents.dqn import DQNTrainer
    from zray.rllib.agents.ppo.ppo import PPOAgent, PPOTrainer
    from zray.rllib.agents.registry import get_agent_class, get_trainer_class
    from zray.rllib.agents.trainer import Trainer
    from zray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from zray.rllib.algorithms.ppo.ppo import PPOConfig as SamePPOConfig

    from zray.rllib.algorithms.algorithm import Algorithm
    from zray.rllib.algorithms.registry import get_algorithm_class

    assert (PPOTrainer, DQNTrainer, SamePPOConfig) == (PPO, DQN, PPOConfig)
    assert get_agent_class("PPO") is get_trainer_class("PPO") is get_algorithm_class("PPO") is PPO
    assert Trainer is Algorithm is rllib.Algorithm and AlgorithmConfig is rllib.AlgorithmConfig
    assert issubclass(PPOAgent, PPO) and pickle.loads(pickle.dumps(PPOAgent)) is PPOAgent


def test_agents_of_2018_have_the_defaults_of_2018_and_trainers_those_of_today():
    from zray.rllib.agents.ppo import PPOAgent, PPOTrainer

    assert PPOTrainer.configured({}).to_dict() == PPOConfig().to_dict()
    of_2018 = PPOAgent.configured({"sgd_stepsize": 1e-3})
    assert (of_2018.lr, of_2018.gamma, of_2018.num_epochs, of_2018.train_batch_size) == (1e-3, 0.995, 30, 4000)
    assert (of_2018.horizon, of_2018.observation_filter, of_2018.num_env_runners) == (2000, "MeanStdFilter", 5)


def test_defaults_by_module_give_the_same_configuration():
    assert PPO.configured(rllib.agents.ppo.DEFAULT_CONFIG).to_dict() == PPOConfig().to_dict()
    agent = rllib.ppo.PPOAgent
    assert agent.configured(rllib.ppo.DEFAULT_CONFIG).to_dict() == agent.configured({}).to_dict()
    of_dqn = rllib.dqn.DQNAgent.configured({})
    assert (of_dqn.epsilon, of_dqn.min_sample_timesteps_per_iteration) == ([[0, 1.0], [10_000, 0.02]], 1000)


def test_modules_of_the_table_have_their_names():
    from zray.rllib.algorithms.registry import _MODULES

    absent = {module for module, name in doors.ALGORITHMS.items() if name not in _MODULES}
    later = {"MultiAgentEnv", "PolicySpec", "SampleBatch"}
    for module, names in doors.MODULES.items():
        if not absent & set(module.split(".")):
            found = importlib.import_module(f"zray.rllib.{module}")
            assert all(getattr(found, name) is not None for name in names.keys() - later), module


def test_names_that_are_absent_say_what_to_do():
    from zray.rllib.agents.trainer_template import build_trainer

    with pytest.raises(NotImplementedError, match="Derive a class from .*Algorithm"):
        build_trainer(name="mine")
    with pytest.raises(AttributeError, match="'zray.rllib.agents.ppo' has no attribute 'APPOTrainer'"):
        rllib.agents.ppo.APPOTrainer  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("zray.rllib.agents.nothing")


@pytest.mark.parametrize("way", ["name", "class", "configuration"])
def test_algorithm_is_a_trainable(way, tmp_path):
    from zray.rllib.agents.ppo import PPOTrainer

    config = PPOConfig().environment("CartPole-v1").update_from_dict(TINY)
    options = {"stop": {"training_iteration": 1}, "storage_path": str(tmp_path), "verbose": 0}
    if way == "name":
        results = [trial.last_result for trial in tune.run("PPO", config=config.to_dict(), **options).trials]
    elif way == "class":
        given = {**TINY, "env": "CartPole-v1"}
        results = [trial.last_result for trial in tune.run(PPOTrainer, config=given, **options).trials]
    else:
        config.training(lr=tune.grid_search([1e-3, 1e-4]))
        tuner = tune.Tuner("PPO", param_space=config, run_config=tune.RunConfig(**options))
        results = [each.metrics for each in tuner.fit()]
        assert [result["config"]["lr"] for result in results] == [1e-3, 1e-4]
    assert all(result["timesteps_total"] == 32 for result in results)


def test_logger_of_2018_gets_each_result(tmp_path):
    seen = []

    class Logger:
        logdir = str(tmp_path)

        def on_result(self, result):
            seen.append(result["training_iteration"])

    agent = PPO(config=TINY, env="CartPole-v1", logger_creator=lambda config: Logger())
    agent.train()
    assert seen == [1] and agent.logdir == str(tmp_path)
    agent.stop()


def test_more_workers_than_groups_are_said(caplog):
    with caplog.at_level("WARNING", "zray.rllib"):
        PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=5).validate()
    assert "5, and num_groups is 2: 2 processes are started" in caplog.text


def test_trial_knows_environments_and_models_by_the_names_of_the_program(session, tmp_path):
    """The process of a trial is another one than that which registered the names."""
    from zray.rllib.models import ModelCatalog

    class Small(torch.nn.Module):
        def __init__(self, observation_space, action_space, num_outputs):
            super().__init__()
            self.logits = torch.nn.Linear(observation_space.shape[0], num_outputs)
            self.value = torch.nn.Linear(observation_space.shape[0], 1)

        def forward(self, observations):
            return self.logits(observations), self.value(observations)

    tune.register_env("short poles", lambda context: gymnasium.make("CartPole-v1", max_episode_steps=5))
    ModelCatalog.register_custom_model("small", Small)
    config = {"env": "short poles", "num_workers": 0, "rollout_fragment_length": 16, "num_sgd_iter": 1}
    analysis = tune.run(
        "PPO",
        config={**config, "model": {"custom_model": "small"}},
        stop={"training_iteration": 1},
        verbose=0,
        local_dir=str(tmp_path),
    )
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"]
    assert analysis.trials[0].last_result["episode_len_mean"] <= 5


ABSENT = """from_state import_model import_policy_model_from_h5 train_buffered get_metrics validate_config validate_env
try_recover_from_step_attempt restore_workers restore_env_runners local_replay_buffer local_worker
offline_data remote_workers reward_estimators export_to""".split()


def test_attributes_of_algorithms_are_there_or_have_a_sentence():
    class Own(DefaultCallbacks):
        pass

    algo = PPOConfig().environment("CartPole-v1").callbacks(Own).build_algo()
    for name in ABSENT:
        with pytest.raises(AttributeError, match=f"no {name!r}.  [A-Z].*\\.$|has no replay memory: DQN and SAC"):
            getattr(algo, name)
        assert not hasattr(algo, name)
    assert isinstance(algo.callbacks, Own)
    algo.train()
    names = [f"num_{whose}_steps_{what}" for whose in ("env", "agent") for what in ("sampled", "trained")]
    counts = dict.fromkeys(names, algo.steps_sampled)
    assert algo._counters == counts and algo.steps_sampled > 0
    assert algo.merge_algorithm_configs({"a": {"b": 1}}, {"a": {"c": 2}}) == {"a": {"b": 1, "c": 2}}
    assert isinstance(algo.get_policy(), algo.get_default_policy_class(algo.config))
    algo.stop()
    algo = PPOConfig().environment("CartPole-v1").build_algo()
    assert algo.callbacks == []
    algo.stop()


@pytest.mark.parametrize("name", ["PPOTorchPolicy", "PPOTF2Policy"])
def test_policy_class_of_an_algorithm_has_a_sentence(name):
    with pytest.raises(AttributeError, match="Change the algorithm's options, or derive a class from it"):
        getattr(importlib.import_module("zray.rllib.algorithms.ppo"), name)
    with pytest.raises(ImportError, match="Change the algorithm's options, or derive a class from it"):
        exec(f"from zray.rllib.algorithms.ppo import {name}")
