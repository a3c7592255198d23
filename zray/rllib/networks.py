"""Models: torch networks from observations to the parameters of an action distribution, and to a value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["ActorCritic", "mlp", "orthogonal"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "linear": nn.Identity, "silu": nn.SiLU}


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    """Initialise a layer: orthogonal weights, biases of 0."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def mlp(sizes: Sequence[int], activation: str, last_gain: float) -> nn.Sequential:
    """A multilayer perceptron with orthogonal weights.

    Args:
        sizes: inputs, hidden units of each layer, outputs.
        activation: "tanh", "relu", "silu" or "linear".
        last_gain: of the last layer: small for policies, 1 for values.
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"The activation is one of {', '.join(_ACTIVATIONS)}, not {activation!r}.")
    layers: list[nn.Module] = []
    for inputs, outputs in zip(sizes[:-2], sizes[1:-1], strict=True):
        layers += [orthogonal(nn.Linear(inputs, outputs), np.sqrt(2)), _ACTIVATIONS[activation]()]
    layers.append(orthogonal(nn.Linear(sizes[-2], sizes[-1]), last_gain))
    return nn.Sequential(*layers)


class ActorCritic(nn.Module):
    """A policy and a value function.

    Args:
        inputs: size of an observation.
        outputs: parameters of the action distribution, without the standard deviations.
        is_continuous: whether free standard deviations belong to the parameters.
        model: `fcnet_hiddens`, `fcnet_activation`, `vf_share_layers`.
    """

    def __init__(self, inputs: int, outputs: int, is_continuous: bool, model: dict[str, Any]) -> None:
        super().__init__()
        hidden, activation = list(model["fcnet_hiddens"]), model["fcnet_activation"]
        self.policy = mlp([inputs, *hidden, outputs], activation, 0.01)
        self.value = mlp([inputs, *hidden, 1], activation, 1.0)
        self.log_std = nn.Parameter(torch.zeros(outputs)) if is_continuous else None

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parameters of the actions, and the values."""
        return self.policy(observations), self.value(observations).squeeze(-1)
