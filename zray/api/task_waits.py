"""Waits of tasks at nodes among event records: what a task has waited for before it ran, where, and how long."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..ids import COUNTER_BYTES, PARENT_HASH_BYTES, counter_of
from ..store.event_ring import NODE_LABEL, Event, Kind, RingContent
from ..wire.events import LONG_SECONDS, Stage

__all__ = [
    "FETCH",
    "PROCESS",
    "WORDS",
    "TaskWait",
    "TaskWaits",
    "in_process",
    "milliseconds",
    "name_of",
    "number_attempts",
]

# Records of several tasks that are looked at for one of them.
OVERLAPS_MAX = 16
# Tasks of a record that are numbered; a worker is sent fewer together.
BATCH_MAX = 1_024
FETCH, PROCESS = "fetch", "process"
# The names of waits, in the order in which they are shown, and what a task has waited for.
WORDS = {
    "arguments": "its arguments",
    FETCH: "the way of arguments to the node",
    "placing": "the choice of a node",
    "room": "room on any node",
    "fitting_node": "a node that could run it",
    "group": "its placement group",
    "queue": "resources or a worker",
    "worker": "the start of a process",
    "packages": "the packages of its environment",
    PROCESS: "earlier tasks in its process",
}


class TaskWait(NamedTuple):
    """A wait of a task at a node.  Times are in seconds, on the clock that the records were added with.

    stage: a name of WORDS.  "fetch": of the waits for arguments, the time in which one was on its way to the node.
    """

    stage: str
    node: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long the wait was."""
        return self.end - self.begin


class TaskWaits:
    """Finds the waits of a task: a record has one task, or several with consecutive numbers."""

    def __init__(self) -> None:
        self._single: dict[bytes, list[TaskWait]] = {}
        # By the parent's hash: (first number, count, order of the record, wait of the first task, begin of the last
        # one's), sorted.
        self._several: dict[bytes, list[tuple[float, int, int, TaskWait, float]]] = {}
        self._last: dict[bytes, int] = {}  # behind the numbers of all of these, by the parent's hash
        self._fetches: dict[tuple[bytes, int, str], list[tuple[float, float]]] = {}  # by task, place and node
        self._added = 0
        self.has_gaps = False  # older records of nodes are lost

    def of_run(
        self, task_id: bytes, arguments: Iterable[tuple[bytes, int]], submitted: float | None, began: float
    ) -> list[TaskWait]:
        """Return the waits of a task, with that in the process that ran it.

        Args:
            task_id, arguments: as of `of`.
            submitted, began: times of the task and of its first run.
        """
        found = self.of(task_id, arguments)
        last = in_process(found, None if self.has_gaps else submitted, began)
        return found if last is None else [*found, last]

    def add(self, event: Event, node: str, shift: float) -> None:
        """Add a record of a wait or of a fetch at a node.

        shift: from the clock of the node to that of the waits.
        """
        begin, end = event.begin + shift, event.end + shift
        if event.kind == Kind.FETCH:
            self._fetches.setdefault((event.task_id, event.place, node), []).append((begin, end))
        elif event.kind == Kind.STAGE and event.stage in _NAMES:
            wait = TaskWait(_NAMES[event.stage], node, begin, end)
            if event.tasks <= 1:
                self._single.setdefault(event.task_id, []).append(wait)
                return
            self._added += 1
            parent, first = event.task_id[:PARENT_HASH_BYTES], counter_of(event.task_id)
            insort(self._several.setdefault(parent, []), (first, event.tasks, self._added, wait, event.read + shift))
            self._last[parent] = max(self._last.get(parent, 0), first + event.tasks)

    def of(self, task_id: bytes, arguments: Iterable[tuple[bytes, int]] = ()) -> list[TaskWait]:
        """Return the recorded waits of a task, in the order of their begins.

        Args:
            task_id: of the task.
            arguments: the tasks that made its arguments, and the places of these, as an event has them.
        """
        found = [*self._single.get(task_id, ())]
        parent, counter = task_id[:PARENT_HASH_BYTES], counter_of(task_id)
        if counter >= self._last.get(parent, 0) and not found:
            return found
        group = self._several.get(parent, [])
        place = bisect_right(group, (counter, math.inf)) - 1
        for first, count, _, wait, last_begin in group[max(place + 1 - OVERLAPS_MAX, 0) : place + 1]:
            if counter < first + count:
                begin = wait.begin + (last_begin - wait.begin) * (counter - first) / (count - 1)
                found.append(wait._replace(begin=min(begin, wait.end)))
        if self._fetches:
            arguments = [*arguments]
            found += [fetch for wait in found if wait.stage == "arguments" for fetch in self._way(wait, arguments)]
        return sorted(found, key=lambda wait: (wait.begin, -wait.end))

    def _way(self, wait: TaskWait, arguments: Iterable[tuple[bytes, int]]) -> list[TaskWait]:
        """The times in a wait in which an argument was on its way to the node, without overlaps."""
        spans = [
            (max(begin, wait.begin), min(end, wait.end))
            for task_id, place in arguments
            for begin, end in self._fetches.get((task_id, place, wait.node), ())
        ]
        found: list[TaskWait] = []
        for begin, end in sorted(spans):
            if end <= begin:
                continue
            if found and begin <= found[-1].end:
                found[-1] = found[-1]._replace(end=max(end, found[-1].end))
            else:
                found.append(TaskWait(FETCH, wait.node, begin, end))
        return found


