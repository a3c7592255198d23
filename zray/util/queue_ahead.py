"""Ahead: items given to a consumer of a Queue and not used yet, and the reports to the actor about them."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import deque
from typing import Any

from .queue_actor import HOLD_SECONDS

# Items that a consumer may be given at a time.
AHEAD_MAX = 64
# What a consumer has not used for so long goes back.
IDLE_SECONDS = 0.02
# The actor is told of used items so often.
TELL_SECONDS = 0.001
# The thread that gives items back ends after so long without any.
THREAD_SECONDS = 1.0


class Ahead:
    """Items ahead of one handle of a queue.  Safe for any thread.

    Args:
        actor: handle of the queue's actor.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.consumer = os.urandom(8)
        self.count = 0
        self._items: deque[Any] = deque()
        self._numbers = itertools.count(1)
        self._number = 0  # the lease that the items are of
        self._until = 0.0  # when they may not be used any more
        self._untold = 0  # used items of which the actor was not told
        self._told_at = self._used_at = 0.0
        self._wanted = 1
        self._replied_at = 0.0
        self._used = 1  # items used since then
        self._is_asking = False
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None

    def next_number(self) -> int:
        """Number of the next lease."""
        return next(self._numbers)

    def ask(self, now: float) -> tuple[int, int]:
        """Number of the next lease, and how many items to ask for: as many as are used in a short time."""
        with self._lock:
            each = (now - self._replied_at) / max(1, self._used)
            ideal = int(IDLE_SECONDS / 2 / each) if each > 0 else AHEAD_MAX
            self._wanted = max(1, min(ideal, 2 * self._wanted, AHEAD_MAX))
            is_first = not self._is_asking and not self._items
            self._is_asking = True
            return next(self._numbers), self._wanted if is_first else 1

    def take(self, number: int, items: list[Any], since: float, *, is_batch: bool = False) -> bool:
        """Accept a reply, and use the first item; all items of a batch.

        Args:
            number: the lease.
            items: at least one item.
            since: when the reply may have been sent at the latest, as the consumer's clock says.
            is_batch: all items are used at once.  Default: False.

        Returns:
            False if the reply is so late that the actor may give the items to others.
        """
        with self._lock:
            self._is_asking = False
            now = time.monotonic()
            until = since + HOLD_SECONDS
            if now >= until:
                return False
            self._replied_at, self._used = now, 1
            if is_batch or len(items) == 1:
                self.actor.used.remote(self.consumer, number, len(items), False)
                return True
            self._number, self._until = number, until
            self._items.extend(items[1:])
            self.count = len(self._items)
            self._untold, self._told_at, self._used_at = 1, now, now
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="zray-queue", daemon=True)
                self._thread.start()
            return True

    def use(self) -> list[Any]:
        """Use the next item, if any: a list of one, or none."""
        with self._lock:
            now = time.monotonic()
            if not self._items or now >= self._until:
                self._drop()
                return []
            item = self._items.popleft()
            self.count = len(self._items)
            self._used += 1
            self._untold += 1
            self._used_at = now
            if now - self._told_at > TELL_SECONDS or not self._items:
                self._tell(now, False)
            return [item]

    def give_back(self) -> None:
        """Give the actor all items back that were not used."""
        with self._lock:
            if self._items:
                self._tell(time.monotonic(), True)
            self._drop()

    def _tell(self, now: float, is_over: bool) -> None:
        self.actor.used.remote(self.consumer, self._number, self._untold, is_over)
        self._untold, self._told_at = 0, now

    def _drop(self) -> None:
        self._items.clear()
        self.count = 0

    def _watch(self) -> None:
        """Give items back that were not used for a while.  In a thread."""
        pause = threading.Event()
        while True:
            pause.wait(IDLE_SECONDS)
            try:
                with self._lock:
                    idle = time.monotonic() - self._used_at
                    if idle >= IDLE_SECONDS:
                        self.give_back()
                    if idle >= THREAD_SECONDS:
                        self._thread = None
                        return
            except Exception:  # the queue or the session has ended, and its items with it
                with self._lock:
                    self._drop()
                    self._thread = None
                return
