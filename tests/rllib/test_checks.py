"""`algo.check()`, faults of environments in each place, and workers that hang."""

import os
import threading

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from zray.rllib import agent_groups, checks  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQN, DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError, check_environment  # noqa: E402
from zray.rllib.groups import Group  # noqa: E402
from zray.rllib.spaces import OutsideSpace, one_hot  # noqa: E402

from .agents import Roles  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def small(config, env, **options):
    config.environment(env, **options).training(model={"fcnet_hiddens": [8]})
    return config.env_runners(num_envs_per_env_runner=2, num_groups=1, rollout_fragment_length=8)


@pytest.mark.parametrize("make", [PPOConfig, DQNConfig])
def test_check_holds_and_changes_nothing(make, capsys):
    algo = small(make(), "CartPole-v1").build_algo()
    algo.train()
    weights, state = algo.get_policy().get_weights(), torch.get_rng_state()
    found = algo.check()
    assert len(found) > 10 and all(check.holds for check in found)
    assert capsys.readouterr().out.count("\nok") == len(found) - 1
    assert all((weights[name] == value).all() for name, value in algo.get_policy().get_weights().items())
    assert torch.equal(torch.get_rng_state(), state)
    algo.stop()


def failing(monkeypatch, config, *patch):
    """The names of the checks that do not hold with a method replaced."""
    algo = config.build_algo()
    monkeypatch.setattr(*patch)
    with pytest.raises(AssertionError, match="a check does not hold") as raised:
        algo.check(verbose=False)
    algo.stop()
    return [line[6:].split("  ")[0] for line in str(raised.value).split("\n") if line.startswith("FAIL")]


def test_check_finds_truncation_without_bootstrap(monkeypatch):
    whole = Group.rollout

    def without(self, *args, **options):
        batch = whole(self, *args, **options)
        return batch._replace(next_values=np.where(batch.ended > 0, 0.0, batch.next_values))

    found = failing(monkeypatch, small(PPOConfig(), "CartPole-v1"), Group, "rollout", without)
    assert found == ["truncation is bootstrapped by the value of the last observation"]


def test_check_finds_advantages_that_are_not_normalised(monkeypatch):
    class Plain(PPO):
        """A loss of the advantages as they are."""

        def _update(self, rows):
            return {**super()._update(rows), "policy_loss": float(-rows["advantages"].mean())}

    config = small(PPOConfig(Plain), "CartPole-v1")
    found = failing(monkeypatch, config, checks, "STEPS", 16)
    assert "advantages are normalised in each minibatch" in found


def test_check_finds_a_target_that_moves(monkeypatch):
    whole = DQN._update

    def moving(self):
        metrics = whole(self)
        self.target.load_state_dict(self.policy.model.state_dict())
        return metrics

    found = failing(monkeypatch, small(DQNConfig(), "CartPole-v1"), DQN, "_update", moving)
    assert found == ["an update leaves the target network as it is"]


def test_last_minibatch_of_one_row_changes_nothing_to_nan():
    algo = small(PPOConfig(), "CartPole-v1").training(minibatch_size=5, num_epochs=1).build_algo()
    algo.train()  # 16 rows: the last minibatch has one
    assert all(np.isfinite(value).all() for value in algo.get_policy().get_weights().values())
    algo.stop()


class Faulty(gymnasium.Env):
    """An environment with a fault in its third step, or in one of its parts."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.fault, self.steps = config["fault"], 0
        if self.fault == "spaces":
            self.observation_space = None
        if self.fault == "negative":
            self.observation_space = gymnasium.spaces.Discrete(5)
        if self.fault == "constructor" and config.worker_index:
            raise OSError("no licence")

    def reset(self, *, seed=None, options=None):
        if self.fault == "reset raises" and self.steps > 3:
            raise ZeroDivisionError("by nought")
        return 0 if self.fault == "negative" else np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        late = self.steps > 3
        if self.fault == "step raises" and late:
            raise ZeroDivisionError("by nought")
        if self.fault == "negative":
            return (-1 if late else 0), 1.0, False, False, {}
        observation = np.zeros(3 if self.fault == "shape" and late else 2, np.float32)
        if self.fault == "observation" and late:
            observation[1] = np.nan
        reward = float("inf") if self.fault == "reward" and late else 1.0
        done = np.zeros(1) if self.fault == "done" else self.fault == "reset raises" and late
        return observation, reward, done, False, {}


PLACE = r"in environment Faulty number \d, step \d+ of the episode with seed \d+, worker "


@pytest.mark.parametrize(
    "fault, message",
    [
        ("step raises", "step raised ZeroDivisionError: by nought, " + PLACE),
        ("reset raises", "reset raised ZeroDivisionError: by nought, " + PLACE),
        ("observation", "The observation holds NaN or infinity, " + PLACE),
        ("reward", "The reward is inf, " + PLACE),
        ("shape", r"The observation is ndarray of shape \(3,\), where the space is Box.*, " + PLACE),
        ("negative", r"The observation is -1, which is not in Discrete\(5\): 0 to 4, " + PLACE),
        ("spaces", "Environment Faulty has no observation_space of gymnasium, but NoneType"),
        ("done", "The value terminated of step of environment Faulty is a bool, not ndarray"),
    ],
)
def test_fault_names_environment_step_seed_and_worker(fault, message):
    algo = None
    with pytest.raises(InvalidEnvironmentError, match=message):
        algo = small(PPOConfig(), Faulty, env_config={"fault": fault}).build_algo()
        algo.train()
    if algo is not None:
        algo.stop()


@pytest.mark.parametrize(
    "space, observation, part",
    [
        (gymnasium.spaces.Discrete(5), -1, " is -1"),
        (gymnasium.spaces.Discrete(5, start=2), np.int64(7), " is 7"),
        (gymnasium.spaces.Discrete(5), 1.5, r" is 1\.5"),
        (gymnasium.spaces.MultiDiscrete([2, 3]), np.array([1, 3]), r" is \[1 3\]"),
        (gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(2)), {"a": 2}, r"\['a'\] is 2"),
        (gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2)] * 2), (0, -1), r"\[1\] is -1"),
    ],
)
def test_discrete_value_outside_of_its_space_is_named(space, observation, part):
    with pytest.raises(OutsideSpace, match=f"The observation{part}, which is not in "):
        one_hot(space, observation)


@pytest.mark.parametrize("fault, message", [("step raises", PLACE + "1"), ("constructor", "of worker 1 .*no licence")])
def test_fault_in_a_worker_arrives_with_its_place(fault, message):
    algo = small(PPOConfig(), Faulty, env_config={"fault": fault}).env_runners(num_env_runners=1).build_algo()
    with pytest.raises(Exception, match=message):
        algo.train()
    algo.stop()


def test_what_is_no_environment_is_said_before_the_first_rollout():
    with pytest.raises(InvalidEnvironmentError, match="returned NoneType, which has no reset: return an object of"):
        small(PPOConfig(), lambda config: None).build_algo()
    with pytest.raises(InvalidEnvironmentError, match="A class or function of your own takes the env_config"):
        small(PPOConfig(), lambda: None).build_algo()


class Hanging(gymnasium.Env):
    """An environment that hangs in its fifth step, as long as a file is not there."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.file, self.steps = config["file"], 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 5 and not os.path.exists(self.file):
            with open(self.file, "w"):
                pass
            threading.Event().wait()
        return np.full(2, action, np.float32), float(action), self.steps % 7 == 0, False, {}


