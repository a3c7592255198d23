"""Callbacks in the signatures of all years."""

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.callbacks import DefaultCallbacks  # noqa: E402
from zray.rllib.callbacks.callbacks import RLlibCallback  # noqa: E402

from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.callbacks import Events, LiveEpisode, MetricsLogger  # noqa: E402


class Count(gymnasium.Env):
    """Five steps of reward 1."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps == 5, False, {"step": self.steps}


def config(callbacks, **options):
    found = PPOConfig().environment(Count).callbacks(callbacks, **options)
    found.env_runners(num_envs_per_env_runner=1, num_groups=1, rollout_fragment_length=10)
    return found.training(num_epochs=1, model={"fcnet_hiddens": [4]})


def trained(given):
    algo = given.build_algo()
    result = algo.train()
    algo.stop()
    return result


class OfTheMiddle(DefaultCallbacks):
    def on_episode_start(self, *, worker, base_env, policies, episode, env_index, **kwargs):
        episode.user_data["seen"] = []

    def on_episode_step(self, *, worker, base_env, episode, env_index, **kwargs):
        assert base_env.get_sub_environments()[env_index].steps == episode.length
        episode.user_data["seen"].append(float(episode.last_observation_for()[0]))

    def on_episode_end(self, *, worker, base_env, policies, episode, **kwargs):
        assert episode.last_info_for() == {"step": 5}
        episode.custom_metrics["sum"] = sum(episode.user_data["seen"])

    def on_train_result(self, *, algorithm, result, **kwargs):
        result["after"] = result["training_iteration"] + algorithm.iteration


def test_callbacks_of_the_middle():
    result = trained(config(OfTheMiddle))
    assert result["custom_metrics"] == {"sum_mean": 15.0, "sum_min": 15.0, "sum_max": 15.0}
    assert result["env_runners"]["custom_metrics"] == result["custom_metrics"] and result["after"] == 2


class OfToday(RLlibCallback):
    def on_episode_end(self, *, episode, env_runner, metrics_logger, env, env_index, rl_module, **kwargs):
        metrics_logger.log_value("last", episode.get_observations(-1)[0])
        metrics_logger.log_value(("nested", "return"), episode.get_return(), reduce="max")

    def on_evaluate_end(self, *, algorithm, metrics_logger, evaluation_metrics, **kwargs):
        evaluation_metrics["added"] = True

    def on_sample_end(self, *, env_runner, metrics_logger, samples, **kwargs):
        metrics_logger.log_value("steps", samples.rewards.size, reduce="sum")


def test_callbacks_of_today():
    result = trained(config(OfToday).evaluation(evaluation_interval=1, evaluation_duration=1))
    assert result["env_runners"]["last"] == 5.0 and result["env_runners"]["nested"] == {"return": 5.0}
    assert result["evaluation"]["added"] and result["steps"] == 10.0


class Whole(RLlibCallback):
    def on_episode_step(self, *, episode, **kwargs):
        assert len(episode.get_rewards()) == len(episode.get_infos()) - 1 == episode.length

    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        assert [float(each[0]) for each in episode.get_observations()] == [0, 1, 2, 3, 4, 5]
        assert [info.get("step") for info in episode.get_infos()] == [None, 1, 2, 3, 4, 5]
        assert episode.get_rewards() == [1.0] * 5 and episode.get_rewards([0, -1]) == [1.0, 1.0]
        assert len(episode.get_actions()) == 5 and len(episode.get_actions(slice(-2, None))) == 2
        assert episode.get_infos(-1) == episode.get_infos()[-1] == {"step": 5}
        metrics_logger.log_value("sum", np.sum(episode.get_rewards()))


@pytest.mark.parametrize("complete", [False, True])
def test_episodes_have_all_steps_so_far(complete):
    given = config(Whole)
    if complete:
        given.env_runners(batch_mode="complete_episodes")
    assert trained(given)["env_runners"]["sum"] == 5.0


def test_episodes_that_are_too_large_say_so(monkeypatch):
    monkeypatch.setattr("zray.rllib.history.BYTES_MAX", 12)
    seen = []

    def on_episode_end(episode, **kwargs):
        seen.append(float(episode.get_observations(-1)[0]))
        assert len(episode.get_actions()) == 5
        with pytest.raises(NotImplementedError, match="only the last one is kept"):
            episode.get_observations()

    trained(config(None, on_episode_end=on_episode_end))
    assert seen == [5.0, 5.0]


def test_episodes_that_nobody_sees_keep_nothing():
    episode = LiveEpisode(0, 0)
    episode.stepped(0, 1, 1.0, False, False, {})
    assert episode.get_observations(-1) == 1
    with pytest.raises(NotImplementedError, match="earlier rewards of this episode are not kept"):
        episode.get_rewards()


def test_steps_of_several_agents_are_by_agent():
    from tests.rllib.agents import Roles

    seen = []

    def on_episode_end(episode, **kwargs):
        seen.append((episode.get_rewards(), episode.length))
        assert all(len(each) == episode.length + 1 for each in episode.get_observations().values())

    trained(config(None, on_episode_end=on_episode_end).environment(Roles))
    rewards, length = seen[0]
    assert all(len(each) == length for each in rewards.values())


def test_infos_and_rewards_of_several_agents_are_by_agent():
    from tests.rllib.agents import Roles

    class Told(Roles):
        def reset(self, *, seed=None, options=None):
            self.number = 0
            observations, _ = super().reset(seed=seed, options=options)
            return observations, {agent: {"number": 0} for agent in observations}

        def step(self, actions):
            self.number += 1
            observations, rewards, *ends, _ = super().step(actions)
            self.rewards = rewards
            infos = {agent: {"number": self.number, "agent": agent} for agent in rewards}
            return observations, rewards, *ends, infos

    seen = []

    def on_episode_start(episode, **kwargs):
        assert episode.last_info_for(next(iter(episode.last_observation_for()))) == {"number": 0}

    def on_episode_end(episode, env_runner, **kwargs):
        for agent in episode.get_rewards(-1):
            info = episode.last_info_for(agent)
            assert info == {"number": episode.length, "agent": agent} == episode.get_infos()[agent][-1]
            assert episode.last_reward_for(agent) == episode.get_rewards(-1)[agent]
            assert episode.get_infos()[agent][0] == {"number": 0}
            seen.append(agent)
        assert episode.last_info_for("nobody") == {} and episode.last_reward_for("nobody") == 0.0
        assert episode.last_reward_for() == sum(episode.get_rewards(-1).values())

    trained(config(None, on_episode_start=on_episode_start, on_episode_end=on_episode_end).environment(Told))
    assert len(set(seen)) > 1


def test_functions_of_2018_get_a_dict():
    def on_episode_end(info):
        info["episode"].custom_metrics["length"] = info["episode"].length

    def on_train_result(info):
        info["result"]["seen"] = info["trainer"].iteration

    given = config(None).update_from_dict(
        {"callbacks": {"on_episode_end": on_episode_end, "on_train_result": on_train_result}}
    )
    result = trained(given)
    assert result["custom_metrics"]["length_mean"] == 5.0 and result["seen"] == 1


def test_functions_of_today_get_the_arguments_that_they_name():
    made = []
    result = trained(
        config(
            None,
            on_algorithm_init=lambda algorithm, **kwargs: made.append(algorithm.iteration),
            on_train_result=lambda *, result: result.update(seen=made[:]),
        )
    )
    assert result["seen"] == [0]


def test_unknown_event_names_the_events():
    with pytest.raises(ValueError, match="No event is called 'on_nothing'.  The events are: on_algorithm_init"):
        config({"on_nothing": print}).build_algo()


def test_events_that_no_callback_defines_are_not_called():
    events = Events([OfToday()])
    assert events.wants("on_episode_end") and not events.wants("on_episode_step", "on_episode_start")


def test_logged_values_are_reduced_and_forgotten():
    metrics = MetricsLogger()
    metrics.log_dict({"a": 1.0, "b": 3.0}, key="x")
    metrics.log_value(("x", "a"), 2.0)
    assert metrics.peek(("x", "a")) == 1.5 and metrics.reduced() == {"x": {"a": 1.5, "b": 3.0}}
    assert metrics.reduced() == {}


class Histories(DefaultCallbacks):
    """Notes lists, in arrays that are changed in place from episode to episode."""

    def on_algorithm_init(self, *, algorithm, **kwargs):
        self.seen = None

    def on_episode_end(self, *, episode, **kwargs):
        if getattr(self, "seen", None) is None:
            self.seen = np.zeros(2)
        self.seen += 1
        episode.hist_data["seen"] = self.seen
        episode.hist_data["lengths"] = [episode.length]
        episode.custom_metrics["first"] = self.seen[:1]

    def on_episode_start(self, *, episode, **kwargs):
        episode.user_data["steps"] = episode.length

    def on_episode_step(self, *, episode, **kwargs):
        episode.user_data["steps"] += 1
        assert episode.user_data["steps"] == episode.length


@pytest.mark.parametrize("door", ["one", "several"])
def test_lists_of_episodes_are_in_the_histories_as_they_were(door):
    given = config(Histories)
    if door == "several":
        from tests.rllib.agents import Visitors

        given = given.environment(Visitors).multi_agent(policies={"p"}, policy_mapping_fn=lambda agent, *a, **k: "p")
    algo = given.build_algo()
    for _ in range(2):
        result = algo.train()
    algo.stop()
    histories = result["hist_stats"]
    count = len(histories["episode_reward"])
    assert count > 1 and histories["lengths"] == histories["episode_lengths"]
    assert histories["seen"] == [float(number) for number in range(1, count + 1) for _ in range(2)]
    assert result["custom_metrics"]["first_min"] == 1.0 and result["custom_metrics"]["first_max"] == float(count)


class WithoutEvents:
    def on_episode_edn(self, **kwargs):
        pass


class WithoutBase:
    def on_episode_end(self, **kwargs):
        pass


@pytest.mark.parametrize("callbacks", ["x", object(), 5, object, WithoutEvents, [DefaultCallbacks, "x"], lambda: None])
def test_callbacks_without_an_event_are_an_error(callbacks):
    with pytest.raises(TypeError, match="The option 'callbacks' is a class derived from DefaultCallbacks, .*, not "):
        PPOConfig().environment(Count).callbacks(callbacks).build_algo()


@pytest.mark.parametrize("callbacks", [WithoutBase, WithoutBase(), DefaultCallbacks, [DefaultCallbacks(), WithoutBase]])
def test_callbacks_with_an_event_are_taken(callbacks):
    PPOConfig().environment(Count).callbacks(callbacks).build_algo().stop()
