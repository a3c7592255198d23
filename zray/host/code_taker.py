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


class CodeTaker:
    """Of a worker that is not on its driver's node."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.lock = threading.Lock()
        self.count = 0  # bundles taken
        self.is_fetching = False
        self.cache = CodeCache(worker.paths.folder)

    def has_new(self, facts: JobFacts) -> bool:
        """Whether there is something that was not taken yet."""
        return len(facts.code) > self.count

    def take(self) -> None:
        """From now on it can be imported.

        Raises:
            RuntimeEnvSetupError: it did not come, or cannot be unpacked.
        """
        worker = self.worker
        with self.lock:
            for bundle in worker.facts.code[self.count :]:
                is_folder = bundle.kind == WORKING_DIR
                owner = worker.job_id.hex() if is_folder else ""  # tasks may write there
                path = self.cache.take(bundle.digest, lambda bundle=bundle: self._fetch(bundle), owner)  # type: ignore[misc]
                sys.path.insert(0, path)
                if is_folder:
                    os.chdir(path)
                self.count += 1
            importlib.invalidate_caches()
            worker.has_new_code = self.has_new(worker.facts)

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
