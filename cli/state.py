"""`zray list`, `zray get` and `zray summary`: nodes, actors, tasks, objects, workers, jobs and placement groups.

JSON is a list of objects with the keys of zray.util.state; a table shows some of them, with short ids.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from .looks import looked_at, looks_at

TIMES = ("start_time_ms", "states_ms")
# Columns of tables, as (key, title), and those that --detail adds.
COLUMNS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "actors": (
        ("actor_id", "class_name", "name", "state", "node_id", "pid"),
        ("ray_namespace", "job_id", "death_cause", *TIMES),
    ),
    "jobs": (("job_id", "status", "type", "pid", "node_id"), TIMES),
    "nodes": (("node_id", "node_name", "state", "resources_total"), ("node_ip", "labels", "state_message", *TIMES)),
    "objects": (("object_id", "object_size", "state", "reference_type", "pid", "call_site"), ("node_id",)),
    "placement-groups": (("placement_group_id", "name", "state", "strategy"), ("bundles", *TIMES)),
    "tasks": (
        ("task_id", "name", "state", "node_id", "worker_pid", "error_type"),
        ("attempt_number", "actor_id", "start_time_ms", "phases_ms", "waits_ms", "parent_task_id", "error_message"),
    ),
    "workers": (("worker_id", "worker_type", "pid", "node_id", "job_id"), ("actor_id", *TIMES)),
}
TITLES = {"node_id": "node", "job_id": "job", "actor_id": "actor", "task_id": "task", "worker_pid": "pid"}
SUMMARIES = ("actors", "objects", "tasks")
# Characters of an id in a table; those of JSON and YAML are whole.
ID_CHARACTERS = 32
SIGN = re.compile(r"(!=|=|<|>|~)")

FORM = click.option(
    "--format", "form", type=click.Choice(("table", "json", "yaml")), default="table", show_default=True
)


def filters_of(texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Read filters such as "state=FAILED", "name~load" or "object_size>1000000".

    Raises:
        click.UsageError: a text is none.
    """
    found = []
    for text in texts:
        key, *rest = SIGN.split(text, maxsplit=1)
        if len(rest) != 2 or not key:
            raise click.UsageError(f"A filter is KEY=VALUE, or with !=, <, > or ~ (contains), not {text!r}.")
        found.append((key, rest[0], rest[1]))
    return found


@contextmanager
def session(address: str | None) -> Iterator[Any]:
    """Join a session for questions, and give the module that asks."""
    from zray.util import state

    with looked_at(address):
        yield state


def asker_of(state: Any, kind: str, detail: bool = False) -> Callable[..., list[Any]]:
    """The function that lists a kind of things."""
    found: Callable[..., list[Any]] = getattr(state, f"list_{kind.replace('-', '_')}")
    if kind != "objects" and detail:
        return lambda **options: found(detail=True, **options)
    return found


@click.command("list")
@click.argument("kind", type=click.Choice(sorted(COLUMNS)), metavar="KIND")
@click.option("--filter", "-f", "filters", multiple=True, metavar="KEY=VALUE", help="Rows to show; repeatable.")
@click.option("--limit", type=click.IntRange(1), metavar="N", default=100, show_default=True, help="Rows at most.")
@click.option("--detail", is_flag=True, help="More columns, times, and older tasks.")
@FORM
@looks_at
def list_(kind: str, filters: tuple[str, ...], limit: int, detail: bool, form: str, address: str | None) -> None:
    """List actors, jobs, nodes, objects, placement-groups, tasks or workers.

    A filter is KEY=VALUE, or with !=, <, > or ~ (contains), on a key of `--format json`.
    """
    wanted = filters_of(filters)
    with session(address) as state:
        try:
            rows = asker_of(state, kind, detail)(filters=wanted, limit=limit)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if kind in ("jobs", "workers"):
        rows = [row for row in rows if row["pid"] != os.getpid()]  # not this command
    if not rows:
        which = " and ".join(filters)
        click.echo(f"There are no {kind}{f' with {which}' if which else ''}.", err=True)
    if form != "table":
        _print([dict(row) for row in rows], form)
    elif rows:
        _show(kind, rows, detail)
        if len(rows) == limit:
            click.echo(f"{limit:,} are shown; --limit shows more.", err=True)


