"""Tasks that take far longer than their functions usually do: a notice to the program, once a task.

A timer runs only while workers run tasks.  A look every LOOK_SECONDS suffices, because no task is called hung sooner.
Tasks in a wait for values are left out: their processes explain such waits (host/client/slow_wait_report.py).
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from ....wire.amounts import name_of
from ...kept import Latest

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..tables import Worker

# A task is called hung after so many times the usual time of its function, and after so many seconds.
TIMES_LONGER = 10
HUNG_SECONDS = LOOK_SECONDS = 10.0
# Earlier runs that make a time the usual one; counted among the tasks that the node remembers (listing.py).
RUNS_MIN = 5
# Workers in one look.
LOOKED_AT_MAX = 1_000
TOLD_MAX = 1_000
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class HungTasks:
    """The look-out for hung tasks of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_watching = False
        self.told: Latest[bytes, None] = Latest(TOLD_MAX)  # tasks

    def watch(self, seconds: float = LOOK_SECONDS) -> None:
        """Look at the running tasks after `seconds`."""
        self.is_watching = True
        self.node.after(seconds, self.look)

    def look(self) -> None:
        """Tell of each hung task, and look again while tasks run."""
        self.is_watching = False
        soonest = LOOK_SECONDS
        running = [worker for worker in self.node.pool.leased.values() if worker.inflight]
        overdue = []
        for worker in islice(running, LOOKED_AT_MAX):
            left = self._seconds_left(worker)
            if left <= CLOCK_SECONDS:
                overdue.append(worker)
            else:
                soonest = min(soonest, left)
        if overdue:
            runs = Counter(function_id for _, _, function_id, *_ in self.node.ended.finished)
            for worker in overdue:
                if runs[worker.inflight[0].spec.function_id] >= RUNS_MIN:
                    self._tell(worker)
        if running:
            self.watch(soonest)

    def _seconds_left(self, worker: Worker) -> float:
        """Return the time until the task of a worker is called hung; LOOK_SECONDS where it is not, so far."""
        task = worker.inflight[0]
        mean_us = self.node.dispatch.mean_us.get(task.spec.function_id)
        if mean_us is None or worker.frames[-1].wait is not None or task.spec.task_id in self.told:
            return LOOK_SECONDS
        lasted = self.node.now - worker.frames[0].began_at
        return max(HUNG_SECONDS, TIMES_LONGER * mean_us / 1e6) - lasted

    def _tell(self, worker: Worker) -> None:
        node, task = self.node, worker.inflight[0]
        spec, pid = task.spec, worker.process.pid if worker.process is not None else 0
        self.told[spec.task_id] = None
        lasted, usual = node.now - worker.frames[0].began_at, node.dispatch.mean_us[spec.function_id] / 1e6
        name = task.options.name or node.lifecycle.function_name(spec.function_id)
        node.notices.tell(
            task.job,
            f"task {name} (pid={pid}, node={name_of(node.address)}) has run for {lasted:,.0f} s, "
            f"{lasted / max(usual, CLOCK_SECONDS):,.0f} times as long as usual ({_in_words(usual)}): "
            f"`zray stack {spec.task_id.hex()}` shows where it stands",
        )


def _in_words(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"
