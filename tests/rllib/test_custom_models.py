"""Models of a program's own: classes in the spelling of TorchModelV2, and plain modules of torch."""

import gymnasium
import numpy as np
import pytest

import zray

torch = pytest.importorskip("torch", reason="torch is not installed here")

from zray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from zray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from zray.rllib.env.multi_agent_env import make_multi_agent  # noqa: E402
from zray.rllib.models import ModelCatalog  # noqa: E402
from zray.rllib.models.preprocessors import get_preprocessor  # noqa: E402
from zray.rllib.models.torch.fcnet import FullyConnectedNetwork  # noqa: E402
from zray.rllib.models.torch.misc import SlimFC, normc_initializer  # noqa: E402
from zray.rllib.models.torch.torch_modelv2 import TorchModelV2  # noqa: E402
from zray.rllib.utils.framework import try_import_torch  # noqa: E402

from .catch import Catch  # noqa: E402

nn = torch.nn


class Masked(gymnasium.Env):
    """Three actions, one of which is allowed: the reward of another one is -1."""

    observation_space = gymnasium.spaces.Dict(
        {"mask": gymnasium.spaces.Box(0, 1, (3,)), "state": gymnasium.spaces.Box(-1, 1, (2, 2))}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, config=None):
        self.allowed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation(), {}

    def step(self, action):
        reward = 1.0 if action == self.allowed else -1.0
        return self._observation(), reward, bool(self.np_random.random() < 0.1), False, {}

    def _observation(self):
        self.allowed = int(self.np_random.integers(3))
        mask = np.zeros(3, np.float32)
        mask[self.allowed] = 1.0
        return {"mask": mask, "state": self.np_random.random((2, 2)).astype(np.float32)}


class MaskingModel(TorchModelV2, nn.Module):
    def __init__(self, obs_space, action_space, num_outputs, model_config, name, size=8):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        nn.Module.__init__(self)
        state = obs_space.original_space["state"]
        flat = gymnasium.spaces.Box(-1, 1, (int(np.prod(state.shape)),))
        config = {**model_config, "fcnet_hiddens": [size]}
        self.inner = FullyConnectedNetwork(flat, action_space, num_outputs, config, name + "_inner")

    def forward(self, input_dict, state, seq_lens):
        parts = input_dict["obs"]
        assert parts["state"].shape[1:] == (2, 2)
        logits, _ = self.inner({"obs": parts["state"].flatten(1)})
        return logits + torch.clamp(torch.log(parts["mask"]), min=-1e30), state

    def value_function(self):
        return self.inner.value_function()


class Plain(nn.Module):
    def __init__(self, observation_space, action_space, num_outputs, size=8, has_value=True):
        super().__init__()
        inputs = int(np.prod(observation_space.shape))
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, size), nn.Tanh())
        self.logits, self.value = nn.Linear(size, num_outputs), nn.Linear(size, 1)
        self.has_value = has_value

    def forward(self, observations):
        features = self.body(observations)
        return (self.logits(features), self.value(features)) if self.has_value else self.logits(features)


@pytest.fixture(scope="module")
def session(nothing_left):
    with zray.init(num_cpus=2, log_to_driver=False) as found:
        yield found


def small(config, workers=0):
    config.env_runners(num_env_runners=workers, num_groups=2, num_envs_per_env_runner=2, rollout_fragment_length=8)
    if isinstance(config, DQNConfig):
        return config.training(learning_starts=16, updates_per_iteration=2)
    return config.training(num_epochs=2, minibatch_size=16)


def weights_after(config, iterations=2):
    algo = config.build_algo()
    for _ in range(iterations):
        algo.train()
    weights = {name: value.tobytes() for name, value in algo.get_policy().get_weights().items()}
    algo.stop()
    return weights


def test_registered_model_reads_parts_of_a_dict_and_masks_actions(session):
    ModelCatalog.register_custom_model("masking", MaskingModel)
    model = {"custom_model": "masking", "custom_model_config": {"size": 4}}
    configs = [small(PPOConfig(), workers).environment(Masked).training(model=model) for workers in (0, 2)]
    algo = configs[0].copy().build_algo()
    assert all((batch.rewards == 1.0).all() for batch in algo.collect(8))
    algo.stop()
    here, there = (weights_after(config) for config in configs)
    assert here == there
    assert len(here["inner.inner._hidden_layers.0._model.0.bias"]) == 4 * 4


def test_name_that_is_not_registered_names_the_nearest():
    ModelCatalog.register_custom_model("masking", MaskingModel)
    config = PPOConfig().environment(Masked).training(model={"custom_model": "maskin"})
    with pytest.raises(ValueError, match=r"No custom model is called 'maskin'.  Near: 'masking'"):
        config.build_algo()


@pytest.mark.parametrize("has_value", [True, False])
@pytest.mark.parametrize("config_class", [PPOConfig, DQNConfig])
@pytest.mark.parametrize("env", ["CartPole-v1", Catch])
def test_plain_module_learns(config_class, env, has_value):
    model = {"custom_model": Plain, "custom_model_config": {"size": 4, "has_value": has_value}}
    algo = small(config_class().environment(env)).training(model=model).build_algo()
    before = algo.get_policy().get_weights()["inner.logits.weight"]
    for _ in range(2):
        algo.train()
    after = algo.get_policy().get_weights()["inner.logits.weight"]
    assert before.shape[1] == 4 and not np.array_equal(before, after)
    if config_class is DQNConfig:
        rows = np.random.default_rng(0).random((3, *algo.policy.row_shape)).astype(np.float32)
        outputs, values = algo.policy.forward(rows)
        assert (values == outputs.max(-1)).all()
    algo.stop()


