"""Decorators that mark methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..doors import names_of

__all__ = ["override"]

__getattr__ = names_of(__name__)

T = TypeVar("T", bound=Callable[..., Any])


def override(parent_cls: type) -> Callable[[T], T]:
    """A mark for a method that replaces one of a parent class.

    Raises:
        NameError: the parent class has no such method.
    """

    def check(method: T) -> T:
        if method.__name__ not in dir(parent_cls):
            raise NameError(f"{method.__name__} is no method of {parent_cls.__name__}.")
        return method

    return check