@click.command("get")
@click.argument("kind", type=click.Choice(sorted(COLUMNS)), metavar="KIND")
@click.argument("id", metavar="ID")
@click.option("--format", "form", type=click.Choice(("yaml", "json")), default="yaml", show_default=True)
@looks_at
def get(kind: str, id: str, form: str, address: str | None) -> None:
    """Show one of the things that `zray list` lists, with all that is known of it.

    The beginning of an id is enough, if no other begins alike.  The id of an object names its task too.
    """
    from zray.ids import OBJECT_ID_BYTES, TASK_ID_BYTES

    key = COLUMNS[kind][0][0]
    with session(address) as state:
        rows = asker_of(state, kind, detail=True)(limit=10**6)
    wanted = id.lower()
    if kind == "tasks" and len(wanted) == 2 * OBJECT_ID_BYTES:  # of an object that it returns
        wanted = wanted[: 2 * TASK_ID_BYTES]
    found = [row for row in rows if row[key].startswith(wanted)]
    if len({row[key] for row in found}) != 1:
        near = ", ".join(sorted({row[key] for row in found})[:3])
        said = (
            f"begin with {id!r}: {near}" if found else f"have the id {id!r}; `zray list {kind}` shows those there are"
        )
        raise click.ClickException(f"{'Several' if found else 'No'} {kind} {said}.")
    _print([dict(row) for row in found], form)


@click.command("summary")
@click.argument("kind", type=click.Choice(SUMMARIES), metavar="KIND")
@FORM
@looks_at
def summary(kind: str, form: str, address: str | None) -> None:
    """Count actors by class, tasks by function, or objects by the place that made them, with their states."""
    with session(address) as state:
        found = getattr(state, f"summarize_{kind}")()["cluster"]
    if form != "table":
        _print(found, form)
        return
    from rich.table import Table

    from .tables import literal, show

    states = sorted({name for row in found["summary"].values() for name in _states(row)})
    table = Table({"actors": "class", "tasks": "function", "objects": "made"}[kind], "in all", *states)
    for name, row in sorted(found["summary"].items(), key=lambda item: -sum(_states(item[1]).values())):
        counts = _states(row)
        cells = (f"{counts.get(each, 0):,}" for each in states)
        table.add_row(literal(name or "small values and copies"), f"{sum(counts.values()):,}", *cells)
    show(table)


def _states(row: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = row.get("state_counts") or row.get("node_states") or {}
    return counts


def _print(found: Any, form: str) -> None:
    if form == "json":
        click.echo(_json(found))
        return
    try:
        import yaml
    except ImportError:
        raise click.ClickException("YAML needs pyyaml: pip install pyyaml, or give --format json.") from None
    click.echo(yaml.safe_dump(json.loads(json.dumps(found)), sort_keys=False), nl=False)


def _json(found: Any) -> str:
    """JSON with indents.  The module of Python takes ten times as long, and has escapes for what is not ASCII."""
    import msgspec

    with suppress(msgspec.MsgspecError, TypeError, UnicodeError):
        data = msgspec.json.format(msgspec.json.encode(found), indent=2)
        if data.isascii():
            return data.decode()
    return json.dumps(found, indent=2)


def _show(kind: str, rows: list[Any], detail: bool) -> None:
    from .tables import show_rows

    first, more = COLUMNS[kind]
    keys = (*first, *more) if detail or not sys.stdout.isatty() else first
    keys = tuple(key for key in keys if any(key in row for row in rows))
    titles = [TITLES.get(key, key.replace("_", " ")) for key in keys]
    show_rows(titles, [[_cell(key, row.get(key)) for key in keys] for row in rows])


def _cell(key: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if key == "worker_id":
        return str(value)[:ID_CHARACTERS]
    if key == "object_size":
        from zray.wire.amounts import in_bytes

        return in_bytes(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_number(each)}" for name, each in value.items())
    return _number(value)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
