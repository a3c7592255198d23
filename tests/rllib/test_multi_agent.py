"""Several agents: steps gathered by policy, mapping, curves for any number of processes, and learning."""

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent  # noqa: E402
from zray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv  # noqa: E402
from zray.rllib.environments import InvalidEnvironmentError  # noqa: E402
from zray.rllib.policy.policy import PolicySpec  # noqa: E402

from .agents import Old, Roles, Visitors  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def by_name(agent_id, episode, **kwargs):
    return agent_id


def config(workers=0, config_class=PPOConfig, env=Roles, policies=("same", "other"), mapping=by_name):
    made = config_class().environment(env).multi_agent(policies=set(policies), policy_mapping_fn=mapping)
    made.env_runners(
        num_env_runners=workers,
        num_groups=2,
        num_envs_per_env_runner=2,
        rollout_fragment_length=12,
        observation_filter="MeanStdFilter",
    )
    if config_class is DQNConfig:
        return made.training(learning_starts=24, updates_per_iteration=4, model={"fcnet_hiddens": [8]})
    return made.training(num_epochs=2, minibatch_size=16, model={"fcnet_hiddens": [8]})


def weights(algo):
    return {
        (policy, name): value.tobytes() for policy, each in algo.get_weights().items() for name, value in each.items()
    }


def one_policy(env, mapping=None, **options):
    made = config(env=env, policies=("all",), mapping=mapping).env_runners(num_groups=1, num_envs_per_env_runner=1)
    return made.env_runners(observation_filter="NoFilter", **options).build_algo()


def test_steps_of_agents_that_come_and_go():
    """Rewards are added up until the next action; ends are those of the agent; the next value is that of its state."""
    algo = one_policy(Visitors, rollout_fragment_length=6)
    policy = algo.get_policy("all")
    (found,) = algo.collect(6)
    batch = found.batches["all"]
    assert found.rewards[:, 0].tolist() == [1.0, 11.0, 11.0, 11.0, 11.0, 1.0]
    steps = batch.observations[:, 0].tolist()
    assert steps == [[0, 0], [2, 0], [4, 0], [1, 1], [2, 1], [3, 2], [4, 2]]
    assert batch.rewards[:, 0].tolist() == [2.0, 2.0, 2.0, 10.0, 10.0, 10.0, 10.0]
    assert batch.terminated[:, 0].tolist() == [0, 0, 1, 0, 1, 0, 0]
    assert batch.ended[:, 0].tolist() == [0, 0, 1, 0, 1, 0, 1]
    for row, after in ((0, [2, 0]), (1, [4, 0]), (3, [2, 1]), (5, [4, 2]), (6, [5, 2])):
        _, value = policy.forward(np.array([after], np.float32))
        assert batch.next_values[row, 0] == pytest.approx(value[0], abs=1e-6)
    (episode,) = found.episodes
    assert (episode.episode_return, episode.length) == (46.0, 6)
    assert episode.policy_returns == {"all": [6.0, 20.0, 20.0]}
    algo.stop()


def test_policies_of_an_algorithm_that_is_built_stay_as_they_are():
    algo = config().build_algo()
    with pytest.raises(NotImplementedError, match="does not add policies .* Name 'third' in multi_agent"):
        algo.add_policy("third")
    with pytest.raises(NotImplementedError, match="does not remove policies .* others than 'same'"):
        algo.remove_policy("same")
    algo.stop()


def test_step_without_its_next_observation_waits_for_the_next_rollout():
    algo = one_policy(Visitors, rollout_fragment_length=2)
    first, second, third = (algo.collect(2)[0].batches["all"] for _ in range(3))
    assert first.observations[:, 0].tolist() == [[0, 0], [1, 1]]  # both have an observation in step 2
    assert second.observations[:, 0].tolist() == [[2, 0], [2, 1], [3, 2]]
    assert (second.rewards[:, 0].tolist(), second.ended[:, 0].tolist()) == ([2.0, 10.0, 10.0], [1, 1, 1])
    assert third.observations[:, 0].tolist() == [[4, 0], [4, 2]]
    waiting = one_policy(Visitors, rollout_fragment_length=1)
    batches = [waiting.collect(1)[0].batches.get("all") for _ in range(2)]
    assert batches[0] is None and batches[1].observations[:, 0].tolist() == [[0, 0], [1, 1]]
    assert batches[1].rewards[:, 0].tolist() == [2.0, 10.0]
    algo.stop()
    waiting.stop()


