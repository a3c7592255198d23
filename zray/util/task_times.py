"""Times of tasks, from event records: joined to the tasks that nodes list, and older tasks beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..api.submissions import Submissions
from ..api.task_waits import FETCH, TaskWait, TaskWaits, milliseconds
from ..api.timeline import recorded_rings
from ..ids import PARENT_HASH_BYTES, children_prefix
from ..store.event_ring import NODE_LABEL, Event, Kind, Outcome, RingContent

__all__: list[str] = []  # for zray.util.state

RUNS = frozenset((Kind.TASK, Kind.CALL))
STATES = {Outcome.FINISHED: "FINISHED", Outcome.FAILED: "FAILED", Outcome.CANCELLED: "FAILED"}
NO_WAITS = {"queue_time_ms": None, "fetch_time_ms": None, "waits_ms": None, "last_argument": None}
ERRORS = {Outcome.FINISHED: None, Outcome.FAILED: "TASK_EXECUTION_EXCEPTION", Outcome.CANCELLED: "TASK_CANCELLED"}


class Run(NamedTuple):
    """The last recorded run of a task, with where it ran."""

    event: Event
    node: str
    pid: int
    offset: float  # from the machine's clock to seconds since 1970


def with_times(
    rows: list[dict[str, Any]], nodes: Mapping[str, Sequence[RingContent]] | None = None
) -> Iterator[dict[str, Any]]:
    """Add times, waits and parents to rows of tasks, and rows for recorded tasks that are not among them, latest first.

    Args:
        rows: as list_tasks() has them.
        nodes: the event records of processes, by node.  Default: those of the session.
    """
    if nodes is None:
        nodes, _ = recorded_rings("list_tasks(detail=True)")
    runs: dict[str, Run] = {}
    submissions = Submissions()  # with their times
    parents: dict[bytes, str] = {}
    waits = TaskWaits()  # in seconds since 1970
    for node, rings in nodes.items():
        offset = min(ring.offset for ring in rings)  # one clock a machine
        for ring in rings:
            waits.has_gaps |= ring.lost > 0 and ring.label == NODE_LABEL
            for event in ring.events:
                if event.kind in RUNS:
                    runs[event.task_id.hex()] = Run(event, node, ring.pid, offset)
                    parents[children_prefix(event.task_id)] = event.task_id.hex()
                elif event.kind == Kind.SUBMIT:
                    submissions.add(event, event.begin + offset)
                else:
                    waits.add(event, node, offset)
    ended = dict(runs)
    now = time.time()
    for row in rows:
        task_id = row["task_id"]
        run = runs.pop(task_id, None)
        number = bytes.fromhex(task_id)
        times = _times(number, run, submissions, parents)
        # A run before the recorded one is no wait.
        times |= _waits(waits, number, run, ended, None if row["attempt_number"] else submissions)
        if row["run_ms"]:  # it runs, perhaps once more
            times |= {"start_time_ms": round(1000 * now - row["run_ms"]), "end_time_ms": None, "phases_ms": None}
        if run is not None:  # of some calls, a process alone knows
            times["attempt_number"] = max(row["attempt_number"], run.event.attempt)
        yield {**row, **times}
    for task_id, run in sorted(runs.items(), key=lambda item: -item[1].event.end):
        times = _times(run.event.task_id, run, submissions, parents)
        yield {**_row(task_id, run), **times, **_waits(waits, run.event.task_id, run, ended, submissions)}


def of_constructor(actor_id: str) -> dict[str, Any]:
    """Return facts on the last recorded run of an actor's constructor, as rows of tasks have them, and its waits.

    Without such a run, the times are None, and the waits are all that nodes have recorded.
    """
    nodes, _ = recorded_rings("the waits of an actor")
    wanted = bytes.fromhex(actor_id)
    runs: list[Run] = []
    ended: dict[str, Run] = {}
    waits = TaskWaits()
    for node, rings in nodes.items():
        offset = min(ring.offset for ring in rings)
        for ring in rings:
            for event in ring.events:
                if event.kind in RUNS:
                    ended[event.task_id.hex()] = Run(event, node, ring.pid, offset)
                elif event.kind == Kind.CONSTRUCTOR and event.task_id == wanted:
                    runs.append(Run(event, node, ring.pid, offset))
                elif event.kind in (Kind.STAGE, Kind.FETCH):
                    waits.add(event, node, offset)
    runs.sort(key=lambda run: run.event.begin + run.offset)
    run, since = (runs[-1] if runs else None), 0.0
    if len(runs) > 1:  # it was restarted
        since = runs[-2].event.stored + runs[-2].offset
    times = _times(wanted, run, Submissions(), {})
    if run is None:
        found = waits.of(wanted)
    else:
        arguments = zip(run.event.dependencies, run.event.places, strict=True)
        found = waits.of_run(wanted, arguments, None, run.event.begin + run.offset)
    return {**times, **_facts_of_waits([wait for wait in found if wait.end > since], run, ended)}


def _times(
    task_id: bytes,
    run: Run | None,
    submissions: Submissions,
    parents: dict[bytes, str],
) -> dict[str, Any]:
    created = submissions.find(task_id)
    found: dict[str, Any] = {
        "parent_task_id": parents.get(task_id[:PARENT_HASH_BYTES]),
        "creation_time_ms": _milliseconds(created),
        "start_time_ms": None,
        "end_time_ms": None,
        "phases_ms": None,
    }
    if run is not None:
        event, offset = run.event, run.offset
        begin, read, end, stored = event.begin, event.read, event.end, event.stored
        found["start_time_ms"] = _milliseconds(begin + offset)
        found["end_time_ms"] = _milliseconds(stored + offset)
        spans = {"read_arguments": read - begin, "run": end - read, "store_results": stored - end}
        found["phases_ms"] = {name: round(1000 * max(seconds, 0.0), 3) for name, seconds in spans.items()}
        if created is not None:
            found["phases_ms"] = {"wait": round(1000 * max(begin + offset - created, 0.0), 3), **found["phases_ms"]}
    return found


def _waits(
    waits: TaskWaits, task_id: bytes, run: Run | None, ended: dict[str, Run], submissions: Submissions | None
) -> dict[str, Any]:
    """The long waits of a task, and when the last ones for a worker and for an argument's way began."""
    arguments = zip(run.event.dependencies, run.event.places, strict=True) if run is not None else ()
    if run is None or submissions is None:
        found = waits.of(task_id, arguments)
    else:
        found = waits.of_run(task_id, arguments, submissions.find(task_id), run.event.begin + run.offset)
    return _facts_of_waits(found, run, ended)


