"""Types of collective calls, under Ray's names: operations, backends, and the packages that are installed."""

from __future__ import annotations

import importlib.util
from enum import Enum
from typing import Any


class ReduceOp(Enum):
    """Operation that makes one number of the numbers of all ranks, element by element."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


class Backend:
    """Names of backends.  `Backend(name)` is the name in lower case, after a check.

    zray has one implementation, for arrays in the memory of CPUs.  "gloo" and "torch_gloo" both mean it.

    Raises:
        ValueError: the name is unknown.
        RuntimeError: the name is "mpi".
    """

    NCCL = "nccl"
    MPI = "mpi"
    GLOO = "gloo"
    TORCH_GLOO = "torch_gloo"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise TypeError(f"backend must be a str, as 'gloo', not {type(name).__name__}.")
        found = getattr(cls, name.upper(), cls.UNRECOGNIZED)
        if found == cls.UNRECOGNIZED:
            raise ValueError(f"Unrecognized backend: {name!r}.  Give 'gloo', which needs no other package.")
        if found == cls.MPI:
            raise RuntimeError("Ray does not support MPI backend.  Give 'gloo', which needs no other package.")
        return found


def require(backend: str) -> str:
    """Return the checked name of a backend that works.

    Raises:
        ValueError: the name is unknown.
        RuntimeError: the backend is not available.
    """
    found: str = Backend(backend)
    if found == Backend.NCCL:
        raise RuntimeError(
            "NCCL is not available: collective groups of zray take numpy arrays and torch tensors of CPUs.  Give "
            "backend='gloo', or leave the argument out."
        )
    return found


def cupy_available() -> bool:
    """Whether tensors of cupy can be passed: never, since groups have CPU memory only."""
    return False


def torch_available() -> bool:
    """Whether torch is installed."""
    return importlib.util.find_spec("torch") is not None
