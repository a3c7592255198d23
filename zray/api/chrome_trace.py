"""Chrome trace of event records, in the format that Perfetto and chrome://tracing open.

A node is a process of the trace, and a process of zray a thread in it.  Actors with several calls at once have further
threads, and so have waits of tasks at the node.  Arrows lead from a task to the tasks that it submits, and to those
that take its results.  Changes of state of workers, actors and others are instants, in rows of their own.

Source: Trace Event Format (Google, 2016); names and categories are those of Ray's timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..host.client.event_log import ASYNC_LANE
from ..store.event_ring import NODE_LABEL, Event, Kind, Outcome, RingContent
from .state_changes import KINDS, Change, changes_of
from .submissions import Submissions
from .task_waits import PROCESS, TaskWait, TaskWaits, milliseconds, name_of

__all__ = ["trace_of"]

RUNS = frozenset((Kind.TASK, Kind.CALL, Kind.CONSTRUCTOR))
WAITS = frozenset((Kind.STAGE, Kind.FETCH))
SPANS = {Kind.GET: "ray.get", Kind.WAIT: "ray.wait", Kind.PUT: "ray.put"}
# Shorter phases of a task have no slices: they would make the file four times as large.
PHASE_NS_MIN = 50_000
# Arrows of a trace; Perfetto stays fluent with so many.
FLOWS_MAX = 200_000
# Rows of calls that run at once in an actor, and of waits of a node; further waits are in the arguments of runs alone.
ROWS_MAX = 32
# Rows of waits in a process; further waits are in the arguments of runs alone.
PROCESS_ROWS_MAX = 4
# A thread whose number is that of a process would name the process: there are fewer nodes than this.
FIRST_THREAD = 100_000
SUBMIT_NS = 1_000
OUTCOMES = {outcome: outcome.name for outcome in Outcome}


class Slice(NamedTuple):
    """A slice of a row.  Times are in nanoseconds since the start of the trace."""

    begin: int
    end: int
    name: str
    category: str
    args: dict[str, Any]
    color: str = ""


class Place(NamedTuple):
    """The row and the times of a run."""

    pid: int
    tid: int
    begin: int
    end: int


class Trace:
    """The events of a trace that is being built."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.places: dict[bytes, Place] = {}  # of runs, by task
        self.submissions = Submissions()  # with their places
        self.waits = TaskWaits()
        self.submitted = Submissions()  # with their times, in seconds
        self.first_begins: dict[bytes, float] = {}  # of the runs of each task
        self.flows = 0
        self.left_out = 0  # arrows
        self.threads = 0

    def learn(self, event: Event, node: str, shift: float) -> None:
        """Note what waits of tasks are computed from: waits at nodes, submissions, and the first runs."""
        if event.kind in WAITS:
            self.waits.add(event, node, shift)
        elif event.kind == Kind.SUBMIT:
            self.submitted.add(event, event.begin + shift)
        elif event.kind in RUNS:
            begin = event.begin + shift
            self.first_begins[event.task_id] = min(begin, self.first_begins.get(event.task_id, begin))

    def waits_of(self, run: Event, shift: float) -> list[TaskWait]:
        """Return the long waits of the task of a run; of its first run, also that in the process."""
        arguments, begin = zip(run.dependencies, run.places, strict=True), run.begin + shift
        if begin > self.first_begins[run.task_id]:
            return self.waits.of(run.task_id, arguments)
        return self.waits.of_run(run.task_id, arguments, self.submitted.find(run.task_id), begin)

    def name_process(self, pid: int, name: str) -> None:
        """Name a node."""
        self._meta("process_name", pid, 0, name=name)
        self._meta("process_sort_index", pid, 0, sort_index=pid)

    def new_thread(self, pid: int, name: str) -> int:
        """Add a row to a node, and return its number."""
        self.threads += 1
        tid = FIRST_THREAD + self.threads
        self._meta("thread_name", pid, tid, name=name)
        self._meta("thread_sort_index", pid, tid, sort_index=self.threads)
        return tid

    def _meta(self, kind: str, pid: int, tid: int, **args: Any) -> None:
        self.events.append({"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": args})

    def add(self, pid: int, tid: int, slices: list[Slice]) -> None:
        """Add the slices of a row; one that would end behind the slice around it is cut."""
        slices.sort(key=lambda each: (each.begin, -each.end))
        around: list[int] = []  # ends of the slices that are open
        for each in slices:
            while around and around[-1] <= each.begin:
                around.pop()
            end = min(each.end, around[-1]) if around else each.end
            around.append(end)
            event = {
                "ph": "X",
                "name": each.name,
                "cat": each.category,
                "pid": pid,
                "tid": tid,
                "ts": _us(each.begin),
                "dur": _us(end) - _us(each.begin),
                "args": each.args,
            }
            if each.color:
                event["cname"] = each.color
            self.events.append(event)

    def arrow(self, kind: str, start: Place, end: Place) -> None:
        """Add an arrow from one slice to another."""
        if self.flows >= FLOWS_MAX:
            self.left_out += 1
            return
        self.flows += 1
        out = start.end - min(1_000, (start.end - start.begin) // 2) if kind == "dep" else start.begin
        into = end.begin + min(1_000, (end.end - end.begin) // 2)
        common = {"name": kind, "cat": kind, "id": self.flows}
        self.events.append({"ph": "s", **common, "pid": start.pid, "tid": start.tid, "ts": _us(out)})
        arrival = _us(max(out, into))
        self.events.append({"ph": "f", "bp": "e", **common, "pid": end.pid, "tid": end.tid, "ts": arrival})


def trace_of(nodes: dict[str, list[RingContent]], left_out: int = 0) -> list[dict[str, Any]]:
    """The events of a Chrome trace.

    Args:
        nodes: the rings of processes, by node.
        left_out: rings that are missing.

    Returns:
        A list for json.dump.  The first event says when the trace begins, and how many records are missing.
    """
    clocks = {node: min(ring.offset for ring in rings) for node, rings in nodes.items()}
    base = min(clocks.values(), default=0.0)
    offsets = {node: clock - base for node, clock in clocks.items()}  # small: seconds since 1970 have digits to lose
    changes = changes_of(nodes)
    begins = [
        offsets[node] + event.begin
        for node, rings in nodes.items()
        for ring in rings
        for event in ring.events
        if event.kind != Kind.CHANGE
    ]
    start = min(begins, default=min((change.time - base for change in changes), default=0.0))
    trace = Trace()
    for node, rings in nodes.items():
        for ring in rings:
            trace.waits.has_gaps |= ring.lost > 0 and ring.label == NODE_LABEL
            for event in ring.events:
                trace.learn(event, node, offsets[node] - start)
    for number, (node, rings) in enumerate(sorted(nodes.items()), 1):
        trace.name_process(number, f"node {node[:8]}")
        for ring in sorted(rings, key=lambda ring: (not ring.label.startswith("driver"), ring.label, ring.pid)):
            _add_ring(trace, number, ring, offsets[node] - start)
    _add_changes(trace, changes, {node: number for number, node in enumerate(sorted(nodes), 1)}, base + start)
    _add_arrows(trace, [event for rings in nodes.values() for ring in rings for event in ring.events])
    lost = sum(ring.lost for rings in nodes.values() for ring in rings)
    facts = {
        "start": base + start,
        "records_lost": lost,
        "processes_left_out": left_out,
        "arrows_left_out": trace.left_out,
    }
    return [{"ph": "M", "name": "zray_record", "pid": 0, "tid": FIRST_THREAD, "ts": 0, "args": facts}, *trace.events]


def _add_ring(trace: Trace, pid: int, ring: RingContent, offset: float) -> None:
    actors = {event.name for event in ring.events if event.kind == Kind.CONSTRUCTOR}
    # A process of hosted actors has several classes.
    title = f"{actors.pop() if len(actors) == 1 else ring.label} (pid {ring.pid})"
    rows: dict[tuple[int, int], list[Slice]] = {}
    row_of_task: dict[bytes, tuple[int, int]] = {}
    ends: list[int] = []  # of the rows of calls in an event loop
    before: list[tuple[int, int, Event]] = []  # runs, each with the begin and the end of its wait in the process
    tids: dict[tuple[int, int], int] = {}

    def tid_of(row: tuple[int, int]) -> int:
        if row not in tids:
            tids[row] = trace.new_thread(pid, title if row == (0, 0) else f"{title} [{len(tids) + 1}]")
        return tids[row]

    runs = sorted((event for event in ring.events if event.kind in RUNS), key=lambda event: event.begin)
    for event in runs:
        begin = _ns(event.begin + offset)
        end = max(_ns(event.stored + offset), begin)
        row = (event.lane, _free_row(ends, begin, end) if event.lane == ASYNC_LANE else 0)
        row_of_task[event.task_id] = row
        waits = trace.waits_of(event, offset)
        rows.setdefault(row, []).extend(_slices_of_run(waits, event, offset, begin, end))
        if waits and waits[-1].stage == PROCESS:
            before.append((_ns(waits[-1].begin), begin, event))
        trace.places[event.task_id] = Place(pid, tid_of(row), begin, end)
    for event in ring.events:
        begin = _ns(event.begin + offset)
        row = row_of_task.get(event.task_id, (event.lane, 0))
        if event.kind == Kind.SUBMIT:
            place = Place(pid, tid_of((0, 0)), begin, begin + SUBMIT_NS)
            rows.setdefault((0, 0), []).append(
                Slice(begin, begin + SUBMIT_NS, "submit_task", "submit_task", {"count": event.tasks})
            )
            trace.submissions.add(event, place)
        elif event.kind in SPANS or event.kind == Kind.SPAN:
            name = SPANS.get(event.kind, event.name)
            tid_of(row)
            rows.setdefault(row, []).append(
                Slice(begin, max(_ns(event.end + offset), begin), name, name, {"task_id": event.task_id.hex()})
            )
    for each in sorted((event for event in ring.events if event.kind in WAITS), key=lambda event: event.begin):
        begin, end = _ns(each.begin + offset), max(_ns(each.end + offset), _ns(each.begin + offset))
        row = (0, _free_row(ends, begin, end))
        if ends[row[1]] == end:
            tid_of(row)
            rows.setdefault(row, []).append(_slice_of_wait(each, begin, end))
    for row, slices in rows.items():
        trace.add(pid, tid_of(row), slices)
    _add_waits_in_process(trace, pid, title, before)


def _add_waits_in_process(trace: Trace, pid: int, title: str, waits: list[tuple[int, int, Event]]) -> None:
    """Add the waits of tasks in the process that ran them, in rows of their own."""
    ends: list[int] = []
    rows: dict[int, list[Slice]] = {}
    name = f"wait:{PROCESS}"
    for begin, end, event in sorted(waits, key=lambda wait: wait[:2]):
        row = _free_row(ends, begin, end, PROCESS_ROWS_MAX)
        if ends[row] == end:
            args = {"task_id": event.task_id.hex(), "func_or_class_name": event.name, "count": 1}
            rows.setdefault(row, []).append(Slice(begin, end, name, name, args))
    for number, slices in rows.items():
        trace.add(pid, trace.new_thread(pid, f"{title} [waits {number + 1}]"), slices)


def _slice_of_wait(event: Event, begin: int, end: int) -> Slice:
    """The slice of a wait of tasks at a node, or of a value on its way there."""
    args: dict[str, Any] = {"task_id": event.task_id.hex()}
    if event.kind == Kind.FETCH:
        return Slice(begin, end, "fetch", "fetch", {**args, "bytes": event.size})
    name = f"wait:{name_of(event.stage)}"
    return Slice(begin, end, name, name, {**args, "func_or_class_name": event.name, "count": event.tasks})


def _slices_of_run(waits: list[TaskWait], event: Event, offset: float, begin: int, end: int) -> Iterator[Slice]:
    args: dict[str, Any] = {
        "task_id": event.task_id.hex(),
        "func_or_class_name": event.name,
        "outcome": OUTCOMES[event.outcome],
        **({"error": event.error} if event.error else {}),
    }
    if event.attempt:
        args["attempt_number"] = event.attempt
    if waited := milliseconds(waits):
        args["waits_ms"] = waited
    color = "" if event.outcome == Outcome.FINISHED else "terrible"
    yield Slice(begin, end, f"task::{event.name}", f"task::{event.name}", args, color)
    read, ran = _ns(event.read + offset), _ns(event.end + offset)
    if read - begin < PHASE_NS_MIN and end - ran < PHASE_NS_MIN:
        return
    for phase, since, until in (
        ("deserialize_arguments", begin, read),
        ("execute", read, ran),
        ("store_outputs", ran, end),
    ):
        if until - since >= PHASE_NS_MIN:
            yield Slice(since, until, f"task:{phase}", f"task:{phase}", {"task_id": event.task_id.hex()})


def _free_row(ends: list[int], begin: int, end: int, most: int = ROWS_MAX) -> int:
    """The first row whose last call has ended; the last one takes what is left."""
    for number, last in enumerate(ends):
        if last <= begin:
            ends[number] = end
            return number
    if len(ends) < most:
        ends.append(end)
    return len(ends) - 1


def _add_changes(trace: Trace, changes: list[Change], numbers: dict[str, int], start: float) -> None:
    """Add changes of state as instants, in a row for each kind of what has changed.

    Of what was there before the start, the state at the start is shown.

    Args:
        numbers: of the processes of the trace, by node.
        start: seconds since 1970.
    """
    before = {change.thing: change for change in changes if change.time < start}
    standing = [change for change in before.values() if not change.is_final]
    shown = [*standing, *(change for change in changes if change.time >= start)]
    rows: dict[tuple[int, str], int] = {}
    for change in sorted(shown, key=lambda change: ([*KINDS.values()].index(change.kind), change.time)):
        pid = numbers.get(change.id) if change.kind == "node" else None
        place = pid or numbers[change.node], change.kind
        if place not in rows:
            rows[place] = trace.new_thread(place[0], f"states of {change.kind}s")
        args: dict[str, Any] = {"id": change.id, "state": change.state, "time": change.time}
        args |= {key: value for key in ("name", "reason", "pid") if (value := getattr(change, key))}
        name = f"{change.kind} {change.name or change.id[:16]}: {change.state}"
        common = {"name": name, "cat": "state", "pid": place[0], "tid": rows[place]}
        trace.events.append({"ph": "i", "s": "t", **common, "ts": max(_us(_ns(change.time - start)), 0), "args": args})


def _add_arrows(trace: Trace, events: Iterable[Event]) -> None:
    for event in events:
        if event.kind not in RUNS:
            continue
        place = trace.places[event.task_id]
        for dependency in event.dependencies:
            producer = trace.places.get(dependency)
            if producer is not None:
                trace.arrow("dep", producer, place)
        submit = trace.submissions.find(event.task_id)
        if submit is not None:
            trace.arrow("submit", submit, place)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _us(nanoseconds: int) -> int:
    """Return whole microseconds: Perfetto rounds fractions down, and drops slices that end too late thereby."""
    return nanoseconds // 1000
