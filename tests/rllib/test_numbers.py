"""Numbers that are not finite, masks of actions, and arrays that an environment uses again."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.a2c import A2CConfig  # noqa: E402
from zray.rllib.algorithms.a3c import A3CConfig  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPO, PPOConfig  # noqa: E402
from zray.rllib.algorithms.sac import SACConfig  # noqa: E402
from zray.rllib.distributions import Categorical, MultiCategorical  # noqa: E402
from zray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.filters import MeanStdFilter  # noqa: E402
from zray.rllib.groups import Group  # noqa: E402
from zray.rllib.masks import LOWEST, mask_of  # noqa: E402
from zray.rllib.policies import Policy  # noqa: E402
from zray.rllib.updates import NotFiniteError, descend  # noqa: E402

BOX, TWO = gymnasium.spaces.Box(-10, 10, (1,)), gymnasium.spaces.Discrete(2)
MODEL = {"fcnet_hiddens": [4], "fcnet_activation": "tanh"}


class Clock(gymnasium.Env):
    """An environment that shows the step in one array, which it writes again."""

    observation_space, action_space = BOX, TWO

    def __init__(self, config=None):
        self.config, self.array = config or {}, np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.array[:] = 0
        return self.array, {}

    def step(self, action):
        self.t += 1
        self.array[:] = self.config.get("last", 3) if self.t == 3 else self.t
        return self.array, self.config.get("reward", 1.0), False, self.t == 3, {}


def small(config, env, **env_config):
    made = config.environment(env, env_config=env_config, disable_env_checking=True)
    made.env_runners(num_groups=1, num_envs_per_env_runner=2, rollout_fragment_length=8)
    return made.training(model={"fcnet_hiddens": [4]})


def rollout(env, space=BOX, actions=TWO, steps=7, size=2, **config):
    torch.manual_seed(0)  # values near 0 differ by more than the tolerance
    policy = Policy(space, actions, MODEL)
    policy.wants_next_observations = True
    return Group(0, size, env, config, 0, checks=False).rollout(policy, steps), policy


def test_last_observation_of_a_truncated_episode_is_looked_at():
    with pytest.raises(InvalidEnvironmentError, match="The observation holds NaN or infinity, in .* step 3 of"):
        rollout(Clock, last=np.nan)


def test_last_observation_of_a_rollout_is_looked_at():
    with pytest.raises(InvalidEnvironmentError, match="The observation holds NaN or infinity"):
        rollout(Clock, steps=3, last=np.inf)


class Wide(gymnasium.Env):
    """An environment whose observations have 64 bits."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = TWO

    def __init__(self, config):
        self.value, self.t = config["value"], 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        return np.array([1.0, self.value]), 1.0, False, self.t == 9, {}


class WideParts(gymnasium.ObservationWrapper):
    """The same observations as a part of a dict."""

    def __init__(self, config):
        super().__init__(Wide(config))
        self.observation_space = gymnasium.spaces.Dict({"a": TWO, "b": Wide.observation_space})

    def observation(self, observation):
        return {"a": 1, "b": observation}


HELD = {
    1e300: r"1e\+300, which is too large for float32",
    -1e300: r"-1e\+300, which is too large for float32",
    np.inf: "NaN or infinity",
    np.nan: "NaN or infinity",
}


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("env", [Wide, WideParts])
@pytest.mark.parametrize(("value", "words"), HELD.items(), ids=map(repr, HELD))
def test_observation_beyond_32_bits_is_named(env, value, words):
    message = f"The observation holds {words}"
    with pytest.raises(InvalidEnvironmentError, match=f"{message}, in .* step 1 of"):
        rollout(env, env({"value": value}).observation_space, value=value)
    policy = Policy(env({"value": value}).observation_space, TWO, MODEL)
    observation = env({"value": value}).step(0)[0] if env is Wide else {"a": 0, "b": np.array([value, 0.0])}
    with pytest.raises(ValueError, match=message):
        policy.compute_single_action(observation)
    with pytest.raises(ValueError, match=message.replace("observation", "observation 0 of 2")):
        policy.compute_actions([observation, observation])


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_observation_of_evolution_beyond_32_bits_is_named():
    config = ESConfig().environment(Wide, env_config={"value": 1e300})
    config.training(noise_size=10_000, model={"fcnet_hiddens": []})
    with pytest.raises(InvalidEnvironmentError, match="NaN or infinity, or a number that is too large for float32, in"):
        config.build_algo().train()