_NAMES = {int(stage): stage.name.lower() for stage in Stage}


def name_of(stage: int) -> str:
    """Return the name of what a record's tasks have waited for; later versions may have others."""
    return _NAMES.get(stage, "other")


def in_process(waits: Sequence[TaskWait], submitted: float | None, began: float) -> TaskWait | None:
    """Return the wait of a task in the process that ran it, if it was long, or None.

    Args:
        waits: those at nodes.
        submitted, began: times of the task and of its first run.
    """
    since = max((wait.end for wait in waits), default=submitted)
    if since is None or began - since < LONG_SECONDS:
        return None
    return TaskWait(PROCESS, waits[-1].node if waits else "", since, began)


def milliseconds(waits: Iterable[TaskWait]) -> dict[str, float]:
    """Return the milliseconds of the waits of a task, by what it has waited for."""
    found: dict[str, float] = {}
    for wait in waits:
        found[wait.stage] = found.get(wait.stage, 0.0) + 1000 * wait.seconds
    return {name: round(found[name], 3) for name in WORDS if name in found}


def number_attempts(nodes: Mapping[str, Sequence[RingContent]]) -> None:
    """Set the attempts of runs, which nodes alone know: a wait before a further run has its number.

    Args:
        nodes: the records of processes, by node.
    """
    clocks = {node: min(ring.offset for ring in rings) for node, rings in nodes.items()}  # one a machine
    found: dict[bytes, list[tuple[float, int]]] = {}  # by task: (end of the wait, attempt)
    for node, ring in ((node, ring) for node, rings in nodes.items() for ring in rings if ring.label == NODE_LABEL):
        for event in ring.events:
            for number in range(min(event.tasks, BATCH_MAX) if event.attempt else 0):
                counter = (counter_of(event.task_id) + number) % (1 << 8 * COUNTER_BYTES)
                task_id = event.task_id[:-COUNTER_BYTES] + counter.to_bytes(COUNTER_BYTES, "big")
                found.setdefault(task_id, []).append((event.end + clocks[node], event.attempt))
    if not found:
        return
    for node, ring in ((node, ring) for node, rings in nodes.items() for ring in rings):
        for place, event in enumerate(ring.events):
            if event.task_id in found and event.kind in (Kind.TASK, Kind.CALL):
                waits = found[event.task_id]
                attempt = max((number for end, number in waits if end <= event.begin + clocks[node]), default=0)
                ring.events[place] = event._replace(attempt=attempt)
