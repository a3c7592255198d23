"""Records of a local scheduler: of processes, workers, jobs and actors.

Tasks and objects exist by the million, as Structs without garbage-collector headers.  A task and its entry point at
each other while the task is unfinished (task.entry <-> entry.task); `finish` cuts this cycle, so nothing leaks.

Names of actors and calls in error messages.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ...exceptions import encode_system_error
from ...wire import homes, scheduling
from ...wire.environment import NO_ENVIRONMENT, Environment
from ...wire.task_spec import ActorOptions, StoredValue, TaskOptions
from ...wire.tasks import LEARNED_BYTES_MAX, LEARNED_COUNT_MAX
from ..kept import Latest
from .call_queue import CallQueue
from .task import Task

if TYPE_CHECKING:
    from ...wire.task_spec import ActorOptions
    from ...wire.tasks import Function
    from .objects.table import ObjectEntry
    from .objects.waits import Wait
    from .task import Task
    from .tasks.lending import Frame

# Tasks of functions that were refused follow at once.
REFUSED_MAX = 10_000


class Process(Struct, eq=False):
    """A driver or a worker, as a holder of references and a receiver of values."""

    PASSING = {"wait_by_request": "objects.waits.WAITS_MAX", "results": None}

    address: str
    kind: str
    pid: int
    job: Job
    worker: Worker | None = None
    results: list[tuple[bytes, bytes | StoredValue]] = []  # values that leave in the one ObjectsReady of this turn
    wait_by_request: dict[int, Wait] = {}

    def begins(self, wait: Wait) -> None:
        """Begin a wait of the process."""
        self.wait_by_request[wait.request] = wait

    def ends(self, wait: Wait) -> None:
        """End a wait of the process: it is answered, or the process is gone."""
        del self.wait_by_request[wait.request]


class Job(Struct, eq=False):
    """The program of a driver: its workers, its queues, and facts for the workers."""

    LASTING = {
        "queues": "queues_max",
        "facts.code": "tasks.code.BUNDLES_MAX",
        "noticed": "forwarding.infeasible.NOTICED_MAX",
        "functions": "tasks.code.FUNCTIONS_COUNT_MAX",
        "code_bytes": "tasks.code.FUNCTIONS_BYTES_MAX",
    }

    job_id: bytes
    facts: scheduling.JobFacts  # the same on every node
    has_left: bool = False  # tasks of it have gone to other nodes from here
    code_unheard: int = 0  # times that shards were told of its code, and have not answered
    noticed: dict[Any, None] = {}  # what its user was told of (infeasible)
    driver: Process | None = None
    queues: dict[tuple[int, bytes], ReadyQueue] = {}  # by depth and options blob
    queues_max: int = 1  # with so many, those in which nothing is are forgotten
    functions: dict[bytes, None] = {}  # those that its processes here have published, and how large they are
    code_bytes: int = 0
    refused: Latest[bytes, None] = field(default_factory=lambda: Latest(REFUSED_MAX))  # and those that were too many
    is_over: bool = False
    served_at: int = 0  # when it last got a lease, in counts of these (dispatch)

    @property
    def home(self) -> str:
        """Return the local scheduler of the driver's node."""
        return self.facts.home


class ReadyQueue(Struct, eq=False):
    """Ready tasks of one job with the same depth and options, in order."""

    job: Job
    depth: int  # 0: submitted by the driver; 1: by a task of depth 0; ...
    blob: bytes  # the encoded options
    options: TaskOptions
    resources: dict[str, int]
    is_infeasible: bool = False  # the empty node would not do
    is_choosy: bool = False  # that, or it may not run anywhere (strategies)
    is_in_group: bool = False  # `resources` are those of the bundle that the next lease takes of
    stays_until: float = 0.0  # all of it was placed here, or is retried here, when we looked: none goes up
    tasks: deque[Task] = field(default_factory=deque)
    waits_since: int = 0  # the node's leases before it got its first task, or had one itself
    rank: tuple[int, int] = (0, 0)  # by priority, then by depth: the least one of a job is served first

    def __post_init__(self) -> None:
        self.rank = (-self.options.priority, -self.depth)

    def waits(self, lease_count: int) -> None:
        """Begin to wait for a lease, after so many of the node."""
        self.waits_since = lease_count

    def may_not_run(self, *, is_infeasible: bool) -> None:
        """Note whether the tasks could run here, on an empty node, and whether their options choose nodes."""
        where = self.options.where
        self.is_infeasible = is_infeasible
        self.is_choosy = is_infeasible or where is not None
        self.is_in_group = where is not None and bool(where.group)

    def lies_in(self, resources: dict[str, int]) -> None:
        """Have the next lease take resources of a bundle."""
        self.resources = resources

    def stays(self, until: float) -> None:
        """Note that all tasks stay here for a while."""
        self.stays_until = until

    def add(self, task: Task) -> None:
        """Append a ready task."""
        self.tasks.append(task)

    def add_first(self, task: Task) -> None:
        """Put a ready task ahead of the others."""
        self.tasks.appendleft(task)

    def move_first(self, place: int) -> None:
        """Put the task at a place ahead of the others."""
        task = self.tasks[place]
        del self.tasks[place]
        self.tasks.appendleft(task)

    def remove(self, task: Task) -> bool:
        """Remove a task, most likely the last one.  Returns whether the queue had the task."""
        if self.tasks and self.tasks[-1] is task:
            self.tasks.pop()
        elif task in self.tasks:
            self.tasks.remove(task)
        else:
            return False
        return True

    def take_all(self) -> deque[Task]:
        """Remove all tasks, and return them."""
        tasks, self.tasks = self.tasks, deque()
        return tasks


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
        self.process, process.worker = process, self

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
        self.was_served_at, queue.job.served_at = queue.job.served_at, lease_number
        queue.waits(lease_number + 1)  # behind those that have waited meanwhile

    def gives_turn_back(self) -> None:
        """Leave the rest of the turn to tasks that a blocked worker waits for.  Once for each lease, or other jobs had
        no turn.
        """
        if self.queue is not None and self.was_served_at is not None:
            job = self.queue.job
            job.served_at = min(job.served_at, self.was_served_at)
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