@pytest.mark.parametrize("config_class", [PPOConfig, DQNConfig])
def test_curve_is_the_same_for_any_number_of_workers_and_behind_a_checkpoint(config_class, tmp_path):
    algo = config(0, config_class).build_algo()
    found = [algo.train() for _ in range(3)]
    path = algo.save(str(tmp_path / "saved"))
    for workers in (1, 2) if config_class is PPOConfig else (1,):
        other = config(workers, config_class).build_algo()
        curves = [other.train() for _ in range(3)]
        assert [each["policy_reward_mean"] for each in curves] == [each["policy_reward_mean"] for each in found]
        assert weights(other) == weights(algo)
        other.stop()
    restored = Algorithm.from_checkpoint(path)
    algo.train()
    restored.train()
    assert weights(restored) == weights(algo)
    assert set(found[-1]["info"]["learner"]) == {"same", "other"}
    algo.stop()
    restored.stop()


def test_agents_of_a_policy_are_one_batch(monkeypatch):
    algo = one_policy(Roles)
    policy, sizes = algo.rollouts.host.policy.policies["all"], []
    original = policy.forward_states
    monkeypatch.setattr(
        policy, "forward_states", lambda rows, states: sizes.append(len(rows)) or original(rows, states)
    )
    algo.collect(3)
    assert sizes[:3] == [2, 2, 2]
    algo.stop()


@pytest.mark.parametrize(
    "mapping",
    [
        lambda agent: agent,
        lambda agent, episode: agent if episode.number >= 0 else None,
        lambda agent_id, episode, worker, **kwargs: agent_id,
        lambda aid, *args, **kwargs: aid,
        None,
    ],
    ids=["of-an-agent", "with-episode", "with-worker", "with-anything", "of-the-same-name"],
)
def test_mapping_is_called_in_all_its_spellings(mapping):
    algo = config(mapping=mapping).build_algo()
    algo.train()
    assert {name: each.distribution.outputs for name, each in algo.policy.policies.items()} == {"same": 2, "other": 2}
    algo.stop()


def test_policies_have_options_of_their_own_and_some_are_not_trained():
    made = config()
    spaces = (Roles.observation_space, Roles.action_space)
    made.multi_agent(
        policies={
            "same": PolicySpec(config={"gamma": 0.5, "lr": 1e-2, "model": {"fcnet_hiddens": [3]}}),
            "other": (None, *spaces, {}),
        },
        policies_to_train=["same"],
    )
    algo = made.build_algo()
    before = weights(algo)
    algo.train()
    changed = {name for (policy, name), value in weights(algo).items() if value != before[policy, name]}
    kept = {policy for (policy, name), value in weights(algo).items() if value == before[policy, name]}
    assert changed and kept == {"other"}
    member = algo.members["same"]
    assert member.config["gamma"] == 0.5 and member.optimizer.param_groups[0]["lr"] == 1e-2
    assert algo.get_weights()["same"]["policy.0.weight"].shape[0] == 3
    same, other = (algo.get_policy(name).config for name in ("same", "other"))
    assert same["gamma"] == 0.5 and same["lr"] == 1e-2 and same["model"]["fcnet_hiddens"] == [3]
    assert other["gamma"] == algo.config["gamma"] != 0.5
    algo.stop()


