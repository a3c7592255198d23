"""Lives of environments: their places, their ends, failures, and the random numbers of the process."""

import random
import re

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

import zray  # noqa: E402
from zray.rllib import lives  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from zray.rllib.environments import EnvContext, InvalidEnvironmentError  # noqa: E402
from zray.rllib.other_environments import differing  # noqa: E402

BOX, TWO = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)


class Home(gymnasium.Env):
    """An environment that writes down what happens to it, and draws from the random numbers of its process."""

    observation_space, action_space = BOX, TWO

    def __init__(self, config):
        self.config, self.life = config, 0
        self.write("made", config.worker_index, config.vector_index, config.num_workers, config.num_restarts)

    def write(self, *words):
        if "file" in self.config:
            with open(self.config["file"], "a") as file:
                file.write(" ".join(map(str, words)) + "\n")

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.array([random.random()], np.float32), {}

    def step(self, action):
        self.t, self.life = self.t + 1, self.life + 1
        if self.life == self.config.get("fails_at"):
            raise ConnectionError("the simulator is gone")
        reward = float(np.random.rand() + torch.rand(1).item()) if "draws" in self.config else 1.0
        return np.zeros(1, np.float32), reward, self.t == 10, False, {}

    def close(self):
        self.write("closed", self.config.vector_index)
        if "clings" in self.config:
            raise OSError("no answer")


def small(config=None, env=Home, runners=0, groups=1, **env_config):
    made = (config or PPOConfig()).environment(env, env_config=env_config).training(model={"fcnet_hiddens": [4]})
    made.env_runners(num_env_runners=runners, num_groups=groups, num_envs_per_env_runner=2, rollout_fragment_length=16)
    return made.training(num_epochs=1) if config is None else made


def lines(path):
    return sorted(path.read_text().splitlines())


def test_environments_in_the_program_are_closed_once_and_one_that_raises_keeps_no_other_open(tmp_path, caplog):
    path = tmp_path / "log"
    algo = small(file=str(path), clings=1).build_algo()
    algo.stop()
    algo.stop()
    lives._close_rest()
    assert lines(path) == sorted(["made 0 0 0 0"] * 2 + ["made 0 1 0 0"] + ["closed 0"] * 2 + ["closed 1"])
    assert "close of environment Home raised OSError: no answer." in caplog.text


def test_end_of_the_program_closes_what_is_open(tmp_path):
    path = tmp_path / "log"
    algo = small(file=str(path)).build_algo()
    evolution = small(ESConfig(), file=str(path)).training(noise_size=1000, episodes_per_batch=2).build_algo()
    evolution.train()
    lives._close_rest()  # is registered with atexit
    assert sum(line.startswith("made") for line in lines(path)) == sum(
        line.startswith("closed") for line in lines(path)
    )
    assert algo is not evolution


def test_group_whose_environment_cannot_be_made_closes_the_others(tmp_path):
    def make(context):
        if context.vector_index:
            raise OSError("no licence")
        return Home(context)

    path = tmp_path / "log"
    with pytest.raises(
        InvalidEnvironmentError, match="number 1 of worker 0 could not be made: OSError: no licence"
    ) as found:
        small(env=make, file=str(path)).build_algo()
    lives._close_rest()  # at the end of the program; the traceback holds the group
    assert found.value
    assert lines(path) == ["closed 0", "closed 0", "made 0 0 0 0", "made 0 0 0 0"]


