"""Record of a run: facts on its program and nodes, the event records of its processes, and memory over time.

A record is read from the file that ZRAY_RECORD or init(record=) has made, or taken of a session that runs.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any, NamedTuple

from ..store.event_ring import (
    HEADER,
    MAGIC,
    NAMES_AT,
    RECORDS_AT,
    RingContent,
    read_ring,
)
from ..version import __version__
from ..wire.events import ListEvents
from ..wire.listing import ListWork
from .cluster_info import nodes
from .record_file import frames, is_record
from .recording import memory_of
from .sessions import require_runtime
from .task_waits import number_attempts
from .timeline import recorded_rings
from .unfinished import add_unfinished

__all__ = ["RunRecord", "is_record", "present_run", "read_run"]


class RunRecord(NamedTuple):
    """The record of a run.

    header: facts on the program, the machine and the start.
    nodes: facts on each node, by its id.
    rings: the records of processes, by node.
    memory: (seconds since 1970, bytes by node and by what they hold).
    end: seconds since 1970; None: the record ends early, since its program was killed.
    error: kind of the exception that ended the program.
    left_out: processes without records.
    is_running: the program has not ended.
    unfinished: runs and waits that have not ended; the records have them up to now.
    """

    header: dict[str, Any]
    nodes: dict[str, dict[str, Any]]
    rings: dict[str, list[RingContent]]
    memory: list[tuple[float, dict[str, dict[str, float]]]]
    end: float | None
    error: str
    left_out: int
    is_running: bool = False
    unfinished: int = 0


def read_run(path: str | os.PathLike[str]) -> RunRecord:
    """Read the record of a run from a file, also one that ends early.

    Raises:
        ValueError: the file is no record, or has another format.
        OSError: the file cannot be read.
    """
    header: dict[str, Any] = {}
    facts: dict[str, dict[str, Any]] = {}
    memory: list[tuple[float, dict[str, dict[str, float]]]] = []
    parts: dict[int, list[Any]] = {}
    last: dict[str, Any] = {"time": None, "error": "", "processes_left_out": 0}
    for kind, content in frames(os.fspath(path)):
        if kind == "header":
            header = content
        elif kind == "nodes":
            facts |= {row["node"]: row for row in content[1]}
        elif kind == "memory":
            memory.append((content[0], content[1]))
        elif kind == "rings":
            for number, node, pid, offset, label, names, records in content:
                part = parts.setdefault(number, [node, pid, offset, label, [], []])
                part[4].append(names)
                part[5].append(records)
        elif kind == "end":
            last = content
    rings: dict[str, list[RingContent]] = {}
    for node, pid, offset, label, names, records in parts.values():
        if (ring := _ring(pid, offset, label, b"".join(names), b"".join(records))) is not None:
            rings.setdefault(node, []).append(ring)
    number_attempts(rings)
    return RunRecord(header, facts, rings, memory, last["time"], last["error"], last["processes_left_out"])


def _ring(pid: int, offset: float, label: str, names: bytes, records: bytes) -> RingContent | None:
    """The content of a ring that is as long as its run."""
    text = label.encode()
    head = HEADER.pack(MAGIC, pid, offset, 0, len(text)) + text
    data = head.ljust(NAMES_AT, b"\0") + names.ljust(RECORDS_AT - NAMES_AT, b"\0") + records
    return read_ring(data)


def present_run(asker: str) -> RunRecord:
    """Take the record of the session, as far as its rings reach back.

    Args:
        asker: the function that needs it, for errors.

    Raises:
        NotImplementedError: in local mode.
    """
    work, asked = require_runtime().ask(ListWork), time.time()
    rings, left_out = recorded_rings(asker)
    rows = {
        node["NodeID"]: {
            "node": node["NodeID"],
            "host": node["NodeManagerHostname"],
            "is_alive": node["Alive"],
            "resources": node["Resources"],
        }
        for node in nodes()
    }
    now = time.time()
    found = require_runtime().ask(lambda request: ListEvents(request, are_metrics=True))
    drivers = [ring for each in rings.values() for ring in each if ring.label.startswith("driver ")]
    others = [ring for ring in drivers if ring.pid != os.getpid()] or drivers
    program = max(others, key=lambda ring: len(ring.events), default=None)
    header = {
        "zray": __version__,
        "python": platform.python_version(),
        "program": program.label.removeprefix("driver ") if program is not None else "",
        "pid": program.pid if program is not None else 0,
        "host": socket.gethostname(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "start": None,  # the first record
    }
    own = {node: [ring for ring in each if ring.pid != os.getpid() or ring in others] for node, each in rings.items()}
    count = add_unfinished(own, work, asked, now)
    return RunRecord(header, rows, own, [(now, memory_of(found))], now, "", left_out, is_running=True, unfinished=count)
