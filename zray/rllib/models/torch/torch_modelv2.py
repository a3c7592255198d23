"""The base of custom models on torch."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..modelv2 import ModelV2

__all__ = ["TorchModelV2"]


class TorchModelV2(ModelV2):
    """A custom model on torch: a class derives from it and from torch.nn.Module.

    Args:
        obs_space, action_space, num_outputs, model_config, name: see ModelV2.

    Raises:
        ValueError: the class is no torch.nn.Module.

    Example:
        class MyModel(TorchModelV2, nn.Module):
            def __init__(self, obs_space, action_space, num_outputs, model_config, name, size=32):
                TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
                nn.Module.__init__(self)
                self.body = SlimFC(obs_space.shape[0], size, activation_fn="tanh")
                self.logits, self.value = SlimFC(size, num_outputs), SlimFC(size, 1)

            def forward(self, input_dict, state, seq_lens):
                self.features = self.body(input_dict["obs_flat"])
                return self.logits(self.features), state

            def value_function(self):
                return self.value(self.features).squeeze(1)
    """

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: dict[str, Any], name: str
    ) -> None:
        if not isinstance(self, nn.Module):
            raise ValueError(
                f"{type(self).__name__} must derive from torch.nn.Module too: class {type(self).__name__}("
                "TorchModelV2, nn.Module)."
            )
        ModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name, framework="torch")

    def variables(self, as_dict: bool = False) -> Any:
        """The parameters and buffers."""
        assert isinstance(self, nn.Module)
        return self.state_dict() if as_dict else list(self.state_dict().values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        """The parameters that learn."""
        assert isinstance(self, nn.Module)
        found = {name: each for name, each in self.named_parameters() if each.requires_grad}
        return found if as_dict else list(found.values())
