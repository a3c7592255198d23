"""A local scheduler whose effects are performed by hand; each of its turns is clocked in CPU time.

It is driven as its host drives it: all messages of a turn, then `first_words` and `end_turn`.  What the others do (two
workers, the shard, the driver) is done here, between the turns, and not clocked.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from .names import Names, NotThere

JOB, DRIVER, FUNCTION, SHARD, OTHER = b"job-0001", "driver-1", b"function" * 2, "gcs-0", "n2/local"
UNIT = 10_000  # of resources
# Of virtual time: a turn, and a task that is submitted, about as long as in a session.
TURN_SECONDS, TASK_SECONDS = 1e-4, 1e-5
VALUE = b"\x01"

names = Names()


class Bench:
    """A node with a driver.  is_member: of a cluster, beside another node with as many CPUs."""

    def __init__(self, cpus: int = 2, *, is_member: bool = False) -> None:
        addresses = names.Addresses("objects", ["global"], [SHARD], "monitor")
        total = {"CPU": cpus * UNIT}
        self.scheduler = names.LocalScheduler("local", addresses, total=total, is_embedded=not is_member)
        self.now = 0.0
        self.turns: list[float] = []  # CPU seconds of each
        self.workers: dict[str, list[Any]] = {}  # -> specs that it was sent
        self.windows: dict[str, int] = {}  # of them -> how many it may still begin
        self.outcomes: list[tuple[str, Any]] = []  # messages that follow from effects, for the next turn
        self.timers: list[tuple[float, int, Any]] = []
        self.timer_numbers = count()
        self.task_numbers = count(1)
        self.spilled: list[Any] = []
        self.ready_count = 0  # objects whose values the driver has
        self.answers = {
            names.SetTimer: self.set_timer,
            names.StartWorker: self.start_worker,
            names.OpenWindow: self.open_window,
            names.ReclaimTasks: self.reclaim,
            names.Send: lambda effect: self.receivers.get(type(effect.message), ignore)(effect),
        }
        self.receivers: dict[type, Callable[[Any], None]] = {
            names.StartTasks: lambda sent: self.workers[sent.destination].extend(sent.message.specs),
            names.SpillTask: lambda sent: self.spilled.append(sent.message),
            names.ObjectsReady: self.receive_values,
            names.RecordTasks: lambda sent: self.acknowledge(names.RecordTasksReply, sent.message),
            names.HoldAtNode: lambda sent: self.acknowledge(names.HoldAtNodeReply, sent.message),
        }
        self.turn(("host", names.ProcessJoined(DRIVER, "driver", 1, JOB)))
        self.turn((DRIVER, names.PublishFunction(names.Function(FUNCTION, "f", b"code"))))
        if is_member:
            self.turn(("monitor", names.NodeJoined(OTHER, total)))
        self.settle()

    # --- turns ---

    def turn(self, *said: tuple[str, Any]) -> float:
        """Run a turn with these messages, and with the outcomes of effects before it; return its CPU seconds."""
        messages, self.outcomes = [*self.outcomes, *said], []
        self.now += TURN_SECONDS
        scheduler, now, effects = self.scheduler, self.now, []
        begun = time.process_time()
        for sender, message in messages:
            effects += scheduler.handle(sender, message, now)
        effects += scheduler.first_words(now)
        effects += scheduler.end_turn(now)
        spent = time.process_time() - begun
        self.turns.append(spent)
        for effect in effects:
            self.answers.get(type(effect), ignore)(effect)
        return spent

    def settle(self) -> None:
        """Let what follows from effects happen, without the timers."""
        while self.outcomes:
            self.turn()

    def fire(self) -> bool:
        """The turn of the next timer; False: there is none."""
        if not self.timers:
            return False
        at, _, message = heapq.heappop(self.timers)
        self.now = max(self.now, at)
        self.turn(("timer", message))
        return True

    # --- effects ---

    def set_timer(self, effect: Any) -> None:
        heapq.heappush(self.timers, (self.now + effect.delay, next(self.timer_numbers), effect.message))

    def start_worker(self, effect: Any) -> None:
        self.workers[effect.worker], self.windows[effect.worker] = [], 0
        pid = 100 + effect.worker_id
        self.outcomes.append(("host", names.WorkerStarted(effect.worker, pid)))
        joined = names.ProcessJoined(effect.worker, "worker", pid, b"", effect.worker_id)
        self.outcomes.append(("host", joined))

    def open_window(self, effect: Any) -> None:
        self.windows[effect.worker] += effect.count

    def reclaim(self, effect: Any) -> None:
        number = min(effect.count, self.windows[effect.worker])
        self.windows[effect.worker] -= number
        self.outcomes.append(("host", names.TasksReclaimed(effect.worker, number)))

    def receive_values(self, effect: Any) -> None:
        self.ready_count += len(effect.message.objects)

    def acknowledge(self, reply: Any, message: Any) -> None:
        if message.request:
            self.outcomes.append((SHARD, reply(message.request)))

    # --- what the others do ---

    def specs(self, number: int, deps: Callable[[], tuple[bytes, ...]] = tuple) -> list[Any]:
        """Specs of so many tasks that have not been submitted before."""
        make, function = names.TaskSpec, FUNCTION
        return [
            make(next(self.task_numbers).to_bytes(16, "big"), function, b"\x91\x05", deps=deps()) for _ in range(number)
        ]

    def submit(self, specs: list[Any]) -> float:
        """Submit by the driver; return the turn's CPU seconds.  The turns of timers that are due come behind it."""
        spent = self.turn((DRIVER, names.SubmitTasks(specs)))
        self.now += len(specs) * TASK_SECONDS
        while self.timers and self.timers[0][0] <= self.now:
            self.fire()
            self.settle()
        return spent

    def work(self) -> bool:
        """Run a turn in which each worker has run what it was sent; False: there is nothing to run."""
        said: list[tuple[str, Any]] = []
        for worker, specs in self.workers.items():
            number = min(len(specs), self.windows[worker])
            begun, self.workers[worker] = specs[:number], specs[number:]
            self.windows[worker] -= number
            if begun:
                results = [names.TaskResult(spec.task_id, [VALUE]) for spec in begun]
                said.append((worker, names.TasksFinished(results, [names.Timing(FUNCTION, 2)])))
            elif specs:  # its window is empty: they are taken back
                self.workers[worker] = []
                said.append((worker, names.TasksReturned([spec.task_id for spec in specs], True)))
        if said or self.outcomes:
            self.turn(*said)
        return bool(said or self.outcomes)

    def finish_spilled(self) -> int:
        """The other node has run what was spilled; how many there were."""
        spilled, self.spilled = self.spilled, []
        if spilled:
            said = [("global", names.TaskPlaced(one.spec.task_id, OTHER, one.trip)) for one in spilled]
            said += [(OTHER, names.TaskDone(one.spec.task_id, one.trip, [VALUE])) for one in spilled]
            self.turn(*said)
        return len(spilled)


def ignore(effect: Any) -> None:
    """An effect that nothing has to follow from."""


def least(courses: Iterable[list[float]]) -> list[float]:
    """The shortest time of each turn, of courses of the same turns: what disturbed one of them is not in it.

    Raises:
        NotThere: they are not the same turns.
    """
    columns = list(courses)
    if len({len(course) for course in columns}) != 1:
        raise NotThere("courses of the same tasks have different numbers of turns")
    return [min(times) for times in zip(*columns, strict=True)]
