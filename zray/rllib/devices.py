"""The device of the learner: the GPU that `num_gpus` asks for, or the CPU."""

from __future__ import annotations

import logging
from typing import Any

import torch

__all__ = ["learner_device", "on_cpu"]

logger = logging.getLogger(__name__)


def learner_device() -> torch.device:
    """The first GPU that this process may use; the CPU, with one line, where torch finds none."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    logger.warning("num_gpus is set, and torch finds no GPU (torch.cuda.is_available()): the learner uses the CPU.")
    return torch.device("cpu")


def on_cpu(state: Any) -> Any:
    """A learner's state with all tensors on the CPU, so that a machine without a GPU can load a checkpoint.

    Args:
        state: tensors, in dicts, lists and tuples.
    """
    if isinstance(state, torch.Tensor):
        return state.cpu()
    if isinstance(state, dict):
        return {key: on_cpu(value) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(map(on_cpu, state))
    return state
