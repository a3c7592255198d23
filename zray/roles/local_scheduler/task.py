"""The task: its record, its state, and the transitions between states.

    an argument is missing: WAITING -> READY -> SENT -> DONE          local; from SENT back to READY or WAITING
    a call on an actor:        CALL -> SENT -> DONE                   local or on its way; from SENT back to CALL
    another node is to run the task:
        THROTTLED -> RECORDING -> SCHEDULER -> PLACED -> ACCEPTED -> DONE
                                  SCHEDULER, PLACED: the scheduler is gone -> SEARCHED -> PLACED, or THROTTLED again
                                  nobody has room -> DEFERRED -> THROTTLED
                                  no node could ever run the task -> PARKED -> THROTTLED
                                  the placement group has no place yet -> GROUP -> THROTTLED

Events of forwarded tasks go through `TaskStates.happened`.  News of an earlier placement attempt (`trip`), or news not
expected in the state, is stale and changes nothing.  Events of a local task are methods of `Task`, because each small
task takes that path; the simulator asserts that each is in the table.

Rule 1: A task is in `index[task.state]` while its state is a forwarded one, and in no other index.

Rule 2: `by_peer[p]` holds the tasks with `forward.peer` p, `by_scheduler[s]` the tasks with `forward.via` s.

Rule 3: Only this file changes a task's state, worker, forward, and counts of arguments and attempts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...wire.task_spec import TaskOptions, TaskSpec, as_logged


class TaskState(IntEnum):
    """The state of a task; each task is in exactly one."""

    WAITING = 0  # an argument (or its function) is not here: in the `waiting` list of each missing object
    READY = 1  # in its job's queue for its options
    SENT = 2  # in a worker's `inflight`, or in a frame of a blocked worker
    CALL = 3  # an actor call, in its actor's `queue`
    DONE = 4  # in no collection
    # From here on another node is to run it, under `TaskStates`.
    THROTTLED = 5  # goes up in one of the next turns
    RECORDING = 6  # as soon as the shards have acknowledged what leaves with it
    SCHEDULER = 7  # a global scheduler has it
    SEARCHED = 8  # that one is gone: other nodes are asked
    PLACED = 9  # a node is named
    ACCEPTED = 10  # that holds what the task takes
    DEFERRED = 11  # nobody has room: it goes up again later
    PARKED = 12  # no node could ever run it: it waits for one that can
    GROUP = 13  # its placement group has no place yet


class Event(IntEnum):
    """Events that change a task's state."""

    SPILLED = 0  # it goes up, for the first time or again
    DEPARTS = 1  # the shards are told of what leaves with it
    HANDED_UP = 2  # to a global scheduler
    ADDRESSED = 3  # to the node of its bundle
    PLACED = 4  # a scheduler names the node
    FOUND = 5  # a node that was asked has it
    ACCEPTED = 6  # the node holds what it takes
    SCHEDULER_GONE = 7
    DEFERRED = 8  # given back, or nobody has room
    REFUSED = 9  # no node could ever run it
    HAS_NO_PLACE = 10  # its placement group
    CHOSEN_HERE = 11  # this node is to run it after all
    ENQUEUED = 12  # all that it takes is here
    SENT = 13  # to a worker
    RETURNED = 14  # unrun, or to run once more
    LACKS_ARGUMENT = 15  # it is returned, and its maker, ahead of it in the same batch, has failed
    QUEUED = 16  # a call: behind others of its actor, for its place in their log, or on its way
    ENDED = 17  # its values are here, or nothing here starts it any more


# A member looked up in its class takes longer than the change of a state.
WAITING, READY, SENT, CALL, DONE, FORWARDED, *_, DEFERRED, PARKED, GROUP = TaskState
LOCAL = (WAITING, READY)
IDLE = (DEFERRED, PARKED, GROUP)
THERE = (TaskState.PLACED, TaskState.ACCEPTED)
ASKED = (TaskState.SCHEDULER, TaskState.SEARCHED)
UNDER_WAY = (*ASKED, *THERE)
LEAVING = (TaskState.THROTTLED, TaskState.RECORDING)


