"""Records of a local scheduler: of processes, jobs and actors.

Tasks and objects exist by the million, as Structs without garbage-collector headers.  A task and its entry point at
each other while the task is unfinished (task.entry <-> entry.task); `finish` cuts this cycle, so nothing leaks.

Names of actors and calls in error messages.
"""

from __future__ import annotations

import enum
from collections import Counter, deque
from collections.abc import Container
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ...exceptions import encode_system_error
from ...wire import homes, scheduling
from ...wire.task_spec import ActorOptions, StoredValue, TaskOptions
from ..kept import Latest
from .call_queue import CallQueue
from .task import Task

if TYPE_CHECKING:
    from ...wire.task_spec import ActorOptions
    from ...wire.tasks import Function
    from .objects.table import ObjectEntry
    from .objects.waits import Wait
    from .task import Task
    from .worker import Worker

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

    def is_of(self, worker: Worker) -> None:
        """Become the process of a worker."""
        self.worker = worker

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

    def gets_lease(self, number: int) -> int:
        """Note the node's latest lease, which the job got.  Returns the number of the lease before."""
        former, self.served_at = self.served_at, number
        return former

    def gives_lease_back(self, former: int) -> None:
        """Have another turn, as after a former lease."""
        self.served_at = min(self.served_at, former)

    def ends(self) -> None:
        """Start no more tasks of the job."""
        self.is_over = True

    def is_driven_by(self, process: Process) -> None:
        """Take a process for the driver."""
        self.driver = process

    def learns(self, facts: scheduling.JobFacts) -> None:
        """Take newer facts for the workers."""
        self.facts = facts

    def leaves(self) -> None:
        """Note that tasks of the job have gone to other nodes."""
        self.has_left = True

    def code_is_said(self) -> None:
        """Note that shards are told of the job's code."""
        self.code_unheard += 1

    def code_is_heard(self) -> None:
        """Note that the shards have answered."""
        self.code_unheard -= 1

    def owns(self, function: Function) -> None:
        """Count a function as published by the job."""
        self.functions[function.function_id] = None
        self.code_bytes += len(function.code)

    def inherits(self, job: Job) -> None:
        """Take over the functions of an ended job."""
        self.functions, self.code_bytes = job.functions, job.code_bytes

    def refuses(self, function: Function) -> None:
        """Note a function that the job may not publish any more."""
        self.refused[function.function_id] = None

    def notes(self, what: Any) -> None:
        """Note what the user is told of."""
        self.noticed[what] = None

    def notes_no_more(self, what: Any) -> None:
        """Forget what the user need not be told of after all."""
        self.noticed.pop(what, None)

    def forget_kinds(self, served: Container[int], most: int) -> None:
        """Forget empty queues that are not served.  most: queues before the next look, at least."""
        for key in [key for key, queue in self.queues.items() if not queue.tasks and id(queue) not in served]:
            del self.queues[key]
        self.queues_max = max(most, 2 * len(self.queues))

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
    is_second: bool = False  # an earlier run of its creator may have created it
    awaits_former: bool = False  # and may still run it: the shard says when it does not
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

    def may_be_second(self) -> None:
        """Start only when the shard says that no actor of an earlier run of the creator lives."""
        self.is_second = self.awaits_former = True

    def claims(self) -> None:
        """Expect the shard's answer to a claim."""
        self.unclaimed += 1

    def claim_is_answered(self) -> None:
        """Note an answer of the shard."""
        self.unclaimed = max(0, self.unclaimed - 1)
        self.awaits_former = False

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
