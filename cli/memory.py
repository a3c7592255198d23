"""`zray memory`: the values of a session, by the place that made them, and one by one."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import click

from .looks import looked_at, looks_at

STATES = {"MEMORY": "memory", "DISK": "disk", "MESSAGE": "message", "COMING": "on its way", "PENDING": "not made"}
UNKNOWN = "small values and copies"


@click.command()
@looks_at
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    show_default=True,
    help="Values that are shown one by one.",
)
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
def memory(address: str | None, limit: int, form: str) -> None:
    """Show the values of a session: how large they are, where they are made, and who refers to them.

    A value stays while a process, a task or another value refers to it.
    """
    from zray.util import state
    from zray.wire.amounts import in_bytes

    with looked_at(address):
        summary = state.summarize_objects()["cluster"]
        rows = state.list_objects(limit=10**6)
        names = _names(state)
    objects = _by_object(rows)
    if form == "json":
        click.echo(json.dumps({"summary": summary, "objects": objects[:limit]}, indent=2))
        return
    _show_places(summary["summary"], _holders(rows, names))
    _show_objects(objects[:limit], names)
    click.echo(f"{summary['total_objects']:,} values, {in_bytes(summary['total_size_mb'] * 1e6)}")


def _by_object(rows: list[Any]) -> list[dict[str, Any]]:
    """Return the copies of values, the largest first, each with its processes."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        names = ("object_id", "object_size", "state", "call_site", "value_type", "node_id")
        copy = found.setdefault((row.object_id, row.node_id), {name: row[name] for name in names} | {"references": []})
        copy["references"].append({"pid": row.pid, "type": row.reference_type, "has_ref": row.has_ref})
    return [*found.values()]


def _names(state: Any) -> dict[int, str]:
    """Return what processes are, by their pids."""
    found = {row.pid: f"program pid {row.pid}" for row in state.list_jobs(limit=10**6)}
    actors = state.list_actors(limit=10**6, filters=[("state", "=", "ALIVE")])
    return found | {row.pid: f"actor {row.class_name} pid {row.pid}" for row in actors}


def _holders(rows: list[Any], names: dict[int, str]) -> dict[str, str]:
    """Say which processes refer to the values of each place, those with most of them first."""
    from zray.host.driver.leaks import holders_in_words

    counts: dict[str, Counter[int]] = {}
    for row in rows:
        counts.setdefault(row.call_site, Counter()).update([row.pid] if row.pid else [])
    return {made: holders_in_words(count, names) for made, count in counts.items()}


def _show_places(summary: dict[str, Any], holders: dict[str, str]) -> None:
    from rich.table import Table

    from zray.wire.amounts import in_bytes

    from .tables import literal, show

    table = Table("made", "values", "size", "where", "referred to by")
    for made, row in sorted(summary.items(), key=lambda item: -item[1]["total_size_mb"]):
        where = ", ".join(f"{count:,} {STATES.get(state, state)}" for state, count in row["node_states"].items())
        cells = made or UNKNOWN, f"{row['total_objects']:,}", in_bytes(row["total_size_mb"] * 1e6), where
        table.add_row(*map(literal, (*cells, holders.get(made, ""))))
    show(table)


def _show_objects(objects: list[dict[str, Any]], names: dict[int, str]) -> None:
    from rich.table import Table

    from zray.wire.amounts import in_bytes

    from .tables import literal, show

    table = Table("size", "type", "where", "made", "referred to by", "node", "object")
    for row in objects:
        state, kind = STATES.get(row["state"], row["state"]), row["value_type"]
        cells = in_bytes(row["object_size"]), kind, state, row["call_site"]
        table.add_row(*map(literal, (*cells, _users(row["references"], names), row["node_id"], row["object_id"])))
    show(table)


def _users(references: list[dict[str, Any]], names: dict[int, str]) -> str:
    from zray.host.driver.leaks import NO_PROCESS

    pids = [(each["pid"], _how(each)) for each in references if each["pid"]]
    users = [f"{names.get(pid) or f'pid {pid}'} ({how})" for pid, how in pids]
    return ", ".join(users) or (NO_PROCESS if references[0]["type"] == "USED_BY_PENDING_TASK" else "other nodes")


def _how(reference: dict[str, Any]) -> str:
    """Return how a process refers to a value."""
    if reference["type"] == "LOCAL_REFERENCE":
        return "ref"
    return "ref, may have arrays" if reference["has_ref"] else "arrays or a task"
