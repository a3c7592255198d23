"""A worker's reaction to a program that changes while it runs: its sys.path grows, or it reloads its own modules.

Tasks see the change from the next submission on.  A worker that has imported modules of the program leaves ahead of its
next task, and another takes its place.  A worker with a waiting task cannot leave, and may be given others to run
meanwhile: these import the modules again.  Actors keep their modules.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

from ...wire import scheduling, tasks
from .. import context
from ..code.reloads import forget_own_modules, own_modules
from ..process.spawn import with_packages
from .exit import leave

if TYPE_CHECKING:
    from .main import Worker

WHY = "its program has reloaded modules"


class CodeChanges:
    """The code changes of a worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.is_outdated = False  # some of its modules were reloaded by the program
        self.own_path = frozenset(sys.path)  # of a worker of no job
        self.told_path: tuple[str, ...] = ()  # by the job

    def told(self, before: scheduling.JobFacts, message: tasks.JobStarted) -> None:
        """Apply new facts of the worker's job.  With the worker's lock held."""
        worker, facts = self.worker, message.facts
        if facts.sys_path != before.sys_path:
            self.show_path(facts.sys_path)
            importlib.invalidate_caches()
        if facts.reloads == before.reloads or worker.actor is not None:
            return
        if worker.call is None and not own_modules():
            return
        self.is_outdated = worker.has_new_code = True
        worker.functions.clear()
        worker.claim = self._leave_or_claim
        worker.orders.append(message)  # an idle worker leaves too

    def show_path(self, told: tuple[str, ...]) -> None:
        """Put sys.path in the program's order: tasks find the same modules first.

        Folders of shipped modules stay ahead; folders added by tasks stay behind.
        """
        gone = set(self.told_path) - self.own_path
        self.told_path = told
        travelled = self.worker.code.cache.folder + os.sep if self.worker.code is not None else None
        first = [entry for entry in sys.path if travelled and entry.startswith(travelled)]
        rest = [entry for entry in sys.path if entry not in gone]
        sys.path[:] = with_packages([*dict.fromkeys((*first, *told, *rest))], context.packages)

    def take(self) -> None:
        """Bring and reload changed code before unpickling, in the thread that runs tasks."""
        worker = self.worker
        worker.has_new_code = False
        if worker.code is not None:
            worker.code.take()
        if self.is_outdated and worker.actor is None:
            forget_own_modules()
            with worker.lock:
                worker.functions.clear()

    def leave_if_told(self) -> None:
        """Leave if outdated, when there is no work."""
        if self.worker.actor is None:
            leave(self.worker, WHY)

    def _leave_or_claim(self, seconds: float) -> None:
        self.leave_if_told()
        self.worker.window.acquire(seconds)
