"""A multilayer perceptron as a custom model, to be a part of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .misc import SlimFC, normc_initializer
from .torch_modelv2 import TorchModelV2

__all__ = ["FullyConnectedNetwork"]


class FullyConnectedNetwork(TorchModelV2, nn.Module):
    """Linear layers over flat observations, and a value function.

    Args:
        obs_space, action_space, num_outputs, model_config, name: see ModelV2; `fcnet_hiddens`, `fcnet_activation`,
            `vf_share_layers` (False: the values have layers of their own), and `no_final_linear` (True: the last of
            `fcnet_hiddens` are the outputs).
    """

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int | None, model_config: dict[str, Any], name: str
    ) -> None:
        nn.Module.__init__(self)
        hidden = list(model_config.get("fcnet_hiddens") or [])
        activation = model_config.get("fcnet_activation", "tanh")
        inputs = int(np.prod(obs_space.shape))
        size = hidden[-1] if hidden else inputs
        is_last = bool(model_config.get("no_final_linear")) or num_outputs is None
        TorchModelV2.__init__(self, obs_space, action_space, size if is_last else num_outputs or 0, model_config, name)
        self._hidden_layers = self._layers(inputs, hidden, activation)
        self._logits = None if is_last else SlimFC(size, self.num_outputs, normc_initializer(0.01))
        shares = bool(model_config.get("vf_share_layers"))
        self._value_branch_separate = None if shares else self._layers(inputs, hidden, activation)
        self._value_branch = SlimFC(size, 1, normc_initializer(0.01))
        self._last: tuple[torch.Tensor, torch.Tensor] | None = None

    @staticmethod
    def _layers(inputs: int, hidden: list[int], activation: Any) -> nn.Sequential:
        sizes = [inputs, *hidden]
        return nn.Sequential(
            *(
                SlimFC(size, units, normc_initializer(1.0), activation)
                for size, units in zip(sizes[:-1], sizes[1:], strict=True)
            )
        )

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        """The outputs, and the state as it came."""
        rows = input_dict["obs_flat"].float()
        features = self._hidden_layers(rows)
        self._last = (rows, features)
        return features if self._logits is None else self._logits(features), state

    def value_function(self) -> Any:
        """The values of the last `forward`."""
        if self._last is None:
            raise RuntimeError("Call forward before value_function: values are those of its observations.")
        rows, features = self._last
        if self._value_branch_separate is not None:
            features = self._value_branch_separate(rows)
        return self._value_branch(features).squeeze(1)
