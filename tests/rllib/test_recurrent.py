"""Recurrent policies: states through rollouts, sequences, custom models, actions, and learning."""

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.stateless_cartpole import StatelessCartPole  # noqa: E402
from zray.rllib.models.torch.recurrent_net import RecurrentNetwork  # noqa: E402
from zray.rllib.sequences import minibatches_of, pad, rows_of, sequences_of  # noqa: E402

from .hidden import Signal  # noqa: E402

nn = torch.nn


class Gru(RecurrentNetwork, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name, size=6):
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.gru = nn.GRU(obs_space.shape[0], size, batch_first=True)
        self.logits, self.value = nn.Linear(size, num_outputs), nn.Linear(size, 1)
        self.size = size

    def get_initial_state(self):
        return [torch.zeros(self.size)]

    def forward_rnn(self, inputs, state, seq_lens):
        self.features, after = self.gru(inputs, state[0].unsqueeze(0))
        return self.logits(self.features), [after.squeeze(0)]

    def value_function(self):
        return self.value(self.features).reshape(-1)


LSTM = {"use_lstm": True, "lstm_cell_size": 6, "fcnet_hiddens": [6], "max_seq_len": 5}
GRU = {"custom_model": Gru, "max_seq_len": 5}


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def config(model, workers=0, env=StatelessCartPole):
    made = PPOConfig().environment(env).training(num_epochs=2, minibatch_size=16, model=model)
    return made.env_runners(
        num_env_runners=workers, num_groups=2, num_envs_per_env_runner=2, rollout_fragment_length=12
    )


def weights(algo):
    return {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}


def test_sequences_are_cut_at_ends_and_at_their_longest():
    ended = np.zeros((7, 2))
    ended[3, 0] = ended[6, 1] = 1.0
    found = sequences_of(ended, 3)
    assert found == [(0, 0, 3), (0, 3, 1), (0, 4, 3), (1, 0, 3), (1, 3, 3), (1, 6, 1)]
    steps = np.arange(14).reshape(7, 2)
    assert steps.reshape(-1)[rows_of(found, 2)].tolist() == [*steps[:, 0], *steps[:, 1]]


def test_minibatches_hold_each_sequence_once_and_whole():
    lengths = np.array([3, 1, 3, 2, 3])
    found = minibatches_of(lengths, 4, np.random.default_rng(0))
    assert sorted(each for sequences, _ in found for each in sequences) == [0, 1, 2, 3, 4]
    owners = np.repeat(np.arange(5), lengths)
    for sequences, rows in found:
        assert owners[rows].tolist() == np.repeat(sequences, lengths[sequences]).tolist()
    assert all(len(rows) >= 4 for _, rows in found[:-1])


def test_padded_rows_are_found_again():
    rows = torch.arange(12.0).reshape(6, 2)
    rectangle, places = pad(rows, torch.tensor([3, 1, 2]))
    assert rectangle.shape == (3, 3, 2)
    assert torch.equal(rectangle.flatten(0, 1)[places], rows)
    assert rectangle.sum() == rows.sum()


@pytest.mark.parametrize("model", [LSTM, GRU], ids=["lstm", "custom"])
def test_learner_computes_what_the_rollout_computed(model):
    """Sequences with their states give the parameters and values of each step, over two rollouts and many ends."""
    algo = config(model, env=lambda context: Signal({"steps": 4})).build_algo()
    for _ in range(2):
        rows = algo._data()
        with torch.no_grad():
            parameters, values = algo.policy.evaluate(rows)
        assert parameters.numpy() == pytest.approx(rows["old_parameters"].numpy(), abs=1e-5)
        assert values.numpy() == pytest.approx(rows["old_values"].numpy(), abs=1e-5)
    algo.stop()


def test_state_is_carried_over_rollouts_and_reset_at_ends():
    algo = config(LSTM, env=lambda context: Signal({"steps": 8})).build_algo()
    policy = algo.policy
    batches = [algo.collect(12)[0] for _ in range(2)]
    rows, ended = (np.concatenate([getattr(each, name) for each in batches]) for name in ("observations", "ended"))
    parameters = np.concatenate([each.parameters for each in batches])
    for env in range(2):
        state = policy.get_initial_state()
        for step in range(24):
            found, _, after = policy.forward_states(rows[step, env][None], [each[None] for each in state])
            assert found[0] == pytest.approx(parameters[step, env], abs=1e-5)
            state = policy.get_initial_state() if ended[step, env] else [each[0] for each in after]
    assert ended.sum() == 6
    algo.stop()


