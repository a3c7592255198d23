"""Pace: how many calls a worker should have in flight, so that short calls keep the worker busy.

A long call gains nothing from a second one that waits behind it, and the second one could run elsewhere.
"""

from __future__ import annotations

import time

# What waits at a worker takes about so long.  A round trip between two processes takes a small part of it.
TARGET_SECONDS = 0.02
# A call that takes less may have one other behind it, which saves the worker a round trip between the two.
PAIR_SECONDS = 0.05
# The depth grows by this factor at most, once a second call is allowed.
GROWTH = 64
# The depth stays where it is unless it is wrong by such a factor: a change costs a count of all slots.
STEADY = 1.5
# More is no faster.
DEPTH_MAX = 1024


class Pace:
    """Number of calls in flight per worker: 1 at first, more while calls are short.

    Args:
        workers: number of workers.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.begin()

    def begin(self) -> None:
        """Begin anew, with one call per worker."""
        self.depth = 1
        self._look_again()

    @property
    def in_all(self) -> int:
        """Number of calls in flight of all workers."""
        return self.workers * self.depth

    def ended(self, count: int) -> bool:
        """Count calls that have ended.  Returns whether a round is over, and the depth may have changed."""
        self._left -= count
        if self._left > 0:
            return False
        took = time.monotonic() - self._began
        done = self._round - self._left
        per_call = took * self.workers / done
        wanted = int(TARGET_SECONDS / per_call) if per_call > 0 else DEPTH_MAX
        if per_call < PAIR_SECONDS:
            wanted = max(wanted, 2)
        most = 2 if self.depth == 1 else GROWTH * self.depth
        wanted = max(1, min(wanted, most, DEPTH_MAX))
        if not self.depth / STEADY < wanted < self.depth * STEADY:
            self.depth = wanted
        self._look_again()
        return True

    def _look_again(self) -> None:
        self._round = self._left = max(1, self.workers) * self.depth
        self._began = time.monotonic()
