"""Submissions among event records: when, and from where, a task was submitted."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from typing import Any

from ..ids import PARENT_HASH_BYTES, counter_of
from ..store.event_ring import Event

__all__ = ["Submissions"]

# Records that are looked at for a task: threads of one parent submit at once, and their records overlap.
OVERLAPS_MAX = 16


class Submissions:
    """Finds the record of a task's submission: a record has a parent's tasks with consecutive numbers."""

    def __init__(self) -> None:
        # By the parent's hash: (first number, count, order of the record, what is found), sorted.
        self._by_parent: dict[bytes, list[tuple[float, int, int, Any]]] = {}
        self._added = 0

    def add(self, event: Event, found: Any) -> None:
        """Add a record of submissions, and what is to be found for its tasks."""
        group = self._by_parent.setdefault(event.task_id[:PARENT_HASH_BYTES], [])
        self._added += 1  # so that what is found need not be comparable
        insort(group, (counter_of(event.task_id), event.tasks, self._added, found))

    def find(self, task_id: bytes) -> Any:
        """Return the facts added with the record of a task's submission; None: there is no such record."""
        group, counter = self._by_parent.get(task_id[:PARENT_HASH_BYTES], []), counter_of(task_id)
        place = bisect_right(group, (counter, math.inf)) - 1  # the last record that begins with the task or before
        for first, count, _, found in reversed(group[max(place + 1 - OVERLAPS_MAX, 0) : place + 1]):
            if counter < first + count:
                return found
        return None
