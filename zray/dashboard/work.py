"""Views of work: the task stream, tasks by function and one by one, and what is known of one thing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from zray.util.recorded_runs import Runs

from .session import Row, Session
from .tiles import Open, tile
from .views import FAILED, RUNNING, WAITING, Asked, Seen, Table, cut, group_of, head, held, node_rows

SECONDS, SECONDS_MAX = 60.0, 7 * 86_400.0
STEPS = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
FUNCTIONS_MAX = 500
WHY_LINES_MAX = 60
ID_CHARACTERS_MIN = 8


def overview(session: Session, asked: Asked) -> Seen:
    """The session in numbers, the task stream, and the functions.

    Words: seconds (of the window, which ends now), or begin and end; buckets.
    """
    tasks, runs = session.tasks(), session.runs()
    facts: Row = {"session": head(session), "tasks": _counts(tasks)}
    facts["stream"] = _stream(tasks, runs, asked)
    return Seen(facts, {"functions": _functions(tasks, runs)})


def stream(session: Session, asked: Asked) -> Seen:
    """The task stream alone; words as of the overview."""
    return Seen({"stream": _stream(session.tasks(), session.runs(), asked)})


def _stream(tasks: list[Row], runs: Runs, asked: Asked) -> Row:
    now = time.time()
    end = asked.number("end", now, 0, now)
    begins = runs.columns["begin"]
    oldest = float(begins.min()) if len(begins) else now - SECONDS
    if asked.words.get("seconds") == "all":
        begin = min(oldest, end - STEPS[0])
    else:
        seconds = asked.number("seconds", SECONDS, 1e-3, SECONDS_MAX)
        if "begin" not in asked.words:  # a young session need not be looked for at the right edge
            seconds = min(seconds, next((step for step in STEPS if step >= now - oldest), seconds))
        begin = asked.number("begin", end - seconds, 0, end - 1e-6)
    still = [
        Open(row["node_id"], row["worker_pid"] or 0, row["name"], row["task_id"], now - row["run_ms"] / 1e3)
        for row in tasks
        if row["run_ms"] and group_of(row["state"]) == RUNNING
    ]
    found = tile(runs, still, begin, end, int(asked.number("buckets", 600, 1, 1_200)))
    return {**found, "now": now, "oldest": oldest, "replaced": runs.replaced, "left_out": runs.left_out}


def _counts(tasks: list[Row]) -> Row:
    counts: Row = dict.fromkeys((WAITING, RUNNING, FAILED, "finished"), 0)
    for row in tasks:
        counts[group_of(row["state"])] += 1
    return counts


def _functions(tasks: list[Row], runs: Runs) -> Table:
    """A row a function: the tasks in each group of states, and the times of those that were recorded."""
    rows: dict[str, Row] = {}

    def row_of(name: str) -> Row:
        return rows.setdefault(name, {"name": name, **_counts([]), "error_type": None})

    for task in tasks:
        row = row_of(task["name"])
        row[group_of(task["state"])] += 1
        row["error_type"] = row["error_type"] or task["error_type"]
    number, seconds = runs.columns["name"], runs.columns["end"] - runs.columns["begin"]
    order = np.argsort(number, kind="stable")
    used, first = np.unique(number[order], return_index=True)
    parts = np.split(order, first[1:]) if len(order) else []
    for name, part in zip(used.tolist(), parts, strict=True):
        times = seconds[part]
        outcomes = np.bincount(runs.columns["outcome"][part], minlength=2)
        half, most, longest = np.quantile(times, (0.5, 0.99, 1)).tolist()
        row = row_of(runs.names[name])
        row.update(p50=half, p99=most, longest=longest, total=float(times.sum()))
        # Nodes remember 5,000 tasks, and processes 16,384 runs each.
        row["finished"] = max(row["finished"], int(outcomes[0]))
        row[FAILED] = max(row[FAILED], int(len(part) - outcomes[0]))
    found = sorted(rows.values(), key=lambda row: -row.get("total", 0.0))
    return Table("name", found[:FUNCTIONS_MAX], len(found))


def tasks(session: Session, asked: Asked) -> Seen:
    """Tasks by function, and one by one with their times.  Word: group, of states."""
    rows, runs = session.tasks(), session.runs()
    facts = {"session": head(session), "tasks": _counts(rows), "replaced": runs.replaced, "remembered": len(rows)}
    group = asked.words.get("group")
    if group:
        kept = [row for row in rows if group_of(row["state"]) == group]
    else:
        kept = rows
    table = cut("task_id", kept, asked)
    table = table._replace(rows=with_times(table.rows, runs))
    return Seen(facts, {"functions": _functions(rows, runs), "tasks": table})


def with_times(rows: list[Row], runs: Runs) -> list[Row]:
    """Rows of tasks, with begin (seconds since 1970) and seconds of their last run; None: not recorded."""
    now = time.time()
    places = _places(runs, [row["task_id"] for row in rows])
    begins, ends = runs.columns["begin"], runs.columns["end"]
    found = []
    for row, place in zip(rows, places, strict=True):
        if row["run_ms"]:
            times = {"begin": round(now - row["run_ms"] / 1e3, 1), "seconds": row["run_ms"] / 1e3}
        elif place < 0 or group_of(row["state"]) == WAITING:
            times = {"begin": None, "seconds": None}
        else:
            times = {"begin": float(begins[place]), "seconds": float(ends[place] - begins[place])}
        found.append({**{name: value for name, value in row.items() if name != "run_ms"}, **times})
    return found


def _places(runs: Runs, task_ids: list[str]) -> list[int]:
    """The places of the last recorded runs of tasks; -1: there is none."""
    found = dict.fromkeys(map(bytes.fromhex, task_ids), -1)
    known = runs.columns["task_id"]
    if found and len(known):
        wanted = np.array([np.void(each) for each in found if len(each) == known.itemsize], known.dtype)
        likely = np.flatnonzero(np.isin(_keys(known), _keys(wanted)))
        for place in likely[np.argsort(runs.columns["end"][likely], kind="stable")].tolist():
            task_id = known[place].tobytes()
            if task_id in found:
                found[task_id] = place
    return [found[bytes.fromhex(each)] for each in task_ids]


def _keys(task_ids: Any) -> Any:
    """A number for each id, nearly always another one: numbers are sorted ten times as fast as bytes."""
    halves = np.ascontiguousarray(task_ids).view("<u8").reshape(-1, 2)
    return halves[:, 0] ^ (halves[:, 1] * np.uint64(0x9E3779B97F4A7C15))


def task(session: Session, asked: Asked) -> Seen:
    """A task: its row, the reasons in words, and where its output is."""
    id = _id(asked)
    rows = [row for row in session.tasks() if row["task_id"].startswith(id[:32])]
    runs = session.runs()
    facts: Row = {"session": head(session), "row": None, "why": _why(session, id)}
    if rows:
        facts["row"] = with_times(rows[:1], runs)[0]
    else:
        (place,) = _places(runs, [id]) if len(id) == 32 else [-1]
        if place >= 0:
            facts["row"] = _recorded(runs, place)
    return Seen(facts)


def _recorded(runs: Runs, place: int) -> Row:
    """A task that the nodes have forgotten, as its process has recorded it."""
    column = {name: values[place] for name, values in runs.columns.items()}
    track = runs.tracks[int(column["track"])]
    return {
        "task_id": bytes(column["task_id"]).hex(),
        "name": runs.names[int(column["name"])],
        "state": "FAILED" if column["outcome"] else "FINISHED",
        "node_id": track.node_id,
        "worker_pid": track.pid,
        "begin": float(column["begin"]),
        "seconds": float(column["end"] - column["begin"]),
    }


def actor(session: Session, asked: Asked) -> Seen:
    """An actor: its row, the reasons in words, and its calls."""
    id = _id(asked)
    row = next((each for each in session.actors() if each["actor_id"].startswith(id)), None)
    calls = [each for each in session.tasks() if row is not None and each["actor_id"] == row["actor_id"]]
    table = cut("task_id", calls, asked)
    table = table._replace(rows=with_times(table.rows, session.runs()))
    return Seen({"session": head(session), "row": row, "why": _why(session, id)}, {"tasks": table})


def node(session: Session, asked: Asked) -> Seen:
    """A node: its row, its processes, and the tasks that are there."""
    id = _id(asked)
    rows = node_rows(session)
    row = next((each for each in rows if each["node_id"].startswith(id)), None)
    node_id = row["node_id"] if row is not None else ""
    facts = {"session": head(session, rows), "row": row}
    workers = [each for each in session.workers() if each["node_id"] == node_id]
    here = [each for each in session.tasks() if each["node_id"] == node_id]
    table = cut("task_id", here, asked)
    table = table._replace(rows=with_times(table.rows, session.runs()))
    return Seen(facts, {"workers": Table("worker_id", workers[: asked.limit], len(workers)), "tasks": table})


def object_(session: Session, asked: Asked) -> Seen:
    """A value: its copies with the processes that hold them, and the reasons in words."""
    id = _id(asked)
    rows = [row for row in session.objects() if row["object_id"].startswith(id)]
    copies = held(rows)
    facts = {"session": head(session), "why": _why(session, rows[0]["object_id"] if rows else id)}
    return Seen(facts, {"objects": Table("key", copies, len(copies))})


def why(session: Session, asked: Asked) -> Seen:
    """The reasons in words, of what has an id; without one, of what has not ended."""
    return Seen({"session": head(session), "why": _why(session, asked.words.get("id", ""))})


def _why(session: Session, id: str) -> list[str]:
    try:
        return session.why(id)[:WHY_LINES_MAX]
    except ValueError as error:
        return [str(error)]


def _id(asked: Asked) -> str:
    """The id that is asked for.

    Raises:
        ValueError: it is none.
    """
    id: Any = asked.words.get("id", "").lower()
    if len(id) < ID_CHARACTERS_MIN or set(id) - set("0123456789abcdef"):
        raise ValueError(f"An id has {ID_CHARACTERS_MIN} or more hexadecimal digits, not {id[:80]!r}.")
    return str(id)