@pytest.mark.parametrize(
    "make", [PPOConfig, pytest.param(ESConfig, marks=pytest.mark.slow), pytest.param(A3CConfig, marks=pytest.mark.slow)]
)
def test_worker_that_hangs_is_replaced_and_the_curve_is_the_same(tmp_path, caplog, make):
    def curve(file, workers):
        config = small(make(), Hanging, env_config={"file": str(file)})
        if make is ESConfig:
            config.training(noise_size=10_000, episodes_per_batch=8)
        algo = config.env_runners(num_env_runners=workers, sample_timeout_s=4).build_algo()
        algo.train()
        weights = {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}
        algo.stop()
        return weights

    expected = curve(__file__, 0)
    with caplog.at_level("WARNING", "zray.rllib"):
        assert curve(tmp_path / "has hung", 1) == expected
    assert "Worker 1 is replaced: its rollout did not end within 4 s" in caplog.text


LSTM = {"use_lstm": True, "lstm_cell_size": 4, "fcnet_hiddens": [4], "max_seq_len": 4}


def test_check_of_a_recurrent_model_has_sequences_and_padding():
    algo = small(PPOConfig(), "CartPole-v1").training(model=LSTM).build_algo()
    found = {check.name for check in algo.check(verbose=False)}
    algo.stop()
    assert {
        "sequences begin with the states of the rollout: state 1",
        "padding is masked: a sequence alone has the same values",
        "truncation is bootstrapped by the value of the last observation",
    } <= found


def test_check_finds_sequences_that_begin_with_another_state(monkeypatch):
    whole = Group._with_sequences

    def of_zeros(self, *args):
        batch = whole(self, *args)
        return batch._replace(states=[np.zeros_like(each) for each in batch.states])

    found = failing(
        monkeypatch, small(PPOConfig(), "CartPole-v1").training(model=LSTM), Group, "_with_sequences", of_zeros
    )
    assert "sequences begin with the states of the rollout: state 0" in found


@pytest.mark.parametrize("make, model", [(PPOConfig, {}), (PPOConfig, LSTM), (DQNConfig, {})])
def test_check_of_several_agents_is_that_of_each_policy(make, model):
    config = small(make(), Roles).training(model=model)
    config.multi_agent(policies={"same", "other"}, policy_mapping_fn=lambda agent, *args, **kwargs: agent)
    algo = config.build_algo()
    names = [check.name for check in algo.check(verbose=False)]
    algo.stop()
    assert {name.split(": ")[0] for name in names} == {"same", "other"} and len(names) > 20
    bootstrap = "same: truncation is bootstrapped by the value of the last observation"
    assert (bootstrap in names) == (model != LSTM)


def test_check_finds_agents_without_bootstrap(monkeypatch):
    whole = agent_groups._batch_of

    def without(*args):
        batch = whole(*args)
        return batch._replace(next_values=np.where(batch.ended > 0, 0.0, batch.next_values))

    config = small(PPOConfig(), Roles)
    found = failing(monkeypatch, config, agent_groups, "_batch_of", without)
    assert found == ["default_policy: truncation is bootstrapped by the value of the last observation"]


def test_horizon_truncates_episodes_of_several_agents():
    algo = small(PPOConfig(), Roles, horizon=3).build_algo()
    (batch,) = algo.collect(8)
    algo.stop()
    assert [episode.length for episode in batch.episodes] == [3] * 4
    assert not batch.batches["default_policy"].terminated.any()


def test_check_of_an_environment_takes_an_allowed_action():
    class Strict(gymnasium.Env):
        action_space = gymnasium.spaces.Discrete(50)
        observation_space = gymnasium.spaces.Dict(action_mask=gymnasium.spaces.MultiBinary(50))

        def reset(self, *, seed=None, options=None):
            return {"action_mask": np.eye(50, dtype=np.int8)[7]}, {}

        def step(self, action):
            assert action == 7
            return self.reset()[0], 0.0, False, False, {}

    check_environment(Strict(), "Strict")
