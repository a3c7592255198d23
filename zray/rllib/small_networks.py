"""The forward pass of small networks in numpy, where environments run.

For the observations of 16 environments, calls of torch take twice as long as the arithmetic of two layers of 64 units.
The learner, larger networks, and models of other kinds use torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from .networks import ActorCritic

__all__ = ["SmallNetwork"]

# Multiplications of a layer for all rows: for more, OpenBLAS may start threads, and torch is as fast.
WORK_MAX = 1 << 18


def _relu(rows: np.ndarray, out: np.ndarray) -> None:
    np.maximum(rows, 0.0, out=out)


_ACTIVATIONS: dict[type[nn.Module], Callable[..., Any]] = {nn.Tanh: np.tanh, nn.ReLU: _relu}


class SmallNetwork:
    """The parameters of the actions and the values that an ActorCritic on the CPU gives.

    The weights are read in place, so that updates of the model need no copy.

    Args:
        model: one that `fits`.
    """

    def __init__(self, model: ActorCritic) -> None:
        self._model = model
        self._networks: list[Any] = [list(model.policy.children()), list(model.value.children())]
        self._layers = [layer for network in self._networks for layer in network]
        self._weights = [part for layer in self._layers for part in layer.parameters()]
        self._largest = max(layer.weight.numel() for layer in self._layers if type(layer) is nn.Linear)
        self._addresses: list[int] = []
        self._steps: list[list[Any]] = []  # of each network: (weights, biases), or the function of an activation

    @staticmethod
    def fits(model: Any) -> bool:
        """Whether a model consists of linear layers and known activations alone."""
        if type(model) is not ActorCritic or model.has_body:
            return False
        layers = [*model.policy.children(), *model.value.children()]
        return all(type(layer) is nn.Linear or type(layer) in _ACTIVATIONS for layer in layers)

    def __reduce__(self) -> Any:
        return SmallNetwork, (self._model,)

    def takes(self, rows: np.ndarray) -> bool:
        """Whether the rows are few enough, and no hook of torch waits for them."""
        if len(rows) * self._largest > WORK_MAX:
            return False
        return not any(layer._forward_hooks or layer._forward_pre_hooks for layer in self._layers)

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Parameters, a row for each row of observations, and values."""
        addresses = [part.data_ptr() for part in self._weights]
        if addresses != self._addresses:
            self._addresses, self._steps = addresses, [self._read(network) for network in self._networks]
        parameters, values = (self._run(steps, rows) for steps in self._steps)
        return parameters, values[:, 0]

    @staticmethod
    def _read(network: list[Any]) -> list[Any]:
        return [
            (layer.weight.detach().numpy().T, layer.bias.detach().numpy())
            if type(layer) is nn.Linear
            else _ACTIVATIONS[type(layer)]
            for layer in network
        ]

    @staticmethod
    def _run(steps: list[Any], rows: np.ndarray) -> np.ndarray:
        for step in steps:
            if type(step) is tuple:
                rows = rows @ step[0]
                rows += step[1]
            else:
                step(rows, out=rows)
        return rows