def _facts_of_waits(found: list[TaskWait], run: Run | None, ended: dict[str, Run]) -> dict[str, Any]:
    if not found:
        return NO_WAITS
    return {
        "queue_time_ms": _last_begin(found, "queue"),
        "fetch_time_ms": _last_begin(found, FETCH),
        "waits_ms": milliseconds(found) or None,
        "last_argument": _last_argument(run, ended) if any(wait.stage == "arguments" for wait in found) else None,
    }


def _last_argument(run: Run | None, ended: dict[str, Run]) -> dict[str, str] | None:
    """The task that made the last argument of a run."""
    makers = [ended[task.hex()] for task in run.event.dependencies if task.hex() in ended] if run is not None else ()
    last = max(makers, key=lambda maker: maker.event.stored + maker.offset, default=None)
    return None if last is None else {"task_id": last.event.task_id.hex(), "name": last.event.name}


def _last_begin(waits: list[TaskWait], stage: str) -> int | None:
    return _milliseconds(max((wait.begin for wait in waits if wait.stage == stage), default=None))


def _row(task_id: str, run: Run) -> dict[str, Any]:
    event = run.event
    return {
        "task_id": task_id,
        "name": event.name,
        "type": "ACTOR_TASK" if event.kind == Kind.CALL else "NORMAL_TASK",
        "state": STATES[event.outcome],
        "job_id": None,
        "node_id": run.node,
        "actor_id": None,
        "worker_pid": run.pid,
        "attempt_number": event.attempt,
        "error_type": ERRORS[event.outcome],
        "error_message": event.error or None,
        "run_ms": None,
    }


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)
