"""Keywords that programs for Ray pass to methods of algorithms and policies, and models whose outputs are NaN."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.es import ESConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.policy.policy import Policy  # noqa: E402
from zray.rllib.updates import NotFiniteError  # noqa: E402

SEEN = [0.0, 0.1, 0.0, 0.1]


@pytest.fixture(scope="module")
def algo():
    made = PPOConfig().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]}).build_algo()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def pendulum():
    made = PPOConfig().environment("Pendulum-v1").training(model={"fcnet_hiddens": [4]}).build_algo()
    yield made
    made.stop()


def test_keywords_without_effect_are_taken(algo, pendulum):
    past = {"prev_action": 1, "prev_reward": 0.0, "info": {}, "timestep": 3, "episode": None, "input_dict": None}
    action = algo.compute_single_action(SEEN, explore=False)
    assert algo.compute_single_action(SEEN, explore=False, unsquash_action=False, clip_action=True, **past) == action
    assert algo.compute_actions({"a": SEEN}, explore=False, episodes=None, clip_actions=False) == {"a": action}
    policy = algo.get_policy()
    assert policy.compute_single_action(np.array(SEEN), explore=False, **past)[0] == action
    assert policy.compute_actions([SEEN], explore=False, info_batch=[{}], episodes=None)[0] == [action]
    assert policy.compute_actions_from_input_dict({"obs": [SEEN]}, explore=False, episodes=[])[0] == [action]
    assert policy.compute_log_likelihoods([action], [SEEN], prev_action_batch=None, actions_normalized=True) < 0
    scaled = pendulum.compute_single_action(np.zeros(3), explore=False, unsquash_action=True, clip_action=False)
    assert scaled == pendulum.compute_single_action(np.zeros(3), explore=False)


WRONG = {
    "of an algorithm": lambda algo: algo.compute_single_action(SEEN, explor=False),
    "of several actions": lambda algo: algo.compute_actions([SEEN], explor=False),
    "of a policy": lambda algo: algo.get_policy().compute_actions([SEEN], explor=False),
    "of one action": lambda algo: algo.get_policy().compute_single_action(SEEN, explor=False),
    "of a batch": lambda algo: algo.get_policy().compute_actions_from_input_dict({"obs": [SEEN]}, explor=False),
    "of likelihoods": lambda algo: algo.get_policy().compute_log_likelihoods([1], [SEEN], explor=False),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=list(WRONG))
def test_misspelt_keyword_is_named(algo, call):
    with pytest.raises(TypeError, match="has no keyword 'explor'.  Near: 'explore'."):
        call(algo)


def test_absent_feature_that_a_keyword_asks_for_is_named(algo, pendulum, tmp_path):
    with pytest.raises(NotImplementedError, match=r"'input_dict' .* yet\.  Give the observation"):
        algo.compute_single_action(SEEN, input_dict={"obs": SEEN})
    with pytest.raises(NotImplementedError, match=r"unsquash_action=False .* environment\(normalize_actions=False\)"):
        pendulum.compute_single_action(np.zeros(3), unsquash_action=False)
    for call in (algo.export_policy_model, algo.get_policy().export_model):
        with pytest.raises(NotImplementedError, match=r"'onnx' of export_model yet\.  Call torch\.onnx\.export"):
            call(str(tmp_path), onnx=11)
    with pytest.raises(NotImplementedError, match="'checkpoint_format' of export_checkpoint"):
        algo.export_policy_checkpoint(str(tmp_path), checkpoint_format="msgpack")
    algo.export_policy_checkpoint(str(tmp_path), checkpoint_format="cloudpickle", policy_state=None)
    with pytest.raises(TypeError, match=r"Policy.from_checkpoint has no keyword 'policy'"):
        Policy.from_checkpoint(str(tmp_path), policy="a")


def test_checkpoint_is_read_by_rays_name_of_the_argument(algo, tmp_path):
    path = algo.save(str(tmp_path))
    restored = Algorithm.from_checkpoint(checkpoint=path)
    assert restored.iteration == algo.iteration
    restored.stop()
    with pytest.raises(NotImplementedError, match=r"'policy_ids' of from_checkpoint yet\..*other\.get_weights"):
        Algorithm.from_checkpoint(path, policy_ids=["a"])
    with pytest.raises(TypeError, match="takes the path of a checkpoint"):
        Algorithm.from_checkpoint()


@pytest.mark.parametrize("config", [PPOConfig, DQNConfig, ESConfig])
def test_outputs_that_are_nan_give_no_action(config):
    made = config().environment("CartPole-v1").training(model={"fcnet_hiddens": [4]})
    if config is ESConfig:
        made.training(noise_size=1000)
    algo = made.build_algo()
    weights = algo.get_weights()
    algo.set_weights({name: {key: each * np.nan for key, each in own.items()} for name, own in weights.items()})
    for explore in (True, False):
        with pytest.raises(NotFiniteError, match="The outputs of the model hold NaN, and give no action"):
            algo.compute_single_action(SEEN, explore=explore)
        with pytest.raises(NotFiniteError, match="outputs of the model"):
            algo.get_policy().compute_actions([SEEN], explore=explore)
    with pytest.raises(NotFiniteError, match="outputs of the model"):
        algo.evaluate(1)
    algo.stop()


def test_policies_of_several_agents_for_one_agent_are_an_error_with_both_ways_out():
    config = PPOConfig().environment("CartPole-v1").multi_agent(policies={"a"}, policy_mapping_fn=lambda *a, **k: "a")
    with pytest.raises(ValueError, match=r"are for several agents, and the environment CartPole-v1 has one: leave"):
        config.build_algo()