def test_dict_of_former_years_is_taken():
    from zray.rllib.algorithms.ppo import PPO

    spec = (None, Old().observation_space, Old().action_space, {})
    options = {"policies": {"shared": spec}, "policy_mapping_fn": lambda agent: "shared"}
    algo = PPO(config={"env": Old, "multiagent": options, "rollout_fragment_length": 4})
    result = algo.train()
    assert result["policy_reward_mean"] == {"shared": 1.0} and result["episode_reward_mean"] == 2.0
    algo.stop()


def test_environment_without_policies_has_one_for_all_agents():
    made = PPOConfig().environment(Roles).env_runners(rollout_fragment_length=8).training(num_epochs=1)
    algo = made.build_algo()
    result = algo.train()
    assert list(result["policy_reward_mean"]) == ["default_policy"]
    assert algo.compute_single_action(np.zeros(2, np.float32)) in (0, 1)
    algo.stop()


def test_action_is_that_of_the_named_policy():
    algo = config().build_algo()
    observation = np.array([1.0, 0.0], np.float32)
    policy = algo.get_policy("other")
    logits, _ = policy.forward(observation[None])
    assert algo.compute_single_action(observation, policy_id="other", explore=False) == logits[0].argmax()
    with pytest.raises(ValueError, match="No policy is called 'default_policy'; give policy_id=, one of other, same"):
        algo.compute_single_action(observation)
    algo.stop()


