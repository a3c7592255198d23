"""Names of Ray's private modules that programs use all the same."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = ("internal_api", "services", "utils", "worker")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
