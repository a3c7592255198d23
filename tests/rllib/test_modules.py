"""Today's view of an algorithm: its configuration, modules, learner group and holders of environments."""

import gymnasium
import numpy as np
import pytest
import torch
from zray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from zray.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec
from zray.rllib.utils.spaces.space_utils import clip_action, flatten_space, normalize_action, unbatch, unsquash_action

from zray.rllib.algorithms import PPO, Algorithm
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.env.multi_agent_env import MultiAgentCartPole
from zray.rllib.env.random_env import RandomEnv
from zray.rllib.policies import Policy


def config_of(env="CartPole-v1"):
    return PPOConfig().environment(env).env_runners(num_groups=1, rollout_fragment_length=8)


@pytest.fixture(scope="module")
def algo():
    made = config_of().build_algo()
    yield made
    made.stop()


def test_config_of_an_algorithm_has_attributes_items_and_methods(algo):
    assert isinstance(algo.config, PPOConfig)
    assert algo.config.lr == algo.config["lr"] == algo.config.get("lr") == {**algo.config}["lr"] == 3e-4
    assert algo.config["num_workers"] == 0 and algo.config.to_dict()["env"] == "CartPole-v1"
    with pytest.raises(RuntimeError, match="by config.copy"):
        algo.config.update_from_dict({"lr": 1.0})
    changed = algo.config.copy(copy_frozen=False).training(lr=1.0)
    assert changed.lr == 1.0 and algo.config.lr == 3e-4


def test_configuration_stays_open_and_builds_again():
    config = config_of()
    first = config.build()
    second = config.training(lr=1e-5).environment(env_config={}).build_algo()
    assert (first.config.lr, second.config.lr) == (3e-4, 1e-5)
    for each in (first, second):
        each.stop()


def test_config_is_there_after_a_checkpoint_and_a_dict_in_results(algo, tmp_path):
    assert isinstance(algo.train()["config"], dict)
    path = algo.save_to_path(tmp_path)
    again = Algorithm.from_checkpoint(path)
    assert isinstance(again, PPO) and isinstance(again.config, PPOConfig) and again.config.gamma == 0.99
    again.stop()
    observations = torch.zeros(2, 4)
    module = RLModule.from_checkpoint(f"{path}/learner_group/learner/rl_module/default_policy")
    own = algo.get_module().forward_inference({"obs": observations})
    assert torch.equal(module.forward_inference({"obs": observations})["action_dist_inputs"], own["action_dist_inputs"])
    with pytest.raises(FileNotFoundError, match="is no checkpoint of an algorithm"):
        RLModule.from_checkpoint(tmp_path / "..")


def test_module_gives_the_distribution_of_actions(algo):
    module, policy = algo.get_module(), algo.get_policy()
    observations = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    found = module.forward_exploration({"obs": torch.from_numpy(observations)})
    _, _, info = policy.compute_actions(observations)
    assert np.allclose(found["action_dist_inputs"], info["action_dist_inputs"], atol=1e-5)
    chosen = module.get_inference_action_dist_cls().from_logits(found["action_dist_inputs"])
    assert (
        chosen.to_deterministic().sample().tolist() == policy.compute_actions(observations, explore=False)[0].tolist()
    )
    assert module.forward_train({"obs": observations})["vf_preds"].requires_grad


@pytest.mark.parametrize(
    "space", [gymnasium.spaces.Box(-9, 9, (2,)), gymnasium.spaces.MultiDiscrete([2, 3]), gymnasium.spaces.Discrete(3)]
)
def test_probabilities_of_a_module_are_those_of_its_policy(space):
    torch.manual_seed(0)
    box = gymnasium.spaces.Box(-1, 1, (4,))
    policy = Policy(box, space, {"fcnet_hiddens": [8], "fcnet_activation": "tanh"})
    module, rows = RLModule(policy), np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    found = module.forward_inference({"obs": rows})["action_dist_inputs"]
    distribution = module.get_inference_action_dist_cls()(found)
    actions = distribution.sample()
    assert np.allclose(distribution.logp(actions), policy.log_probabilities(*parts(policy, rows, actions)), atol=1e-4)


def parts(policy, rows, actions):
    return policy.forward(rows)[0], actions.numpy()


def test_learner_group_and_holders_reach_weights_and_environments(algo):
    weights = algo.learner_group.get_weights()
    algo.learner_group.set_weights(weights)
    worker = algo.workers.local_worker()
    assert list(weights) == ["default_policy"] and worker.get_policy() is algo.get_policy()
    names = algo.env_runner_group.foreach_env(lambda env: env.unwrapped.spec.id)
    assert names == [["CartPole-v1"] * 4]
    assert algo.learner_group.foreach_learner(lambda learner: list(learner.module)) == [["default_policy"]]


def test_parameters_of_a_policy_are_one_row_as_an_array(algo):
    weights = algo.get_weights()
    row = np.asarray(weights["default_policy"])
    assert row.ndim == 1 and row.size == sum(value.size for value in weights["default_policy"].values())
    assert np.isfinite(row).all() and row.dtype == np.float32
    assert all(np.isfinite(np.asarray(each)).all() for each in weights.values())


def test_model_of_a_specification_is_used_and_a_class_of_modules_is_refused():
    spec = RLModuleSpec(model_config=DefaultModelConfig(fcnet_hiddens=[7]))
    assert PPOConfig().rl_module(rl_module_spec=spec).model["fcnet_hiddens"] == [7]
    with pytest.raises(NotImplementedError, match="custom_model"):
        RLModuleSpec(module_class=torch.nn.Linear)


def test_total_batch_and_several_agents_are_told():
    config = config_of().training(train_batch_size_per_learner=512)
    assert config.total_train_batch_size == config.train_batch_size_per_learner == config.train_batch_size == 512
    assert not config.is_multi_agent and config.num_learners == 0
    assert config.multi_agent(policies=["a", "b"]).is_multi_agent
    config.validate()


def test_examples_environments_run():
    env = RandomEnv({"p_terminated": 0.0, "max_episode_len": 2})
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    assert len(MultiAgentCartPole({"num_agents": 2}).reset(seed=0)[0]) == 2


def test_spaces_are_flattened_and_actions_scaled():
    box = gymnasium.spaces.Box(100, 200, (1,))
    both = gymnasium.spaces.Dict(a=box, b=gymnasium.spaces.Tuple([box, gymnasium.spaces.Discrete(2)]))
    assert flatten_space(both) == [box, box, gymnasium.spaces.Discrete(2)]
    assert unsquash_action([0.0], box) == [150.0] and normalize_action(np.array([200.0]), box) == [1.0]
    assert clip_action({"a": [300.0], "b": ([0.0], 1)}, both) == {"a": [200.0], "b": ([100.0], 1)}
    assert unbatch({"a": [1, 2], "b": ([3, 4],)}) == [{"a": 1, "b": (3,)}, {"a": 2, "b": (4,)}]


def test_name_of_a_policy_that_is_absent_is_an_error_with_the_names():
    algo = PPOConfig().environment("CartPole-v1").build_algo()
    calls = (algo.get_policy, algo.get_module, lambda name: algo.compute_single_action([0.0] * 4, policy_id=name))
    for call in calls:
        with pytest.raises(ValueError, match="No policy is called 'nope'.  The policies are: default_policy."):
            call("nope")
    assert algo.get_policy("default_policy") is algo.get_policy() is algo.policy
    algo.stop()