class ClockOfViews(Clock):
    """Shows a view of the array."""

    def step(self, action):
        _, *others = super().step(action)
        return self.array[:], *others


class ClockOfTwo(Clock):
    """Shows one of two arrays in turns."""

    def step(self, action):
        self.other = getattr(self, "other", self.array.copy())
        self.array, self.other = self.other, self.array
        return super().step(action)


@pytest.mark.parametrize("clock", [Clock, ClockOfViews, ClockOfTwo])
def test_array_that_an_environment_writes_again_is_copied(clock):
    batch, policy = rollout(clock)
    assert batch.observations[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert batch.next_observations[:, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    _, last = policy.forward(np.full((1, 1), 3, np.float32))
    np.testing.assert_allclose(batch.next_values[2, 0], last[0], rtol=1e-5)


@pytest.mark.parametrize("reward", [1e39, -1e39])
def test_reward_beyond_32_bits_is_named(reward):
    with pytest.raises(InvalidEnvironmentError, match="The reward is .*1e.39, which is infinite in 32 bits, in"):
        rollout(Clock, reward=reward)


def test_large_reward_is_taken_where_its_sign_counts():
    policy = Policy(BOX, TWO, MODEL)
    batch = Group(0, 1, Clock, {"reward": 1e39}, 0, checks=False).rollout(policy, 4, clip_rewards=True)
    assert batch.rewards.tolist() == [[1.0]] * 4


class Pair(MultiAgentEnv):
    """Two agents, the second of which sees NaN at its truncation."""

    possible_agents = ["a", "b"]
    observation_spaces, action_spaces = dict.fromkeys("ab", BOX), dict.fromkeys("ab", TWO)

    def __init__(self, config=None):
        super().__init__()
        self.config = config or {}

    def reset(self, *, seed=None, options=None):
        return {agent: np.zeros(1, np.float32) for agent in "ab"}, {}

    def step(self, actions):
        last = {"a": np.zeros(1), "b": np.full(1, self.config.get("last", np.nan))}
        rewards = dict.fromkeys("ab", self.config.get("reward", 1.0))
        return last, rewards, {"__all__": False}, {"__all__": True}, {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "The observation of agent 'b' holds NaN or infinity"),
        ({"last": 0.0, "reward": 1e39}, "The reward of agent 'a' is 1e.39, which is infinite in 32 bits"),
    ],
)
def test_numbers_of_several_agents_are_looked_at(options, message):
    with pytest.raises(InvalidEnvironmentError, match=message):
        small(PPOConfig(), Pair, **options).build_algo().train()


# Finite rewards whose squares are not: the loss is the first number that is infinite.
@pytest.mark.parametrize("make", [PPOConfig, A2CConfig, A3CConfig, SACConfig])
def test_loss_that_is_not_finite_ends_the_iteration_with_its_name(make):
    class Huge(Clock):
        """Rewards of 1e30, and actions of any algorithm."""

        if make is SACConfig:
            action_space = gymnasium.spaces.Box(-1, 1, (1,))

    config = small(make(), Huge, reward=1e30)
    if make is SACConfig:
        config.training(learning_starts=8)
    algo = config.build_algo()
    before = algo.get_policy().get_weights()
    with pytest.raises(NotFiniteError, match=r"The (vf_loss|q_loss)( of worker 0)? is (inf|nan)") as raised:
        algo.train()
    assert "weight" in str(raised.value)
    assert all(
        (value == before[name]).all() for name, value in algo.get_policy().get_weights().items() if name != "is_uniform"
    )
    algo.stop()


