"""The methods of an actor's class, bound to its instance.  As in Ray, an attribute does not hide a method of the same
name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod
from types import FunctionType
from typing import Any

from .exit_errors import ActorExit

# Limit of bound methods of a class: a class that grows all the time has the others looked up at each call.
METHODS_MAX = 1_000
# Bound once.  Any other descriptor, such as a property, is asked at each call.
STEADY = (FunctionType, staticmethod, classmethod, singledispatchmethod)


class Methods:
    """The bound methods of an instance."""

    def __init__(self, instance: Any) -> None:
        self.instance = instance
        self.bound: dict[str, Callable[..., Any]] = {
            "__ray_call__": self._call,
            "__ray_ready__": _is_ready,
            "__ray_terminate__": _terminate,
        }

    def find(self, name: str) -> Callable[..., Any]:
        """Return the method of that name.

        Raises:
            AttributeError: neither the class nor the instance has such a method.
        """
        instance = self.instance
        for base in type(instance).__mro__:
            if name in vars(base):
                found = vars(base)[name]
                break
        else:
            return getattr(instance, name)  # type: ignore[no-any-return]  # a __getattr__, perhaps
        bind = getattr(type(found), "__get__", None)
        method: Callable[..., Any] = found if bind is None else bind(found, instance, type(instance))
        if isinstance(found, STEADY) and len(self.bound) < METHODS_MAX:
            self.bound[name] = method
        return method

    def let_go(self) -> None:
        """Drop the instance after the last call."""
        self.instance = None
        self.bound.clear()

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.instance, *args, **kwargs)


def _is_ready() -> bool:
    return True


def _terminate() -> None:
    raise ActorExit(0)
