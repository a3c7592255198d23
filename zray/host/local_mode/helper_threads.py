"""Helper threads of local mode, for work that cannot run inline.

A task may wait for an argument from another thread, or be submitted on an event loop, which must not block.  As many
helpers run at once as there are CPUs; a helper that waits for a value lends its place to another helper.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Helpers that wait for values of one another: more are a program without end.
THREADS_MAX = 1_000
# Endless jobs are abandoned after this long.
END_SECONDS = 2.0


class Helpers:
    """The helper threads of a program.  A helper ends when there is nothing to do."""

    def __init__(self, count_max: int) -> None:
        self.lock = threading.Lock()
        self.count_max = max(1, count_max)
        self.jobs: deque[Callable[[], None]] = deque()
        self.threads: dict[int, threading.Thread] = {}
        self.blocked = 0

    def run_soon(self, job: Callable[[], None]) -> None:
        """Run a job in a helper thread, in order of submission."""
        with self.lock:
            self.jobs.append(job)
            self._begin_thread()

    def _begin_thread(self) -> None:
        """Start a helper if a job waits and a place is free.  With the lock held."""
        if self.jobs and len(self.threads) - self.blocked < self.count_max and len(self.threads) < THREADS_MAX:
            thread = threading.Thread(target=self._run, name="zray-local-helper", daemon=True)
            self.threads[id(thread)] = thread
            thread.start()

    def is_helper(self) -> bool:
        """Return whether this thread is a helper."""
        return id(threading.current_thread()) in self.threads

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Lend this thread's place to another helper during a wait."""
        if not self.threads or not self.is_helper():
            yield
            return
        with self.lock:
            self.blocked += 1
            self._begin_thread()
        try:
            yield
        finally:
            with self.lock:
                self.blocked -= 1

    def _run(self) -> None:
        while True:
            with self.lock:
                if not self.jobs or len(self.threads) - self.blocked > self.count_max:
                    del self.threads[id(threading.current_thread())]
                    self._begin_thread()
                    return
                job = self.jobs.popleft()
            try:
                job()
            except BaseException:  # of zray's own: errors of user code are values
                traceback.print_exc()
            del job

    def close(self) -> None:
        """Drop the jobs not begun, and wait for the others."""
        with self.lock:
            self.jobs.clear()
            threads = list(self.threads.values())
        deadline = time.monotonic() + END_SECONDS
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
