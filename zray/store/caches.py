"""Wrappers of functools around functions, by value: cloudpickle pickles them by name, and a worker has no `__main__`.

A cache arrives empty.  A function with implementations by type (singledispatch) arrives with all of them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

_lru_cache_wrapper = type(functools.lru_cache(len))
WRAPPERS = (_lru_cache_wrapper, functools.cached_property, FunctionType)
_dispatcher: Any = functools.singledispatch(len)
_dispatching_code = _dispatcher.__code__  # the same for all such functions
# Attributes that singledispatch sets on each such function.
_OF_EACH = frozenset(("register", "dispatch", "registry", "_clear_cache", "__wrapped__"))


def taken_apart(value: Any, kind: type) -> Any:
    """Return how to make one of the WRAPPERS again; None: importable."""
    if kind is _lru_cache_wrapper and not _is_importable(value):
        return _cached, (value.cache_parameters(), value.__wrapped__)
    if kind is functools.cached_property:  # has a lock, before Python 3.12
        return _property, (value.func, value.attrname)
    if kind is FunctionType and value.__code__ is _dispatching_code and not _is_importable(value):
        attributes = {name: part for name, part in vars(value).items() if name not in _OF_EACH}
        names = {name: getattr(value, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(value, name)}
        state = dict(value.registry), value.__wrapped__, {**names, **attributes}
        return _dispatching, (value.__name__,), state, None, None, _set_dispatching
    return None


def _is_importable(value: Any) -> bool:
    from cloudpickle import list_registry_pickle_by_value

    name = getattr(value, "__module__", None)
    if not name or name == "__main__" or name in list_registry_pickle_by_value():
        return False
    found: Any = sys.modules.get(name)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _cached(parameters: dict[str, Any], function: Callable[..., Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _dispatching(name: str) -> Any:
    """Return the function without implementations, since they may refer to the function."""

    def missing(*args: Any) -> None:
        """A stand-in for the first implementation, until set."""

    missing.__name__ = name  # for its errors
    return functools.singledispatch(missing)


def _set_dispatching(function: Any, state: tuple[dict[type, Any], Any, dict[str, Any]]) -> None:
    implementations, function.__wrapped__, attributes = state
    for cls, implementation in implementations.items():
        function.register(cls, implementation)
    for name, value in attributes.items():
        setattr(function, name, value)


def _property(function: Callable[[Any], Any], name: str | None) -> Any:
    found = functools.cached_property(function)
    if name is not None:
        found.__set_name__(object, name)
    return found
