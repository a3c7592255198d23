"""A driver's code on its way to other nodes: its project's modules, and the files of runtime_env.

In a session that no other node can join, the path is shared, and nothing is sent.  In a cluster each bundle is put as
an object, identified by its digest.  The local scheduler is told (PublishCode) before the tasks that need the bundle,
and tells the nodes of the job's tasks.  Their workers fetch the bundle (host/code/cache.py).
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections import deque
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ...exceptions import ZrayError
from ...object_ref import ObjectRef
from ...options.runtime_env import path_of_module
from ...wire.scheduling import MODULES, WORKING_DIR, Bundle, PublishCode
from .module_discovery import File, Project, files_at, files_below, names_in, pack, read_file

if TYPE_CHECKING:
    from ..driver.driver import Driver

# Limit of a job's bundles at a time.  Imports one by one make a bundle each; beyond the limit, a new one replaces all.
BUNDLES_MAX = 200
# Replaced bundles: nodes with older news of the job may be about to fetch them.
REPLACED_MAX = 200
REPLACED_BYTES_MAX = 64 << 20


def asked_bundles(runtime_env: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Return (kind, bytes) of the files in a program's runtime_env.

    Raises:
        ValueError: too large; names the largest files.
    """
    excludes = runtime_env.get("excludes") or ()
    found = []
    folder = runtime_env.get("working_dir")
    if folder:
        data = pack(files_below(os.path.abspath(folder), excludes=excludes), f"working_dir {os.path.abspath(folder)}")
        found.append((WORKING_DIR, data))
    for path in map(path_of_module, runtime_env.get("py_modules") or ()):
        found.append((MODULES, pack(files_at(path, excludes), f"py_modules: {os.path.abspath(path)}")))
    return found


class Sent(Struct, eq=False):
    """A bundle of the project that nodes import from."""

    ref: ObjectRef
    size: int
    names: set[str]  # top-level files and folders that are in no newer bundle
    is_held: bool = False  # by a detached actor, which outlives its program


class Shipper:
    """The code that a driver sends."""

    def __init__(self, driver: Driver, asked: list[tuple[str, bytes]]) -> None:
        self.driver = driver
        self.project = Project()
        self.lock = threading.RLock()
        self.modules_seen = 0
        self.asked: list[ObjectRef] = []  # the files of runtime_env; they live as long as the driver
        self.sent: list[Sent] = []  # the newest last
        self.replaced: deque[Sent] = deque()
        self.has_warned = False
        for kind, data in asked:
            self.asked.append(self._send(kind, data))

    def look(self, function: Any = None) -> None:
        """Send modules imported since the last call, and modules that this function imports."""
        if function is None and len(sys.modules) == self.modules_seen:
            return
        with self.lock:
            self.modules_seen = len(sys.modules)
            reloaded = self.driver.imported_anew()
            self.project.forget(reloaded)
            files = self.project.take(names_in(function) if function is not None else ())
            if files:
                self._send_files(files)
            if reloaded:
                self.driver.say(PublishCode([], has_reloaded=True))

    def refs(self) -> list[ObjectRef]:
        """Return all bundles, for a detached actor about to be created."""
        with self.lock:
            for sent in self.sent:
                sent.is_held = True
            return [*self.asked, *(sent.ref for sent in self.sent)]

    def _send_files(self, files: list[File]) -> None:
        try:
            if len(self.asked) + len(self.sent) >= BUNDLES_MAX:
                files = self.project.take_again()
            data = pack(files, "What this program has imported of its own", read=self._bytes_of)
            self.driver.sources.write()
            names = {file.path.partition("/")[0] for file in files}
            replaced = self._replaced_by(names)
            ref = self._send(MODULES, data, [sent.ref.id for sent in replaced])
        except (OSError, ValueError, ZrayError) as error:
            if not self.has_warned:
                self.has_warned = True
                warnings.warn(f"Modules of this program do not travel to other nodes: {error}", stacklevel=2)
            return
        self.sent = [sent for sent in self.sent if sent not in replaced]
        for sent in self.sent:
            sent.names -= names
        self.sent.append(Sent(ref, len(data), names))
        self._keep_for_a_while(replaced)

    def _replaced_by(self, names: set[str]) -> list[Sent]:
        """Return the bundles made unnecessary by a bundle with these names."""
        replaced = [sent for sent in self.sent if sent.names <= names and not sent.is_held]
        room = BUNDLES_MAX - 1 - len(self.asked)
        # Detached actors created between reloads hold a bundle each.  If these are too many, the oldest is dropped: a
        # restart of its actor would import the newest version.
        others = [sent for sent in self.sent if sent not in replaced]
        others.sort(key=lambda sent: not sent.names <= names)
        return replaced + others[: max(0, len(others) - room)]

    def _keep_for_a_while(self, replaced: list[Sent]) -> None:
        self.replaced += replaced
        size = sum(sent.size for sent in self.replaced)
        while self.replaced and (len(self.replaced) > REPLACED_MAX or size > REPLACED_BYTES_MAX):
            size -= self.replaced.popleft().size

    def _bytes_of(self, source: str) -> bytes:
        """All nodes get the same version of a module."""
        return self.driver.sources.data_of(source) if source.endswith(".py") else read_file(source)

    def _send(self, kind: str, data: bytes, replaced: list[bytes] | None = None) -> ObjectRef:
        ref = self.driver.put(data)
        self.driver.say(PublishCode([Bundle(sha256(data).digest(), ref.id, len(data), kind)], replaced=replaced or []))
        return ref
