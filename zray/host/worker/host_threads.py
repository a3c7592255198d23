"""The threads of a process for hosted actors: a few that compute, and more where calls wait.

The interpreter runs one thread at a time, so a few are enough while they compute.  A call that blocks (in `get`, a
sleep, a lock) keeps its thread.  The main thread looks every LOOK_SECONDS while a call waits for a thread: if none has
begun since the last look, half as many threads again are started.  Idle threads end after some seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

# So many are started at once.
FIRST_COUNT = 4
# A thread that waits takes some 30 kB: so many calls may block at a time, and the others wait for one of them to end.
COUNT_MAX = 4_096
IDLE_SECONDS = 10.0


class HostThreads:
    """Threads that take jobs from one queue.

    Rule: `idle` threads wait for a job, and no job is theirs yet; `waiting` jobs have no thread yet; one of both is 0.
    """

    LOOK_SECONDS = 0.005

    def __init__(self, work: Callable[..., None]) -> None:
        self.work = work
        self.jobs: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self.lock = threading.Lock()
        self.count = self.idle = self.waiting = 0
        self.taken = 0  # jobs, ever
        self.seen = -1  # `taken` at the last look

    def put(self, guest: Any, spec: Any) -> None:
        """Give a job to an idle thread, or have it wait for one."""
        with self.lock:
            if self.idle:
                self.idle -= 1
            else:
                self.waiting += 1
        self.jobs.put((guest, spec))

    def look(self) -> None:
        """Start threads if jobs wait, and none has begun since the last look.  In the main thread."""
        waiting = self.waiting
        if not waiting:
            return
        if self.count < FIRST_COUNT:
            self._start(min(waiting, FIRST_COUNT - self.count))
        elif self.taken == self.seen:
            self._start(min(waiting, self.count // 2, COUNT_MAX - self.count))
        self.seen = self.taken

    def _start(self, count: int) -> None:
        for _ in range(count):
            with self.lock:
                self.count += 1
            try:
                threading.Thread(target=self._run, name="zray-hosted", daemon=True).start()
            except RuntimeError:  # the system gives us no further thread: jobs wait for one of those there are
                with self.lock:
                    self.count -= 1
                if not self.count:
                    raise
                return

    def _run(self) -> None:
        while True:
            with self.lock:
                if self.waiting:
                    self.waiting -= 1
                    self.taken += 1
                else:
                    self.idle += 1
            while True:
                try:
                    job = self.jobs.get(timeout=IDLE_SECONDS)
                    break
                except Empty:
                    with self.lock:
                        if self.idle and self.count > FIRST_COUNT:
                            self.idle -= 1
                            self.count -= 1
                            return
            self.work(*job)
            del job