def _rows(states: Iterable[TaskState], event: Event, then: TaskState) -> dict[tuple[int, Event], TaskState]:
    return {(state, event): then for state in states}


TRANSITIONS: dict[tuple[int, Event], TaskState] = {
    **_rows((*LOCAL, *IDLE, *UNDER_WAY), Event.SPILLED, TaskState.THROTTLED),
    **_rows((TaskState.THROTTLED,), Event.DEPARTS, TaskState.RECORDING),
    **_rows(LEAVING, Event.HANDED_UP, TaskState.SCHEDULER),
    **_rows(LEAVING, Event.ADDRESSED, TaskState.PLACED),
    **_rows((TaskState.SCHEDULER, TaskState.PLACED), Event.PLACED, TaskState.PLACED),
    (TaskState.SEARCHED, Event.PLACED): TaskState.SEARCHED,  # the others are asked already: one of them has it, or none
    (TaskState.ACCEPTED, Event.PLACED): TaskState.ACCEPTED,
    (TaskState.SEARCHED, Event.FOUND): TaskState.PLACED,
    **_rows(UNDER_WAY, Event.ACCEPTED, TaskState.ACCEPTED),
    **_rows((TaskState.SCHEDULER, TaskState.PLACED), Event.SCHEDULER_GONE, TaskState.SEARCHED),
    **_rows((TaskState.READY, *UNDER_WAY), Event.DEFERRED, TaskState.DEFERRED),
    **_rows((TaskState.READY, TaskState.SCHEDULER), Event.REFUSED, TaskState.PARKED),
    **_rows((TaskState.READY, *LEAVING, TaskState.GROUP), Event.HAS_NO_PLACE, TaskState.GROUP),
    **_rows((*LEAVING, *IDLE, *UNDER_WAY), Event.CHOSEN_HERE, TaskState.WAITING),
    **_rows((*LOCAL, TaskState.GROUP), Event.ENQUEUED, TaskState.READY),
    **_rows((*LOCAL, TaskState.CALL), Event.SENT, TaskState.SENT),
    (TaskState.SENT, Event.RETURNED): TaskState.READY,
    # From READY: its argument was spilled to disk.
    **_rows((TaskState.READY, TaskState.SENT), Event.LACKS_ARGUMENT, TaskState.WAITING),
    **_rows((TaskState.WAITING, TaskState.CALL, TaskState.SENT), Event.QUEUED, TaskState.CALL),
    **_rows(TaskState, Event.ENDED, TaskState.DONE),
}
# Events that keep the peer or the scheduler of a task; all other events clear them.
KEEPS_PEER = (Event.SCHEDULER_GONE, Event.PLACED, Event.ACCEPTED)
KEEPS_SCHEDULER = (Event.PLACED,)


class Forward(Struct, gc=False, eq=False):
    """The nodes that a forwarded task is with, or comes from; few tasks have a Forward."""

    origin: str = ""  # address of the local scheduler that spilled it here
    peer: str = ""  # the node that is named, or has accepted it
    via: str = ""  # the global scheduler that was handed it, until a node has accepted it
    handed_at: float = 0.0  # when that one was handed it

    def handed_up(self, now: float) -> None:
        """Note when a global scheduler was handed the task."""
        self.handed_at = now


