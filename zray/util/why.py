"""Reasons: what a task, an actor, an object or a node waits for, or how it ended, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..api.sessions import require_runtime
from ..api.task_waits import FETCH, PROCESS, WORDS
from ..exceptions.printable import printable
from ..ids import FIRST_RETURN, OBJECT_ID_BYTES, TASK_ID_BYTES
from ..wire.listing import TASK_ENDED
from ..wire.reasons import Explain, ExplainReply
from . import state
from .state_times import history_in_words
from .task_times import of_constructor

__all__ = ["why"]

# Rows that are looked at to find an id.
ROWS = 1_000_000
# Tasks that are explained where no id is given: those that wait for longest.
WAITING_SHOWN = 3
STARTING = ("PENDING_CREATION", "RESTARTING")
SHORT_ID = 8
CONSTRUCTOR = "CONSTRUCTOR"
PHASES = {"read_arguments": "read arguments", "run": "run"}  # of a constructor
# What calls and constructors have waited for, where these words are others than for tasks.
OTHER_WORDS = {
    ("ACTOR_TASK", "queue"): "earlier calls of its actor, or for the actor to start",
    ("ACTOR_TASK", PROCESS): "earlier calls in the process of its actor",
    (CONSTRUCTOR, "queue"): "resources",
    (CONSTRUCTOR, PROCESS): "its process to begin",
}


def why(id: str = "", *, record: str | None = None) -> list[str]:
    """Explain what something waits for, or how it ended.

    Args:
        id: of a task, an object, an actor or a node, in hexadecimal; its beginning is enough.  Or the name of a
            function, three of whose unfinished tasks are explained, or else the last one; or that of an actor.
            Default "": the unfinished tasks of the session, three of them.
        record: file of a run, as ZRAY_RECORD makes it, in place of a session.  It has tasks that have run, and actors
            and nodes.  Default id "": how the program ended, and the last three tasks that have failed.

    Returns:
        Lines for people.  Deeper reasons begin with more spaces.

    Raises:
        ValueError: nothing has the id or name, or several things begin with it; the file is no record.
        OSError: the file cannot be read.

    Example:
        print("\\n".join(zray.util.why.why(ref.hex())))
    """
    if record is not None:
        from .why_recorded import why_recorded

        return why_recorded(id, record)
    if not id:
        return _of_session()
    if lines := _of_name(id):
        return lines
    wanted = id.lower()
    kinds: list[tuple[Callable[..., list[Any]], str, Callable[[Any], list[str]]]] = [
        (lambda: state.list_tasks(detail=True, limit=ROWS), "task_id", of_task),
        (lambda: state.list_actors(limit=ROWS), "actor_id", _of_actor),
        (lambda: state.list_nodes(limit=ROWS), "node_id", _of_node),
    ]
    if len(wanted) == 2 * OBJECT_ID_BYTES:
        task = wanted[: 2 * TASK_ID_BYTES]
        rows = state.list_tasks(filters=[("task_id", "=", task)], detail=True, limit=ROWS)
        ended = [row for row in rows if row["state"] in TASK_ENDED]
        places = [*rows, *state.get_objects(wanted)]
        home = places[0]["node_id"] if places else ""
        return [*_explained([bytes.fromhex(wanted)], home=home), *(of_task(ended[0]) if ended else ())]
    for ask, key, explain in kinds:
        found = {row[key]: row for row in ask() if row[key].startswith(wanted)}
        if len(found) > 1:
            near = ", ".join(sorted(found)[:3])
            raise ValueError(f"Several things begin with {id!r}: {near}.")
        if found:
            return explain(next(iter(found.values())))
    if len(wanted) == 2 * TASK_ID_BYTES and (lines := _of_lost_actor(wanted)):
        return lines
    raise ValueError(
        f"No task, actor or node has the id {id!r}, or this name: `zray list tasks` shows those there are."
    )


def _of_session() -> list[str]:
    rows = state.list_tasks(filters=[("state", "!=", "FINISHED"), ("state", "!=", "FAILED")], limit=ROWS)
    starting = [row for row in state.list_actors(limit=ROWS) if row["state"] in STARTING]
    lines = [line for row in starting[:WAITING_SHOWN] for line in _of_actor(row)]
    if len(starting) > WAITING_SHOWN:
        lines.append(f"and {len(starting) - WAITING_SHOWN:,} more actors that have not started")
    if not rows:
        return lines or ["No task waits or runs."]
    return _of_unfinished(rows) + lines


def _of_unfinished(rows: list[Any]) -> list[str]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    waiting = [row for row in rows if row["state"] != "RUNNING"] or rows
    lines = [f"{len(rows):,} tasks have not ended: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()) + "."]
    for row in waiting[:WAITING_SHOWN]:
        lines += of_task(row)
    if len(waiting) > WAITING_SHOWN:
        lines.append(f"and {len(waiting) - WAITING_SHOWN:,} more; `zray why ID` explains each of them")
    return lines


def _of_name(name: str) -> list[str]:
    """Lines on the actors and the tasks with a name; empty: there are none."""
    actors = [row for row in state.list_actors(filters=[("name", "=", name)], limit=ROWS) if row["state"] != "DEAD"]
    tasks = state.list_tasks(filters=[("name", "=", name)], detail=True, limit=ROWS)
    waiting = [row for row in tasks if row["state"] not in TASK_ENDED]
    if not waiting and tasks:
        ended = [row for row in tasks if row.get("end_time_ms")]
        lost = [row for row in tasks if row["state"] == "FAILED" and not row.get("end_time_ms")]  # the latest first
        waiting = [*lost[:1]] or [max(ended, key=lambda row: row["end_time_ms"]) if ended else tasks[-1]]
    lines = [line for row in actors[:WAITING_SHOWN] for line in _of_actor(row)]
    lines += [line for row in waiting[:WAITING_SHOWN] for line in of_task(row)]
    if len(waiting) > WAITING_SHOWN:
        lines.append(f"and {len(waiting) - WAITING_SHOWN:,} more; `zray why ID` explains each of them")
    return lines


def of_task(row: Any) -> list[str]:
    """Return lines on a task.  row: as list_tasks(detail=True) has it."""
    name = f"task {row['name']} ({row['task_id']})"
    if row["state"] not in TASK_ENDED:
        result = bytes.fromhex(row["task_id"]) + FIRST_RETURN
        return [f"{name} is {row['state']}:", *_explained([result], 1, row["node_id"])]
    where = f"on node {row['node_id'][:SHORT_ID]}"
    if row["worker_pid"]:
        where += f", in process {row['worker_pid']}"
    ended = "failed" if row["state"] == "FAILED" else "finished"
    error = f" with {row['error_type']}" if row["error_type"] else ""
    count = row["attempt_number"]
    attempts = f" after {count:,} {'retry' if count == 1 else 'retries'}" if count else ""
    lines = [f"{name} {ended}{error} {where}{attempts}"]
    if row["error_message"]:
        lines.append(f"  {printable(row['error_message'])}")
    if row.get("phases_ms"):
        parts = ", ".join(f"{phase.replace('_', ' ')} {ms:,.3f} ms" for phase, ms in row["phases_ms"].items())
        lines.append(f"  {parts}")
    lines += _of_waits(row)
    if row.get("parent_task_id"):
        lines.append(f"  submitted by task {row['parent_task_id']}")
    return lines


def _of_waits(row: Any) -> list[str]:
    """Lines on what a task that has ended had waited for."""
    waits = row.get("waits_ms") or {}
    lines = []
    for stage, ms in waits.items():
        if stage == FETCH:
            continue
        line = f"  waited {ms:,.1f} ms for {WORDS[stage]}"
        if words := OTHER_WORDS.get((row["type"], stage)):
            line = f"  waited {ms:,.1f} ms for {words}"
        if stage == "arguments":
            if FETCH in waits:
                line += f", of these {waits[FETCH]:,.1f} ms for {WORDS[FETCH]}"
            if last := row.get("last_argument"):
                line += f"; task {last['name']} ({last['task_id']}) made the last one"
        lines.append(line)
    return lines


def _of_actor(row: Any) -> list[str]:
    named = f" named {row['name']!r}" if row["name"] else ""
    line = f"actor {row['class_name']}{named} ({row['actor_id']}) is {row['state']}"
    if row["state"] in ("ALIVE", "DEAD"):
        place = f" on node {row['node_id'][:SHORT_ID]}" + (f", in process {row['pid']}" if row["pid"] else "")
        place += f": {printable(row['death_cause'])}" if row["death_cause"] else ""
        calls = state.list_tasks(filters=[("actor_id", "=", row["actor_id"])], limit=ROWS)
        open_ = [call for call in calls if call["state"] not in TASK_ENDED]
        lines = [line + place, *_of_constructor(row["actor_id"]), *_of_history("actor", row["actor_id"])]
        for call in open_[:WAITING_SHOWN]:
            lines += [f"  {text}" for text in of_task(call)]
        return lines
    return [f"{line}:", *_explained([bytes.fromhex(row["actor_id"]) + FIRST_RETURN], 1, row["node_id"])]


def _of_lost_actor(actor_id: str) -> list[str]:
    """Lines on an actor that no node lists, by its calls; empty: there are none."""
    calls = state.list_tasks(filters=[("actor_id", "=", actor_id)], detail=True, limit=ROWS)
    if not calls:
        return []
    lines = [f"actor {actor_id} is on no node of the session: it has ended, or its node is lost"]
    for call in calls[:WAITING_SHOWN]:
        lines += [f"  {text}" for text in of_task(call)]
    return lines


def _of_constructor(actor_id: str) -> list[str]:
    """Lines on the last run of an actor's constructor, and on what it had waited for."""
    row = of_constructor(actor_id)
    lines = []
    if phases := row["phases_ms"]:
        lines.append("  constructor: " + ", ".join(f"{PHASES[name]} {phases[name]:,.3f} ms" for name in PHASES))
    return lines + _of_waits({**row, "type": CONSTRUCTOR})


def _of_node(row: Any) -> list[str]:
    reason = f": {row['state_message']}" if row["state_message"] else ""
    line = f"node {row['node_name']} ({row['node_id']}) is {row['state']}{reason}"
    return [line, *_of_history("node", row["node_id"])]


def _of_history(kind: str, id: str) -> list[str]:
    """A line on the states of a node or an actor, if they are recorded."""
    words = history_in_words(kind, id)
    return [f"  states: {words}"] if words else []


def _explained(object_ids: Sequence[bytes], depth: int = 0, home: str = "") -> list[str]:
    """home: the node that has the task or the value."""
    found: ExplainReply = require_runtime().ask(lambda request: Explain(request, [*object_ids], home=home))
    return ["  " * depth + printable(line) for line in found.lines]