@pytest.mark.parametrize("grad_clip", [None, 0.5])
def test_gradient_that_is_not_finite_changes_no_weight(grad_clip):
    layer = torch.nn.Linear(1, 1)
    before = layer.weight.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    loss = (layer.weight - layer.weight.detach()).clamp(min=0).sqrt().sum()  # 0, with an infinite slope
    with pytest.raises(NotFiniteError, match="The gradient of parameter weight holds NaN or infinity"):
        descend(optimizer, loss, {}, layer, grad_clip)
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize("low", [-np.inf, LOWEST])
def test_outputs_of_masked_actions_count_in_no_sum(low):
    distribution = Categorical(gymnasium.spaces.Discrete(3))
    logits = np.array([[0.3, low, 1.2]] * 200, np.float32)
    actions, logs = distribution.draw(logits, None, np.random.default_rng(0))
    assert set(actions) == {0, 2} and np.isfinite(logs).all()
    inputs = torch.tensor([[0.3, 0.0, 1.2]], requires_grad=True)
    masked = inputs + torch.tensor([[0.0, low, 0.0]])
    entropy = distribution.entropy(masked, None)
    two = Categorical(gymnasium.spaces.Discrete(2))
    rest = torch.tensor([[0.3, 1.2]])
    assert torch.allclose(entropy, two.entropy(rest, None))
    old = torch.tensor([[1.0, low, 0.0]])
    divergence = distribution.divergence(old, None, masked, None)
    assert torch.allclose(divergence, two.divergence(torch.tensor([[1.0, 0.0]]), None, rest, None))
    (entropy + divergence).sum().backward()
    assert torch.isfinite(inputs.grad).all()


def test_masked_parts_of_several_actions_count_in_no_sum():
    distribution = MultiCategorical(gymnasium.spaces.MultiDiscrete([2, 2]))
    logits = torch.tensor([[0.0, -torch.inf, 1.0, 1.0]])
    assert torch.allclose(distribution.entropy(logits, None), torch.log(torch.tensor(2.0)))
    assert distribution.divergence(logits, None, logits, None).item() == 0


MASKED = gymnasium.spaces.Dict(
    action_mask=gymnasium.spaces.MultiBinary(4), observations=gymnasium.spaces.Box(-1, 1, (2,))
)


class Doors(gymnasium.Env):
    """An environment that fails at an action which the mask does not allow; its last mask allows nothing."""

    observation_space, action_space = MASKED, gymnasium.spaces.Discrete(4)

    def __init__(self, config=None):
        self.never = (config or {}).get("never", False)

    def look(self, is_over=False):
        self.mask = self.np_random.integers(0, 2, 4).astype(np.int8)
        self.mask[self.np_random.integers(4)] = 1
        if is_over or self.never:
            self.mask[:] = 0
        return {"action_mask": self.mask, "observations": self.np_random.uniform(-1, 1, 2).astype(np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        assert self.mask[action], "the action is masked"
        self.t += 1
        return self.look(self.t == 6), float(action == np.argmax(self.mask)), False, self.t == 6, {}


@pytest.mark.parametrize("make", [PPOConfig, A2CConfig, DQNConfig, A3CConfig])
def test_masked_action_is_never_taken(make):
    config = small(make(), Doors).env_runners(observation_filter="MeanStdFilter")
    if make is DQNConfig:
        config.training(learning_starts=20, train_batch_size=8)
    algo = config.build_algo()
    for _ in range(3):
        result = algo.train()
    assert all(np.isfinite(value) for value in result["learners"]["default_policy"].values())
    assert all(np.isfinite(value).all() for value in algo.get_policy().get_weights().values())
    env = Doors()
    observation, _ = env.reset(seed=0)
    for turn in range(60):
        action = algo.compute_single_action(observation, explore=turn % 2 == 0)
        observation, _, _, is_over, _ = env.step(action)
        if is_over:
            observation, _ = env.reset()
    algo.evaluate(2)
    if make in (PPOConfig, DQNConfig):
        algo.check(verbose=False)
    algo.stop()


class Switches(gymnasium.Env):
    """Eight switches, each with one possible position: an action that is drawn at random is nearly never possible."""

    observation_space = gymnasium.spaces.Dict(
        action_mask=gymnasium.spaces.MultiBinary(16), observations=gymnasium.spaces.Box(-1, 1, (2,))
    )

    def __init__(self, config=None):
        self.wanted = None

    def look(self):
        self.wanted = self.np_random.integers(0, 2, 8)
        mask = np.eye(2, dtype=np.int8)[self.wanted].ravel()
        return {"action_mask": mask, "observations": np.zeros(2, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.look(), {}

    def step(self, action):
        assert np.array_equal(np.asarray(action) % 2, self.wanted), "the action is masked"
        self.t += 1
        return self.look(), 1.0, False, self.t == 6, {}


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.MultiDiscrete([2] * 8),
        gymnasium.spaces.MultiBinary(8),
        gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2, start=4)] * 8),
        gymnasium.spaces.Box(0, 1, (8,), np.int8),
    ],
    ids=lambda space: type(space).__name__,
)
def test_masks_of_several_actions_hold_from_the_check_of_the_environment_on(space):
    class Own(Switches):
        action_space = space

    algo = small(PPOConfig(), Own).environment(disable_env_checking=False).build_algo()
    assert algo.train()["episode_reward_mean"] == 6
    algo.stop()


