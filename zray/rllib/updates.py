"""Steps of optimisers, which look at losses and gradients before they change weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from .spaces import NotFiniteError

__all__ = ["NotFiniteError", "check_gradients", "descend"]

_ADVICE = (
    "The weights are as they were before this step.  Make rewards and observations smaller (clip_rewards, "
    "observation_filter), or give a smaller lr or grad_clip."
)


def descend(
    optimizer: torch.optim.Optimizer,
    loss: torch.Tensor,
    parts: Mapping[str, torch.Tensor],
    module: torch.nn.Module | None,
    grad_clip: float | None,
) -> None:
    """Take a step down the gradient of a loss, for the parameters of the optimiser.

    Args:
        loss: what is minimised.
        parts: the terms of the loss, by name.
        module: has the parameters by name.
        grad_clip: the most that the norm of the gradient may be; None or 0: any.

    Raises:
        NotFiniteError: the loss or a gradient is not finite; no weight has changed.
    """
    if not math.isfinite(loss.item()):
        found = {"loss": loss, **parts}
        name = next((each for each, value in parts.items() if not math.isfinite(float(value.detach()))), "loss")
        raise NotFiniteError(f"The {name} is {float(found[name].detach())}.  {_ADVICE}")
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    check_gradients(optimizer.param_groups[0]["params"], module, grad_clip)
    optimizer.step()


def check_gradients(parameters: list[Any], module: torch.nn.Module | None, grad_clip: float | None) -> None:
    """Look at the gradients of parameters, and clip their norm.

    Raises:
        NotFiniteError: one of them is not finite.
    """
    if grad_clip:
        norm = torch.nn.utils.clip_grad_norm_(parameters, grad_clip)
    else:
        norm = torch.stack([each.grad.sum() for each in parameters if each.grad is not None]).sum()
    if math.isfinite(norm.item()):
        return
    names = {id(each): name for name, each in module.named_parameters()} if module is not None else {}
    for number, each in enumerate(parameters):
        if each.grad is not None and not torch.isfinite(each.grad).all():
            name = names.get(id(each), f"number {number}")
            raise NotFiniteError(f"The gradient of parameter {name} holds NaN or infinity.  {_ADVICE}")
