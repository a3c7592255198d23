"""Pickles of configurations."""

from __future__ import annotations

import pickle
from typing import Any

__all__ = ["dumps"]


def dumps(value: Any) -> bytes:
    """The pickle of a configuration, by value where it must be."""
    try:
        return pickle.dumps(value)
    except Exception:
        import cloudpickle

        data: bytes = cloudpickle.dumps(value)
        return data