def test_environment_that_raises_is_made_anew_and_its_episode_is_truncated(tmp_path, caplog):
    path = tmp_path / "log"
    config = small(file=str(path), fails_at=15).fault_tolerance(restart_failed_sub_environments=True)
    algo = config.build_algo()
    (batch,) = algo.collect(16)
    # The check took one step of the first environment: its life was as long, and its episodes were shorter.
    assert [each.length for each in batch.episodes] == [10, 10, 4, 5]
    assert np.flatnonzero(batch.ended[:, 0]).tolist() == [9, 13] and batch.terminated[:, 0].sum() == 1
    assert batch.rewards[13, 0] == 0.0 and batch.num_failed == algo.num_failed == 2
    assert {"made 0 0 0 1", "made 0 1 0 1"} <= set(lines(path))
    said = caplog.records[0].getMessage()
    assert said.startswith("An environment is made anew: step raised ConnectionError: the simulator is gone, in env")
    assert algo.train()["env_runners"]["num_faulty_episodes"] == 2
    assert algo.evaluate(2)["env_runners"]["episode_len_mean"] == 10  # which began again
    algo.stop()


def test_environment_that_fails_without_a_step_ends_training_after_several_attempts(caplog):
    config = small(fails_at=1).environment(disable_env_checking=True)
    config.fault_tolerance(restart_failed_sub_environments=True)
    algo = config.build_algo()
    algo.rollouts.host.groups[0].lengths = [0, 0]
    with pytest.raises(InvalidEnvironmentError, match="step raised ConnectionError"):
        algo.train()
    assert len(caplog.records) == 2 * lives.RESTARTS_MAX  # of two environments
    algo.stop()


def test_evolution_plays_the_episode_of_a_failed_environment_again():
    config = small(ESConfig(), fails_at=25).training(noise_size=1000, episodes_per_batch=8)
    with pytest.raises(InvalidEnvironmentError, match="ConnectionError: the simulator is gone, in environment Home"):
        config.build_algo().train()
    algo = config.fault_tolerance(restart_failed_sub_environments=True).build_algo()
    assert algo.train()["episode_len_mean"] == 10
    algo.stop()


class Fragile(Home):
    """An environment whose fault follows from the seed of the episode: another run of it fails in the same way."""

    def reset(self, *, seed=None, options=None):
        self.fails = seed is not None and (seed % 2 == 0 or "always" in self.config)
        return super().reset(seed=seed)

    def step(self, action):
        if self.fails and self.t == 3:
            raise ConnectionError("the simulator is gone")
        return super().step(action)


def test_evaluation_leaves_out_episodes_that_fail_and_goes_on(caplog):
    config = small(env=Fragile).fault_tolerance(restart_failed_sub_environments=True)
    algo = config.evaluation(evaluation_config={"seed": 2}).build_algo()
    found = algo.evaluate(3)
    assert found["episodes"] == 3 and found["episode_len_mean"] == 10 == found["episode_reward_mean"]
    assert sum("its episode is left out" in record.getMessage() for record in caplog.records) == 3
    assert "in the evaluation, environment Fragile, seed 2." in caplog.records[-3].getMessage()
    algo.stop()


def test_evaluation_in_which_every_episode_fails_is_an_error_with_its_place():
    config = small(env=Fragile, always=True).fault_tolerance(restart_failed_sub_environments=True)
    algo = config.evaluation(evaluation_config={"seed": 2}).build_algo()
    with pytest.raises(InvalidEnvironmentError, match="the simulator is gone, in the evaluation, environment Fragile"):
        algo.evaluate(3)
    algo.stop()


