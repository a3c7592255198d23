"""A driver's code on its way to other nodes: its project's modules, and what runtime_env names.

In a session that no other node can join nothing of this happens: there the path is shared.  In a cluster each bundle
is put as an object, which its digest names; the local scheduler learns of it (PublishCode) before the tasks that need
it, and tells the nodes where tasks of the job go.  Their workers fetch it (host/code_cache.py).
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..exceptions import ZrayError
from ..object_ref import ObjectRef
from ..wire.scheduling import MODULES, WORKING_DIR, Bundle, PublishCode
from .project import File, Project, TooLarge, files_at, files_below, names_in, pack, read_file

if TYPE_CHECKING:
    from .driver import Driver

# Of one job: imports that come one by one make one each.
BUNDLES_MAX = 200


def asked_bundles(runtime_env: dict[str, Any]) -> list[tuple[str, bytes]]:
    """(kind, bytes) of what a program's runtime_env names.

    Raises:
        ValueError: too large; names the largest files.
    """
    excludes = runtime_env.get("excludes") or ()
    found = []
    folder = runtime_env.get("working_dir")
    if folder:
        data = pack(files_below(os.path.abspath(folder), excludes=excludes), f"working_dir {os.path.abspath(folder)}")
        found.append((WORKING_DIR, data))
    for path in runtime_env.get("py_modules") or ():
        found.append((MODULES, pack(files_at(path, excludes), f"py_modules: {os.path.abspath(path)}")))
    return found


class Shipper:
    """Of one driver."""

    def __init__(self, driver: Driver, asked: list[tuple[str, bytes]]) -> None:
        self.driver = driver
        self.project = Project()
        self.lock = threading.RLock()
        self.modules_seen = 0
        self.refs: list[ObjectRef] = []  # they live as long as the driver
        self.has_warned = False
        for kind, data in asked:
            self._send(kind, data)

    def look(self, function: Any = None) -> None:
        """What has been imported since the last look, and what this function imports, travels from now on."""
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

    def _send_files(self, files: list[File]) -> None:
        try:
            if len(self.refs) >= BUNDLES_MAX:
                raise TooLarge(f"they came in more than {BUNDLES_MAX} steps")
            self._send(MODULES, pack(files, "What this program has imported of its own", self._bytes_of))
        except (OSError, ValueError, ZrayError) as error:
            if not self.has_warned:
                self.has_warned = True
                warnings.warn(f"Modules of this program do not travel to other nodes: {error}", stacklevel=2)

    def _bytes_of(self, source: str) -> bytes:
        """All nodes get the same version of a module."""
        return self.driver.sources.data_of(source) if source.endswith(".py") else read_file(source)

    def _send(self, kind: str, data: bytes) -> None:
        ref = self.driver.put(data)
        self.refs.append(ref)
        self.driver.say(PublishCode([Bundle(sha256(data).digest(), ref.id, len(data), kind)]))
