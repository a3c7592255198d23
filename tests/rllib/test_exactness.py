"""The same curve for any number of processes, through kills, and behind a checkpoint."""

import os
import signal

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import EzPickle

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray import tune  # noqa: E402
from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def ppo(workers=0):
    config = PPOConfig().environment("CartPole-v1").debugging(seed=3)
    config.env_runners(
        num_env_runners=workers,
        num_envs_per_env_runner=2,
        num_groups=2,
        rollout_fragment_length=16,
        observation_filter="MeanStdFilter",
    )
    return config.training(num_epochs=2, minibatch_size=32, normalize_rewards=True, model={"fcnet_hiddens": [16]})


def dqn():
    config = DQNConfig().environment("CartPole-v1").debugging(seed=3)
    config.env_runners(num_envs_per_env_runner=2, num_groups=2, rollout_fragment_length=16)
    return config.training(learning_starts=64, updates_per_iteration=4, model={"fcnet_hiddens": [16]})


def digest(algo):
    return {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}


def curve(algo, iterations, between=lambda: None):
    found = []
    for _ in range(iterations):
        found.append(algo.train().get("episode_reward_mean"))
        between()
    weights = digest(algo)
    algo.stop()
    return found, weights


@pytest.fixture(scope="module")
def expected():
    return curve(ppo().build_algo(), 5)


@pytest.mark.parametrize("workers", [1, 2])
def test_curve_is_the_same_for_any_number_of_workers(expected, workers):
    assert curve(ppo(workers).build_algo(), 5) == expected


def test_registered_environment_is_made_in_other_processes():
    tune.register_env("short", lambda context: gymnasium.make("CartPole-v1", max_episode_steps=context["steps"]))
    config = ppo(1).environment("short", env_config={"steps": 5})
    algo = config.build_algo()
    assert algo.train()["episode_reward_max"] == 5.0
    algo.stop()


def test_curve_is_the_same_though_workers_are_killed(expected):
    algo = ppo(2).build_algo()

    def kill():
        os.kill(zray.get(algo.rollouts.actors[0].__ray_call__.remote(lambda host: os.getpid())), signal.SIGKILL)

    assert curve(algo, 5, kill) == expected


@pytest.mark.parametrize("make", [ppo, lambda: ppo(1), dqn])
def test_restored_algorithm_goes_on_bit_for_bit(make, tmp_path):
    algo = make().build_algo()
    for _ in range(4):
        algo.train()
    path = algo.save(str(tmp_path / "saved"))
    restored = Algorithm.from_checkpoint(path)
    assert restored.iteration == 4
    assert curve(restored, 4) == curve(algo, 4)


def test_greedy_action_of_a_checkpoint_is_that_of_the_algorithm(tmp_path):
    algo = ppo().build_algo()
    algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    for observation in np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32):
        assert restored.compute_single_action(observation, explore=False) == algo.compute_single_action(
            observation, explore=False
        )
    algo.stop()
    restored.stop()


def test_algorithm_is_a_trainable_by_its_name(tmp_path):
    analysis = tune.run(
        "PPO",
        name="ppo",
        config={**ppo().to_dict(), "lr": tune.grid_search([1e-3, 1e-4])},
        stop={"training_iteration": 2},
        local_dir=str(tmp_path),
        checkpoint_at_end=True,
    )
    assert [trial.last_result["timesteps_total"] for trial in analysis.trials] == [128, 128]
    restored = Algorithm.from_checkpoint(analysis.trials[0].checkpoint.path)
    assert restored.iteration == 2
    restored.stop()


class Drift(gymnasium.Env, EzPickle):
    """An environment whose pickle holds its arguments alone, as those of MuJoCo, ale-py and Box2D."""

    observation_space = gymnasium.spaces.Box(-100, 100, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        EzPickle.__init__(self, config)
        self.place = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = float(self.np_random.uniform(-1, 1))
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place += float(self.np_random.uniform(-1, 1)) + (0.1 if action else -0.1)
        return np.array([self.place], np.float32), self.place, abs(self.place) > 4, False, {}


@pytest.mark.parametrize("workers", [0, 1])
def test_episodes_go_on_though_an_environment_pickles_its_arguments_alone(workers, tmp_path):
    config = ppo(workers).environment(lambda config: gymnasium.wrappers.FrameStackObservation(Drift(), 2))
    algo = config.build_algo()
    algo.train()
    restored = Algorithm.from_checkpoint(algo.save(str(tmp_path / "saved")))
    assert curve(restored, 3) == curve(algo, 3)
