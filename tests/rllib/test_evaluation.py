"""Evaluation: the environment of the training, or what `evaluation_config` says; and the keys of results."""

import gymnasium
import numpy as np
import pytest

from zray.rllib.algorithms.a2c import A2CConfig
from zray.rllib.algorithms.dqn import DQNConfig
from zray.rllib.algorithms.es import ESConfig
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.algorithms.sac import SACConfig
from zray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent


class Endless(gymnasium.Env):
    """Never ends; its reward is that of the env_config."""

    made: list["Endless"] = []
    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.reward, self.is_open = (config or {}).get("reward", 1.0), True
        self.seeds, self.actions = [], set()
        Endless.made.append(self)

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.actions.add(int(action))
        return np.zeros(1, np.float32), self.reward, False, False, {}

    def close(self):
        self.is_open = False


def built(make, env=Endless, **options):
    config = make().environment(env, horizon=20)
    if make is not ESConfig:
        config.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=8)
    return config.evaluation(evaluation_duration=2).update_from_dict(options).build_algo()


@pytest.mark.parametrize("make", [PPOConfig, DQNConfig, A2CConfig])
def test_evaluation_has_the_horizon_of_the_training(make):
    algo = built(make)
    found = algo.evaluate()
    algo.stop()
    assert found["episode_reward_mean"] == 20.0 and found["hist_stats"]["episode_lengths"] == [20, 20]


def test_evaluation_of_evolution_has_the_horizon():
    algo = built(ESConfig, noise_size=10_000, episodes_per_batch=2)
    assert algo.evaluate()["env_runners"]["episode_len_mean"] == 20.0
    algo.stop()


def test_evaluation_of_several_agents_has_the_horizon_and_draws_actions_where_it_is_asked_to():
    config = {"num_agents": 2, "reward": 1.0}
    algo = built(PPOConfig, make_multi_agent(Endless), env_config=config, evaluation_config={"explore": True})
    Endless.made.clear()
    found = algo.evaluate()
    algo.stop()
    assert found["episode_reward_mean"] == 40.0 and found["episode_len_mean"] == 20.0
    assert Endless.made[0].actions == {0, 1}


def test_evaluation_config_changes_environment_horizon_explore_and_seeds():
    algo = built(
        PPOConfig,
        evaluation_config=PPOConfig.overrides(horizon=5, env_config={"reward": 3.0}, explore=True, seed=7),
    )
    Endless.made.clear()
    found = algo.evaluate()
    algo.stop()
    (env,) = Endless.made
    assert found["episode_reward_mean"] == 15.0 and env.seeds == [7, 8] and not env.is_open


def test_evaluation_config_names_another_environment():
    class Other(Endless):
        def step(self, action):
            return np.zeros(1, np.float32), 5.0, True, False, {}

    algo = built(PPOConfig, evaluation_config={"env": Other})
    assert algo.evaluate(1)["hist_stats"] == {"episode_reward": [5.0], "episode_lengths": [1]}
    algo.stop()


def test_unknown_options_of_evaluation_config_are_refused():
    algo = built(PPOConfig, evaluation_config={"explor": True})
    with pytest.raises(TypeError, match="Near: 'explore'"):
        algo.evaluate()
    algo.stop()


def test_durations_in_steps_end_with_whole_episodes():
    algo = built(PPOConfig, evaluation_duration=30, evaluation_duration_unit="timesteps")
    found = algo.evaluate()
    algo.stop()
    assert found["episodes_this_iter"] == 2 and found["num_env_steps_sampled"] == 40


def test_an_episode_that_does_not_end_ends_the_evaluation(caplog):
    algo = built(PPOConfig, horizon=None, evaluation_sample_timeout_s=0.05)
    found = algo.evaluate()
    algo.stop()
    assert found["episodes_this_iter"] == 0 and np.isnan(found["episode_reward_mean"])
    assert "after 0 episodes" in caplog.text and "Give horizon" in caplog.text


KEYS = """episode_reward_mean episode_reward_max episode_reward_min episode_len_mean episodes_this_iter episodes_total
hist_stats/episode_reward hist_stats/episode_lengths info/learner/policy_loss learners/default_policy/policy_loss
num_env_steps_sampled num_agent_steps_sampled num_env_steps_sampled_lifetime timesteps_total
env_runners/episode_return_mean env_runners/episode_return_max env_runners/episode_len_mean env_runners/episode_len_max
env_runners/num_episodes env_runners/num_episodes_lifetime env_runners/num_env_steps_sampled
evaluation/episode_reward_mean evaluation/episode_reward_max evaluation/episode_len_mean
evaluation/hist_stats/episode_reward evaluation/env_runners/episode_return_mean evaluation/env_runners/num_episodes
evaluation/env_runners/episode_len_mean evaluation/episodes_this_iter
counters/num_env_steps_sampled counters/num_env_steps_trained num_env_steps_trained num_agent_steps_trained
num_steps_trained_this_iter num_env_steps_trained_this_iter num_env_steps_sampled_this_iter num_healthy_workers
timers/training_iteration_time_ms timers/sample_time_ms timers/learn_time_ms perf/cpu_util_percent perf/ram_util_percent
sampler_results/episode_reward_mean sampler_results/episode_len_mean sampler_results/episodes_this_iter
policy_reward_mean sampler_results/policy_reward_mean info/num_env_steps_trained""".split()


