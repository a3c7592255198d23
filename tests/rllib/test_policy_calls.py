"""Methods of a policy that programs call: actions, their probabilities, values and states."""

import gymnasium
import numpy as np
import pytest
import torch

from zray.rllib.algorithms.dqn import QPolicy
from zray.rllib.algorithms.es import ESConfig
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.algorithms.sac import SACConfig, SACPolicy
from zray.rllib.env.multi_agent_env import MultiAgentEnv
from zray.rllib.policies import Policy
from zray.rllib.vector_policy import VectorPolicy

BOX = gymnasium.spaces.Box(-1, 1, (4,))
MODEL = {"fcnet_hiddens": [8], "fcnet_activation": "tanh"}
DISCRETE = gymnasium.spaces.Discrete(3, start=2)
SEVERAL = gymnasium.spaces.MultiDiscrete([2, 3])
ROWS = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)


def policy_of(space, policy_class=Policy):
    torch.manual_seed(0)
    return policy_class(BOX, space, dict(MODEL))


def test_config_of_a_policy_is_that_of_its_algorithm():
    algo = SACConfig().environment("Pendulum-v1").training(gamma=0.5).build_algo()
    assert algo.get_policy().config["gamma"] == 0.5
    algo.stop()
    with pytest.raises(NotImplementedError, match=r"algo\.get_policy\(\)"):
        assert policy_of(DISCRETE).config


def test_probabilities_of_discrete_actions_add_up_to_one():
    policy = policy_of(DISCRETE)
    logs = [policy.compute_log_likelihoods([action] * 5, ROWS) for action in (2, 3, 4)]
    assert np.allclose(np.exp(logs).sum(axis=0), 1.0, atol=1e-5)


def test_full_info_fits_the_action():
    policy = policy_of(DISCRETE)
    action, state, info = policy.compute_single_action(ROWS[0])
    logits = info["action_dist_inputs"]
    expected = np.exp(logits - np.log(np.exp(logits).sum()))[action - 2]
    assert state == [] and "vf_preds" in info
    assert np.isclose(info["action_prob"], expected) and np.isclose(np.exp(info["action_logp"]), expected)


@pytest.mark.parametrize("space", [DISCRETE, SEVERAL, gymnasium.spaces.Box(-np.inf, np.inf, (2,))])
def test_log_likelihoods_of_drawn_actions_are_those_of_the_draw(space):
    policy = policy_of(space)
    actions, _, info = policy.compute_actions(ROWS)
    assert all(space.contains(action) for action in actions) and len(actions) == 5
    assert np.allclose(policy.compute_log_likelihoods(actions, ROWS), info["action_logp"], atol=1e-4)


def test_most_likely_actions_are_the_same_each_time():
    policy = policy_of(DISCRETE)
    actions, _, info = policy.compute_actions(ROWS, explore=False)
    assert (actions - 2 == info["action_dist_inputs"].argmax(-1)).all()


def test_action_values_and_squashed_actions_have_likelihoods():
    values = policy_of(DISCRETE, QPolicy)
    values.epsilon = 0.0
    assert (
        values.compute_actions(ROWS)[0] - 2 == values.compute_actions(ROWS)[2]["action_dist_inputs"].argmax(-1)
    ).all()
    squashed = policy_of(gymnasium.spaces.Box(-2, 4, (2,)), SACPolicy)
    actions, _, info = squashed.compute_actions(ROWS)
    assert np.isfinite(info["action_logp"]).all()
    assert np.allclose(squashed.compute_log_likelihoods(actions, ROWS), info["action_logp"], atol=1e-3)


def test_states_of_recurrent_policies_go_from_call_to_call():
    torch.manual_seed(0)
    policy = Policy(BOX, DISCRETE, {**MODEL, "use_lstm": True, "lstm_cell_size": 8})
    _, first, _ = policy.compute_actions(ROWS)
    _, second, info = policy.compute_actions(ROWS, first)
    assert first[0].shape == second[0].shape == (5, 8) and not np.array_equal(first[0], second[0])
    assert policy.compute_log_likelihoods([2] * 5, ROWS, first).shape == (5,)


def test_state_of_a_policy_holds_its_weights():
    first, second = policy_of(DISCRETE), Policy(BOX, DISCRETE, dict(MODEL))
    second.set_state(first.get_state())
    assert all(np.array_equal(value, second.get_weights()[name]) for name, value in first.get_weights().items())


def test_calls_of_a_program_leave_the_random_numbers_of_training():
    algo = SACConfig().environment("Pendulum-v1").training(model={"fcnet_hiddens": [8]}).build_algo()
    before = algo.rng.bit_generator.state
    algo.get_policy().compute_actions(np.zeros((2, 3), np.float32))
    assert algo.rng.bit_generator.state == before
    action, _, info = algo.compute_single_action(np.zeros(3, np.float32), full_fetch=True)
    algo.stop()
    assert action.shape == (1,) and np.isfinite(info["action_logp"])


