"""Imports of a worker on its driver's node: modules of the program come in the version that the program has imported.

While the file is unchanged, Python imports it as always, with its compiled form.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from .module_versions import kept_version


class PinnedLoader(SourceFileLoader):
    """A loader of a module whose file has changed since the program's import."""

    def __init__(self, name: str, path: str, data: bytes) -> None:
        super().__init__(name, path)
        self.data = data

    def path_stats(self, path: str) -> dict[str, Any]:  # type: ignore[override]
        """Refuse the file's facts: the compiled form beside the file belongs to another version, and is left alone."""
        raise OSError(f"{path} has changed since the program has imported it")

    def get_data(self, path: str) -> bytes:  # type: ignore[override]
        """Return the source of the imported version."""
        return self.data if path == self.path else super().get_data(path)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, with tracebacks that show the lines of this version."""
        lines = self.data.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[self.path] = (len(self.data), None, lines, self.path)
        super().exec_module(module)


class PinnedFinder:
    """The finder of modules on sys.path, for a job."""

    def __init__(self, folder: str) -> None:
        self.folder = folder  # with the versions

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of Python's own finder, with another loader if the file has changed."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or not spec.origin:
            return spec
        origin = os.path.abspath(spec.origin)
        version = kept_version(self.folder, origin)
        if version is not None and not version.is_that_of(origin):
            spec.loader = PinnedLoader(name, spec.origin, version.data)
            spec.cached = None
        return spec

    def install(self) -> None:
        """Install the finder ahead of Python's own, behind finders of built-in modules."""
        finders: list[Any] = sys.meta_path
        finders.insert(finders.index(PathFinder) if PathFinder in finders else len(finders), self)
