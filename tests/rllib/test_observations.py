"""Observations of another form than their space: keys, parts, shapes and kinds of numbers are named, in all places."""

import numpy as np
import pytest

pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")

from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.spaces import OutsideSpace, one_hot  # noqa: E402

TWO = gymnasium.spaces.Discrete(2)
SPACE = gymnasium.spaces.Dict(
    action_mask=gymnasium.spaces.MultiBinary(2),
    inner=gymnasium.spaces.Dict(
        at=gymnasium.spaces.Box(-1, 1, (2,)), pair=gymnasium.spaces.Tuple([TWO, gymnasium.spaces.Box(0, 9, (1,), int)])
    ),
)


def good():
    return {"action_mask": np.ones(2, np.int8), "inner": {"at": np.zeros(2, np.float32), "pair": (0, np.zeros(1, int))}}


def changed(*path, to):
    """An observation with one part changed; `None` removes it."""
    found = good()
    place = found
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found


FAULTS = {
    "no mask": (changed("action_mask", to=None), r"observation lacks 'action_mask', where the space is Dict"),
    "no inner key": (changed("inner", "at", to=None), r"observation\['inner'\] lacks 'at', where the space is Dict"),
    "one key more": (changed("b", to=1), r"observation has 'b' too, where the space is Dict"),
    "array for a dict": (changed("inner", to=np.zeros(3)), r"observation\['inner'\] is ndarray of shape \(3,\)"),
    "dict for an array": (changed("inner", "at", to={"x": 1}), r"observation\['inner'\]\['at'\] is dict of shape \(\)"),
    "array": (np.zeros(4), r"observation is ndarray of shape \(4,\), where the space is Dict"),
    "none": (np.array(None), r"observation is ndarray of shape \(\), where the space is Dict"),
    "short tuple": (changed("inner", "pair", to=(0,)), r"\['inner'\]\['pair'\] is tuple of shape \(1,\)"),
    "number for a tuple": (changed("inner", "pair", to=3), r"\['inner'\]\['pair'\] is int of shape \(\)"),
    "long mask": (changed("action_mask", to=np.ones(3, np.int8)), r"\['action_mask'\] is ndarray of shape \(3,\)"),
    "mask of rows": (changed("action_mask", to=np.ones((1, 2))), r"\['action_mask'\] is ndarray of shape \(1, 2\)"),
    "mask of texts": (changed("action_mask", to=["a", "b"]), r"\['action_mask'\] is list of shape \(2,\)"),
    "mask of objects": (changed("action_mask", to=[{}, {}]), r"\['action_mask'\] is list of shape \(2,\)"),
    "ragged mask": (changed("action_mask", to=[[1], [1, 0]]), r"\['action_mask'\] is list without a shape, where"),
    "mask of halves": (changed("action_mask", to=[0.5, 1]), r"\['action_mask'\] is \[0.5, 1\], which .*: 0 or 1"),
    "mask with NaN": (changed("action_mask", to=[np.nan, 1]), r"\['action_mask'\] is \[nan, 1\], which .*: 0 or 1"),
    "NaN as integer": (changed("inner", "pair", to=(0, [np.nan])), r"\['pair'\]\[1\] is \[nan\], which .*: whole"),
}  # fmt: skip


class Late(gymnasium.Env):
    """An environment whose second step gives what `fault` names."""

    observation_space, action_space = SPACE, TWO

    def __init__(self, config):
        self.fault, self.steps = config["fault"], 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return good(), {}

    def step(self, action):
        self.steps += 1
        return FAULTS[self.fault][0] if self.steps == 2 else good(), 1.0, self.steps == 4, False, {}


class LateAgents(MultiAgentEnv):
    """The same, as the observation of one of two agents."""

    observation_space, action_space = SPACE, TWO
    possible_agents = ["a", "b"]

    def __init__(self, config):
        self.env = Late(config)

    def reset(self, *, seed=None, options=None):
        observation, _ = self.env.reset()
        return dict.fromkeys(self.possible_agents, observation), {}

    def step(self, actions):
        observation, _, is_over, _, _ = self.env.step(0)
        return {"a": good(), "b": observation}, dict.fromkeys("ab", 1.0), {"__all__": is_over}, {}, {}


def built(make, fault, env=Late):
    config = make().environment(env, env_config={"fault": fault}).training(model={"fcnet_hiddens": [4]})
    if make is ESConfig:
        config.training(noise_size=10_000, episodes_per_batch=2)
    elif make is DQNConfig:
        config.training(learning_starts=8).env_runners(num_groups=1, rollout_fragment_length=8)
    else:
        config.training(num_epochs=1).env_runners(num_groups=1, rollout_fragment_length=8)
    return config.build_algo()


@pytest.mark.parametrize("fault", FAULTS)
def test_part_that_does_not_fit_is_named(fault):
    observation, words = FAULTS[fault]
    with pytest.raises(OutsideSpace, match=words):
        one_hot(SPACE, observation)
    assert one_hot(SPACE, good()).shape == (7,)


@pytest.mark.parametrize("fault", ["no mask", "long mask", "mask of texts", "array for a dict", "one key more"])
@pytest.mark.parametrize("make", [PPOConfig, DQNConfig, ESConfig])
def test_late_observation_is_named_in_training_evaluation_and_single_calls(make, fault):
    observation, words = FAULTS[fault]
    place = r"step 2 of environment Late" if make is ESConfig else r"environment Late number 0, step 2 of the episode"
    algo = built(make, fault)
    with pytest.raises(InvalidEnvironmentError, match=words) as caught:
        algo.train()
    assert str(caught.value).startswith("The observation") and place in str(caught.value)
    for call in (
        lambda: algo.evaluate(1),
        lambda: algo.compute_single_action(observation),
        lambda: algo.get_policy().compute_actions([good(), observation]),
    ):
        with pytest.raises(InvalidEnvironmentError, match=f"^The .*{words}"):
            call()
    algo.stop()


def test_late_observation_of_an_agent_is_named():
    algo = built(PPOConfig, "no mask", LateAgents)
    with pytest.raises(
        InvalidEnvironmentError, match="^The observation of agent 'b' lacks 'action_mask', where .*step 2"
    ):
        algo.train()
    with pytest.raises(InvalidEnvironmentError, match="^The observation lacks 'action_mask'"):
        algo.evaluate(1)
    algo.stop()


@pytest.mark.parametrize("make", [PPOConfig, ESConfig])
def test_first_observation_that_does_not_fit_names_the_part(make, monkeypatch):
    monkeypatch.setattr(Late, "reset", lambda self, **options: (changed("inner", "at", to=None), {}))
    with pytest.raises(InvalidEnvironmentError, match=r"outside of its space.*  The observation\['inner'\] lacks 'at'"):
        algo = built(make, "no mask")
        algo.train()


def test_observation_of_a_box_that_does_not_fit_has_the_same_words():
    class Boxed(Late):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.zeros(2, np.float32), 1.0, True, False, {}

    for make in (PPOConfig, ESConfig):
        algo = built(make, "no mask", Boxed)
        for bad, form in (([0.0] * 3, r"list of shape \(3,\)"), ({"x": 1}, "dict"), ([[1], [1, 2]], "without a shape")):
            for call in (algo.compute_single_action, lambda bad: algo.get_policy().compute_actions([bad])):  # noqa: B023
                with pytest.raises(
                    InvalidEnvironmentError, match=f"^The observation is .*{form}.*, where the space is Box"
                ):
                    call(bad)
        algo.stop()
