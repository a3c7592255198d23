"""The device of the learner: the GPU that `num_gpus` asks for, or the CPU."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch

import zray

__all__ = ["fit_threads", "learner_device", "on_cpu"]

logger = logging.getLogger(__name__)


def learner_device() -> torch.device:
    """Return the first GPU of the process; the CPU, with a notice, if torch finds none."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    logger.warning("num_gpus is set, and torch finds no GPU (torch.cuda.is_available()): the learner uses the CPU.")
    return torch.device("cpu")


def fit_threads() -> None:
    """Let torch use as many threads as the session has CPUs, where torch would take all cores; says so once."""
    if "OMP_NUM_THREADS" in os.environ or not zray.is_initialized():
        return
    threads, count = torch.get_num_threads(), max(1, int(zray.cluster_resources().get("CPU", 1)))
    if threads <= count or threads not in (os.cpu_count(), len(os.sched_getaffinity(0)), (os.cpu_count() or 2) // 2):
        return  # the program has chosen a number
    torch.set_num_threads(count)
    logger.warning(
        "torch uses %d threads, the CPUs of the session, and not all %d cores.  Call torch.set_num_threads(n) for "
        "another number; small networks train fastest with 1.",
        count,
        threads,
    )


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
