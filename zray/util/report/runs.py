"""Runs of tasks and calls on one clock, with their submissions, arguments and waits, from event records."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ...api.submissions import Submissions
from ...api.task_waits import TaskWait, TaskWaits
from ...host.client.event_log import ASYNC_LANE
from ...ids import PARENT_HASH_BYTES, children_prefix
from ...store.event_ring import NODE_LABEL, Event, Kind, Need, Outcome, RingContent

__all__: list[str] = []  # for `zray report`

PROGRAM, OTHERS = b"", b"others"  # in place of a task's id: the program, and other programs of its session
RUN_KINDS = frozenset((Kind.TASK, Kind.CALL, Kind.CONSTRUCTOR))
WAIT_KINDS = {Kind.GET: "get", Kind.WAIT: "wait"}


class Row(NamedTuple):
    """A row of the timeline: a process, or a part of one where calls run at once."""

    name: str
    node: str
    is_program: bool


class Run(NamedTuple):
    """A run of a task, a call or a constructor.  Times are in seconds since the start.

    parent: id of the task that submitted it; PROGRAM: a program did.  submitted: None if unknown.  read, end: when its
    arguments were there, and its code had ended.  stored: when its results were stored.  dependencies: ids of the tasks
    that made its arguments.  places, request: as an event has them.  process: node and pid.
    attempt: 0 for the first run of the task.
    """

    task_id: bytes
    name: str
    kind: Kind
    row: int
    submitted: float | None
    begin: float
    read: float
    end: float
    stored: float
    parent: bytes = PROGRAM
    outcome: Outcome = Outcome.FINISHED
    error: str = ""
    dependencies: tuple[bytes, ...] = ()
    places: tuple[int, ...] = ()
    request: str = ""
    process: tuple[str, int] = ("", 0)
    attempt: int = 0

    @property
    def seconds(self) -> float:
        """How long the run took."""
        return self.stored - self.begin


class Wait(NamedTuple):
    """A wait in `get` or `wait`, of a task or of a program (PROGRAM), for `wanted` of its needs."""

    owner: bytes
    begin: float
    end: float
    row: int
    kind: str = "get"
    needs: tuple[Need, ...] = ()
    wanted: int = 0


class Runs:
    """All runs and waits of a record.

    Args:
        runs: in any order.
        waits: in any order.
        end: the end of the program, in seconds since the start.
        rows: of the timeline.
        start: seconds since 1970.
        at_nodes: what tasks waited for at nodes, in seconds since the start.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        waits: Sequence[Wait] = (),
        end: float | None = None,
        rows: Sequence[Row] = (),
        start: float = 0.0,
        at_nodes: TaskWaits | None = None,
    ) -> None:
        self.runs = sorted(runs, key=lambda run: run.begin)
        self.waits = sorted(waits, key=lambda wait: wait.end)
        self.rows = rows
        self.start = start
        self.at_nodes = at_nodes or TaskWaits()
        last = max([0.0, *(run.stored for run in self.runs), *(wait.end for wait in self.waits)])
        self.end = last if end is None else max(end, last)
        self.places: dict[bytes, list[int]] = {}  # of the runs of a task, in order
        for place, run in enumerate(self.runs):
            self.places.setdefault(run.task_id, []).append(place)

    def waits_of(self, place: int) -> list[TaskWait]:
        """The long waits of the task of a run; of its first run, also that in the process."""
        run = self.runs[place]
        arguments = zip(run.dependencies, run.places, strict=False)
        if self.places[run.task_id][0] != place:
            return self.at_nodes.of(run.task_id, arguments)
        return self.at_nodes.of_run(run.task_id, arguments, run.submitted, run.begin)

    def run_at(self, task_id: bytes, moment: float) -> int | None:
        """The place of the last run of a task that began by a moment."""
        places = self.places.get(task_id, ())
        count = bisect_right(places, moment, key=lambda place: self.runs[place].begin)
        return places[count - 1] if count else None

    def ready_at(self, run: Run) -> float | None:
        """The moment at which a run was submitted and its arguments were made; None: unknown."""
        if run.submitted is None:
            return None
        ready = run.submitted
        for task_id in run.dependencies:
            place = self.run_at(task_id, run.begin)
            if place is not None and self.runs[place].stored <= run.begin:
                ready = max(ready, self.runs[place].stored)
        return ready


