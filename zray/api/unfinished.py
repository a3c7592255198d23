"""Records of runs and waits that have not ended: made up to the moment of a look, since processes record at the end."""

from __future__ import annotations

from ..ids import root_task_id
from ..store.event_ring import ATTEMPT_MAX, Event, Kind, Outcome, RingContent
from ..wire.listing import WorkListed

__all__ = ["add_unfinished"]

RUNS = frozenset((Kind.TASK, Kind.CALL, Kind.CONSTRUCTOR))
PARTS = frozenset((Kind.GET, Kind.WAIT, Kind.PUT, Kind.SPAN))  # of a run
# A node counts milliseconds, from the moment at which it hears of a begin.
BEGIN_SECONDS = 1e-3


def add_unfinished(rings: dict[str, list[RingContent]], work: WorkListed, asked: float, now: float) -> int:
    """Add records of runs and waits that have not ended, up to now, and return how many.

    Without them, a program that waits would seem to compute.

    Args:
        rings: of the processes, by node.
        work: what the nodes listed when they were asked, before the rings were read.
        asked, now: seconds since 1970.
    """
    clocks = {node: min(ring.offset for ring in each) for node, each in rings.items()}  # one a machine
    by_process = {(node, ring.pid): ring for node, each in rings.items() for ring in each}
    recorded = {
        (event.task_id, event.attempt) for ring in by_process.values() for event in ring.events if event.kind in RUNS
    }
    added: list[tuple[RingContent, Event]] = []
    running: dict[tuple[str, int], bytes] = {}  # the task that a process runs

    def add(place: tuple[str, int], kind: Kind, task_id: bytes, name: str, begin: float, attempt: int = 0) -> None:
        ring = by_process[place]
        end = max(now - clocks[place[0]], begin)
        added.append((ring, Event(kind, task_id, begin, begin, end, end, name, "", Outcome.RUNNING, attempt, 0)))

    for task in work.tasks:
        place, attempt = (task.node.partition("/")[0], task.pid), min(task.attempts, ATTEMPT_MAX)
        is_new = place in by_process and (task.task_id, attempt) not in recorded
        if task.state == "RUNNING" and task.run_ms and is_new:
            running[place] = task.task_id
            ring = by_process[place]
            begin = _begin(ring, task.task_id, asked - task.run_ms / 1e3 - clocks[place[0]])
            add(place, Kind.CALL if task.actor_id else Kind.TASK, task.task_id, task.name, begin, attempt)
    for process in work.workers:
        place = (process.node.partition("/")[0], process.pid)
        owner = root_task_id(process.job_id) if process.kind == "driver" else running.get(place)
        if place in by_process and owner is not None and (since := by_process[place].waits_since):
            add(place, Kind.GET, owner, "get", since)
    for ring, event in added:
        ring.events.append(event)
    return len(added)


def _begin(ring: RingContent, task_id: bytes, about: float) -> float:
    """The begin of a run: ahead of its own records, and behind the runs that had ended."""
    ends = (event.stored for event in ring.events if event.kind in RUNS and event.stored <= about + BEGIN_SECONDS)
    last = max(ends, default=0.0)
    own = (event.begin for event in ring.events if event.task_id == task_id and event.kind in PARTS)
    return max(min([about, *(begin for begin in own if begin >= last)]), last)
