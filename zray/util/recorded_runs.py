"""Runs of tasks from the event records of a session, as columns of numpy: 100,000 of them take some milliseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..api.timeline import asked_rings
from ..store.event_ring import RECORD, RECORDS_AT, SECONDS_MAX, Kind, RingContent, names_of, read_ring

__all__ = ["Runs", "Track", "recorded_runs"]

# A record as the ring has it (store/event_ring.py).
LAYOUT = np.dtype(
    [
        ("task_id", "V16"),
        ("begin", "<f8"),
        ("read", "<f8"),
        ("end", "<f8"),
        ("stored", "<f8"),
        ("name", "<u2"),
        ("error", "<u2"),
        ("kind", "u1"),
        ("outcome", "u1"),
        ("attempt", "u1"),
        ("lane", "u1"),
        ("serial", "<u8"),
    ]
)
assert LAYOUT.itemsize == RECORD.size
RUNS = (Kind.TASK, Kind.CALL, Kind.CONSTRUCTOR)
COLUMNS = {"track": "<u4", "name": "<u4", "outcome": "u1", "begin": "<f8", "end": "<f8", "task_id": "V16"}


class Track(NamedTuple):
    """Where tasks run.

    Args:
        node_id: of its node.
        pid: of its process.
        label: of the process, as "worker 3".
        lane: thread of the process; 255: the event loop of an actor.
    """

    node_id: str
    pid: int
    label: str
    lane: int


class Runs(NamedTuple):
    """Recorded runs.

    Args:
        tracks: places of runs.
        names: of functions, methods and classes.
        columns: of arrays: "track" and "name" (numbers in the lists), "outcome" (0: finished, 1: failed, 2:
            cancelled), "begin" and "end" (seconds since 1970) and "task_id" (16 bytes).
        replaced: number of older records that later ones have replaced.
        left_out: processes whose records did not fit into the answer.
    """

    tracks: list[Track]
    names: list[str]
    columns: dict[str, Any]
    replaced: int = 0
    left_out: int = 0


def recorded_runs() -> Runs:
    """Return the latest runs of all processes of the session: 16,384 records of each, also of those that ended lately.

    Raises:
        NotImplementedError: in local mode.

    Example:
        runs = recorded_runs()
        seconds = runs.columns["end"] - runs.columns["begin"]
        print(runs.names[runs.columns["name"][seconds.argmax()]], seconds.max())
    """
    found = asked_rings("recorded_runs()")
    tracks: dict[Track, int] = {}
    names: dict[str, int] = {}
    parts: list[dict[str, Any]] = []
    replaced = 0
    rings = [(fact.node.partition("/")[0], fact.data, ring) for fact in found.rings if (ring := _facts(fact.data))]
    clocks = {node: min(ring.offset for each, _, ring in rings if each == node) for node, _, _ in rings}
    for node_id, data, ring in rings:
        part, lost = _runs_of(node_id, data, ring, clocks[node_id], tracks, names)
        replaced += lost
        if part is not None:
            parts.append(part)
    columns = {
        name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0, dtype)
        for name, dtype in COLUMNS.items()
    }
    return Runs([*tracks], [*names], columns, replaced, found.left_out)


def _facts(data: bytes) -> RingContent | None:
    """Facts of a ring on its process."""
    return read_ring(data[:RECORDS_AT])


def _runs_of(
    node_id: str, data: bytes, ring: RingContent, clock: float, tracks: dict[Track, int], names: dict[str, int]
) -> tuple[dict[str, Any] | None, int]:
    """The columns of a ring, and the number of replaced records.

    Args:
        clock: seconds from the monotonic clock of the machine to 1970.
        tracks, names: their numbers, added to.
    """
    count = (len(data) - RECORDS_AT) // RECORD.size
    records = np.frombuffer(data, LAYOUT, count, RECORDS_AT)
    written = records["kind"] != Kind.NONE
    replaced = max(int(records["serial"][written].max()) + 1 - int(written.sum()), 0) if written.any() else 0
    begin, end = records["begin"], np.maximum(records["stored"], records["begin"])
    with np.errstate(invalid="ignore"):  # a record that is being written may hold anything
        is_whole = (begin >= 0) & (end <= SECONDS_MAX)
    chosen = np.isin(records["kind"], RUNS) & is_whole
    records, begin, end = records[chosen], begin[chosen], end[chosen]
    if not len(records):
        return None, replaced
    own = [names.setdefault(name, len(names)) for name in ("(other)", *names_of(data))]
    number = np.where(records["name"] < len(own), records["name"], 0)
    lanes, lane = np.unique(records["lane"], return_inverse=True)
    places = [Track(node_id, ring.pid, ring.label, int(each)) for each in lanes]
    track = np.array([tracks.setdefault(place, len(tracks)) for place in places], "<u4")
    return {
        "track": track[lane],
        "name": np.array(own, "<u4")[number],
        "outcome": np.minimum(records["outcome"], 2),
        "begin": begin + clock,
        "end": end + clock,
        "task_id": records["task_id"],
    }, replaced