def runs_of(
    nodes: Mapping[str, Sequence[RingContent]],
    start: float | None = None,
    end: float | None = None,
    pid: int | None = None,
) -> Runs:
    """Put the records of all processes on one clock.

    Args:
        nodes: the records of processes, by node.
        start: of the program, in seconds since 1970.  Default: the first record.
        end: of the program.  Default: the last record.
        pid: of the program, which may share its session with others.  Default: the driver with most records.
    """
    # One clock a machine, as each process has set its own by a look at the wall clock.
    clocks = {node: min(ring.offset for ring in rings) for node, rings in nodes.items() if rings}
    if start is None:
        begins = (
            clocks[node] + event.begin
            for node, rings in nodes.items()
            for ring in rings
            for event in ring.events
            if event.kind != Kind.CHANGE
        )
        start = min(begins, default=0.0)
    shifts = {node: clock - start for node, clock in clocks.items()}
    # Records from before the start are of programs that were in the session earlier.
    recent = [
        (node, ring, [event for event in ring.events if event.stored + shifts[node] >= 0])
        for node, rings in nodes.items()
        for ring in rings
    ]
    recent.sort(key=lambda each: (not each[1].label.startswith("driver"), each[0], each[1].pid))  # programs come first
    submissions, parents, at_nodes = Submissions(), _children_of_program(recent, pid), TaskWaits()
    waiters: dict[bytes, bytes] = {}
    for node, ring, events in recent:
        at_nodes.has_gaps |= ring.lost > 0 and ring.label == NODE_LABEL
        for event in events:
            if event.kind == Kind.SUBMIT:
                submissions.add(event, event.begin + shifts[node])
            elif event.kind in RUN_KINDS:
                parents[children_prefix(event.task_id)] = waiters[event.task_id] = event.task_id
            elif event.kind in WAIT_KINDS and parents.get(children_prefix(event.task_id)) == PROGRAM:
                waiters[event.task_id] = PROGRAM
            else:
                at_nodes.add(event, node, shifts[node])
    rows: list[Row] = []
    runs: list[Run] = []
    waits: list[Wait] = []
    for node, ring, events in recent:
        own, shift = _Rows(rows, node, ring), shifts[node]
        for event in sorted(events, key=lambda event: event.begin):
            if event.kind in RUN_KINDS:
                parent = parents.get(event.task_id[:PARENT_HASH_BYTES], OTHERS)
                run = _run(event, shift, own.of_run(event), submissions.find(event.task_id), parent)
                runs.append(run._replace(process=(node, ring.pid), attempt=event.attempt))
            elif event.kind in WAIT_KINDS:
                owner = waiters.get(event.task_id, OTHERS)
                begin, until = max(event.begin + shift, 0.0), max(event.begin, event.end) + shift
                row, kind = own.of_wait(event), WAIT_KINDS[event.kind]
                waits.append(Wait(owner, begin, until, row, kind, event.needs, event.wanted))
    return Runs(runs, waits, None if end is None else end - start, rows, start, at_nodes)


def _children_of_program(rings: list[tuple[str, RingContent, list[Event]]], pid: int | None) -> dict[bytes, bytes]:
    """The beginnings of the ids of tasks that the program itself has submitted, each with PROGRAM."""
    drivers = [(ring.pid == pid, len(events), ring.pid) for _, ring, events in rings if ring.label.startswith("driver")]
    own = max(drivers, default=(False, 0, pid))[2]
    events = [event for _, ring, events in rings if ring.pid == own for event in events]
    found = {event.task_id[:PARENT_HASH_BYTES] for event in events if event.kind == Kind.SUBMIT}
    found |= {children_prefix(event.task_id) for event in events if event.kind in WAIT_KINDS}
    return dict.fromkeys(found, PROGRAM)


def _run(event: Event, shift: float, row: int, submitted: float | None, parent: bytes) -> Run:
    begin = event.begin
    read = max(begin, event.read)
    end = max(read, event.end)
    return Run(
        event.task_id,
        event.name,
        event.kind,
        row,
        None if submitted is None else max(min(submitted, begin + shift), 0.0),  # clocks of machines differ
        max(begin + shift, 0.0),
        read + shift,
        end + shift,
        max(end, event.stored) + shift,
        parent,
        event.outcome,
        event.error,
        event.dependencies,
        event.places,
        event.request,
    )


class _Rows:
    """The rows of a process: one for each thread, and as many as needed for calls in an event loop."""

    def __init__(self, rows: list[Row], node: str, ring: RingContent) -> None:
        self.rows, self.node = rows, node
        self.is_program = ring.label.startswith("driver")
        actors = {event.name for event in ring.events if event.kind == Kind.CONSTRUCTOR}
        label = ring.label.removeprefix("driver ")
        self.title = f"{actors.pop() if len(actors) == 1 else label} (pid {ring.pid})"
        self.by_lane: dict[int, int] = {}
        self.by_task: dict[bytes, int] = {}
        self.free: list[tuple[float, int]] = []  # (end of the last call, row), of event loops

    def _new(self) -> int:
        self.rows.append(Row(self.title, self.node, self.is_program))
        return len(self.rows) - 1

    def of_run(self, event: Event) -> int:
        """The row of a run; runs come in the order of their begins."""
        if event.lane != ASYNC_LANE:
            row = self.by_lane[event.lane] = self.by_lane.get(event.lane, -1)
            if row < 0:
                row = self.by_lane[event.lane] = self._new()
        elif self.free and self.free[0][0] <= event.begin:
            row = heapq.heapreplace(self.free, (event.stored, self.free[0][1]))[1]
        else:
            row = self._new()
            heapq.heappush(self.free, (event.stored, row))
        self.by_task[event.task_id] = row
        return row

    def of_wait(self, event: Event) -> int:
        """The row of a wait: that of its run."""
        row = self.by_task.get(event.task_id)
        if row is None:
            row = self.by_lane.get(event.lane, -1)
            row = self._new() if row < 0 else row
            self.by_lane[event.lane] = row
        return row


def waits_by_owner(runs: Runs) -> dict[bytes, list[Wait]]:
    """The waits of each task and of the programs (PROGRAM), in order of their ends."""
    found: dict[bytes, list[Wait]] = {}
    for wait in runs.waits:
        found.setdefault(wait.owner, []).append(wait)
    return found


def children(runs: Runs) -> Iterator[tuple[bytes, int]]:
    """Yield (parent, place of the run) in the order in which runs ended."""
    for place in sorted(range(len(runs.runs)), key=lambda place: runs.runs[place].stored):
        yield runs.runs[place].parent, place
