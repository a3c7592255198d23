"""Models: torch networks from observations to the parameters of an action distribution, and to a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["ActorCritic", "activation_of", "features_of", "log_std_of", "mlp", "orthogonal"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "linear": nn.Identity, "silu": nn.SiLU}


def activation_of(name: str) -> type[nn.Module]:
    """The activation of this name.

    Raises:
        ValueError: none has it.
    """
    if name not in _ACTIVATIONS:
        raise ValueError(f"The activation is one of {', '.join(_ACTIVATIONS)}, not {name!r}.")
    return _ACTIVATIONS[name]


def orthogonal(layer: Any, gain: float) -> Any:
    """Initialise a linear layer or a convolution: orthogonal weights, biases of 0."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Layers(nn.Sequential):
    """Linear layers and activations.

    Calls of modules take more time than the arithmetic of a small network, so layers without hooks are not called.
    """

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The outputs for rows of inputs."""
        for layer in self._modules.values():
            assert layer is not None
            if layer._forward_hooks or layer._forward_pre_hooks:
                rows = layer(rows)
            elif type(layer) is nn.Linear:
                parameters = layer._parameters
                rows = nn.functional.linear(rows, parameters["weight"], parameters["bias"])  # type: ignore[arg-type]
            else:
                rows = layer.forward(rows)
        return rows


def mlp(sizes: Sequence[int], activation: str, last_gain: float) -> nn.Sequential:
    """A multilayer perceptron with orthogonal weights.

    Args:
        sizes: inputs, hidden units of each layer, outputs.
        activation: "tanh", "relu", "silu" or "linear".
        last_gain: of the last layer: small for policies, 1 for values.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes[:-2], sizes[1:-1], strict=True):
        layers += [orthogonal(nn.Linear(inputs, outputs), np.sqrt(2)), activation_of(activation)()]
    layers.append(orthogonal(nn.Linear(sizes[-2], sizes[-1]), last_gain))
    return Layers(*layers)


def features_of(inputs: int | tuple[int, ...], model: dict[str, Any]) -> tuple[nn.Module, int]:
    """The layers below the heads, activation included, and how many features they give.

    Args:
        inputs: size of a flat observation, or the shape of an image.
        model: options of the model.
    """
    if isinstance(inputs, tuple):
        from .convolution import Convolution

        body = Convolution(inputs, model)
        return body, body.size
    hidden, activation = list(model["fcnet_hiddens"]), model["fcnet_activation"]
    if not hidden:
        return nn.Identity(), inputs
    return Layers(mlp([inputs, *hidden], activation, float(np.sqrt(2))), activation_of(activation)()), hidden[-1]


def log_std_of(outputs: int, model: dict[str, Any]) -> nn.Parameter:
    """Free log standard deviations, one for each mean; `log_std_init` of the model is their start."""
    return nn.Parameter(torch.full((outputs,), float(model.get("log_std_init", 0.0))))


class ActorCritic(nn.Module):
    """A policy and a value function; over images, they share a convolution, and with `vf_share_layers` all layers.

    Args:
        inputs: size of a flat observation, or the shape of an image.
        outputs: parameters of the action distribution, without the standard deviations.
        is_continuous: whether free standard deviations belong to the parameters.
        model: `fcnet_hiddens`, `fcnet_activation`; over images the options of `Convolution`; `vf_share_layers`: whether
            the value has the hidden layers of the policy; `log_std_init`: the log standard deviations at the start,
            default 0.
    """

    def __init__(self, inputs: int | tuple[int, ...], outputs: int, is_continuous: bool, model: dict[str, Any]) -> None:
        super().__init__()
        self.body: nn.Module = nn.Identity()
        is_shared = bool(model.get("vf_share_layers"))
        self.has_body = is_shared or isinstance(inputs, tuple)
        hidden, activation = [], "linear"
        if self.has_body:
            self.body, size = features_of(inputs, model)
        else:
            assert isinstance(inputs, int)
            hidden, activation, size = list(model["fcnet_hiddens"]), model["fcnet_activation"], inputs
        self.policy = mlp([size, *hidden, outputs], activation, 0.01)
        self.value = mlp([size, *hidden, 1], activation, 1.0)
        self.log_std = log_std_of(outputs, model) if is_continuous else None

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parameters of the actions, and the values."""
        features = self.body(observations) if self.has_body else observations
        return self.policy(features), self.value(features).squeeze(-1)
