"""A worker's side of shipped files: fetch, unpack, and import.

The files are the code of its job's driver, and the files of its environment.  On the driver's own node the driver's
paths are shared (session.JobFacts.sys_path), so that only the environment's files are fetched.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from ...exceptions import RuntimeEnvSetupError, ZrayError
from ...object_ref import ObjectRef
from ...wire.environment import Environment, Parcel
from ...wire.scheduling import WORKING_DIR, Bundle, JobFacts
from .cache import CodeCache

if TYPE_CHECKING:
    from ..worker.main import Worker

# Code that has not arrived after this long fails the tasks that need it.
CODE_SECONDS = 120.0
# Folders of replaced bundles: modules of an actor may import more of their package from them.
REPLACED_MAX = 32


class CodeTaker:
    """Shipped code of a worker on another node than its driver, or with files in its environment."""

    def __init__(self, worker: Worker, *, is_elsewhere: bool) -> None:
        self.worker = worker
        self.is_elsewhere = is_elsewhere
        self.own: list[str] = []  # folders of the environment, once taken: ahead of all others
        self.refs: list[ObjectRef[Any]] = []  # on its files: its tasks may submit others with the same environment
        self.has_environment = False
        self.lock = threading.Lock()
        self.taken: dict[bytes, str] = {}  # bundles by object id, and their folders
        self.replaced: list[str] = []  # folders
        self.is_fetching = False
        self.cache = CodeCache(worker.paths.folder)

    def has_new(self, facts: JobFacts) -> bool:
        """Return whether some files are not fetched yet."""
        is_lacking = not self.has_environment and bool(self.worker.environment.parcels)
        return is_lacking or (self.is_elsewhere and self._first_new(facts) is not None)

    def _first_new(self, facts: JobFacts) -> Bundle | None:
        return next((bundle for bundle in facts.code if bundle.object_id not in self.taken), None)

    def take(self) -> None:
        """Fetch all files, and make them importable.

        Raises:
            RuntimeEnvSetupError: files did not arrive, or cannot be unpacked.
        """
        worker = self.worker
        with self.lock:
            while self.is_elsewhere and (new := self._first_new(worker.facts)) is not None:
                self._take_one(new)
            if self.is_elsewhere:
                self._show_path(worker.facts)
            if not self.has_environment:
                self._take_environment(worker.environment)
            sys.path[:] = dict.fromkeys((*self.own, *sys.path))
            importlib.invalidate_caches()
            worker.has_new_code = self.has_new(worker.facts)

    def _take_one(self, bundle: Bundle) -> None:
        is_folder = bundle.kind == WORKING_DIR
        owner = self.worker.job_id.hex() if is_folder else ""  # tasks may write into the folder
        try:
            path = self.cache.take(bundle.digest, lambda: self._fetch(bundle), owner)
        except RuntimeEnvSetupError:
            if bundle in self.worker.facts.code:
                raise
            return  # replaced meanwhile
        self.taken[bundle.object_id] = path
        if is_folder:
            os.chdir(path)

    def _show_path(self, facts: JobFacts) -> None:
        """Put the folders on sys.path, the newest first.  Replaced folders serve only packages already imported from
        them.
        """
        folders = [self.taken[bundle.object_id] for bundle in reversed(facts.code) if bundle.object_id in self.taken]
        named = {bundle.object_id for bundle in facts.code}
        for object_id in [object_id for object_id in self.taken if object_id not in named]:
            self.replaced.append(self.taken.pop(object_id))
        self.replaced = [path for path in dict.fromkeys(self.replaced) if path not in folders]
        sys.path[:] = dict.fromkeys((*folders, *(entry for entry in sys.path if entry not in self.replaced)))
        while len(self.replaced) > REPLACED_MAX:
            self.cache.release(self.replaced.pop(0))

    def _take_environment(self, environment: Environment) -> None:
        """Fetch the environment's files: its working folder comes first, then its modules in their order."""
        folder = environment.working_dir
        for parcel in reversed(environment.parcels):
            self.own.insert(0, self._show(parcel, is_folder=parcel is folder))
        if folder is not None:
            self.own.insert(0, self.own.pop())
        self.refs = [self.worker.another_ref(parcel.object_id) for parcel in environment.parcels]
        self.has_environment = True

    def _show(self, parcel: Parcel, *, is_folder: bool) -> str:
        owner = self.worker.job_id.hex() if is_folder else ""  # tasks may write into the folder
        path = self.cache.take(parcel.digest, lambda: self._fetch(parcel), owner)
        sys.path.insert(0, path)
        if is_folder:
            os.chdir(path)
        return path

    def _fetch(self, bundle: Bundle | Parcel) -> bytes:
        worker = self.worker
        self.is_fetching = True
        try:
            return bytes(worker.get((worker.another_ref(bundle.object_id),), CODE_SECONDS)[0])
        except (ZrayError, TypeError) as error:
            text = f"The code of this program did not reach node {worker.node_id.hex()[:8]}: {error}"
            raise RuntimeEnvSetupError(text) from error
        finally:
            self.is_fetching = False
