"""Rollouts of whole episodes: batch_mode="complete_episodes"."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from zray.rllib import groups, spellings  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402

from .agents import Roles  # noqa: E402

LSTM = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [4], "max_seq_len": 3}


class Count(gymnasium.Env):
    """The number of the step is observed; episodes have 1 to 6 steps, and each third one is truncated."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.number, self.length, self.is_endless = config.vector_index, 0, config.get("is_endless")

    def reset(self, *, seed=None, options=None):
        self.number, self.step_number = self.number + 1, 0
        self.length = self.number % 6 + 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.step_number += 1
        is_over = self.step_number >= self.length and not self.is_endless
        is_cut = self.number % 3 == 0
        return np.full(1, self.step_number, np.float32), 1.0, is_over and not is_cut, is_over and is_cut, {}


def made(config=None, workers=0, **training):
    config = (config or PPOConfig()).environment(Count)
    config.env_runners(num_groups=2, num_envs_per_env_runner=3, num_env_runners=workers)
    config.env_runners(rollout_fragment_length=7, batch_mode="complete_episodes")
    return config.training(**{"model": {"fcnet_hiddens": [4]}, **training})


@pytest.mark.parametrize("model", [{"fcnet_hiddens": [4]}, LSTM], ids=["mlp", "lstm"])
def test_rollout_holds_each_episode_from_its_begin_to_its_end(model):
    algo = made(model=model).build_algo()
    for _ in range(2):
        batch = algo.collect(7)[0]
        rows, ended = batch.observations[:, 0, 0], batch.ended[:, 0]
        begins = np.append(0, np.flatnonzero(ended)[:-1] + 1)
        lengths = np.diff(np.append(begins, len(rows)))
        assert ended[-1] == 1 and rows.tolist() == [step for length in lengths for step in range(length)]
        assert sorted(lengths) == sorted(episode.length for episode in batch.episodes)
        assert all(3 * 7 <= batch.rewards.size == array.shape[0] for array in (rows, batch.values, batch.next_values))
        if model is not LSTM:
            _, values = algo.policy.forward((rows + 1)[:, np.newaxis])
            counts = batch.terminated[:, 0] == 0  # truncated episodes have a value behind their last step too
            assert batch.next_values[counts, 0] == pytest.approx(values[counts], abs=1e-6)
            assert (counts & (ended > 0)).any()
    data = algo._data()
    with torch.no_grad():
        parameters, _ = algo.policy.evaluate(data)
    assert parameters.numpy() == pytest.approx(data["old_parameters"].numpy(), abs=1e-5)
    algo.stop()


def test_filter_counts_the_steps_of_episodes_alone():
    config = made().env_runners(observation_filter="MeanStdFilter")
    algo = config.build_algo()
    batches = algo.collect(7)
    assert sum(each.counted.count for each in batches) == sum(each.rewards.size for each in batches)
    algo.stop()


def test_curve_of_whole_episodes_is_the_same_in_other_processes(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False):
        found = []
        for workers in (0, 2):
            algo = made(workers=workers, num_epochs=1).build_algo()
            for _ in range(2):
                algo.train()
            found.append({name: value.tobytes() for name, value in algo.get_policy().get_weights().items()})
            algo.stop()
    assert found[0] == found[1]


def test_dqn_stores_whole_episodes():
    algo = made(DQNConfig(), learning_starts=0).build_algo()
    algo.train()
    assert algo.memory.size == algo.steps_sampled > 2 * 3 * 7
    algo.stop()


def test_episode_without_an_end_says_what_to_do(monkeypatch):
    monkeypatch.setattr(groups, "STEPS_MAX", 20)
    algo = made().environment(Count, env_config={"is_endless": True}).build_algo()
    with pytest.raises(InvalidEnvironmentError, match="has not ended, in environment Count number 0.*option horizon"):
        algo.train()
    algo.stop()


def test_wrong_mode_says_what_the_modes_are():
    with pytest.raises(ValueError, match='batch_mode is "truncate_episodes" or "complete_episodes", not'):
        PPOConfig().env_runners(batch_mode="episodes")


def test_several_agents_have_rollouts_of_a_fixed_length_and_say_so(caplog):
    spellings._said.discard("batch_mode")
    with caplog.at_level("WARNING", "zray.rllib"):
        algo = made().environment(Roles).build_algo()
    assert "'batch_mode' changes nothing: rollouts of several agents have a fixed length" in caplog.text
    assert algo.collect(7)[0].rewards.shape == (7, 3)
    algo.stop()
