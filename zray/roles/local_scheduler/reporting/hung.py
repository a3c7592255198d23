"""Tasks and calls that take far longer than their functions and methods usually do: a notice to the program, once each.

A timer runs only while workers run tasks, or calls of known methods.  A look every LOOK_SECONDS suffices, because no
task is called hung sooner.  Tasks in a wait for values are left out: their processes explain such waits
(host/client/slow_wait_report.py).  So are calls of actors that run several at once, and of hosted ones: nodes do not
know when each of these has begun.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from ....wire.amounts import name_of
from ...kept import Latest
from ..tables import Actor, name_of_call

if TYPE_CHECKING:
    from ..scheduler import LocalScheduler
    from ..task import Task
    from ..worker import Worker

# A task is called hung after so many times the usual time of its function, and after so many seconds.
TIMES_LONGER = 10
HUNG_SECONDS = LOOK_SECONDS = 10.0
# Earlier runs that make a time the usual one; counted among the tasks that the node remembers (listing.py).
RUNS_MIN = 5
# How much one call counts for the mean of its method.
CALL_WEIGHT = 0.25
# Methods whose times are known, by class.
METHODS_MAX = 1_000
# Workers, and actors, in one look.
LOOKED_AT_MAX = 1_000
TOLD_MAX = 1_000
# Two times that should be equal may differ by so much.
CLOCK_SECONDS = 1e-6


class Usual(Struct, gc=False, eq=False):
    """The usual time of a method's calls, and how many are known."""

    seconds: float
    count: int


class HungTasks:
    """The look-out for hung tasks and calls of a node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.is_watching = False
        self.told: Latest[bytes, None] = Latest(TOLD_MAX)  # tasks
        self.methods: Latest[tuple[bytes, str], Usual] = Latest(METHODS_MAX)  # by class and name

    def calls_ended(self, worker: Worker, first: Task, count: int) -> None:
        """Note calls of a serial actor that have ended together, the first of which its worker began last.

        Short calls end together; a long one ends alone, because results do not wait for it.
        """
        actor = worker.actor
        if actor is None or not _is_serial(actor):
            return
        key, seconds = _key_of(actor, first), (self.node.now - worker.frames[0].began_at) / count
        usual = self.methods.get(key)
        if usual is None:
            self.methods[key] = Usual(seconds, count)
        else:
            usual.seconds += CALL_WEIGHT * (seconds - usual.seconds)
            usual.count += count
        if not self.is_watching:
            self.watch()

    def watch(self, seconds: float = LOOK_SECONDS) -> None:
        """Look at the running tasks after `seconds`."""
        self.is_watching = True
        self.node.after(seconds, self.look)

    def look(self) -> None:
        """Tell of each hung task or call, and look again while some run."""
        self.is_watching = False
        soonest = LOOK_SECONDS
        running = [(worker, worker.inflight[0]) for worker in self.node.pool.leased.values() if worker.inflight]
        running = [*islice(running, LOOKED_AT_MAX), *self._calls()]
        overdue = []
        for worker, task in running:
            left = self._seconds_left(worker, task)
            if left <= CLOCK_SECONDS:
                overdue.append((worker, task))
            else:
                soonest = min(soonest, left)
        if overdue:
            runs = Counter(function_id for _, _, function_id, *_ in self.node.ended.finished)
            for worker, task in overdue:
                if worker.actor is not None or runs[task.spec.function_id] >= RUNS_MIN:
                    self._tell(worker, task)
        if running:
            self.watch(soonest)

    def _calls(self) -> list[tuple[Worker, Task]]:
        """Return the calls that run, of methods with a usual time, and their workers."""
        found = []
        for actor in islice(self.node.calls.actors.values() if self.methods else (), LOOKED_AT_MAX):
            call = next(iter(actor.inflight.values()), None)
            if call is not None and actor.worker is not None and self._usual_seconds(actor.worker, call) is not None:
                found.append((actor.worker, call))
        return found

    def _usual_seconds(self, worker: Worker, task: Task) -> float | None:
        """Return the usual time of what a worker runs; None: not known."""
        if worker.actor is None:
            mean_us = self.node.dispatch.mean_us.get(task.spec.function_id)
            return None if mean_us is None else mean_us / 1e6
        usual = self.methods.get(_key_of(worker.actor, task))
        if usual is None or usual.count < RUNS_MIN or not _is_serial(worker.actor):
            return None
        return usual.seconds

    def _seconds_left(self, worker: Worker, task: Task) -> float:
        """Return the time until a task is called hung; LOOK_SECONDS where it is not, so far."""
        usual = self._usual_seconds(worker, task)
        if usual is None or worker.frames[-1].wait is not None or task.spec.task_id in self.told:
            return LOOK_SECONDS
        lasted = self.node.now - worker.frames[0].began_at
        return max(HUNG_SECONDS, TIMES_LONGER * usual) - lasted

    def _tell(self, worker: Worker, task: Task) -> None:
        node, spec, pid = self.node, task.spec, worker.process.pid if worker.process is not None else 0
        self.told[spec.task_id] = None
        lasted, usual = node.now - worker.frames[0].began_at, self._usual_seconds(worker, task) or 0.0
        if worker.actor is None:
            what = f"task {task.options.name or node.lifecycle.function_name(spec.function_id)}"
        else:
            what = f"call {name_of_call(task)}"
        node.notices.tell(
            task.job,
            f"{what} (pid={pid}, node={name_of(node.address)}) has run for {lasted:,.0f} s, "
            f"{lasted / max(usual, CLOCK_SECONDS):,.0f} times as long as usual ({_in_words(usual)}): "
            f"`zray stack {spec.task_id.hex()}` shows where it stands",
        )


def _is_serial(actor: Actor) -> bool:
    """Whether the node knows when each call of an actor begins."""
    return actor.options.is_serial and not actor.options.hosted


def _key_of(actor: Actor, call: Task) -> tuple[bytes, str]:
    return actor.creation.spec.function_id, call.options.method


def _in_words(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"
