"""Waits of a worker's threads beside the main one: in `get`, in `wait`, for futures, in an `await`.

The node sees only the waits of the main thread.  The main thread may wait for another thread's end, which differs from
work only by the CPU time of the process.  If objects are awaited and next to no CPU time is used, the CPU is lent out
until all objects have arrived, or the process resumes (wire/tasks.WaitObjects, aside).  An actor lends nothing.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING

from ...exceptions import ClusterLostError

if TYPE_CHECKING:
    from .main import Worker

# Share of a core: below it the process waits.  A hundred threads that look around take some 3 %.
IDLE_PART = 0.2
# Limit of objects per wait: an actor may have a hundred thousand awaits, and its CPU be lent out again and again.
AWAITED_MAX = 1_000


class Aside:
    """The waits of a worker's other threads, looked at by its helper four times a second."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.request = 0  # our wait at the node; changed with the worker's lock held
        self.is_ending = False  # and the node knows that an answer is wanted
        self.looked_at = 0.0  # 0: nothing was awaited then
        self.used = 0.0

    def look(self) -> None:
        """Lend the CPU, or take it back."""
        worker = self.worker
        if not (self.request or worker.client.waits or worker.waiting.looked_for):
            self.looked_at = 0.0
            return
        now, used = time.monotonic(), time.process_time()
        is_idle = bool(self.looked_at) and used - self.used < IDLE_PART * (now - self.looked_at)
        self.looked_at, self.used = now, used
        is_running = worker.call is not None and worker.actor is None
        client = worker.client
        try:
            with worker.lock:
                if self.request and client.replies[self.request] is not None:
                    del client.replies[self.request]
                    self.request = 0
                if self.request:
                    if not (is_idle and is_running):
                        self.end()
                elif is_idle and is_running and not worker.waiting.blocked and (missing := self._missing()):
                    self.is_ending = False
                    self.request = client.wait(missing, len(missing), fetch=False, block=True, aside=True)
                worker.send_buffered()
        except ClusterLostError:
            pass  # waiting threads get the error

    def lend(self) -> None:
        """Lend the CPU now: the main thread is about to wait for awaited objects.  In the main thread."""
        worker = self.worker
        client = worker.client
        if not client.waits or worker.call is None or worker.actor is not None:
            return
        try:
            with worker.lock:
                if self.request and client.replies[self.request] is not None:
                    del client.replies[self.request]
                    self.request = 0
                if not self.request and (missing := self._missing()):
                    self.is_ending = False
                    self.request = client.wait(missing, len(missing), fetch=False, block=True, aside=True)
                    worker.send_buffered()
                    # The helper's next look is to tell work from waiting by what comes from now on.
                    self.looked_at, self.used = time.monotonic(), time.process_time()
        except ClusterLostError:
            pass  # who waits hears of it

    def _missing(self) -> list[bytes]:
        """Return the awaited objects that have not arrived."""
        worker = self.worker
        client = worker.client
        # The node knows of the main thread's waits.  Those below a task that runs inside a wait are not the task's.
        known = set(map(id, worker.waiting.lent_for))
        waits = (wait for wait in (*client.waits, *worker.waiting.looked_for) if id(wait) not in known)
        awaited = dict.fromkeys(i for wait in waits for i in wait)
        missing = (i for i in awaited if i in client.held and not client.is_ready(i))
        return list(islice(missing, AWAITED_MAX))

    def end(self) -> None:
        """Resume work.  With the lock held."""
        if not self.is_ending:
            self.is_ending = True
            self.worker.client.cancel_wait(self.request)
