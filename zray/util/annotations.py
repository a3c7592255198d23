"""Decorators that mark the stability of names in libraries written for Ray.  Decorated objects are unchanged."""

from __future__ import annotations

from typing import Any

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI"]


def _marks_nothing(*args: Any, **options: Any) -> Any:
    if len(args) == 1 and not options and callable(args[0]):
        return args[0]
    return lambda target: target


def PublicAPI(*args: Any, **options: Any) -> Any:
    """Return the function or class unchanged.  Decorator, bare or with any options, as stability="beta"."""
    return _marks_nothing(*args, **options)


def DeveloperAPI(*args: Any, **options: Any) -> Any:
    """Return the function or class unchanged.  Decorator, bare or with any options."""
    return _marks_nothing(*args, **options)


def Deprecated(*args: Any, **options: Any) -> Any:
    """Return the function or class unchanged, without a warning.  Decorator, bare or with any options."""
    return _marks_nothing(*args, **options)