def test_weights_are_by_policy_as_in_ray():
    algo = PPOConfig().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]}).build_algo()
    own = algo.get_policy().get_weights()
    found = algo.get_weights()
    assert list(found) == list(algo.get_weights(["default_policy"])) == ["default_policy"]
    assert all(np.array_equal(found["default_policy"][name], value) for name, value in own.items())
    changed = {name: value + 1 for name, value in own.items()}
    for given in ({"default_policy": changed}, own, changed):  # also by name alone, as programs have kept them
        algo.set_weights(given)
        wanted = given.get("default_policy", given)
        assert all(np.array_equal(value, wanted[name]) for name, value in algo.get_policy().get_weights().items())
    algo.set_weights(algo.get_weights())
    for wrong in (lambda: algo.get_weights(["other"]), lambda: algo.set_weights({"other": own})):
        with pytest.raises(ValueError, match="No policy is called 'other'.  The policies are: default_policy"):
            wrong()
    algo.stop()


class Pair(MultiAgentEnv):
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    possible_agents = ["left", "right"]


def test_policies_have_the_facts_of_ray():
    policy = policy_of(DISCRETE)
    recurrent = Policy(BOX, DISCRETE, {**MODEL, "use_lstm": True, "lstm_cell_size": 8})
    assert [each.is_recurrent() for each in (policy, recurrent)] == [False, True]
    assert [each.num_state_tensors() for each in (policy, recurrent)] == [0, 2]
    assert policy.framework == "torch" and not policy.is_stateful()


def test_actions_of_a_dict_are_those_of_its_observations():
    policy = policy_of(DISCRETE)
    found = policy.compute_actions_from_input_dict({"obs": ROWS}, explore=False)
    assert np.array_equal(found[0], policy.compute_actions(ROWS, explore=False)[0])
    recurrent = Policy(BOX, DISCRETE, {**MODEL, "use_lstm": True, "lstm_cell_size": 8})
    states = [np.ones((5, 8), np.float32), np.ones((5, 8), np.float32)]
    given = {"obs": ROWS, "state_in_0": states[0], "state_in_1": states[1]}
    expected = recurrent.compute_actions(ROWS, states, explore=False)
    assert np.array_equal(recurrent.compute_actions_from_input_dict(given)[1][0], expected[1][0])


@pytest.mark.parametrize("space", [DISCRETE, SEVERAL, gymnasium.spaces.Box(-np.inf, np.inf, (2,))])
def test_distribution_of_a_policy_has_its_probabilities(space):
    policy = policy_of(space)
    actions, _, info = policy.compute_actions(ROWS)
    own = np.stack([policy.distribution.from_environment(each) for each in actions])
    distribution = policy.dist_class(torch.from_numpy(info["action_dist_inputs"]))
    assert np.allclose(distribution.logp(torch.from_numpy(own)).numpy(), info["action_logp"], atol=1e-4)


@pytest.mark.parametrize("policy_class", [Policy, VectorPolicy])
@pytest.mark.parametrize(
    "name", ["learn_on_batch", "postprocess_trajectory", "compute_gradients", "apply_gradients", "loss", "get_session"]
)
def test_attributes_of_policies_that_are_absent_have_a_sentence(policy_class, name):
    policy = policy_of(gymnasium.spaces.Discrete(2), policy_class)
    with pytest.raises(AttributeError, match=rf"^zray's policies have no {name!r}\.  [A-Z].*\.$"):
        getattr(policy, name)
    assert not hasattr(policy, name)


def test_policy_of_evolution_has_the_calls_of_the_others():
    algo = ESConfig().environment("CartPole-v1").training(episodes_per_batch=10, noise_size=10_000).build_algo()
    policy = algo.get_policy()
    actions, states, _ = policy.compute_actions(ROWS, explore=False)
    assert actions[0] == policy.compute_single_action(ROWS[0], explore=False)[0] == algo.compute_single_action(ROWS[0])
    assert states == [] and policy.is_recurrent() is False and policy.config["noise_size"] == 10_000
    policy.set_state(policy.get_state())
    with pytest.raises(AttributeError, match="numbers without a module of torch: policy.theta"):
        policy.dist_class  # noqa: B018
    algo.stop()


def test_configurations_have_the_facts_of_ray():
    config = PPOConfig().environment("CartPole-v1").env_runners(rollout_fragment_length=7)
    assert (config.framework_str, config.is_atari, config.is_offline) == ("torch", False, False)
    assert config.get_rollout_fragment_length() == 7
    assert config.evaluation(evaluation_config={"explore": True}).get_evaluation_config_object()["explore"] is True
    config.multi_agent(policies={"a", "b"}, policies_to_train=["b"], policy_mapping_fn=lambda agent, *args, **more: "a")
    specs, learns = config.get_multi_agent_setup(env=Pair())
    assert list(specs) == ["a", "b"] and specs["a"].observation_space == Pair.observation_space
    assert [learns(name) for name in specs] == [False, True]
    for name in ("serialize", "pop", "learner_class"):
        with pytest.raises(AttributeError, match=rf"PPOConfig has no attribute {name!r}\.  [A-Z].*\.$"):
            getattr(config, name)
