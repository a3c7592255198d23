"""A worker's side of a program that changes while it runs: its sys.path grows, it reloads modules of its own.

Tasks see that from the next submission on.  A worker that has imported modules of the program leaves ahead of its next
task, and another one takes its place.  A worker whose task waits cannot leave, and may be given others to run
meanwhile: these import the modules anew.  Actors keep what they have.
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
    """Of one worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.is_outdated = False  # it has modules that its program has reloaded since
        self.own_path = frozenset(sys.path)  # of a worker of no job
        self.told_path: tuple[str, ...] = ()  # by the job

    def told(self, before: scheduling.JobFacts, message: tasks.JobStarted) -> None:
        """Facts of a job that it has already.  With the worker's lock held."""
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
        worker.orders.append(message)  # it leaves also where it has nothing to do

    def show_path(self, told: tuple[str, ...]) -> None:
        """sys.path in the program's order: what it finds first, its tasks find first.

        Modules that have travelled here stay ahead; what tasks have added themselves stays behind.
        """
        gone = set(self.told_path) - self.own_path
        self.told_path = told
        travelled = self.worker.code.cache.folder + os.sep if self.worker.code is not None else None
        first = [entry for entry in sys.path if travelled and entry.startswith(travelled)]
        rest = [entry for entry in sys.path if entry not in gone]
        sys.path[:] = with_packages([*dict.fromkeys((*first, *told, *rest))], context.packages)

    def take(self) -> None:
        """Ahead of anything that is unpickled: by the thread that runs tasks, when something is new."""
        worker = self.worker
        worker.has_new_code = False
        if worker.code is not None:
            worker.code.take()
        if self.is_outdated and worker.actor is None:
            forget_own_modules()
            with worker.lock:
                worker.functions.clear()

    def leave_if_told(self) -> None:
        """The worker has nothing to do."""
        if self.worker.actor is None:
            leave(self.worker, WHY)

    def _leave_or_claim(self, seconds: float) -> None:
        self.leave_if_told()
        self.worker.window.acquire(seconds)