def test_recurrent_model_masks_actions():
    config = small(PPOConfig(), Doors).training(model={"use_lstm": True, "lstm_cell_size": 4})
    algo = config.build_algo()
    algo.train()
    algo.stop()


def test_mask_that_allows_nothing_is_named():
    with pytest.raises(InvalidEnvironmentError, match="The action_mask of the observation allows no action, in"):
        rollout(Doors, MASKED, gymnasium.spaces.Discrete(4), never=True)
    policy = Policy(MASKED, gymnasium.spaces.Discrete(4), MODEL)
    nothing = {"action_mask": np.zeros(4, np.int8), "observations": np.zeros(2, np.float32)}
    with pytest.raises(ValueError, match="allows no action"):
        policy.act(nothing, True, np.random.default_rng(0))


def test_mask_of_another_size_is_named():
    with pytest.raises(ValueError, match="The action_mask of the observation space has 4 numbers, and there are 3"):
        Policy(MASKED, gymnasium.spaces.Discrete(3), MODEL)
    assert mask_of(MASKED, [3], True) is None  # a model of the program's own knows what the part is
    assert mask_of(MASKED, None, False) is None  # actions of a Box


def test_filter_leaves_the_mask_as_it_is():
    used = MeanStdFilter((3,), slice(0, 2))
    used.observe(np.array([[1.0, 0.0, 5.0], [0.0, 0.0, 7.0], [1.0, 1.0, 9.0]]))
    row = np.array([[1.0, 0.0, 7.0]], np.float32)
    assert used(row).tolist() == [[1.0, 0.0, 0.0]] and used.fresh().kept == slice(0, 2)


def test_update_in_a_derived_algorithm_names_its_loss():
    class Broken(PPO):
        """A learner that is given NaN."""

        def _data(self):
            data = super()._data()
            data["advantages"][:] = np.nan
            return data

    algo = small(PPOConfig(Broken), Clock).build_algo()
    with pytest.raises(NotFiniteError, match="The policy_loss is nan"):
        algo.train()
    algo.stop()


def test_evolution_takes_no_masked_action():
    config = (
        ESConfig().environment(Doors).training(model={"fcnet_hiddens": []}, episodes_per_batch=8, noise_size=10_000)
    )
    algo = config.build_algo()
    algo.train()
    algo.stop()


class Faulty(gymnasium.Env):
    """The third call of step has the fault."""

    observation_space, action_space = BOX, TWO

    def __init__(self, config=None):
        self.fault, self.steps = (config or {})["fault"], 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.full(1, np.nan if self.fault == "reset" else 0.0, np.float32), {}

    def step(self, action):
        self.steps += 1
        is_faulty = self.steps == 3
        if is_faulty and self.fault == "raise":
            raise ZeroDivisionError("by nought")
        reward = np.nan if is_faulty and self.fault == "reward" else 1.0
        value = np.nan if is_faulty and self.fault in ("observation", "last") else 0.0
        return np.full(1, value, np.float32), reward, False, is_faulty and self.fault == "last", {}


FAULTS = ["raise", "reward", "observation", "last", "reset"]


@pytest.mark.parametrize("fault", FAULTS)
def test_step_of_a_fault_is_numbered_alike(fault):
    number = 0 if fault == "reset" else 3
    with pytest.raises(InvalidEnvironmentError, match=f" step {number} of the episode"):
        rollout(Faulty, fault=fault)


@pytest.mark.parametrize("fault", [each for each in FAULTS if each != "last"])
def test_step_of_a_fault_is_numbered_alike_with_agents(fault):
    number = 0 if fault == "reset" else 3
    config = PPOConfig().environment(make_multi_agent(Faulty), env_config={"num_agents": 2, "fault": fault})
    algo = config.environment(disable_env_checking=True).build_algo()
    with pytest.raises(InvalidEnvironmentError, match=f" step {number} of the episode"):
        algo.train()
    algo.stop()
