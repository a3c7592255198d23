"""Environments of former years: of gym, without seeds, with an observation alone, with a step of four values."""

import pickle

import gymnasium
import numpy as np
import pytest

from tests.scripts import run_script

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.environments import (  # noqa: E402
    EnvContext,
    InvalidEnvironmentError,
    Limited,
    check_environment,
    make_environment,
)
from zray.rllib.old_environments import OldStep, settled, space_of  # noqa: E402

BOX, TWO = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)


class Old(gymnasium.Env):
    """A class of gymnasium in the manner of gym: neither seed nor info, and four values of a step."""

    observation_space, action_space = BOX, TWO

    def __init__(self, config=None):
        self.length, self.mark = (config or {}).get("length", 5), "own"

    def reset(self):
        self.t = 0
        return self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t == self.length, {"TimeLimit.truncated": self.t == self.length}


class Seeded(Old):
    """The same with `seed`, as gym had."""

    def seed(self, seed=None):
        self.own = np.random.default_rng(seed)

    def reset(self):
        self.t = 0
        return self.own.uniform(-1, 1, 1).astype(np.float32)


class Between(Old):
    """An environment of gym 0.23: `reset` takes a seed and returns an observation alone."""

    def reset(self, *, seed=None, return_info=False, options=None):
        gymnasium.Env.reset(self, seed=seed)
        return Old.reset(self)


class Sampling(Old):
    """Draws from its own space."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self):
        self.t = 0
        return self.observation_space.sample()


class Today(Old):
    """All as today."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        return Old.reset(self), {}

    def step(self, action):
        observation, reward, done, info = Old.step(self, action)
        return observation, reward, done, False, info


class Tower(gymnasium.Wrapper):
    """A wrapper of the program around an old environment."""

    def step(self, action):
        observation, reward, done, info = self.env.step(action)
        return observation, reward + 1.0, done, info

    def reset(self):
        return self.env.reset()


def plain(config):
    """An environment of no class of gymnasium."""
    made = type("Corridor", (), {})()
    made.observation_space, made.action_space = BOX, TWO
    made.reset = lambda: np.zeros(1, np.float32)
    made.step = lambda action: (np.zeros(1, np.float32), 1.0, True, {})
    return made


def played(env, seed):
    """The observations of an episode's begin, and its last step."""
    made = make_environment(env, EnvContext())
    first, info = made.reset(seed=seed)
    assert info == {}
    found = made.step(0)
    while not (found[2] or found[3]):
        found = made.step(0)
    return first.tolist(), found[2:4]


@pytest.mark.parametrize("env", [Old, Seeded, Between, Sampling])
def test_episodes_of_former_years_follow_from_their_seeds(env):
    first, ends = played(env, 1)
    assert (first, ends) == played(env, 1) and first != played(env, 2)[0]
    assert ends == (False, True)  # as TimeLimit.truncated says


@pytest.mark.parametrize("env", [Old, Seeded, Between, plain, lambda config: Tower(Old())])
def test_old_environments_are_trained_on_checked_limited_and_evaluated(env):
    config = PPOConfig().environment(env, horizon=3).training(model={"fcnet_hiddens": [4]}, num_epochs=1)
    algo = config.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=8).build_algo()
    assert algo.train()["episode_len_mean"] == algo.evaluate(1)["env_runners"]["episode_len_mean"] <= 3
    algo.stop()


def test_evolution_plays_old_environments():
    config = ESConfig().environment(Old).training(model={"fcnet_hiddens": []}, noise_size=1000, episodes_per_batch=4)
    algo = config.build_algo()
    assert algo.train()["episode_reward_mean"] == 5.0
    algo.stop()


def test_old_environment_within_wrappers_of_gymnasium_is_adapted_inside():
    made = make_environment(lambda config: gymnasium.wrappers.TimeLimit(Old({"length": 9}), 2), EnvContext())
    check_environment(made, "Old")
    made.reset(seed=1)
    assert [made.step(0)[3] for _ in range(2)] == [False, True]


def test_environment_of_today_loses_its_wrapper_with_the_first_step():
    Of_Today = type("OfToday", (Today,), {})
    made = make_environment(Of_Today, EnvContext())
    limited = Limited(Of_Today, 3)(EnvContext())
    for each in (made, limited):
        check_environment(each, "OfToday")
    assert type(settled(made)) is Of_Today and type(settled(limited).env) is Of_Today
    assert type(make_environment(Of_Today, EnvContext())) is Of_Today  # the class is known now