class Task(Struct, gc=False, eq=False):
    """A task as known by the local node."""

    spec: TaskSpec
    options: TaskOptions
    entry: Any  # ObjectEntry of the first return
    job: Any
    state: int = 0
    came: tuple[int, float] = (0, 0.0)  # its depth, and when it came or began its present wait; one for many tasks
    missing: int = 0  # objects (and a function) that it waits for
    worker: Any = None
    attempts: int = 0  # how many runs have been blamed for a worker's death, or raised and may be retried
    more: Any = None  # ObjectEntries of the further returns
    trip: int = 0  # how often it has gone up; of a call: which one of its actor's it is
    forward: Any = None  # Forward, of one from another node, or that another node is to run

    def enqueued(self) -> None:
        """All arguments have arrived: the task enters the queue of its kind, or looks for a place."""
        self.state = READY

    def enters(self, tasks: deque[Task]) -> None:
        """All arguments have arrived: the task becomes the last one of a queue.  One call, since each task takes it."""
        self.state = READY
        tasks.append(self)

    def sent(self, worker: Any) -> None:
        """Record the worker that has the task."""
        self.state = SENT
        self.worker = worker

    def returned(self) -> bool:
        """Take the task back from its worker.  False: an argument is missing."""
        self.worker = None
        self.state = WAITING if self.missing else READY
        return not self.missing

    def lacks_argument(self) -> None:
        """Take the task out of the ready ones: an argument has left the arena."""
        self.state = WAITING

    def queued(self) -> None:
        """Record a call that no worker has."""
        self.state = CALL
        self.worker = None

    def ended(self) -> None:
        """End a local task; `TaskStates.ended` ends a task in any state."""
        self.state = DONE
        self.worker = None
        self.missing = 0

    def returns_more(self, entries: list[Any]) -> None:
        """Take the entries of all returns but the first."""
        self.more = entries

    def logged(self) -> None:
        """Take the options of a call that an actor's log repeats."""
        self.spec.options = as_logged(self.spec.options)

    def holds_nothing(self) -> None:
        """Forget the refs that a sent call takes: others hold them."""
        self.spec = replace(self.spec, deps=(), holds=())

    def waits_for(self, count: int) -> None:
        """Set the number of missing arguments, including the function."""
        self.missing = count

    def has_come(self) -> int:
        """Count an argument as arrived.  Returns how many are still missing."""
        self.missing -= 1
        return self.missing

    def belongs_to(self, job: Any) -> None:
        """Give a call of a detached actor to the heir of its job."""
        self.job = job

    def tried(self, attempts: int) -> None:
        """Set the number of attempts, which `max_retries` limits."""
        self.attempts = attempts

    @property
    def depth(self) -> int:
        """Return how many tasks, one within the other, stand between it and the driver."""
        return self.came[0]

    @property
    def since(self) -> float:
        """Return when its present wait began, where waits are recorded."""
        return self.came[1]

    def waits_anew(self, came: tuple[int, float]) -> None:
        """Note the begin of another wait, with the same depth."""
        self.came = came

    @property
    def origin(self) -> str:
        """Return the local scheduler that spilled the task.

        A task placed back on the local node by a global scheduler has our own address.
        """
        return self.forward.origin if self.forward is not None else ""

    @property
    def is_retried_here(self) -> bool:
        """Whether the task has run locally, and does so again."""
        return self.attempts > 0

    @property
    def is_quiet(self) -> bool:
        """Whether only the origin knows of the task's returns, and is told of them directly."""
        shared = self.entry.shared
        return bool(self.origin) and shared is not None and shared.is_quiet


class RebuiltTask(Task, gc=False, eq=False):
    """A task re-executed to reconstruct a lost return."""

    before: int = 0  # its attempts, as it came here
    yielded: int = 0  # items of a generator

    def has_yielded(self, count: int) -> None:
        """Note that so many items were made."""
        self.yielded = max(self.yielded, count)

    @property
    def is_retried_here(self) -> bool:
        return self.attempts > self.before


class ChildTask(Task, gc=False, eq=False):
    """A task submitted by a worker of this node."""

    submitter: Any = None  # its Process


def nobody_asks(task: Task, state: TaskState) -> None:
    """Do nothing at the end of a task's wait."""


