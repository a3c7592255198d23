"""Versions of a program's own modules, as imported by the program itself.

    <session>/sources/<job>/index           number of writes; a line for each version (Kept)
    <session>/sources/<job>/data-<number>   the sources, one behind the other

The driver keeps each source file when the module is first seen, and again after each successful reload.  Workers on its
node import the module from the kept source once the file has changed (pinned_imports.py), and bundles for other nodes
are made from it (upload.py).  An edit without a reload, and a failed reload, therefore change nothing for workers.  All
sources share a file, because the creation of hundreds of files takes far longer than writing their bytes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from types import ModuleType
from typing import NamedTuple

from .reloads import Reloaded, Version, source_of

# Of all modules together.  Larger projects are mostly data.
SOURCES_BYTES_MAX = 64 << 20
# Limit of a data file, former versions included, before a new file is begun with the present versions.
DATA_BYTES_MAX = 2 * SOURCES_BYTES_MAX

INDEX = "index"

# Versions seen by this process, by path, with the spec of the module: another object after each import.  A second
# session finds the versions that the program imported during the first.
_seen: dict[str, tuple[object, Version]] = {}


class Kept(NamedTuple):
    """A line of the index, behind the digest of the path: the time and size of the file, and the place of its
    source.
    """

    mtime_ns: int
    size: int
    number: int  # of the data file
    begin: int
    end: int


class Sources:
    """The versions of a job's modules, in its driver."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.names: set[str] = set()  # modules that were looked at
        self.versions: dict[str, Version] = {}  # by path
        self.size = 0  # bytes
        self.index: dict[str, Kept] = {}  # by path: the written versions
        self.number = 0  # of the data file
        self.count = 0  # how often the index was written
        self.unwritten: dict[str, None] = {}  # paths
        self.is_stale = False  # whether the index names a replaced version

    def learn(self) -> list[str]:
        """Keep the source of each module imported since the last call.

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
        self.write()
        return changed

    def _imported(self, path: str, module: ModuleType | None) -> bool:
        """Keep a module's version; return whether another version was kept before."""
        spec = _spec_of(module)
        seen = _seen.get(path)
        former = self.versions.get(path)
        try:
            version = seen[1] if seen is not None and seen[0] is spec else Version.read(path)
        except OSError:
            return False  # removed after the import
        if former is not None and former.data == version.data:
            return False
        self._keep(path, version, spec)
        return former is not None

    def reloaded(self, modules: list[Reloaded]) -> None:
        """Keep modules that the program imported again."""
        for each in modules:
            if each.version is not None:
                self._keep(each.path, each.version, _spec_of(sys.modules.get(each.name)))
        self.write()

    def data_of(self, path: str) -> bytes:
        """Return the bytes of a source file; after the next `write`, all workers have this version.

        Raises:
            OSError: the file cannot be read.
        """
        version = self.versions.get(path)
        if version is None:
            version = Version.read(path)
            self._keep(path, version)
        return version.data

    def _keep(self, path: str, version: Version, spec: object = None) -> None:
        """Replace the former version, which is dropped even if there is no space for the new one."""
        self._forget(path)
        if self.size + len(version.data) > SOURCES_BYTES_MAX:
            return
        self.size += len(version.data)
        self.versions[path], self.unwritten[path] = version, None
        if spec is not None:
            _seen[path] = (spec, version)

    def _forget(self, path: str) -> None:
        """Workers are to read the file itself."""
        former = self.versions.pop(path, None)
        self.size -= len(former.data) if former is not None else 0
        self.unwritten.pop(path, None)
        self.is_stale |= self.index.pop(path, None) is not None

    def write(self) -> None:
        """Write the versions kept since the last call for workers."""
        if not self.unwritten and not self.is_stale:
            return
        former = self.number
        try:
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700)  # and no parents: the session may have ended
            self._write_data()
            place = os.path.join(self.folder, INDEX)
            self.count += 1
            with open(f"{place}.new", "wb") as file:
                file.write(b"%d\n" % self.count)
                file.writelines(b"%s %d %d %d %d %d\n" % (_digest(path), *kept) for path, kept in self.index.items())
            os.replace(f"{place}.new", place)
        except OSError:  # no space, or the session ends: workers read the files themselves
            for path in list(self.unwritten):
                self._forget(path)
            if self.is_stale:
                with suppress(OSError):
                    os.unlink(os.path.join(self.folder, INDEX))
        self.unwritten.clear()
        self.is_stale = False
        if former != self.number:
            with suppress(OSError):
                os.unlink(_data_file(self.folder, former))

    def _write_data(self) -> None:
        with suppress(FileNotFoundError):
            if os.stat(_data_file(self.folder, self.number)).st_size > DATA_BYTES_MAX:
                self.number += 1
                self.unwritten |= dict.fromkeys(self.versions)
        with open(_data_file(self.folder, self.number), "ab") as file:
            for path in self.unwritten:
                mtime_ns, size, data = self.versions[path]
                begin = file.tell()
                file.write(data)
                self.index[path] = Kept(mtime_ns, size, self.number, begin, begin + len(data))


def _spec_of(module: ModuleType | None) -> object:
    return getattr(module, "__spec__", None)


def _digest(path: str) -> bytes:
    return sha256(os.fsencode(path)).hexdigest().encode()


def _data_file(folder: str, number: int) -> str:
    return os.path.join(folder, f"data-{number}")


# Indexes read by this process, by folder: the first line, and the versions by digest.
_read: dict[str, tuple[bytes, dict[bytes, Kept]]] = {}


def _index_of(folder: str) -> dict[bytes, Kept]:
    """Return the present index, by digest; it is replaced as a whole.

    Raises:
        OSError, ValueError, TypeError: the index cannot be read.
    """
    with open(os.path.join(folder, INDEX), "rb") as file:
        count = file.readline()
        known = _read.get(folder)
        if known is not None and known[0] == count:
            return known[1]
        lines = [line.split() for line in file]
    found = {digest: Kept(*map(int, numbers)) for digest, *numbers in lines}
    _read.clear()  # a worker serves jobs in sequence
    _read[folder] = count, found
    return found


def kept_version(folder: str, path: str) -> Version | None:
    """Return the version of a file that the program has imported; None: not imported."""
    for _ in range(2):  # a data file may be replaced between two readings
        try:
            kept = _index_of(folder).get(_digest(path))
            if kept is None:
                return None
            with open(_data_file(folder, kept.number), "rb") as file:
                file.seek(kept.begin)
                data = file.read(kept.end - kept.begin)
        except (OSError, ValueError, TypeError):
            continue
        return Version(kept.mtime_ns, kept.size, data) if len(data) == kept.end - kept.begin else None
    return None
