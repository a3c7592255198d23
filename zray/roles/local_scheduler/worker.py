"""Worker processes of a node: their tasks, their code, and the state of each (`tasks/pool`)."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ...wire.environment import NO_ENVIRONMENT, Environment
from ...wire.tasks import LEARNED_BYTES_MAX, LEARNED_COUNT_MAX

if TYPE_CHECKING:
    from ...wire.tasks import Function
    from .tables import Actor, Job, Process, ReadyQueue
    from .task import Task
    from .tasks.lending import Frame


class WorkerState(enum.IntEnum):
    """A worker's life."""

    STARTING = 0
    IDLE = 1
    LEASED = 2  # to a queue, whose tasks it runs
    ACTOR = 3
    STOPPING = 4
    DEAD = 5


# What a worker has to do beyond the task that runs, in run time; more where it runs dry before the node has its turn,
# as on a node that has a hundred thousand tasks to pass up.
INFLIGHT_US_MAX, INFLIGHT_US_BUSY = 4_000, 64_000


class Worker(Struct, eq=False):
    """A worker process with its tasks and resources."""

    PASSING = {
        "inflight": "tasks.dispatch.INFLIGHT_COUNT_MAX",
        "frames": "tasks.lending.FRAMES_COUNT_MAX",
        "stale": None,
    }
    LASTING = {
        "functions": "LEARNED_COUNT_MAX",
        "guests": (lambda it: len(it.guests or ()), "tasks.hosts.GUESTS_MAX"),
    }

    address: str
    worker_id: int
    leased_at: float
    packages: str  # of the fork server that forks it
    state: WorkerState = WorkerState.STARTING
    process: Process | None = None  # after its Hello
    job: Job | None = None  # from its first task on, for good
    environment: Environment = NO_ENVIRONMENT  # of its tasks, from its first one on
    actor: Actor | None = None
    guests: dict[bytes, Worker] | None = None  # of a process for hosted actors: their records, by actor
    host: Worker | None = None  # of such a record, which shares address and process with its host
    queue: ReadyQueue | None = None  # the queue that it works off
    frames: list[Frame] = []  # its stack
    inflight: deque[Task] = field(default_factory=deque)  # sent and not finished, in order
    has_ended_tasks: bool = False  # some of these, or of the frames, are over (fates): it is to stop running them
    error: bytes = b""  # of its tasks, once it is killed because their group is removed
    reach_us: int = INFLIGHT_US_MAX  # how much work it is given beyond the task that runs
    stale: int = 0  # tasks taken back that the worker has not yet thrown out of its own queue
    functions: dict[bytes, int] = {}  # that it has for certain, and their bytes: the latest so many that it was sent
    code_bytes: int = 0
    was_served_at: int | None = None  # `served_at` of its job before its lease
    progress_at: float = 0.0  # when it last got or finished something

    def enters(self, state: WorkerState) -> None:
        """Enter another state; the pool says when."""
        self.state = state
        self.queue = None  # a lease names it

    def joins(self, process: Process) -> None:
        """Take the worker's process, which has said Hello."""
        self.process = process
        process.is_of(self)

    def is_made(self, actor: Actor) -> None:
        """Give the worker to an actor for life."""
        self.actor = actor

    def dies_of(self, error: bytes) -> None:
        """Note why the worker is killed, if its tasks are to get another error than that of its death."""
        self.error = error or self.error

    def has_ended_some(self, *, are_left: bool) -> None:
        """Note whether the worker still has tasks that have ended."""
        self.has_ended_tasks = are_left

    def is_sent(self, task: Task) -> None:
        """Send a task behind all others."""
        task.sent(self)
        self.inflight.append(task)

    def has_not(self, task: Task) -> bool:
        """Remove a sent task.  Returns whether the worker's queue had the task."""
        is_its = task in self.inflight
        if is_its:
            self.inflight.remove(task)
        return is_its

    def take_last(self, count: int) -> list[Task]:
        """Take unbegun tasks back, the last one first: the worker has not thrown them out yet."""
        self.stale += count
        return [self.inflight.pop() for _ in range(count)]

    def take_all(self) -> list[Task]:
        """Take all sent tasks from a dead worker."""
        tasks = list(self.inflight)
        self.inflight.clear()
        return tasks

    def threw_out(self, count: int) -> None:
        """Note that the worker has thrown out tasks that were taken back."""
        self.stale = max(0, self.stale - count)

    def learns(self, function: Function) -> None:
        """Note code that the worker is sent.  The oldest is forgotten, as the worker does."""
        known = self.functions
        known[function.function_id] = len(function.code)
        self.code_bytes += len(function.code)
        while len(known) > 1 and (len(known) > LEARNED_COUNT_MAX or self.code_bytes > LEARNED_BYTES_MAX):
            self.code_bytes -= known.pop(next(iter(known)))

    def stacks(self, frame: Frame) -> None:
        """Add a level to the stack."""
        self.frames.append(frame)

    def unstacks(self) -> Frame:
        """Remove the top level of the stack, and return it."""
        return self.frames.pop()

    def unstacks_all(self) -> list[Frame]:
        """Remove all levels of the stack, and return them."""
        frames, self.frames = self.frames, []
        return frames

    def belongs_to(self, job: Job, environment: Environment) -> None:
        """Give the worker to a job for good, for tasks of the given environment."""
        self.job, self.environment = job, environment
        assert self.process is not None
        self.process.job = job

    def works_off(self, queue: ReadyQueue, now: float, lease_number: int) -> None:
        """Begin a lease."""
        self.queue, self.leased_at, self.reach_us = queue, now, INFLIGHT_US_MAX
        self.was_served_at = queue.job.gets_lease(lease_number)
        queue.waits(lease_number + 1)  # behind those that have waited meanwhile

    def gives_turn_back(self) -> None:
        """Leave the rest of the turn to tasks that a blocked worker waits for.  Once for each lease, or other jobs had
        no turn.
        """
        if self.queue is not None and self.was_served_at is not None:
            self.queue.job.gives_lease_back(self.was_served_at)
            self.was_served_at = None

    def moves(self, now: float) -> None:
        """Note progress: the worker gets or finishes something, or goes on."""
        self.progress_at = now

    def begins(self, now: float) -> None:
        """Note the start of another task or call in the lowest level."""
        self.progress_at = now
        self.frames[0].begins(now)

    def runs_first(self) -> Task | None:
        """Return the first task that was sent and not answered."""
        if self.actor is not None:
            return next(iter(self.actor.inflight.values()), None)
        return self.inflight[0] if self.inflight else None

    def has_guests(self) -> None:
        """Become the process of hosted actors."""
        self.guests = {}

    def takes_in(self, actor: Actor, now: float) -> Worker | None:
        """Return a record for a hosted actor in this process; None: a former run of it has not ended."""
        if self.guests is None or actor.actor_id in self.guests:
            return None
        guest = self.guests[actor.actor_id] = Worker(
            self.address,
            self.worker_id,
            now,
            self.packages,
            WorkerState.ACTOR,
            self.process,
            self.job,
            self.environment,
            actor,
            host=self,
        )
        return guest

    def lets_go(self, actor_id: bytes) -> Worker | None:
        """Remove the record of a hosted actor."""
        return self.guests.pop(actor_id, None) if self.guests is not None else None

    def actors(self) -> Iterator[Actor]:
        """Yield the actor of the process, or its hosted actors."""
        for each in (self,) if self.guests is None else self.guests.values():
            if each.actor is not None:
                yield each.actor

    def calls(self) -> Iterator[Task]:
        """Yield the calls that the process was sent."""
        for actor in self.actors():
            yield from actor.inflight.values()

    def has(self, task: Task | None) -> bool:
        """Whether the process has the task, or a hosted actor of it has the call."""
        worker: Worker | None = task.worker if task is not None else None
        return worker is not None and (worker is self or worker.host is self)

    def fit_reach(self, *, has_run_dry: bool, are_others: bool) -> None:
        """Fit the amount of work in flight: the worker has run dry before the node's turn, or not; or others wait for a
        turn.
        """
        if are_others:
            self.reach_us = INFLIGHT_US_MAX
        elif has_run_dry:
            self.reach_us = min(2 * self.reach_us, INFLIGHT_US_BUSY)
        elif self.reach_us > INFLIGHT_US_MAX:
            self.reach_us = max(INFLIGHT_US_MAX, self.reach_us - self.reach_us // 64)