class TaskStates:
    """The states of a node's tasks, with indexes of forwarded tasks."""

    PASSING = {"by_peer by_scheduler": None, "deferred_kinds": lambda tasks: len(tasks.index[DEFERRED])}

    def __init__(self, on_wait_ends: Callable[[Task, TaskState], None] = nobody_asks) -> None:
        self.index: dict[int, dict[bytes, Task]] = {state: {} for state in TaskState if state >= FORWARDED}
        self.by_peer: dict[str, dict[bytes, Task]] = {}
        self.by_scheduler: dict[str, dict[bytes, Task]] = {}
        self.deferred_kinds: dict[bytes, int] = {}  # options of deferred tasks -> how many of these there are
        self.on_wait_ends = on_wait_ends  # told before a task enters another state

    def happened(self, task: Task, event: Event, *, peer: str = "", scheduler: str = "") -> bool:
        """Apply an event.  False: not expected in the task's state.

        peer: the node that has the task, or is named.  scheduler: the global scheduler that has the task.
        """
        state = TRANSITIONS.get((task.state, event))
        if state is None:
            return False
        self._enter(task, state)
        forward = task.forward
        if forward is None:
            forward = task.forward = Forward()
        if event == Event.SPILLED:
            task.trip += 1
        if peer != forward.peer and (peer or event not in KEEPS_PEER):
            self._name(self.by_peer, task, forward.peer, peer)
            forward.peer = peer
        if scheduler != forward.via and (scheduler or event not in KEEPS_SCHEDULER):
            self._name(self.by_scheduler, task, forward.via, scheduler)
            forward.via = scheduler
        return True

    def ended(self, task: Task) -> None:
        """End the task in any state: it will not start."""
        if task.state >= FORWARDED:
            self.happened(task, Event.ENDED)
        elif task.state in LOCAL:
            self.on_wait_ends(task, DONE)
        task.ended()

    @staticmethod
    def comes_from(task: Task, origin: str, trip: int | None = None) -> None:
        """Record the task's origin ("": this node), and the number of the placement attempt."""
        if task.forward is not None:
            task.forward.origin = origin
        elif origin:
            task.forward = Forward(origin)
        if trip is not None:
            task.trip = trip

    def with_peer(self, peer: str) -> list[Task]:
        """Return the tasks that the node has, or is named for."""
        return list(self.by_peer.get(peer, {}).values())

    def with_scheduler(self, scheduler: str) -> list[Task]:
        """Return the tasks handed to the global scheduler that no node has accepted."""
        return list(self.by_scheduler.get(scheduler, {}).values())

    def _enter(self, task: Task, state: TaskState) -> None:
        former = task.state
        if former == state:
            return
        self.on_wait_ends(task, state)
        if former >= FORWARDED:
            del self.index[former][task.spec.task_id]
        if state >= FORWARDED:
            self.index[state][task.spec.task_id] = task
        if state is DEFERRED or former == DEFERRED:
            self._count_kind(task.spec.options, 1 if state is DEFERRED else -1)
        task.state = state

    def _count_kind(self, options: bytes, step: int) -> None:
        count = self.deferred_kinds.get(options, 0) + step
        if count:
            self.deferred_kinds[options] = count
        else:
            del self.deferred_kinds[options]

    @staticmethod
    def _name(tables: dict[str, dict[bytes, Task]], task: Task, former: str, name: str) -> None:
        if former:
            tasks = tables[former]
            del tasks[task.spec.task_id]
            if not tasks:
                del tables[former]
        if name:
            tables.setdefault(name, {})[task.spec.task_id] = task

    def check_everything(self) -> None:
        """Assert rules 1 and 2."""
        for state, tasks in self.index.items():
            assert all(task.state == state for task in tasks.values())
        for peer, tasks in self.by_peer.items():
            assert tasks and all(task.forward.peer == peer for task in tasks.values())
        for scheduler, tasks in self.by_scheduler.items():
            assert tasks and all(task.forward.via == scheduler for task in tasks.values())
