"""Algorithms in experiments of Tune: functions of a configuration, seeds, restored checkpoints."""

import importlib
import sys

import gymnasium
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from tests.gates import until  # noqa: E402
from tests.rllib.agents import Roles  # noqa: E402
from zray import tune  # noqa: E402
from zray.rllib.algorithms.a3c import GradientHost  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.rollouts import GroupHost  # noqa: E402
from zray.rllib.runs import episode_of, read_run  # noqa: E402

pytestmark = pytest.mark.usefixtures("session")


class Scaled(gymnasium.Env):
    """Episodes of one step, whose reward is a function of the configuration."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.reward = config["reward"]

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample() * 0, {}

    def step(self, action):
        return self.observation_space.sample() * 0, float(self.reward(3)), True, False, {}


def small(env="CartPole-v1", **options):
    found = PPOConfig().environment(env, **options).training(num_epochs=1, model={"fcnet_hiddens": [4]})
    return found.env_runners(num_groups=1, num_envs_per_env_runner=1, rollout_fragment_length=64)


def fitted(folder, config, trainable="PPO", iterations=1, **options):
    grid = tune.Tuner(
        trainable,
        param_space=config,
        tune_config=tune.TuneConfig(**options),
        run_config=tune.RunConfig(storage_path=str(folder), stop={"training_iteration": iterations}, verbose=0),
    ).fit()
    assert not grid.errors, grid.errors
    return grid


AGENTS = {
    "policies": {"same", "other"},
    "policy_mapping_fn": lambda agent_id, episode, **kwargs: agent_id,
    "policies_to_train": lambda spec: spec == "same",
}


def test_functions_of_several_agents_are_no_search_space(tmp_path):
    (result,) = fitted(tmp_path, small(Roles).multi_agent(**AGENTS))
    assert set(result.metrics["info"]["learner"]) >= {"same"}
    (result,) = fitted(tmp_path, {"env": Roles, "num_groups": 1, **AGENTS}, PPO)
    assert set(result.metrics["info"]["learner"]) >= {"same"}
    former = {"env": Roles, "num_groups": 1, "multiagent": AGENTS}
    (trial,) = tune.run("PPO", config=former, stop={"training_iteration": 1}, local_dir=str(tmp_path), verbose=0).trials
    assert set(trial.last_result["info"]["learner"]) >= {"same"}


@pytest.mark.parametrize("as_given", [lambda config: config, lambda config: config.to_dict()], ids=["config", "dict"])
def test_functions_of_environments_and_callbacks_are_no_search_space(tmp_path, as_given):
    config = small(lambda spec: Scaled(spec), env_config={"reward": lambda spec: spec + 1})
    config.callbacks(on_episode_end=lambda spec: spec["episode"].custom_metrics.update(own=spec["episode"].length))
    (result,) = fitted(tmp_path, as_given(config.training(lr=tune.sample_from(lambda spec: 1e-3))))
    assert result.metrics["env_runners"]["episode_return_mean"] == 4.0
    assert result.metrics["custom_metrics"]["own_mean"] == 1.0
    assert result.config["lr"] == 1e-3


def test_trials_draw_their_own_numbers_without_a_seed(tmp_path):
    def returns(grid):
        return [result.metrics["hist_stats"]["episode_reward"] for result in grid]

    first = fitted(tmp_path, small(), num_samples=3)
    one, two, three = returns(first)
    assert one != two and two != three and one != three
    assert returns(fitted(tmp_path, small(), num_samples=3)) == [one, two, three]
    assert returns(fitted(tmp_path, small().debugging(seed=1), num_samples=2)) == [two, two]
    alone = small().build_algo()
    assert alone.train()["hist_stats"]["episode_reward"] == one and alone.config["seed"] == 0
    alone.stop()


def test_episode_of_a_trial_without_a_seed_is_played_again(tmp_path):
    grid = fitted(tmp_path, small(), num_samples=2)
    run = read_run(grid[1].path)
    assert run.config["seed"] == 1
    found = episode_of(run, 0)
    assert found.episode.episode_return == grid[1].metrics["hist_stats"]["episode_reward"][0]


def test_later_trials_of_a_session_have_torch_from_the_fork_on(tmp_path):
    @zray.remote
    class Other:
        def has(self):
            return "zray.rllib.algorithms.imported" in sys.modules  # the fork server alone imports it

    for _ in range(3):
        fitted(tmp_path, small(), num_samples=2)
    assert until(lambda: zray.get(Other.remote().has.remote()))


@pytest.mark.parametrize("cls", [GroupHost, GradientHost, PPO._trial_actor_class()])
def test_actors_name_a_module_that_the_fork_server_may_import(cls):
    assert importlib.import_module(sys.modules[cls.__module__].IS_PRELOADED).torch is torch
