"""Content of a report: everything that its page shows, as one JSON object with packed columns."""

from __future__ import annotations

import base64
import time
import zlib
from typing import Any

import numpy as np

from ...api.run_records import RunRecord
from ...api.state_changes import changes_of
from ...store.event_ring import Outcome
from .critical_path import Path, critical_path
from .findings import Facts, findings_of, headline, text_of
from .functions import functions_of
from .idle import REASONS, usage_of
from .runs import Run, Runs, runs_of

__all__: list[str] = []  # for `zray report`

# Runs in the picture, the longest; a page of so many stays below 10 MB, and is drawn without a stall.
DRAWN_MAX = 200_000
WAITS_MAX = 50_000
STEPS_MAX = 300
BINS = 400
# Changes of state in the table.  Beyond that, actors and workers go first, and of them those that went well.
CHANGES_MAX = 1_000
MANY, SMOOTH = frozenset(("actor", "worker")), frozenset(("PENDING", "STARTING", "ALIVE"))
ON_PATH = 4  # added to the outcome of a run
ATTEMPT, ATTEMPT_MAX = 8, 31  # the number of its attempt is added in units of this


def content_of(record: RunRecord) -> dict[str, Any]:
    """Return the content of the report on a run."""
    runs = runs_of(record.rings, record.header.get("start"), record.end, record.header.get("pid"))
    cores = sum(node["resources"].get("CPU", 0.0) for node in record.nodes.values())
    cores = cores or float(len({run.row for run in runs.runs})) or 1.0
    memory = _memory(record, runs)
    facts = Facts(runs, usage_of(runs, cores, BINS), critical_path(runs), functions_of(runs), memory)
    seconds = facts.usage.seconds
    total = max(sum(seconds.values()), 1e-9)
    return {
        "program": record.header.get("program", ""),
        "headline": headline(facts),
        "findings": [each._asdict() for each in findings_of(facts)],
        "facts": _facts(record, facts),
        "notes": _notes(record, runs),
        "start": runs.start,
        "duration": runs.end,
        "cores": cores,
        "usage": [[name, REASONS[name], seconds[name] / total] for name in REASONS],
        "bins": _packed((facts.usage.bins * 255).astype(np.uint8)),
        "rows": [[row.name, row.node[:8], row.is_program] for row in runs.rows],
        "functions": [each._asdict() for each in facts.functions],
        "path": _path(facts.path, runs),
        "memory": memory,
        "changes": _changes(record, runs),
        **_columns(runs, facts),
    }


def _facts(record: RunRecord, facts: Facts) -> list[tuple[str, str]]:
    """Names and values for the head of the page."""
    runs, seconds = facts.runs, facts.usage.seconds
    hosts = {node["host"] for node in record.nodes.values()}
    failed = sum(run.outcome == Outcome.FAILED for run in runs.runs)
    cancelled = sum(run.outcome == Outcome.CANCELLED for run in runs.runs)
    if record.is_running:
        ended = "it runs"
    elif record.end is None:
        ended = "unknown: the record ends early"
    else:
        ended = f"by {record.error}" if record.error else "orderly"
    return [
        ("Duration", text_of(runs.end)),
        ("Utilisation", f"{100 * seconds['busy'] / max(sum(seconds.values()), 1e-9):.0f} %"),
        ("Runs", f"{len(runs.runs):,}"),
        ("Failed", f"{failed:,}" + (f", {cancelled:,} cancelled" if cancelled else "")),
        ("CPUs", f"{facts.usage.cores:g}"),
        ("Nodes", f"{len(record.nodes) or len(record.rings)}" + (f" on {len(hosts)} hosts" if len(hosts) > 1 else "")),
        ("Start", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(runs.start))),
        ("End", ended),
        ("Machine", f"{record.header.get('host', '')}, {record.header.get('machine', '')}"),
        ("Versions", f"zray {record.header.get('zray', '')}, Python {record.header.get('python', '')}"),
    ]


def _notes(record: RunRecord, runs: Runs) -> list[str]:
    """Return the sentences on records that the report lacks."""
    lost = sum(ring.lost for rings in record.rings.values() for ring in rings)
    notes = []
    if lost:
        why = "ZRAY_RECORD keeps all of a run." if record.is_running else "Processes wrote faster than they were read."
        notes.append(f"{lost:,} records are missing: a process keeps the latest 16,384.  {why}")
    if record.left_out:
        notes.append(f"The records of {record.left_out} processes are missing: they did not fit, or did not answer.")
    if len(runs.runs) > DRAWN_MAX:
        notes.append(f"The timeline shows the longest {DRAWN_MAX:,} of {len(runs.runs):,} runs; all sums have all.")
    if record.unfinished:
        notes.append(f"{record.unfinished:,} runs and waits have not ended: they are shown up to now.")
    if record.end is None:
        notes.append("The program was killed: its last moments are missing.")
    return notes


