"""Functions of a program at the holders of environments, in this process and in others."""

import gymnasium
import numpy as np
import pytest
from zray.rllib.algorithms.callbacks import DefaultCallbacks

from zray.rllib.algorithms.ppo import PPOConfig

pytestmark = pytest.mark.usefixtures("session")


class Lesson(gymnasium.Env):
    """An environment whose reward is its task; each episode has two steps."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.task = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(1, np.float32), float(self.task), self.steps == 2, False, {}

    def set_task(self, task):
        self.task = task


class Curriculum(DefaultCallbacks):
    """Each iteration has its number as its task."""

    def on_train_result(self, *, algorithm, result, **others):
        task = result["training_iteration"]
        group = algorithm.env_runner_group
        group.foreach_env_runner(lambda runner: runner.foreach_env(lambda env: env.unwrapped.set_task(task)))


@pytest.fixture
def algo(workers):
    config = PPOConfig().environment(Lesson).callbacks(Curriculum).debugging(seed=1)
    config.env_runners(num_env_runners=workers, num_envs_per_env_runner=1, rollout_fragment_length=20, num_groups=2)
    made = config.training(train_batch_size=80, minibatch_size=40, num_epochs=1).build_algo()
    yield made
    made.stop()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_curriculum_reaches_the_environments_of_all_processes(algo, workers):
    returns = [algo.train()["hist_stats"]["episode_reward"][-1] for _ in range(3)]
    assert returns == [0, 2, 4]
    tasks = algo.env_runner_group.foreach_env(lambda env: env.unwrapped.task)
    assert len(tasks) == 1 + workers and {task for each in tasks for task in each} == {3}


@pytest.mark.parametrize("workers", [0, 2])
def test_functions_get_holders_with_their_numbers_and_policies(algo, workers):
    group = algo.env_runner_group
    algo.train()
    matches = group.foreach_worker_with_index(lambda runner, index: runner.worker_index == index)
    assert matches == [True] * (1 + workers)
    shapes = [value.shape for value in algo.get_policy().get_weights().values()]
    others = group.foreach_worker(lambda runner: runner.get_policy().get_weights(), local_worker=False)
    assert [[value.shape for value in each.values()] for each in others] == [shapes] * workers


@pytest.mark.parametrize("workers", [2])
def test_error_of_a_function_in_another_process_is_raised(algo):
    with pytest.raises(ZeroDivisionError):
        algo.env_runner_group.foreach_env_runner(lambda runner: 1 / 0, local_env_runner=False)
