"""Start of each Python process under `zray run --as-ray`: `importlib.metadata` knows `ray` ahead of its import.

Python imports this module when it starts, and it imports nothing of zray then.  A module `sitecustomize` of another
folder runs too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any


class RayMetadata:
    """Finder of the distribution `ray`, until the finder of `ray`'s modules is installed.  Finds no modules."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """No module."""

    @staticmethod
    def find_distributions(context: Any = None) -> Iterator[Any]:
        """What the finder of the modules says."""
        from zray.ray_names.ray_imports import RayModules, is_installed

        if not is_installed():
            yield from RayModules.find_distributions(context)


def run_next() -> None:
    """Run the module of the same name that Python would otherwise have imported."""
    own = os.path.dirname(os.path.abspath(__file__))
    found = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if os.path.abspath(entry) != own])
    if found is not None and found.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(found)
        sys.modules["sitecustomize"] = module
        found.loader.exec_module(module)


sys.meta_path.insert(0, RayMetadata)  # type: ignore[arg-type]
run_next()
