"""Layers and initialisers for custom models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ...networks import activation_of

__all__ = ["AppendBiasLayer", "Reshape", "SlimConv2d", "SlimFC", "normc_initializer", "same_padding"]


def normc_initializer(std: float = 1.0) -> Callable[[torch.Tensor], None]:
    """An initialiser: normal weights, scaled so that the norm of each unit's weights is `std`."""

    def initialise(tensor: torch.Tensor) -> None:
        tensor.data.normal_(0, 1)
        tensor.data *= std / torch.sqrt(tensor.data.pow(2).sum(1, keepdim=True))

    return initialise


def _activation(activation_fn: Any) -> list[nn.Module]:
    if activation_fn is None or activation_fn == "linear":
        return []
    return [(activation_of(activation_fn) if isinstance(activation_fn, str) else activation_fn)()]


class SlimFC(nn.Module):
    """A linear layer, with an initialiser and an activation.

    Args:
        in_size, out_size: features and units.
        initializer: a function that fills the weights; None: xavier_uniform_.
        activation_fn: a name, a class of torch.nn, or None.
        use_bias, bias_init: whether there is a bias, and its first value.
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        initializer: Any = None,
        activation_fn: Any = None,
        use_bias: bool = True,
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        linear = nn.Linear(in_size, out_size, bias=use_bias)
        (initializer or nn.init.xavier_uniform_)(linear.weight)
        if use_bias:
            nn.init.constant_(linear.bias, bias_init)
        self._model = nn.Sequential(linear, *_activation(activation_fn))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs for rows."""
        found: torch.Tensor = self._model(x)
        return found


class SlimConv2d(nn.Module):
    """A convolution, with padding, an initialiser and an activation.

    Args:
        in_channels, out_channels, kernel, stride: of the convolution.
        padding: cells (left, right, top, bottom), or a number, or None.
        initializer: a function that fills the weights; None: xavier_uniform_.
        activation_fn: a name, a class of torch.nn, or None; "default": relu.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Any,
        stride: Any,
        padding: Any,
        initializer: Any = "default",
        activation_fn: Any = "default",
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ZeroPad2d(padding)] if padding else []
        convolution = nn.Conv2d(in_channels, out_channels, kernel, stride)
        (nn.init.xavier_uniform_ if initializer in ("default", None) else initializer)(convolution.weight)
        nn.init.constant_(convolution.bias, bias_init)  # type: ignore[arg-type]
        layers += [convolution, *_activation("relu" if activation_fn == "default" else activation_fn)]
        self._model = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs for images whose channels are the second axis."""
        found: torch.Tensor = self._model(x)
        return found


class AppendBiasLayer(nn.Module):
    """A layer that appends free numbers to each row, as log standard deviations.

    Args:
        num_bias_vars: how many.
    """

    def __init__(self, num_bias_vars: int) -> None:
        super().__init__()
        self.log_std = nn.Parameter(torch.zeros(num_bias_vars))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows with the numbers behind them."""
        return torch.cat([x, self.log_std.unsqueeze(0).expand(len(x), -1)], dim=1)


class Reshape(nn.Module):
    """A layer that gives rows another shape."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The numbers in the shape."""
        return torch.reshape(x, self.shape)


def same_padding(in_size: Any, filter_size: Any, stride_size: Any) -> tuple[Any, Any]:
    """The padding by which a side of n becomes n / stride, rounded up.

    Returns:
        ((left, right, top, bottom), (height, width) of the output).
    """
    from ...convolution import same

    pair = [(each, each) if isinstance(each, int) else tuple(each) for each in (filter_size, stride_size)]
    height, width = in_size
    top, bottom = same(height, pair[0][0], pair[1][0])
    left, right = same(width, pair[0][1], pair[1][1])
    outputs = (int(np.ceil(height / pair[1][0])), int(np.ceil(width / pair[1][1])))
    return (left, right, top, bottom), outputs
