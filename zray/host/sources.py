"""The versions of a program's own modules, as the program itself has imported them.

    <session>/sources/<job>/<digest of the path>     time and size of the file on one line, then the source

The driver keeps each source file when it first sees the module, and again after each reload that succeeds.  Workers on
its node import such a module from here once the file has changed (pinned.py), and bundles for other nodes are made
from here (shipping.py).  An edit without a reload, and a reload that fails, therefore change nothing for workers.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from types import ModuleType

from .reloads import Reloaded, Version, source_of

# Of all modules together.  Larger projects are mostly data.
SOURCES_BYTES_MAX = 64 << 20


# Of this process, by path, with the spec of the module: that is another object after each import.  A second session
# finds the versions here that the program has imported during the first.
_seen: dict[str, tuple[object, Version]] = {}


class Sources:
    """The versions of one job, in its driver."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.names: set[str] = set()  # modules that were looked at
        self.versions: dict[str, Version] = {}  # by path
        self.size = 0  # bytes

    def learn(self) -> list[str]:
        """Keep the source of each module that was imported since the last call.

        Returns:
            Names of modules whose source was kept before, in another version.
        """
        changed = []
        for name in set(sys.modules) - self.names:
            self.names.add(name)
            module = sys.modules.get(name)
            path = source_of(name, module) if module is not None else ""
            if path and self._imported(path, module):
                changed.append(name)
        return changed

    def _imported(self, path: str, module: ModuleType | None) -> bool:
        """Whether another version of that module was kept."""
        spec = _spec_of(module)
        seen = _seen.get(path)
        former = self.versions.get(path)
        try:
            version = seen[1] if seen is not None and seen[0] is spec else Version.read(path)
        except OSError:
            return False  # it has gone since it was imported
        if former is not None and former.data == version.data:
            return False
        self._keep(path, version, spec)
        return former is not None

    def reloaded(self, modules: list[Reloaded]) -> None:
        """Keep what the program has imported anew."""
        for each in modules:
            if each.version is not None:
                self._keep(each.path, each.version, _spec_of(sys.modules.get(each.name)))

    def data_of(self, path: str) -> bytes:
        """The bytes of a source file; from now on, all workers have this version.

        Raises:
            OSError: it cannot be read.
        """
        version = self.versions.get(path)
        if version is None:
            version = Version.read(path)
            self._keep(path, version)
        return version.data

    def _keep(self, path: str, version: Version, spec: object = None) -> None:
        """Instead of the former version, which is not left behind where this one finds no room."""
        former = self.versions.pop(path, None)
        self.size -= len(former.data) if former is not None else 0
        place = place_of(self.folder, path)
        try:
            if self.size + len(version.data) > SOURCES_BYTES_MAX:
                raise OSError("the versions are too large")
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            with open(f"{place}.new", "wb") as file:
                file.write(b"%d %d\n" % version[:2])
                file.write(version.data)
            os.replace(f"{place}.new", place)
        except OSError:  # or no space, or the session ends: workers read the file itself
            with suppress(OSError):
                os.unlink(place)
            return
        self.size, self.versions[path] = self.size + len(version.data), version
        if spec is not None:
            _seen[path] = (spec, version)


def _spec_of(module: ModuleType | None) -> object:
    return getattr(module, "__spec__", None)


def place_of(folder: str, path: str) -> str:
    """Where the version of that source file is kept."""
    return os.path.join(folder, sha256(os.fsencode(path)).hexdigest())


def kept_version(folder: str, path: str) -> Version | None:
    """The version that the program has imported; None where it has not imported that file."""
    try:
        with open(place_of(folder, path), "rb") as file:
            mtime_ns, size = file.readline().split()
            return Version(int(mtime_ns), int(size), file.read())
    except (OSError, ValueError):
        return None