def test_groups_hold_environments_of_today_without_wrappers():
    for is_off in (False, True):
        Fresh = type("Fresh", (Today,), {})
        config = PPOConfig().environment(Fresh, disable_env_checking=is_off).training(model={"fcnet_hiddens": [4]})
        algo = config.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=6).build_algo()
        algo.collect(6)
        assert [type(each) for each in algo.workers.local_worker().envs] == [Fresh, Fresh]
        algo.stop()


def test_environment_of_former_years_is_said_once(caplog):
    Named = type("Named", (Between,), {})
    for index in (0, 0, 2):
        check_environment(make_environment(Named, EnvContext(worker_index=index)), "Named")
    (said,) = [each.getMessage() for each in caplog.records]
    assert said.startswith(
        "Environment Named is of former years: reset returns the observation alone, step returns four values.  A"
    )


def test_wrapper_has_the_attributes_of_its_environment_and_is_pickled():
    made = pickle.loads(pickle.dumps(make_environment(Old, EnvContext({"length": 2}))))
    assert isinstance(made, OldStep) and (made.mark, made.length, type(made.unwrapped)) == ("own", 2, Old)
    made.close()


def test_step_without_an_info_is_named():
    class Bare(Today):
        def step(self, action):
            return Today.step(self, action)[:4]

    with pytest.raises(InvalidEnvironmentError, match=r"terminated, truncated, info\), not 4 values"):
        check_environment(make_environment(Bare, EnvContext()), "Bare")


def test_spaces_of_gym_become_those_of_gymnasium():
    def kind(name, **facts):
        return type(name, (), facts)()

    box = kind("Box", low=np.zeros(2), high=np.ones(2), dtype=np.float64)
    parts = {
        "a": kind("Discrete", n=3, start=1),
        "b": kind("MultiDiscrete", nvec=[2, 3]),
        "c": kind("Tuple", spaces=[box, kind("MultiBinary", n=4)]),
    }
    own = gymnasium.spaces
    assert space_of(kind("Dict", spaces=parts)) == own.Dict(
        a=own.Discrete(3, start=1),
        b=own.MultiDiscrete([2, 3]),
        c=own.Tuple([own.Box(0.0, 1.0, (2,), np.float64), own.MultiBinary(4)]),
    )


def test_id_that_the_program_registered_with_gym_is_made_by_gym(monkeypatch):
    import sys
    import types

    gym = types.SimpleNamespace(spec={"Shop-v0": object()}.__getitem__, make=lambda name, **options: Old(options))
    monkeypatch.setitem(sys.modules, "gym", gym)
    assert make_environment("Shop-v0", EnvContext({"length": 2})).length == 2
    with pytest.raises(ValueError, match="No environment is called 'Shop-v1'"):
        make_environment("Shop-v1", EnvContext())


def test_line_of_former_years_comes_once_of_all_processes_and_restores(tmp_path):
    done = run_script(
        tmp_path,
        """
        import gymnasium, numpy, sys
        import zray
        from zray import tune
        from zray.rllib.algorithms.algorithm import Algorithm
        from zray.rllib.algorithms.ppo import PPOConfig

        class Old(gymnasium.Env):
            observation_space = gymnasium.spaces.Box(-1, 1, (2,))
            action_space = gymnasium.spaces.Discrete(2)

            def __init__(self, config):
                self.steps = 0

            def reset(self):
                self.steps = 0
                return numpy.zeros(2, numpy.float32)

            def step(self, action):
                self.steps += 1
                return numpy.zeros(2, numpy.float32), 1.0, self.steps == 9, {}

        tune.register_env("old", Old)
        zray.init(num_cpus=2)
        folder = __file__ + ".checkpoint"
        config = PPOConfig().environment("old").env_runners(num_env_runners=1)
        first = config.training(train_batch_size=40, minibatch_size=20, model={"fcnet_hiddens": [4]}).build_algo()
        first.train()
        first.save(folder)
        first.stop()
        restored = Algorithm.from_checkpoint(folder)
        restored.train()
        restored.stop()
        """,
        timeout_s=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Environment old is of former years") == 1, done.stderr
