"""Clean-up after a process that has ended, or has left a generator, in portions, so heartbeats and other messages are
not delayed.

A driver may have queued a million tasks, all of which must be ended, and may hold as many refs.  A generator may have
made as many items that nobody has drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ....ids import item_id

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Process
    from ..task import Task

# Tasks ended or entries looked at in one turn: 10 ms at most, far below a heartbeat's distance.
PORTION_COUNT_MAX = 1_000


class Undoing:
    """Queued clean-up, in order of arrival; each step undoes one thing."""

    PASSING = {"steps": None}

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.steps: deque[Iterator[None]] = deque()  # one for each that has ended, or was left

    def end_tasks(self, tasks: Iterable[Task], error: bytes) -> None:
        """End tasks (TaskState.DONE) in portions; waiting processes and tasks get the error."""
        self._begin(self._end_tasks(tasks, error))

    def release(self, process: Process, *, has_died: bool = False) -> None:
        """Release all references and reads of the process.  has_died: also end tasks requested by no other (fates)."""
        if has_died:
            self._begin(self.node.fates.end_with(process))
        else:
            self._begin(self.node.fates.let_go(process))

    def release_items(self, task_id: bytes, numbers: Iterable[int], owner: Process) -> None:
        """Release the items of a generator that its owner has left."""
        self._begin(self._release_items(task_id, numbers, owner))

    def _begin(self, steps: Iterator[None]) -> None:
        self.steps.append(steps)
        if len(self.steps) == 1:
            self.go_on()

    def go_on(self) -> None:
        """Run a portion of the steps."""
        left = PORTION_COUNT_MAX
        while self.steps:
            left -= sum(1 for _ in islice(self.steps[0], left))
            if left <= 0:
                self.node.after(0.0, self.go_on)
                return
            self.steps.popleft()

    def _end_tasks(self, tasks: Iterable[Task], error: bytes) -> Iterator[None]:
        for task in tasks:
            self.node.lifecycle.fail_with(task, error)
            yield

    def _release_items(self, task_id: bytes, numbers: Iterable[int], owner: Process) -> Iterator[None]:
        objects = self.node.objects
        for n in numbers:
            entry = objects.entries.get(item_id(task_id, n))
            if entry is not None:
                objects.release(entry, owner)
            yield
