"""A worker's side of code that travels: what its job's driver has of its own is fetched, unpacked, and imported from.

On the driver's own node there is nothing to take: the paths are shared (session.JobFacts.sys_path).
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from ..exceptions import RuntimeEnvSetupError, ZrayError
from ..wire.scheduling import WORKING_DIR, Bundle, JobFacts
from .code_cache import CodeCache

if TYPE_CHECKING:
    from .worker_main import Worker

# Code that has not come after so long fails what needs it.
CODE_SECONDS = 120.0
# Folders of bundles that later ones have replaced: modules of an actor may import more of their package from there.
REPLACED_MAX = 32


class CodeTaker:
    """Of a worker that is not on its driver's node."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.lock = threading.Lock()
        self.taken: dict[bytes, str] = {}  # bundles by object id, and their folders
        self.replaced: list[str] = []  # folders
        self.is_fetching = False
        self.cache = CodeCache(worker.paths.folder)

    def has_new(self, facts: JobFacts) -> bool:
        """Whether there is something that was not taken yet."""
        return any(bundle.object_id not in self.taken for bundle in facts.code)

    def take(self) -> None:
        """From now on it can be imported.

        Raises:
            RuntimeEnvSetupError: it did not come, or cannot be unpacked.
        """
        worker = self.worker
        with self.lock:
            while new := [bundle for bundle in worker.facts.code if bundle.object_id not in self.taken]:
                self._take_one(new[0])
            self._show_path(worker.facts)
            importlib.invalidate_caches()
            worker.has_new_code = self.has_new(worker.facts)

    def _take_one(self, bundle: Bundle) -> None:
        is_folder = bundle.kind == WORKING_DIR
        owner = self.worker.job_id.hex() if is_folder else ""  # tasks may write there
        try:
            path = self.cache.take(bundle.digest, lambda: self._fetch(bundle), owner)
        except RuntimeEnvSetupError:
            if bundle in self.worker.facts.code:
                raise
            return  # it was replaced meanwhile
        self.taken[bundle.object_id] = path
        if is_folder:
            os.chdir(path)

    def _show_path(self, facts: JobFacts) -> None:
        """The newest first.  What was replaced is imported from no more, but by packages that are from there."""
        folders = [self.taken[bundle.object_id] for bundle in reversed(facts.code) if bundle.object_id in self.taken]
        named = {bundle.object_id for bundle in facts.code}
        for object_id in [object_id for object_id in self.taken if object_id not in named]:
            self.replaced.append(self.taken.pop(object_id))
        self.replaced = [path for path in dict.fromkeys(self.replaced) if path not in folders]
        sys.path[:] = dict.fromkeys((*folders, *(entry for entry in sys.path if entry not in self.replaced)))
        while len(self.replaced) > REPLACED_MAX:
            self.cache.release(self.replaced.pop(0))

    def _fetch(self, bundle: Bundle) -> bytes:
        worker = self.worker
        self.is_fetching = True
        try:
            return bytes(worker.get((worker.another_ref(bundle.object_id),), CODE_SECONDS)[0])
        except (ZrayError, TypeError) as error:
            text = f"The code of this program did not come to node {worker.node_id.hex()[:8]}: {error}"
            raise RuntimeEnvSetupError(text) from error
        finally:
            self.is_fetching = False
