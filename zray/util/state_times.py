"""Times and ends of nodes, actors, processes, programs and placement groups, from the recorded changes of state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..api.sessions import require_runtime
from ..api.state_changes import Change, changes_of
from ..api.timeline import recorded_rings
from ..exceptions.printable import printable

__all__: list[str] = []  # for zray.util.state

STATES_SHOWN = 12


def with_states(rows: Sequence[dict[str, Any]], kind: str, key: str) -> list[dict[str, Any]]:
    """Return rows with start_time_ms, end_time_ms, states_ms and end_reason; in local mode, the rows alone.

    Args:
        rows: as the lists of zray.util.state have them.
        kind: of their things, as changes of state have it.
        key: of the ids in the rows.
    """
    if not hasattr(require_runtime(), "note_span"):  # in local mode
        return [*rows]
    histories = _histories(kind)
    return [{**row, **_times(histories.get(_id_of(row, kind, key), ()))} for row in rows]


def history_in_words(kind: str, id: str) -> str:
    """Say when a node or an actor has entered its last states, and why its processes have ended; "": not recorded.

    Args:
        kind: as changes of state have it.
        id: hexadecimal.
    """
    if not hasattr(require_runtime(), "note_span"):  # in local mode
        return ""
    return words_on(changes_of(recorded_rings("the history of a thing")[0]), kind, id)


def words_on(changes: Sequence[Change], kind: str, id: str) -> str:
    """Say the same as `history_in_words` of recorded changes.

    Args:
        changes: in the order of their times.
        kind, id: as of `history_in_words`.
    """
    ends = {(change.node, change.pid): change for change in changes if change.kind == "worker" and change.is_final}
    words: list[str] = []
    before: Change | None = None
    for change in (each for each in changes if (each.kind, each.id) == (kind, id)):
        text = f"{change.state} {_clock(change.time)}"
        end = ends.get((before.node, before.pid)) if before is not None and change.state == "RESTARTING" else None
        if end is not None:
            text += f" (process {end.pid}: {printable(end.reason)})"
        words.append(text)
        before = change
    further = f"{len(words) - STATES_SHOWN:,} earlier ones, " if len(words) > STATES_SHOWN else ""
    return further + ", ".join(words[-STATES_SHOWN:])


def _clock(seconds: float) -> str:
    """The time of day, to the millisecond."""
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(1000 * (seconds % 1)):03}"


def _histories(kind: str) -> dict[str, list[Change]]:
    """The changes of state of each thing of a kind, by its id; of processes, by node and pid."""
    nodes, _ = recorded_rings("detail=True")
    by_thing: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes_of(nodes):
        if change.kind == kind:
            by_thing.setdefault(change.thing, []).append(change)
    if kind != "worker":
        return {thing[1]: history for thing, history in by_thing.items()}
    pids = {thing: max(change.pid for change in history) for thing, history in by_thing.items()}
    return {f"{thing[2]}/{pids[thing]}": history for thing, history in by_thing.items()}


def _id_of(row: dict[str, Any], kind: str, key: str) -> str:
    return f"{row['node_id']}/{row['pid']}" if kind == "worker" else str(row[key])


def _times(history: Sequence[Change]) -> dict[str, Any]:
    last = history[-1] if history else None
    is_over = last is not None and last.is_final
    return {
        "start_time_ms": round(1000 * history[0].time) if history else None,
        "end_time_ms": round(1000 * last.time) if last is not None and is_over else None,
        "states_ms": {change.state: round(1000 * change.time) for change in history} or None,
        "end_reason": last.reason or None if last is not None and is_over else None,
    }
