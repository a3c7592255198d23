"""Reasons of a run that is over, from its record: how tasks, actors and nodes ended, in words."""

from __future__ import annotations

from typing import Any

from ..api.run_records import RunRecord, read_run
from ..api.state_changes import Change, changes_of
from ..exceptions.printable import printable
from ..ids import TASK_ID_BYTES
from .state_times import words_on
from .task_times import with_times
from .why import WAITING_SHOWN, of_task

__all__: list[str] = []  # for zray.util.why


def why_recorded(id: str, path: str) -> list[str]:
    """Explain how something of a recorded run ended; as `why`.

    Args:
        id: of a task, an actor or a node, or the beginning; or a name.  "": the end of the program, and failed tasks.
        path: of the record.
    """
    run = read_run(path)
    rows = list(with_times([], run.rings))  # the latest first
    if not id:
        return _of_program(run, rows)
    if named := [row for row in rows if row["name"] == id]:
        failed = [row for row in named if row["state"] == "FAILED"]
        return _of_failed(failed) if failed else of_task(named[0])
    wanted = id.lower()
    found = [row for row in rows if row["task_id"].startswith(wanted[: 2 * TASK_ID_BYTES])]
    changes = [each for each in changes_of(run.rings) if each.kind != "worker"]  # of which an id is a number
    if named_things := {(each.kind, each.id): each for each in changes if each.name == id}:
        return [line for last in [*named_things.values()][-WAITING_SHOWN:] for line in _of_thing(changes, last)]
    things = {(each.kind, each.id): each for each in changes if each.id.startswith(wanted)}
    if len(found) + len(things) > 1:
        near = ", ".join([*(row["task_id"] for row in found), *(thing for _, thing in things)][:3])
        raise ValueError(f"Several things of the record begin with {id!r}: {near}.")
    if found:
        return of_task(found[0])
    if things:
        return _of_thing(changes, *things.values())
    raise ValueError(
        f"No task that ran, no actor and no node of the record has the id {id!r}, or this name: "
        f"`zray report {path}` shows those there are."
    )


def _of_program(run: RunRecord, rows: list[dict[str, Any]]) -> list[str]:
    program = printable(str(run.header.get("program") or "The program"))
    if run.end is None:
        line = f"{program} was killed, or its record was cut off"
    else:
        line = f"{program} ended" + (f" with {run.error}" if run.error else "")
        if run.header.get("start") is not None:
            line += f" after {run.end - run.header['start']:,.1f} s"
    failed = [row for row in rows if row["state"] == "FAILED"]
    return [f"{line}; {len(rows):,} tasks are recorded, {len(failed):,} of them failed", *_of_failed(failed)]


def _of_failed(rows: list[dict[str, Any]]) -> list[str]:
    lines = [line for row in rows[:WAITING_SHOWN] for line in of_task(row)]
    if len(rows) > WAITING_SHOWN:
        lines.append(f"and {len(rows) - WAITING_SHOWN:,} more that failed; an ID chooses one of them")
    return lines


def _of_thing(changes: list[Change], last: Change) -> list[str]:
    name = f" {printable(last.name)}" if last.name else ""
    reason = f": {printable(last.reason)}" if last.reason else ""
    line = f"{last.kind}{name} ({last.id}) was {last.state} at last{reason}"
    return [line, f"  {words_on(changes, last.kind, last.id)}"]