class ActorState(enum.IntEnum):
    """An actor's life (Ray's own names where it has them)."""

    REGISTERING = 0
    PENDING = 1  # waits for arguments, resources or a worker
    STARTING = 2  # its constructor runs
    ALIVE = 3
    RESTARTING = 4
    DEAD = 5


REGISTERING, PENDING, STARTING, ALIVE, RESTARTING, DEAD = ActorState
ActorEvent = Literal["wants a worker", "has a worker", "constructed", "ends"]
ACTOR_TRANSITIONS: dict[tuple[ActorState, ActorEvent], ActorState] = {
    (REGISTERING, "wants a worker"): PENDING,
    (STARTING, "wants a worker"): RESTARTING,  # its process has died
    (ALIVE, "wants a worker"): RESTARTING,
    (PENDING, "has a worker"): STARTING,
    (RESTARTING, "has a worker"): STARTING,
    (STARTING, "constructed"): ALIVE,
    (ALIVE, "constructed"): ALIVE,  # it says so again
    **{(state, "ends"): DEAD for state in ActorState},
}


class Actor(Struct, eq=False):
    """One actor that lives on this node."""

    LASTING = {"journal": ..., "calls": (lambda it: it.under_way(), "actors.calls.CALLS_IN_FLIGHT_MAX")}

    actor_id: bytes
    creation: Task
    options: ActorOptions
    life: homes.ActorLife
    job: Job
    entry: ObjectEntry
    state: ActorState = ActorState.REGISTERING
    worker: Worker | None = None
    pid: int = 0  # of its process, the latest one
    behind: list[tuple[ReadyQueue, Task]] = []  # of each queue of its job the last task that was ready before
    queue: CallQueue = field(default_factory=CallQueue)  # calls not yet sent
    inflight: dict[bytes, Task] = {}  # calls sent, in order
    journal: Any = None  # Journal, of one that recovers
    shipping: Any = None  # Shipping: its journal goes to other nodes too
    items: Any = None  # Items of its generator calls, of one that recovers
    incoming: Any = None  # Copy of the journal, of one that was handed over, until that is whole
    unclaimed: int = 0  # the shard's words on it that are awaited (ActorAt)
    guardian: str = ""  # the local scheduler that has it made again if this node is lost
    is_guarded: bool = False  # it has said that it can
    has_all_but_a_worker: bool = False  # it has waited for a process alone
    is_going: bool = False  # last handle gone, or exit_actor(): leaves when its calls are done
    has_shutdown: bool = False  # its class has something to run before its process ends
    killed: str = ""  # why it must not be restarted
    down_since: float | None = None  # it is restarted, and its process died then
    death: bytes = b""  # the error value that calls get

    def _enter(self, event: ActorEvent) -> None:
        self.state = ACTOR_TRANSITIONS[self.state, event]

    def wants_worker(self) -> bool:
        """Wait for a worker.  Returns whether the actor may still go elsewhere: it never had one."""
        self._enter("wants a worker")
        return self.state is PENDING

    def starts(self, worker: Worker) -> None:
        """Run the constructor in a worker."""
        self._enter("has a worker")
        self.worker, self.pid = worker, worker.process.pid if worker.process is not None else 0

    def has_started(self, *, has_shutdown: bool) -> bool:
        """Take calls, since the constructor has returned.  Returns whether that was expected."""
        if (self.state, "constructed") not in ACTOR_TRANSITIONS:
            return False
        self._enter("constructed")
        self.down_since, self.has_shutdown = None, has_shutdown
        return True

    def restarts(self) -> None:
        """Begin another run: the process is gone, or the node."""
        self.life = replace(self.life, restart_count=self.life.restart_count + 1)

    def is_down(self, since: float) -> None:
        """Note when the process died."""
        self.down_since = since

    def may_not_restart(self, reason: str) -> None:
        """Note why there is no further run; "": there is one."""
        self.killed = reason

    def stops(self, reason: str) -> None:
        """End in order, while the process runs shutdown code."""
        self.killed = reason
        self._enter("ends")

    def ends(self, error: bytes) -> None:
        """End for good.  error: the value that calls get."""
        self._enter("ends")
        self.death = error

    def has_no_worker(self) -> None:
        """Forget the process."""
        self.worker = None

    def has_no_handle(self) -> None:
        """Leave as soon as the calls are done."""
        self.is_going = True

    def is_found(self, entry: ObjectEntry) -> None:
        """Stay, since a process has a handle again."""
        self.is_going = False
        entry.leads_to(self)

    def recovers(self, journal: Any, items: Any, shipping: Any) -> None:
        """Keep a log of the calls.  shipping: None, where no other node may have the log."""
        self.journal, self.items, self.shipping = journal, items, shipping

    def comes_with(self, log: Any) -> None:
        """Wait for the rest of a log from another node; None: all of it is here."""
        self.incoming = log

    def goes_on_from(self, journal: Any) -> None:
        """Replace the log by that of the actor's former home."""
        self.journal.close()
        self.journal = journal

    def is_handed_over(self, life: homes.ActorLife, origin: str) -> None:
        """Belong to this node from now on; the former home guards the actor if it may move."""
        self.life = life
        if self.options.may_move:
            self.guardian, self.is_guarded = origin, True

    def asks(self, guardian: str) -> None:
        """Ask a node to guard the actor."""
        self.guardian, self.is_guarded = guardian, False

    def has_guardian(self) -> None:
        """Note that the asked node guards the actor."""
        self.is_guarded = True

    def claims(self) -> None:
        """Expect the shard's answer to a claim."""
        self.unclaimed += 1

    def claim_is_answered(self) -> None:
        """Note an answer of the shard."""
        self.unclaimed = max(0, self.unclaimed - 1)

    def lies_in(self, options: ActorOptions) -> None:
        """Take resources of a bundle."""
        self.options = options

    def outlives(self, heir: Job) -> None:
        """Belong to the heir of a job that has ended."""
        self.job = heir
        for task in (self.creation, *self.inflight.values(), *self.queue):
            task.belongs_to(heir)

    def stands_behind(self, tasks: list[tuple[ReadyQueue, Task]]) -> None:
        """Note the last ready tasks that were there before the actor."""
        self.behind = tasks

    def sends(self, batch: dict[bytes, Task]) -> None:
        """Count calls as sent."""
        self.inflight.update(batch)

    def has_back(self, task_id: bytes) -> None:
        """Count a call as sent no more: it has ended, or is not run."""
        self.inflight.pop(task_id, None)

    def forget_calls(self) -> None:
        """Forget all calls of a dead actor."""
        self.inflight.clear()
        self.queue.clear()

    def lacks_a_worker(self, *, alone: bool) -> None:
        """Note whether the actor has waited for a process alone."""
        self.has_all_but_a_worker = alone

    def has_begun(self, task: Task) -> bool:
        """Return whether a call has begun in an earlier process, or on another node whose log is not here yet."""
        return self.incoming is not None or task.spec.task_id in self.journal.begun

    def ahead_of(self, task: Task) -> list[Task]:
        """Return the calls behind which a sent call waits, the oldest first; none: as many may run side by side."""
        group, ahead = task.options.group, list[Task]()
        for other in self.inflight.values():
            if other is task:
                break
            if other.options.group == group:
                ahead.append(other)
        return ahead if len(ahead) >= self.options.groups.get(group, self.options.max_concurrency) else []

    def under_way(self) -> int:
        """Return how many calls were sent whose results nobody has seen; 0: as many as may run side by side."""
        withheld = self.shipping.withheld if self.shipping is not None else ()
        count = len(self.inflight) + sum(not item.items for item in withheld)
        if self.options.groups:  # each has a limit of its own
            count = max(Counter(task.options.group for task in self.inflight.values()).values(), default=0)
        return count if count > self.options.max_concurrency else 0


MADE_ANEW = "has ended: the task that created it died, and its retry has created another"
LOST_WITH_ACTOR = encode_system_error("ObjectLostError", "The result lay on the actor's node, which is lost.")


def in_words(options: ActorOptions) -> str:
    """Name an actor, as in "actor Counter named 'joe'"."""
    return f"actor {options.class_name}" + (f" named {options.name!r}" if options.name else "")


def name_of_call(task: Task) -> str:
    """Name a call, as in "Counter.add"."""
    return str(task.options.name or task.options.method)


def died(options: ActorOptions, how: str) -> bytes:
    """Encode the error of calls on a dead actor."""
    return encode_system_error("ActorDiedError", f"The {in_words(options)} {how}.")


def gone_error(text: str) -> bytes:
    """Encode the error of calls on an actor that is gone."""
    return encode_system_error("ActorDiedError", text)
