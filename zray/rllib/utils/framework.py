"""The framework of models: torch."""

from __future__ import annotations

from typing import Any

from ...on_import import shadows

__all__ = ["TensorType", "try_import_jax", "try_import_tf", "try_import_tfp", "try_import_torch"]

TensorType = Any

shadows.name_absent(__name__)


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """The modules torch and torch.nn; (None, None): torch is not installed.

    Args:
        error: whether a missing torch is an ImportError.
    """
    try:
        import torch
        from torch import nn
    except ImportError:
        if error:
            raise
        return None, None
    return torch, nn


def try_import_tf(error: bool = False) -> tuple[None, None, None]:
    """(None, None, None): models are on torch only.

    Raises:
        ImportError: `error` is True.
    """
    if error:
        raise ImportError("zray.rllib has models on torch only: use try_import_torch.")
    return None, None, None


def try_import_tfp(error: bool = False) -> None:
    """None: distributions are on torch only.

    Raises:
        ImportError: `error` is True.
    """
    try_import_tf(error)


def try_import_jax(error: bool = False) -> tuple[None, None]:
    """(None, None): models are on torch only.

    Raises:
        ImportError: `error` is True.
    """
    try_import_tf(error)
    return None, None
