"""A model of a program's own, in Ray's spelling, learns to balance a pole by PPO.

Prints:

    weights of the model: 6
    after 8,192 steps: better than twice the first return: True
"""

import torch

import zray as ray
from zray.rllib.algorithms.ppo import PPOConfig
from zray.rllib.models import ModelCatalog
from zray.rllib.models.torch.misc import SlimFC
from zray.rllib.models.torch.torch_modelv2 import TorchModelV2


class Shared(TorchModelV2, torch.nn.Module):
    """One hidden layer for policy and value."""

    def __init__(self, obs_space, action_space, num_outputs, model_config, name, size=32):
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        torch.nn.Module.__init__(self)
        self.body = SlimFC(obs_space.shape[0], size, activation_fn="tanh")
        self.logits, self.value = SlimFC(size, num_outputs), SlimFC(size, 1)

    def forward(self, input_dict, state, seq_lens):
        self.features = self.body(input_dict["obs_flat"])
        return self.logits(self.features), state

    def value_function(self):
        return self.value(self.features).squeeze(1)


torch.set_num_threads(1)
ModelCatalog.register_custom_model("shared", Shared)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .training(
        lr=5e-3, gamma=0.98, minibatch_size=256, model={"custom_model": "shared", "custom_model_config": {"size": 16}}
    )
    .debugging(seed=1)
)

with ray.init(num_cpus=2):
    algo = config.build_algo()
    print("weights of the model:", len(algo.get_weights()["default_policy"]))
    returns = [algo.train()["episode_reward_mean"] for _ in range(8)]
    print("after 8,192 steps: better than twice the first return:", returns[-1] > 2 * returns[0])
    algo.stop()
