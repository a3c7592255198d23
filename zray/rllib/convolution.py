"""Convolutional features of images: the network of the DQN paper, a small one for small images, or filters given."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from .networks import activation_of, orthogonal

__all__ = ["Convolution", "is_image", "same"]

# Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015), table 1: no padding.
NATURE = ([[32, 8, 4], [64, 4, 2], [64, 3, 1]], [512])
NATURE_SIDE_MIN = 36  # the smallest image that its three layers fit
# Images of a few cells, as of grid worlds: no stride loses a cell.
SMALL = ([[16, 3, 1], [32, 3, 1]], [128])


def is_image(space: gymnasium.Space[Any], model: dict[str, Any]) -> bool:
    """Whether observations go to a convolution: a Box of three axes, or of two where `conv_filters` are given."""
    if not isinstance(space, gymnasium.spaces.Box):
        return False
    return len(space.shape) == 3 or (len(space.shape) == 2 and bool(model.get("conv_filters")))


class Convolution(nn.Module):
    """Features of images.

    The last axis of an image holds its channels; the first axis, where it is the shortest, as of stacked frames.
    Numbers of 8 bits are divided by 255.

    Args:
        shape: of an image, with two or three axes.
        model: `conv_filters`: a list of [channels, kernel, stride], where a kernel is a number or [height, width];
            each layer but the last is padded, so that a side of n becomes n / stride, rounded up.  Absent: the network
            of the DQN paper for sides of 36 and more, two layers of 3x3 below.  `conv_activation`: "relu".
            `post_fcnet_hiddens`: units of the layers behind; `post_fcnet_activation`: theirs, else `conv_activation`.

    Raises:
        ValueError: the filters do not fit the image.
    """

    def __init__(self, shape: tuple[int, ...], model: dict[str, Any]) -> None:
        super().__init__()
        self.axes = len(shape)
        height, width, channels = shape if self.axes == 3 else (*shape, 1)
        self.is_channels_first = self.axes == 3 and height < min(width, channels)
        if self.is_channels_first:
            channels, height, width = shape
        filters, hidden = NATURE if min(height, width) >= NATURE_SIDE_MIN else SMALL
        given = model.get("conv_filters")
        is_padded = filters is SMALL[0] and not given
        if given:
            filters, hidden = given, []
        if model.get("post_fcnet_hiddens"):
            hidden = model["post_fcnet_hiddens"]
        activation = activation_of(model.get("conv_activation") or "relu")
        given_behind = model.get("post_fcnet_activation")
        activation_behind = activation_of(given_behind) if given_behind else activation
        layers: list[nn.Module] = []
        for number, (units, kernel, stride) in enumerate(filters, start=1):
            kernel_sides = (kernel, kernel) if isinstance(kernel, int) else tuple(kernel)
            strides = (stride, stride) if isinstance(stride, int) else tuple(stride)
            pads = [(0, 0), (0, 0)]
            if is_padded or (given and number < len(filters)):
                pads = [same(*each) for each in zip((height, width), kernel_sides, strides, strict=True)]
                layers.append(nn.ZeroPad2d((*pads[1], *pads[0])))
            sides = [
                (side + sum(pad) - size) // step + 1
                for side, pad, size, step in zip((height, width), pads, kernel_sides, strides, strict=True)
            ]
            if min(sides) < 1:
                raise ValueError(
                    f"Layer {number} of conv_filters, {[units, kernel, stride]}, does not fit what is left of an image "
                    f"of shape {tuple(shape)}: {height}x{width}.  Give a smaller kernel or stride."
                )
            convolution = nn.Conv2d(channels, units, kernel_sides, strides)
            layers += [orthogonal(convolution, np.sqrt(2)), activation()]
            channels, (height, width) = units, sides
        layers.append(nn.Flatten())
        self.size = channels * height * width
        for units in hidden:
            layers += [orthogonal(nn.Linear(self.size, units), np.sqrt(2)), activation_behind()]
            self.size = units
        self.layers = nn.Sequential(*layers)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features, one row for each image."""
        images = images / 255.0 if images.dtype == torch.uint8 else images.float()
        if self.axes == 2:
            images = images.unsqueeze(1)
        elif not self.is_channels_first:
            images = images.permute(0, 3, 1, 2)
        features: torch.Tensor = self.layers(images.contiguous())
        return features


def same(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Cells to add before and behind, so that `stride` divides the side, rounded up."""
    lacking = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
    return lacking // 2, lacking - lacking // 2