def _columns(runs: Runs, facts: Facts) -> dict[str, Any]:
    """Runs and waits as columns, ordered by row and begin."""
    number = {function.name: place for place, function in enumerate(facts.functions)}
    on_path = {step.run for step in facts.path.steps if step.kind == "run"}
    places = [*range(len(runs.runs))]
    if len(places) > DRAWN_MAX:
        places = sorted(places, key=lambda place: (place not in on_path, -runs.runs[place].seconds))[:DRAWN_MAX]
    ordered = sorted(places, key=lambda place: (runs.runs[place].row, runs.runs[place].begin))
    own = [runs.runs[place] for place in ordered]
    unit = max(runs.end, 1e-6) / 0xFFFF_FFF0
    longest = sorted(runs.waits, key=lambda wait: wait.begin - wait.end)[:WAITS_MAX]
    waits = sorted(longest, key=lambda wait: (wait.row, wait.begin))
    return {
        "unit": unit,
        "count": len(own),
        "begins": _packed(_ticks([run.begin for run in own], unit)),
        "lengths": _packed(_ticks([run.seconds for run in own], unit)),
        "rowOf": _packed(np.array([run.row for run in own], np.uint16)),
        "nameOf": _packed(np.array([min(number[run.name], 65_535) for run in own], np.uint16)),
        "outcomes": _packed(
            np.array([_flags(run, place in on_path) for run, place in zip(own, ordered, strict=True)], np.uint8)
        ),
        "ids": _packed(np.frombuffer(b"".join(run.task_id for run in own), np.uint8)),
        "waits": {
            "begins": _packed(_ticks([wait.begin for wait in waits], unit)),
            "lengths": _packed(_ticks([wait.end - wait.begin for wait in waits], unit)),
            "rowOf": _packed(np.array([wait.row for wait in waits], np.uint16)),
        },
    }


def _flags(run: Run, is_on_path: bool) -> int:
    return run.outcome + ON_PATH * is_on_path + ATTEMPT * min(run.attempt, ATTEMPT_MAX)


def _ticks(seconds: list[float], unit: float) -> Any:
    return np.clip(np.rint(np.array(seconds, float) / unit), 0, 0xFFFF_FFFF).astype("<u4")


def _packed(column: Any) -> str:
    """A column for the page: deflated, as base64."""
    return base64.b64encode(zlib.compress(np.ascontiguousarray(column).tobytes(), 6)).decode()


def _path(path: Path, runs: Runs) -> dict[str, Any]:
    """The path's sums, and its longest steps in the order of time."""
    longest = sorted(path.steps, key=lambda step: -step.seconds)[:STEPS_MAX]
    steps = sorted(longest, key=lambda step: step.begin)
    return {
        "count": len(path.steps),
        "rows": path.rows(),
        "steps": [
            [
                step.kind,
                step.name,
                step.begin,
                step.end,
                runs.runs[step.run].task_id.hex() if step.run is not None else "",
            ]
            for step in steps
        ],
        "line": [[step.begin, step.end, _row(step, runs)] for step in steps],
    }


def _changes(record: RunRecord, runs: Runs) -> list[list[Any]]:
    """Changes of state in the order of time; of very many, those that say most."""
    found = changes_of(record.rings)
    own = [change for change in found if 0 <= change.time - runs.start <= runs.end or change.kind == "node"]
    if len(own) > CHANGES_MAX:
        own = sorted(own, key=lambda change: (change.kind in MANY, change.state in SMOOTH))[:CHANGES_MAX]
    return [
        [round(max(each.time - runs.start, 0.0), 6), each.kind, each.name or each.id, each.state, each.reason, each.pid]
        for each in sorted(own, key=lambda change: change.time)
    ]


def _row(step: Any, runs: Runs) -> int:
    if step.run is not None:
        return runs.runs[step.run].row
    return next((place for place, row in enumerate(runs.rows) if row.is_program), 0)


def _memory(record: RunRecord, runs: Runs) -> list[dict[str, Any]]:
    """Bytes over time, of each node: in use on the machine, in the object store, and on disk."""
    found: dict[str, dict[str, Any]] = {}
    for moment, nodes in record.memory:
        for node, held in nodes.items():
            series = found.setdefault(node, {"node": node[:8], "times": [], "used": [], "store": [], "disk": []})
            series["times"].append(round(moment - runs.start, 3))
            for name in ("used", "store", "disk"):
                series[name].append(held.get(name, 0.0))
            series["total"] = held.get("total", 0.0)
            series["capacity"] = held.get("capacity", 0.0)
    return [*found.values()]
