"""Tasks that another node is to run: where each of them is, and which events move it on.

    THROTTLED -> RECORDING -> SCHEDULER -> PLACED -> ACCEPTED -> DONE
                              SCHEDULER, PLACED: the scheduler is gone -> SEARCHED -> PLACED, or THROTTLED again
                              nobody has room -> DEFERRED -> THROTTLED
                              no node could ever run it -> PARKED -> THROTTLED
                              its placement group has no place yet -> GROUP -> THROTTLED

A task of this node enters with `Event.SPILLED`, and leaves with `left`: it runs here after all, or is over.  News of an
earlier attempt to place it (`trip`), or news that its state does not expect, is stale: it changes nothing.

Rule 1: A task is in `index[task.state]` while its state is a forwarded one, and in no other index.
Rule 2: `by_peer[p]` holds the tasks whose `forward.peer` is p, `by_scheduler[s]` those whose `forward.via` is s.
Rule 3: Nothing else changes these states, nor a `Forward`'s peer and via.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from msgspec import Struct

from .tables import FORWARDED, Task, TaskState


class Event(IntEnum):
    """News of a task that another node is to run."""

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


LOCAL = (TaskState.WAITING, TaskState.READY)
IDLE = (TaskState.DEFERRED, TaskState.PARKED, TaskState.GROUP)
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
}
DEFERRED = TaskState.DEFERRED
# What an event leaves of who has the task: all else forgets both.
KEEPS_PEER = (Event.SCHEDULER_GONE, Event.PLACED, Event.ACCEPTED)
KEEPS_SCHEDULER = (Event.PLACED,)


class Forward(Struct, gc=False, eq=False):
    """Other nodes that a task is with, or is from: few tasks have one."""

    origin: str = ""  # address of the local scheduler that spilled it here
    peer: str = ""  # the node that is named, or has accepted it
    via: str = ""  # the global scheduler that was handed it, until a node has accepted it


class ForwardedTasks:
    """The tasks of one node that others are to run."""

    PASSING = {"by_peer by_scheduler": None, "deferred_kinds": lambda tasks: len(tasks.index[DEFERRED])}

    def __init__(self) -> None:
        self.index: dict[int, dict[bytes, Task]] = {state: {} for state in TaskState if state >= FORWARDED}
        self.by_peer: dict[str, dict[bytes, Task]] = {}
        self.by_scheduler: dict[str, dict[bytes, Task]] = {}
        self.deferred_kinds: dict[bytes, int] = {}  # options of deferred tasks -> how many of these there are

    def happened(self, task: Task, event: Event, *, peer: str = "", scheduler: str = "") -> bool:
        """Move the task on.  False: its state expects no such news.

        peer: the node that has it, or is named.  scheduler: the global scheduler that has it.
        """
        state = TRANSITIONS.get((task.state, event))
        if state is None:
            return False
        self._enter(task, state)
        forward = task.forward
        if forward is None:
            forward = task.forward = Forward()
        if peer != forward.peer and (peer or event not in KEEPS_PEER):
            self._name(self.by_peer, task, forward.peer, peer)
            forward.peer = peer
        if scheduler != forward.via and (scheduler or event not in KEEPS_SCHEDULER):
            self._name(self.by_scheduler, task, forward.via, scheduler)
            forward.via = scheduler
        return True

    def left(self, task: Task, state: TaskState) -> None:
        """Take the task out: it runs here after all, or it is over.  It need not be a forwarded one."""
        self._enter(task, state)
        forward = task.forward
        if forward is None:
            return
        if forward.peer:
            self._name(self.by_peer, task, forward.peer, "")
        if forward.via:
            self._name(self.by_scheduler, task, forward.via, "")
        forward.peer = forward.via = ""

    @staticmethod
    def comes_from(task: Task, origin: str) -> None:
        """Note the node that the task is from; "": this one."""
        if task.forward is not None:
            task.forward.origin = origin
        elif origin:
            task.forward = Forward(origin)

    def with_peer(self, peer: str) -> list[Task]:
        """The tasks that this node has, or is named for."""
        return list(self.by_peer.get(peer, {}).values())

    def with_scheduler(self, scheduler: str) -> list[Task]:
        """The tasks that this global scheduler was handed, and that no node has accepted."""
        return list(self.by_scheduler.get(scheduler, {}).values())

    def _enter(self, task: Task, state: TaskState) -> None:
        former = task.state
        if former == state:
            return
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
        """Rules 1 and 2."""
        for state, tasks in self.index.items():
            assert all(task.state == state for task in tasks.values())
        for peer, tasks in self.by_peer.items():
            assert tasks and all(task.forward.peer == peer for task in tasks.values())
        for scheduler, tasks in self.by_scheduler.items():
            assert tasks and all(task.forward.via == scheduler for task in tasks.values())
