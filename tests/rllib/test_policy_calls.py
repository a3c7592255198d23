"""Methods of a policy that programs call: actions, their probabilities, values and states."""

import gymnasium
import numpy as np
import pytest
import torch

from zray.rllib.algorithms.dqn import QPolicy
from zray.rllib.algorithms.sac import SACConfig, SACPolicy
from zray.rllib.policies import Policy

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
    from zray.rllib.algorithms.ppo import PPOConfig

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