def test_value_behind_a_truncated_episode_is_that_of_its_state():
    algo = config(LSTM, env=lambda context: Signal({"steps": 4, "is_cut": True})).build_algo()
    batch = algo.collect(12)[0]
    policy = algo.policy
    for env in range(2):
        states = [each[None] for each in policy.initial_state]
        for step in range(4):
            _, _, states = policy.forward_states(batch.observations[step, env][None], states)
        _, value, _ = policy.forward_states(np.zeros((1, 1), np.float32), states)
        assert batch.ended[3, env] and not batch.terminated[3, env]
        assert batch.next_values[3, env] == pytest.approx(value[0], abs=1e-5)
    algo.stop()


def test_curve_is_the_same_in_another_process_and_behind_a_checkpoint(tmp_path):
    algo = config(LSTM).build_algo()
    other = config(LSTM, 1).build_algo()
    for _ in range(2):
        algo.train()
        other.train()
    assert weights(algo) == weights(other)
    path = other.save(str(tmp_path / "saved"))
    other.stop()
    restored = Algorithm.from_checkpoint(path)
    for each in (algo, restored):
        each.train()
    assert weights(algo) == weights(restored)
    algo.stop()
    restored.stop()


def test_action_comes_with_the_next_state():
    algo = config(LSTM).build_algo()
    state = algo.get_policy().get_initial_state()
    assert [each.shape for each in state] == [(6,), (6,)]
    observation = np.array([0.1, 0.2], np.float32)
    action, after, info = algo.compute_single_action(observation, state=state, explore=False)
    assert action in (0, 1) and not np.array_equal(after[0], state[0])
    first = algo.compute_single_action(observation, explore=False)
    assert first[0] == action and np.array_equal(first[1][0], after[0])
    _, _, later = algo.compute_single_action(observation, state=after, explore=False)
    assert later["vf_preds"] != info["vf_preds"]
    algo.stop()


def test_dqn_says_that_it_has_no_recurrent_models():
    with pytest.raises(NotImplementedError, match="DQN has no recurrent models yet"):
        DQNConfig().environment("CartPole-v1").training(model={"use_lstm": True}).build_algo()


@pytest.mark.parametrize(
    "model, message",
    [
        ({**GRU, "use_lstm": True}, "no LSTM behind a custom_model yet: give"),
        ({"use_attention": True}, "no use_attention"),
    ],
)
def test_recurrence_that_is_not_there_says_what_to_do(model, message):
    with pytest.raises(NotImplementedError, match=message):
        config(model).build_algo()


def test_images_go_through_a_convolution_to_the_lstm():
    from .catch import Catch

    algo = config({**LSTM, "conv_filters": [[2, 3, 2]]}, env=Catch).build_algo()
    algo.train()
    algo.stop()


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("model", [LSTM, GRU], ids=["lstm", "custom"])
def test_signal_is_remembered(model):
    torch.set_num_threads(1)
    made = config({**model, "max_seq_len": 20}, env=Signal).training(lr=5e-3, num_epochs=6, minibatch_size=64)
    algo = made.env_runners(num_envs_per_env_runner=8, rollout_fragment_length=16).build_algo()
    best = 0.0
    while algo.steps_sampled < 30_000 and best < 1.0:
        algo.train()
        best = algo.evaluate(20)["episode_reward_mean"] if algo.iteration % 5 == 0 else best
    algo.stop()
    assert best == 1.0


def test_cartpole_without_velocities_shows_position_and_angle():
    env, whole = StatelessCartPole(), gymnasium.make("CartPole-v1")
    found, expected = env.reset(seed=0)[0], whole.reset(seed=0)[0]
    assert env.observation_space.contains(found) and found.tolist() == [expected[0], expected[2]]
    assert env.spec.max_episode_steps == 500
