"""Classes and functions of the roles by name, wherever in the tree they lie: an older or newer tree has other files."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

PACKAGES = ("zray.ids", "zray.wire", "zray.roles")


class NotThere(Exception):
    """This tree has no such name, or two things of that name: a figure cannot be measured."""


@functools.cache
def everything() -> dict[str, list[Any]]:
    """All public names, and what they stand for where they are defined."""
    found: dict[str, list[Any]] = {}
    for name in PACKAGES:
        package = importlib.import_module(name)
        collect(package, found)
        for info in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            collect(importlib.import_module(info.name), found)
    return found


def collect(module: ModuleType, found: dict[str, list[Any]]) -> None:
    """Add what is defined in a module."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_"):
            found.setdefault(name, []).append(value)


class Names:
    """Names of the tree, as attributes."""

    def __getattr__(self, name: str) -> Any:
        """The only thing of that name.

        Raises:
            NotThere: there is none, or there are several.
        """
        found = everything().get(name, [])
        if len(found) != 1:
            places = ", ".join(value.__module__ for value in found) or "nowhere"
            raise NotThere(f"{name} is defined in {places}")
        setattr(self, name, found[0])
        return found[0]
