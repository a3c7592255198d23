"""Models of E12, and a replica that trains one of them on made-up images with torch, on one thread.

The gradients of a replica lie in buckets: flat arrays, filled from the last layer to the first one, as backward goes.
A bucket that is full can travel while backward works on the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

BATCH = 32
CLASSES = 10
PIXELS = (3, 32, 32)
RESNET, MLP = "ResNet-20", "MLP"
MODELS = (RESNET, MLP)
RATE, MOMENTUM = 0.01, 0.9
SEED = 12
BUCKET_BYTES = 1 << 18


class Block(nn.Module):
    """Two convolutions, and a way around them: a convolution of single pixels where the size changes."""

    def __init__(self, planes_in: int, planes: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(planes_in, planes, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(planes)
        self.second = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(planes)
        self.around: nn.Module = nn.Identity()
        if planes != planes_in:
            self.around = nn.Sequential(nn.Conv2d(planes_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))

    def forward(self, x: Any) -> Any:
        """Compute the outputs of a batch."""
        out = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(out)) + self.around(x))


def resnet_20() -> nn.Module:
    """Build the network of He et al. for CIFAR-10: three stages of three blocks."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    planes_in = 16
    for planes in (16, 32, 64):
        for number in range(3):
            layers.append(Block(planes_in, planes, 2 if planes > 16 and number == 0 else 1))
            planes_in = planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def mlp() -> nn.Module:
    """Build the fully connected network: 4.2 million parameters."""
    sizes = (3 * 32 * 32, 1024, 1024, CLASSES)
    layers: list[nn.Module] = [nn.Flatten()]
    for count, following in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(count, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Replica:
    """Model of one rank, its images and its optimizer.  All ranks have equal weights, and images of their own."""

    def __init__(self, name: str, rank: int, ranks: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        self.ranks = ranks
        self.model: Any = resnet_20() if name == RESNET else mlp()
        dice = torch.Generator().manual_seed(SEED + 1 + rank)
        self.images = torch.randn(BATCH, *PIXELS, generator=dice)
        self.labels = torch.randint(CLASSES, (BATCH,), generator=dice)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, RATE, MOMENTUM)

    def backward(self, ranks: int | None = None) -> None:
        """Add up gradients; the sum of all ranks' is that of their mean loss."""
        loss = nn.functional.cross_entropy(self.model(self.images), self.labels)
        (loss / (self.ranks if ranks is None else ranks)).backward()

    def step(self) -> None:
        """Step alone, from cleared gradients on."""
        self.optimizer.zero_grad()
        self.backward(1)
        self.optimizer.step()

    def digest(self) -> str:
        """Return what tells apart different weights."""
        found = hashlib.sha256()
        for parameter in self.parameters:
            found.update(parameter.detach().numpy().tobytes())
        return found.hexdigest()


def views(parameters: Iterable[Any], flat: Any) -> Iterator[Any]:
    """Yield the part of a flat array for each parameter, in their order."""
    start = 0
    for parameter in parameters:
        yield flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()


class Buckets:
    """Flat arrays that hold the gradients of a replica.  on_full(flat) is called in backward, for each in its turn."""

    def __init__(self, replica: Replica, on_full: Callable[[Any], None] | None = None) -> None:
        self.on_full = on_full
        self.flats: list[Any] = []
        self.missing: list[int] = []
        self.counts: list[int] = []
        for parameters in in_buckets(replica.parameters):
            flat = torch.zeros(sum(parameter.numel() for parameter in parameters))
            for parameter, view in zip(parameters, views(parameters, flat), strict=True):
                parameter.grad = view
                parameter.register_post_accumulate_grad_hook(self._hook(len(self.flats)))
            self.flats.append(flat)
            self.counts.append(len(parameters))
        self.missing = list(self.counts)

    def _hook(self, number: int) -> Callable[[Any], None]:
        def has_gradient(parameter: Any) -> None:
            self.missing[number] -= 1
            if not self.missing[number] and self.on_full is not None:
                self.on_full(self.flats[number])

        return has_gradient

    def clear(self) -> None:
        """Begin a step."""
        self.missing = list(self.counts)
        for flat in self.flats:
            flat.zero_()


def in_buckets(parameters: list[Any]) -> list[list[Any]]:
    """Return the parameters from the last to the first, in lists of some BUCKET_BYTES."""
    found: list[list[Any]] = [[]]
    size = 0
    for parameter in reversed(parameters):
        if size >= BUCKET_BYTES:
            found.append([])
            size = 0
        found[-1].append(parameter)
        size += parameter.numel() * parameter.element_size()
    return found