def test_results_have_the_keys_of_all_years():
    algo = built(PPOConfig, evaluation_interval=1, horizon=10)
    first, result = algo.train(), algo.train()
    algo.stop()
    for key in KEYS:
        found = result
        for part in key.split("/"):
            found = found[part]
    assert result["num_env_steps_sampled"] == 32 and result["env_runners"]["num_env_steps_sampled"] == 16
    assert first["env_runners"]["num_episodes"] == 0 and result["env_runners"]["num_episodes_lifetime"] == 2
    assert result["hist_stats"] == {"episode_reward": [10.0, 10.0], "episode_lengths": [10, 10]}
    assert result["num_env_steps_trained"] == 32 and result["num_steps_trained_this_iter"] == 16
    assert result["policy_reward_mean"] == {} and result["num_healthy_workers"] == 0
    times = result["timers"]
    assert times["sample_time_ms"] + times["learn_time_ms"] == pytest.approx(times["training_iteration_time_ms"])


@pytest.mark.parametrize("config_class, env", [(DQNConfig, "CartPole-v1"), (SACConfig, "Pendulum-v1")])
def test_steps_of_minibatches_are_counted_as_trained(config_class, env, tmp_path):
    batch = 8
    config = config_class().environment(env, horizon=10)
    config.training(train_batch_size=batch, updates_per_iteration=3, learning_starts=0)
    algo = config.build_algo()
    assert [algo.train()["num_env_steps_trained"] for _ in range(2)] == [3 * batch, 6 * batch]
    path = algo.save(str(tmp_path / "saved"))
    algo.stop()
    again = config.copy().build_algo()
    again.restore(path)
    result = again.train()
    again.stop()
    assert (result["num_env_steps_trained"], result["num_steps_trained_this_iter"]) == (9 * batch, 3 * batch)
    assert result["counters"]["num_env_steps_trained"] == 9 * batch


def test_steps_of_agents_are_counted_apart():
    algo = built(PPOConfig, make_multi_agent(Endless), env_config={"num_agents": 3})
    result = algo.train()
    algo.stop()
    assert result["num_env_steps_sampled"] == 16 and result["num_agent_steps_sampled"] == 48
    assert result["num_env_steps_trained"] == 16 and result["num_agent_steps_trained"] == 48


class Pair(MultiAgentEnv):
    """Two agents of which the second gets more, for three steps."""

    possible_agents = ["a", "b"]
    observation_spaces = dict.fromkeys("ab", Endless.observation_space)
    action_spaces = dict.fromkeys("ab", Endless.action_space)

    def __init__(self, config=None):
        super().__init__()

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return {agent: np.zeros(1, np.float32) for agent in "ab"}, {}

    def step(self, actions):
        self.steps += 1
        is_over = {"__all__": self.steps == 3}
        rewards = {"a": 1.0, "b": 2.0 * self.steps}
        return {agent: np.zeros(1, np.float32) for agent in "ab"}, rewards, is_over, {"__all__": False}, {}


NAMES = {"a": "first", "b": "second"}


def test_evaluation_and_training_have_returns_by_policy():
    config = PPOConfig().environment(Pair).env_runners(num_groups=1, rollout_fragment_length=6)
    config.multi_agent(policies={"first", "second"}, policy_mapping_fn=lambda agent, *_, **__: NAMES[agent])
    algo = config.evaluation(evaluation_interval=1, evaluation_duration=2).build_algo()
    result = algo.train()
    algo.stop()
    for found, episodes in ((result, 8), (result["evaluation"], 2)):
        for key in ("mean", "min", "max"):
            assert found[f"policy_reward_{key}"] == {"first": 3.0, "second": 12.0}
        assert found["hist_stats"]["policy_first_reward"] == [3.0] * episodes
        assert found["env_runners"]["module_episode_returns_mean"] == {"first": 3.0, "second": 12.0}


def test_evaluation_of_one_agent_has_no_returns_by_policy():
    algo = built(PPOConfig)
    assert "policy_reward_mean" not in algo.evaluate(1)
    algo.stop()


@pytest.mark.parametrize("make", [PPOConfig, DQNConfig, A2CConfig, ESConfig])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_action_of_an_observation_without_numbers_is_an_error(make, value):
    algo = built(make, **({"noise_size": 10_000} if make is ESConfig else {}))
    bad = np.full(1, value, np.float32)
    with pytest.raises(ValueError, match="The observation holds NaN or infinity"):
        algo.compute_single_action(bad)
    with pytest.raises(ValueError, match="The observation holds NaN or infinity"):
        algo.compute_actions({"a": np.zeros(1, np.float32), "b": bad})
    policy = algo.get_policy()
    if make is not ESConfig:
        with pytest.raises(ValueError, match="The observation holds NaN or infinity"):
            policy.compute_single_action(bad)
        with pytest.raises(ValueError, match="The observation 1 of 2 holds NaN or infinity"):
            policy.compute_actions([np.zeros(1, np.float32), bad])
    algo.stop()