class Sensor(Home):
    """An environment that gives what is no finite number in the middle of its second life, as a simulator may."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        is_bad = self.life >= 15 and self.config["bad"] == "reset"
        return np.full(1, np.nan, np.float32) if is_bad else observation, info

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.life == 15 and self.config["bad"] == "reward":
            reward = float("nan")
        if self.life == 15 and self.config["bad"] == "observation":
            observation = np.full(1, np.inf, np.float32)
        return observation, reward, *rest


@pytest.mark.parametrize("bad", ["reset", "reward", "observation"])
def test_environment_that_gives_no_number_is_made_anew(bad, caplog):
    config = small(env=Sensor, bad=bad)
    with pytest.raises(InvalidEnvironmentError, match=r"The (reward is nan|observation holds NaN or infinity), in env"):
        small(env=Sensor, bad=bad).env_runners(rollout_fragment_length=32).build_algo().train()
    caplog.clear()
    algo = config.fault_tolerance(restart_failed_sub_environments=True).build_algo()
    (batch,) = algo.collect(32)
    assert np.isfinite(batch.rewards).all() and np.isfinite(batch.observations).all()
    assert batch.num_failed == (2 if bad == "reset" else 4)
    lengths = [each.length for each in batch.episodes]
    assert lengths[:4] == ([10, 10, 10, 10] if bad == "reset" else [10, 10, 4, 5])
    place = "step 0" if bad == "reset" else r"step [45]"
    assert re.match(rf"An environment is made anew: The .* {place} of the episode", caplog.records[0].getMessage())
    algo.stop()


def test_evolution_plays_the_episode_of_an_environment_without_numbers_again():  # which took one step for the check
    config = small(ESConfig(), env=Sensor, bad="reward").training(noise_size=1000, episodes_per_batch=8)
    with pytest.raises(InvalidEnvironmentError, match="The reward is nan, in step 4 of environment Sensor"):
        config.build_algo().train()
    algo = config.fault_tolerance(restart_failed_sub_environments=True).build_algo()
    assert algo.train()["episode_len_mean"] == 10
    algo.stop()


class Houses(MultiAgentEnv):
    """Two agents, and a failure."""

    observation_space, action_space, possible_agents = BOX, TWO, ["a", "b"]

    def __init__(self, config):
        self.t, self.bad = 0, config.get("bad")

    def reset(self, *, seed=None, options=None):
        return dict.fromkeys("ab", np.zeros(1, np.float32)), {}

    def step(self, actions):
        self.t += 1
        observations, rewards = dict.fromkeys("ab", np.zeros(1, np.float32)), dict.fromkeys("ab", 1.0)
        if self.t == 5:
            if self.bad is None:
                raise ConnectionError("the simulator is gone")
            bad = {"observation": (observations, np.full(1, np.nan, np.float32)), "reward": (rewards, float("nan"))}
            values, bad_value = bad[self.bad]
            values["b"] = bad_value
        return observations, rewards, {"__all__": False}, {}, {}


@pytest.mark.parametrize("bad", ["observation", "reward"])
def test_agent_without_numbers_ends_the_episode_of_all_agents_as_truncated(bad):
    config = small(env=Houses, bad=bad)
    with pytest.raises(InvalidEnvironmentError, match="of agent 'b' "):
        config.build_algo().train()
    algo = config.fault_tolerance(restart_failed_sub_environments=True).build_algo()
    result = algo.train()
    assert (result["episode_len_mean"], result["episode_reward_mean"]) == (5, 8.0)
    assert result["num_faulty_episodes"] == 6
    algo.stop()


def test_failure_ends_the_episode_of_all_agents_as_truncated():
    algo = small(env=Houses).fault_tolerance(restart_failed_sub_environments=True).build_algo()
    result = algo.train()
    assert (result["episode_len_mean"], result["episode_reward_mean"]) == (5, 8.0)
    assert result["num_faulty_episodes"] == 6
    algo.stop()


def test_program_keeps_its_random_numbers_and_the_curve_follows_from_the_seed():
    def curve(seed):
        algo = small(draws=1).debugging(seed=seed).build_algo()
        found = [algo.train()["episode_reward_mean"] for _ in range(2)]
        algo.stop()
        return found

    random.seed(5), np.random.seed(5)
    first, drawn = curve(1), (random.random(), np.random.rand())
    random.seed(5), np.random.seed(5)
    assert drawn == (random.random(), np.random.rand())
    assert first == curve(1) != curve(2)


def test_program_keeps_the_random_numbers_of_torch(tmp_path):
    def rest_of(*calls):
        torch.manual_seed(5)
        for call in calls:
            call()
        return torch.rand(2).tolist()

    algo = small(draws=1).debugging(seed=1).build_algo()
    path = algo.save(str(tmp_path / "saved"))
    others = [SACConfig().environment("Pendulum-v1"), DQNConfig().environment("CartPole-v1")]
    builds = [lambda config=config: config.build_algo().stop() for config in (small(draws=1), *others)]
    kept = rest_of()
    for call in (*builds, algo.train, algo.evaluate, lambda: algo.restore(path)):
        assert rest_of(call) == kept
    algo.stop()


def test_curve_and_weights_follow_from_the_seed_whatever_the_program_draws_from_torch():
    def found(config, seed, own):
        torch.manual_seed(own)
        algo = config.copy().debugging(seed=seed).build_algo()
        torch.rand(own)
        result, weights = algo.train(), np.asarray(algo.get_weights()["default_policy"])
        torch.rand(own)
        drawn = algo.get_policy().compute_actions(np.zeros((20, *algo.policy.row_shape), np.float32))[0]
        algo.stop()
        return result["episode_reward_mean"], weights.tolist(), np.ravel(drawn).tolist()

    for config in (small(draws=1), SACConfig().environment("Pendulum-v1", horizon=8).training(learning_starts=0)):
        assert found(config, 1, 3) == found(config, 1, 4) != found(config, 2, 3)


def test_environments_in_workers_live_as_in_the_program(tmp_path):
    """In one session: places, seeds, restarts, closing at the end of an algorithm and at the end of the program."""
    paths = [tmp_path / name for name in ("first", "second")]
    curves = []
    with zray.init(num_cpus=2, log_to_driver=False):
        for path in paths:
            config = small(runners=2, groups=2, file=str(path), draws=1, fails_at=15)
            algo = config.fault_tolerance(restart_failed_sub_environments=True).build_algo()
            result = algo.train()
            curves.append(result["episode_reward_mean"])
            if path is paths[0]:
                algo.stop()
    assert curves[0] == curves[1] and result["num_faulty_episodes"] == 4
    for path in paths:
        found = lines(path)
        assert [line for line in found if line.startswith("made")] == [
            "made 0 0 2 0", *(f"made {1 + n // 2} {n} 2 {restarts}" for n in range(4) for restarts in (0, 1)),
        ]  # fmt: skip
        assert [line for line in found if line.startswith("closed")] == sorted(
            ["closed 0", *(f"closed {n}" for n in range(4) for _ in range(2))]
        )


def test_checkpoint_of_other_environments_gives_its_weights_and_says_so(tmp_path, caplog):
    first = small(length=1).build_algo()
    first.train()
    first.save(str(tmp_path))
    second = small(length=2).build_algo()
    second.restore(str(tmp_path))
    assert second.rollouts.host.groups[0].envs[0].config["length"] == 2 and second.iteration == 1
    assert caplog.records[-1].getMessage().startswith("The checkpoint has another env_config than this algorithm: tr")
    assert all(
        (second.get_policy().get_weights()[name] == value).all()
        for name, value in first.get_policy().get_weights().items()
    )
    first.stop(), second.stop()


def test_differing_options_are_those_that_surely_differ():
    same = {"a": [1, {"b": np.ones(2)}], "nan": float("nan"), "object": object(), "kind": Home}
    other = {"a": [1, {"b": np.ones(2)}], "nan": float("nan"), "object": object(), "kind": type("Home", (), {})}
    assert differing({"env": Home, "env_config": same}, {"env": Home, "env_config": other}) == []
    for changed in (
        {"a": 1},
        {"nan": 0.0},
        {"kind": str},
        {"more": 1},
        {"object": None},
        {"a": [1, {"b": np.ones(3)}]},
    ):
        assert differing({"env_config": same}, {"env_config": {**same, **changed}}) == ["env_config"]


def test_context_of_an_environment_is_copied_with_other_places():
    context = EnvContext({"a": 1}, 2, 3, num_workers=4)
    copied = context.copy_with_overrides({"b": 2}, worker_index=5)
    copied.set_defaults({"a": 7, "b": 8})
    assert (dict(copied), copied.worker_index, copied.vector_index, copied.num_workers) == ({"a": 7, "b": 2}, 5, 3, 4)
