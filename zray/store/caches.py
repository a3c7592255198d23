"""What functools wraps around functions, by value: cloudpickle knows it by name only, and a worker has no `__main__`.

A cache arrives empty.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

_lru_cache_wrapper = type(functools.lru_cache(len))
WRAPPERS = (_lru_cache_wrapper, functools.cached_property)


def taken_apart(value: Any, kind: type) -> Any:
    """How to make one of the WRAPPERS again; None: it can be imported."""
    if kind is _lru_cache_wrapper and not _is_importable(value):
        return _cached, (value.cache_parameters(), value.__wrapped__)
    if kind is functools.cached_property:  # it has a lock, before Python 3.12
        return _property, (value.func, value.attrname)
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


def _property(function: Callable[[Any], Any], name: str | None) -> Any:
    found = functools.cached_property(function)
    if name is not None:
        found.__set_name__(object, name)
    return found