def test_values_are_those_of_value_function():
    model = {"custom_model": FullyConnectedNetwork, "fcnet_hiddens": [5]}
    algo = small(PPOConfig()).environment("Pendulum-v1").training(model=model).build_algo()
    rows = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    means, values = algo.policy.forward(rows)
    inner = algo.policy.model.inner
    with torch.no_grad():
        expected, _ = inner({"obs": torch.from_numpy(rows)})
        assert means == pytest.approx(expected.numpy()) and means.shape == (7, 1)
        assert values == pytest.approx(inner.value_function().numpy())
    algo.stop()


def test_model_with_too_many_outputs_is_named():
    class Wide(Plain):
        def __init__(self, observation_space, action_space, num_outputs):
            super().__init__(observation_space, action_space, 2 * num_outputs)

    config = small(PPOConfig()).environment("Pendulum-v1").training(model={"custom_model": Wide})
    with pytest.raises(ValueError, match="Model Wide gives 2 outputs for an observation, where num_outputs is 1"):
        config.build_algo().train()


class Losing(FullyConnectedNetwork):
    """A model whose loss is a pull of one bias towards 3, beside a part of the algorithm's loss."""

    seen = ()

    def custom_loss(self, policy_loss, loss_inputs):
        type(self).seen = set(loss_inputs)
        bias = next(parameter for name, parameter in self.named_parameters() if name.endswith("bias"))
        logits, _ = self({"obs": loss_inputs["obs"]})  # as a loss of imitation does
        assert logits.shape == loss_inputs["action_dist_inputs"].shape
        return [0.0 * loss + ((bias - 3.0) ** 2).sum() for loss in policy_loss]


def test_loss_of_a_model_is_the_loss_of_ppo():
    config = small(PPOConfig()).environment("CartPole-v1").training(model={"custom_model": Losing}, grad_clip=None)
    algo = config.training(lr=0.3).build_algo()
    before = algo.get_policy().get_weights()
    for _ in range(3):
        algo.train()
    after = algo.get_policy().get_weights()
    changed = [name for name, value in after.items() if not np.array_equal(value, before[name])]
    algo.stop()
    assert len(changed) == 1 and (after[changed[0]] > 1.5).all()
    assert {"obs", "actions", "advantages", "action_logp", "vf_preds", "value_targets"} <= Losing.seen


def test_several_losses_of_a_model_say_what_to_do(monkeypatch):
    monkeypatch.setattr(Losing, "custom_loss", lambda self, policy_loss, loss_inputs: [*policy_loss, *policy_loss])
    algo = small(PPOConfig()).environment("CartPole-v1").training(model={"custom_model": Losing}).build_algo()
    with pytest.raises(ValueError, match="custom_loss of Losing returns 2 losses, and there is one optimiser"):
        algo.train()
    algo.stop()


def test_loss_of_a_model_is_not_called_by_dqn_yet():
    with pytest.raises(NotImplementedError, match="DQN does not call custom_loss of Losing yet: use PPO"):
        DQNConfig().environment("CartPole-v1").training(model={"custom_model": Losing}).build_algo()


def test_weights_of_an_initialiser_have_its_norm():
    layer = SlimFC(6, 3, normc_initializer(0.5), activation_fn="relu")
    (linear, activation) = layer._model
    assert linear.weight.norm(dim=1).tolist() == pytest.approx([0.5] * 3)
    assert isinstance(activation, nn.ReLU) and linear.bias.tolist() == [0.0] * 3


def test_preprocessor_flattens_structures():
    space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(3), "b": gymnasium.spaces.Box(-1, 1, (2,))})
    preprocessor = ModelCatalog.get_preprocessor_for_space(space)
    assert preprocessor.transform({"a": 1, "b": np.array([0.5, -0.5], np.float32)}).tolist() == [0, 1, 0, 0.5, -0.5]
    assert preprocessor.shape == preprocessor.observation_space.shape == (5,)
    assert preprocessor.observation_space.original_space is space
    box = gymnasium.spaces.Box(-1, 1, (2, 2))
    assert get_preprocessor(box)(box).observation_space is box


def test_torch_is_found():
    assert try_import_torch() == (torch, torch.nn)


class Measured(MaskingModel):
    """Counts its calls."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = 0

    def forward(self, input_dict, state, seq_lens):
        self.calls += 1
        return super().forward(input_dict, state, seq_lens)

    def metrics(self):
        return {"calls": self.calls, "size": torch.tensor(2.0), "parts": [1, 2]}


@pytest.mark.parametrize("make", [PPOConfig, DQNConfig])
def test_metrics_of_a_model_are_in_the_result(make):
    algo = small(make().environment(Masked)).training(model={"custom_model": Measured}).build_algo()
    result = algo.train()
    algo.stop()
    found = result["info"]["learner"]["default_policy"]["model"]
    assert found["calls"] > 0 and found["size"] == 2.0 and found["parts"] == [1, 2] and type(found["size"]) is float
    assert result["learners"]["default_policy"]["model"] == found


def test_model_without_metrics_has_none_in_the_result():
    algo = small(PPOConfig().environment(Masked)).training(model={"custom_model": MaskingModel}).build_algo()
    result = algo.train()
    algo.stop()
    assert "model" not in result["info"]["learner"]["default_policy"]


def test_metrics_of_the_models_of_several_policies_are_in_the_result():
    config = small(PPOConfig().environment(make_multi_agent(Masked), env_config={"num_agents": 2}))
    config.multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda agent, *_, **__: "ab"[int(agent)])
    algo = config.training(model={"custom_model": Measured}).build_algo()
    result = algo.train()
    algo.stop()
    for name in "ab":
        assert result["info"]["learner"][name]["model"]["calls"] > 0
        assert result["learners"][name]["model"]["size"] == 2.0
