"""Views of the page: what each of them shows, as facts and tables of plain data.

A view is a function of the session and of what was asked: its result is sent whole first, then what changes of it.
Lists that are cut say how many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from zray.util.state import SIGNS

from .session import Row, Session

# Rows of a table, unless more are asked for.
ROWS, ROWS_MAX = 1_000, 10_000
WAITING, RUNNING, FAILED, FINISHED = "waiting", "running", "failed", "finished"
HEAD = "node:__internal_head__"  # the resource of the head's node


class Asked(NamedTuple):
    """Question to a view.  filters: (key, sign, value), as of zray.util.state.  Others: words of the query."""

    words: Mapping[str, str] = {}
    filters: tuple[tuple[str, str, str], ...] = ()

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number of the query, within bounds.

        Raises:
            ValueError: the text is no number.
        """
        text = self.words.get(name, "")
        number = float(text) if text else default
        if number != number:
            raise ValueError(f"{name} must be a number, not {text!r}.")
        return min(max(number, least), most)

    @property
    def limit(self) -> int:
        """The most rows of a table."""
        return int(self.number("limit", ROWS, 1, ROWS_MAX))


class Table(NamedTuple):
    """Rows by the value of a key.  total: how many there are, with those that are left out."""

    key: str
    rows: list[Row]
    total: int


class Seen(NamedTuple):
    """Content of a view."""

    facts: Row
    tables: dict[str, Table] = {}


def group_of(state: str) -> str:
    """The group of a task's state: waiting, running, failed or finished."""
    if state in ("FINISHED", "FAILED"):
        return state.lower()
    return RUNNING if state.startswith("RUNNING") else WAITING


def cut(key: str, rows: list[Row], asked: Asked) -> Table:
    """Return the rows that the filters leave, up to the limit.

    Raises:
        ValueError: no row has the key of a filter, or its sign is none.
    """
    for name, sign, _ in asked.filters:
        if sign not in SIGNS:
            raise ValueError(f"The sign of a filter is one of {', '.join(SIGNS)}, not {sign!r}.")
        if rows and name not in rows[0]:
            raise ValueError(f"There is no {name!r} to filter by; there are {', '.join(rows[0])}.")
    kept = [row for row in rows if all(SIGNS[sign](row.get(name), value) for name, sign, value in asked.filters)]
    return Table(key, kept[: asked.limit], len(kept))


def nodes(session: Session, asked: Asked) -> Seen:
    """Nodes, with what is in use."""
    rows = node_rows(session)
    return Seen({"session": head(session, rows)}, {"nodes": cut("node_id", rows, asked)})


def node_rows(session: Session) -> list[Row]:
    """Nodes, the head first, dead ones last."""
    usage = session.usage()
    rows = []
    for node in session.nodes():
        total = node["resources_total"]
        shown = {**node, "is_head_node": HEAD in total, **usage.get(node["node_id"], {})}
        if node["state"] != "ALIVE":
            shown.pop("resources", None)
        shown["resources_total"] = {name: amount for name, amount in total.items() if not name.startswith("node:")}
        rows.append(shown)
    return sorted(rows, key=lambda row: (row["state"] != "ALIVE", not row["is_head_node"], row["node_id"]))


def head(session: Session, rows: list[Row] | None = None) -> Row:
    """Facts on the whole session, for the head of the page.  rows: those of the nodes."""
    rows = node_rows(session) if rows is None else rows
    alive = [row for row in rows if row["state"] == "ALIVE"]

    def total(key: str) -> int:
        return sum(row.get(key, 0) for row in alive)

    machines = {}  # nodes of one machine share its memory
    for row in alive:
        machines[row["node_ip"]] = (row.get("mem_used_bytes", 0), row.get("mem_total_bytes", 0))
    cpus = [row.get("resources", {}).get("CPU", [0, 0]) for row in alive]
    return {
        "session_name": session.facts.get("session_name", ""),
        "address": session.facts.get("address", ""),
        "nodes": len(alive),
        "nodes_dead": len(rows) - len(alive),
        "cpus_used": sum(used for used, _ in cpus),
        "cpus": sum(amount for _, amount in cpus),
        "mem_used_bytes": sum(used for used, _ in machines.values()),
        "mem_total_bytes": sum(amount for _, amount in machines.values()),
        "store_bytes": total("store_bytes"),
        "disk_bytes": total("disk_bytes"),
        "store_capacity_bytes": total("store_capacity_bytes"),
        "workers": total("workers"),
        "tasks": total("tasks"),
        "tasks_ready": total("tasks_ready"),
        "tasks_ended": total("tasks_ended"),
    }


def actors(session: Session, asked: Asked) -> Seen:
    """Actors, with the calls that they have not finished."""
    calls: dict[str, dict[str, int]] = {}
    for task in session.tasks():
        if task["actor_id"] and (group := group_of(task["state"])) in (WAITING, RUNNING):
            counts = calls.setdefault(task["actor_id"], {WAITING: 0, RUNNING: 0})
            counts[group] += 1
    rows = [{**row, **calls.get(row["actor_id"], {WAITING: 0, RUNNING: 0})} for row in session.actors()]
    return Seen({"session": head(session)}, {"actors": cut("actor_id", rows, asked)})


def objects(session: Session, asked: Asked) -> Seen:
    """Values: by the place that made them, and one by one with the processes that hold them."""
    places = [
        {"call_site": site, **{name: fact for name, fact in row.items() if name != "node_states"}, **row["node_states"]}
        for site, row in session.summary("objects")["cluster"]["summary"].items()
    ]
    places.sort(key=lambda row: -row["total_size_mb"])
    rows = held(session.objects())
    found = {"places": Table("call_site", places[:ROWS], len(places)), "objects": cut("key", rows, asked)}
    return Seen({"session": head(session)}, found)


def held(references: Iterable[Row]) -> list[Row]:
    """Copies of values, the largest first, each with the processes that refer to it."""
    copies: dict[str, Row] = {}
    names = ("object_id", "object_size", "state", "call_site", "node_id")
    for row in references:
        key = f"{row['object_id']}@{row['node_id']}"
        copy = copies.setdefault(key, {"key": key, **{name: row[name] for name in names}, "references": []})
        copy["references"].append({"pid": row["pid"], "type": row["reference_type"], "has_ref": row["has_ref"]})
    return [*copies.values()]


def groups(session: Session, asked: Asked) -> Seen:
    """Placement groups."""
    return Seen({"session": head(session)}, {"groups": cut("placement_group_id", session.groups(), asked)})


def jobs(session: Session, asked: Asked) -> Seen:
    """Programs, with their open tasks."""
    counts: dict[str | None, int] = {}
    for task in session.tasks():
        if group_of(task["state"]) in (WAITING, RUNNING):
            counts[task["job_id"]] = counts.get(task["job_id"], 0) + 1
    rows = [{**row, "tasks": counts.get(row["job_id"], 0)} for row in session.jobs()]
    return Seen({"session": head(session)}, {"jobs": cut("job_id", rows, asked)})


def workers(session: Session, asked: Asked) -> Seen:
    """Living worker and driver processes."""
    return Seen({"session": head(session)}, {"workers": cut("worker_id", session.workers(), asked)})


View = Callable[[Session, Asked], Seen]