def test_recurrent_policies_keep_the_state_of_each_agent():
    made = config().env_runners(observation_filter="NoFilter")
    algo = made.training(model={"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 3}).build_algo()
    for _ in range(2):
        batches = algo.collect(12)
        member = algo.members["same"]
        member.given = [each.batches["same"] for each in batches]
        rows = member._data()
        with torch.no_grad():
            parameters, _ = member.policy.evaluate(rows)
        assert parameters.numpy() == pytest.approx(rows["old_parameters"].numpy(), abs=1e-5)
    algo.stop()


def test_faults_name_agents():
    class Broken(Roles):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return observations, {**rewards, "other": float("nan")}, *rest

    with pytest.raises(InvalidEnvironmentError, match="The reward of agent 'other' is nan, in environment Broken"):
        config(env=Broken).build_algo().train()
    with pytest.raises(ValueError, match="gives 'none' for agent 'same', which is none of the policies: other, same"):
        config(mapping=lambda agent: "none").build_algo().train()

    class Bare(MultiAgentEnv):
        observation_space = action_space = None

        def __init__(self, config):
            pass

        def reset(self, *, seed=None, options=None):
            return {"same": 0}, {}

    with pytest.raises(ValueError, match="The spaces of policy 'other' are not known: give PolicySpec"):
        config(env=Bare).build_algo()


def by_number(agent, *rest, **options):
    return agent


@pytest.mark.parametrize(
    ("policies", "mapping", "words"),
    [
        ({0: PolicySpec(), 1: PolicySpec()}, by_number, "texts, and 0 is int: name it '0', also in policy_mapping_fn"),
        ([0, 1], None, "texts, and 0 is int: name it '0'"),
        ({"a", 1}, by_number, "texts, and 1 is int: name it '1'"),
        ({None: None}, by_number, "texts, and None is NoneType"),
        ({("a", 1): None}, by_number, r"texts, and \('a', 1\) is tuple"),
        ("shared", None, r"a list of names, or a dict: give \['shared'\], not 'shared'"),
        (["0", "1"], by_number, r"gives 0 \(int\) for agent 0, and names of policies are texts: return '0'"),
        (["a"], lambda agent: ["a"], r"gives \['a'\] \(list\) for agent 0"),
    ],
)
def test_name_of_a_policy_that_is_no_text_is_refused_at_the_build(policies, mapping, words):
    config = PPOConfig().environment(make_multi_agent("CartPole-v1"), env_config={"num_agents": 2})
    with pytest.raises(TypeError, match=words):
        config.multi_agent(policies=policies, policy_mapping_fn=mapping).build_algo()


def test_copies_of_an_environment_are_agents():
    env = make_multi_agent("CartPole-v1")({"num_agents": 2})
    observations, _ = env.reset(seed=3)
    assert set(observations) == {0, 1}
    assert np.array_equal(observations[1], gymnasium.make("CartPole-v1").reset(seed=4)[0])
    ends = {}
    while not ends.get("__all__"):
        observations, rewards, ends, _, _ = env.step({agent: 0 for agent in observations if not ends.get(agent)})
    assert set(rewards) <= {0, 1}
    env.close()


class Turns:
    """An AEC environment in PettingZoo's spelling: two agents in turn, four actions; the second one leaves first."""

    possible_agents = ["p0", "p1"]

    def observation_space(self, agent):
        return gymnasium.spaces.Box(0, 10, (1,))

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.count, self.agent_selection = ["p0", "p1"], 0, "p0"
        self.totals, self.is_over = dict.fromkeys(self.agents, 0.0), False

    def observe(self, agent):
        return np.array([self.count], np.float32)

    def last(self):
        agent = self.agent_selection
        return self.observe(agent), self.totals[agent], self.is_over, False, {}

    def step(self, action):
        agent = self.agent_selection
        others = [each for each in self.agents if each != agent]
        if self.is_over:
            assert action is None
            self.agents = others
        else:
            self.count, self.totals[agent] = self.count + 1, 0.0
            self.totals = {each: value + 1.0 for each, value in self.totals.items()}
            self.is_over = self.count == 4
        self.agent_selection = others[0] if others else agent

    def close(self):
        pass


class Together:
    """A parallel environment in PettingZoo's spelling: two agents, of which one leaves after a step."""

    possible_agents = ["p0", "p1"]
    observation_space, action_space = Turns.observation_space, Turns.action_space

    def reset(self, seed=None, options=None):
        self.agents, self.count = ["p0", "p1"], 0
        return self._by_agent(np.zeros(1, np.float32)), self._by_agent({})

    def _by_agent(self, value):
        return dict.fromkeys(self.agents, value)

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.count += 1
        ends, cuts = self._by_agent(False), self._by_agent(self.count == 3)
        if self.count == 1:
            ends["p1"] = True
        found = (
            self._by_agent(np.full(1, self.count, np.float32)),
            self._by_agent(1.0),
            ends,
            cuts,
            self._by_agent({}),
        )
        self.agents = [each for each in self.agents if not (ends[each] or cuts[each])]
        return found

    def close(self):
        pass


@pytest.mark.parametrize(
    "make, rows, rewards, terminated, total",
    [
        (lambda context: PettingZooEnv(Turns()), [0, 2, 1, 3], [2, 2, 2, 1], [0, 1, 0, 1], 8.0),
        (lambda context: ParallelPettingZooEnv(Together()), [0, 1, 2, 0], [1, 1, 1, 1], [0, 0, 0, 1], 4.0),
    ],
    ids=["in-turn", "together"],
)
def test_environments_of_pettingzoo_are_taken(make, rows, rewards, terminated, total):
    """The reward that an agent has before its first action counts in the return of the episode alone."""
    algo = one_policy(make)
    (found,) = algo.collect(4 if total == 8.0 else 3)
    batch = found.batches["all"]
    assert batch.observations[:, 0, 0].tolist() == rows
    assert batch.rewards[:, 0].tolist() == rewards
    assert batch.terminated[:, 0].tolist() == terminated
    assert [each.episode_return for each in found.episodes] == [total]
    algo.stop()


@pytest.mark.parametrize("config_class", [PPOConfig, DQNConfig])
def test_two_policies_learn_different_roles(config_class):
    torch.set_num_threads(1)
    made = config(0, config_class).env_runners(rollout_fragment_length=32).debugging(seed=1)
    if config_class is PPOConfig:
        made.training(lr=1e-2, num_epochs=4, minibatch_size=64)
    else:
        made.training(lr=5e-3, gamma=0.5, updates_per_iteration=32, epsilon=[[0, 1.0], [500, 0.05]])
    algo = made.build_algo()
    for _ in range(12):
        algo.train()
    assert algo.evaluate(5)["episode_reward_mean"] == 16.0
    algo.stop()
