"""`zray status`: what the sessions of this machine have, and what they do."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import click

from .tables import counted

# Counts of a session, each with its meaning.
ROWS = {
    "jobs": "programs with work on this node",
    "workers": "worker processes, busy or idle",
    "actors": "actors on this node that have not ended",
    "tasks": "submitted and not ended",
    "ready": "of these, waiting for a worker or a resource only",
    "finished": "ended since the session began",
    "objects": "values that something refers to",
    "store_objects": "of these, in shared memory",
}

# So many resources of a node are shown: there may be thousands.
SHOWN_MAX = 20
# A node that has died or left is shown for so long.
LOST_SECONDS = 600.0


def resources(total: dict[str, int], free: dict[str, int], unit: int) -> dict[str, dict[str, float]]:
    """Return resources as users count them: {name: {"total": ..., "free": ...}}, without those of every node."""
    from zray.wire.amounts import NODE_PREFIX, STORE_MEMORY

    declared = [name for name in sorted(total) if not name.startswith(NODE_PREFIX) and name != STORE_MEMORY]
    return {name: {"total": total[name] / unit, "free": free.get(name, 0) / unit} for name in declared}


def shown(resources: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    """Return (name, amount in use) of each resource; if there are too many, those in use first."""
    items = list(resources.items())
    if len(items) <= SHOWN_MAX:
        return [(name, in_use(name, amount)) for name, amount in items]
    items.sort(key=lambda item: item[1]["free"] == item[1]["total"])
    return [*((name, in_use(name, amount)) for name, amount in items[:SHOWN_MAX]), ("...", f"{len(items):,} in all")]


def in_use(name: str, amount: dict[str, float]) -> str:
    """Amount of one resource in use, in words."""
    used, total = amount["total"] - amount["free"], amount["total"]
    if name == "memory":
        return f"{used / 1e9:,.1f} of {total / 1e9:,.1f} GB"
    return f"{used:g} of {total:g}"


def node_facts(nodes: list[Any], unit: int) -> list[dict[str, Any]]:
    """The nodes of a cluster as plain data."""
    return [
        {
            "node_id": node.node.partition("/")[0],
            "kind": node.kind,
            "address": node.endpoint,
            "machine": node.hostname,
            "labels": dict(sorted(node.labels.items())),
            "pending": node.queue_count,
            "is_draining": node.is_draining,
            "resources": resources(node.total, node.free, unit),
        }
        for node in nodes
        if not node.death
    ]


def lost_facts(nodes: list[Any]) -> list[dict[str, Any]]:
    """Return the nodes of a cluster that have died or left lately, as plain data, the last one first."""
    lost = sorted((node for node in nodes if node.death), key=lambda node: node.lost_seconds)
    return [
        {"node_id": node.node.partition("/")[0], "reason": node.death, "seconds": round(node.lost_seconds, 1)}
        for node in lost
        if node.lost_seconds <= LOST_SECONDS
    ]


def facts(session: Any, info: Any, status: Any, unit: int) -> dict[str, Any]:
    """Return facts on one session as plain data, without the nodes of the cluster."""
    from zray.exceptions.printable import printable

    from .usage import memory, programs

    return {
        "session": session.name,
        "called": info.called,
        "is_embedded": info.is_embedded,
        "node_pid": info.node_pid,
        "cluster": info.cluster,
        "kind": info.kind,
        "endpoint": info.endpoint,
        "nodes": [],
        "lost": [],
        "trouble": status.trouble,
        "stalls": list(map(printable, status.stalls)),
        "notes": list(map(printable, status.notes)),
        "node_id": status.node_id.hex(),
        "logs": os.path.realpath(session.logs),
        "resources": resources(status.total, status.free, unit),
        "counts": dict(sorted(status.counts.items())),
        "started": session.started_at(),
        "programs": programs(status.programs),
        "memory": memory(info.node_pid, session.name),
    }


def add_nodes(fact: dict[str, Any], link: Any, silent: set[str]) -> None:
    """Add the nodes known to the head.  A silent head is asked once, for all sessions."""
    from zray.exceptions import ClusterLostError
    from zray.wire.task_spec import RESOURCE_UNIT

    if fact["trouble"] or fact["cluster"] in silent:
        fact["trouble"] = fact["trouble"] or "its head does not answer"
        return
    try:
        nodes = link.nodes(with_dead=True)
        fact["nodes"], fact["lost"] = node_facts(nodes, RESOURCE_UNIT), lost_facts(nodes)
    except ClusterLostError as error:
        if not fact["cluster"]:
            raise
        silent.add(fact["cluster"])
        fact["trouble"] = str(error)


def returning_facts(info: Any) -> dict[str, Any]:
    """Return a node given up by the cluster, and trying to join again, as plain data."""
    from zray.exceptions.printable import printable

    return {
        "session": info.session,
        "called": info.called,
        "pid": info.node_pid,
        "cluster": info.cluster,
        "trouble": printable(info.notice),
    }


def print_returning(fact: dict[str, Any]) -> None:
    """Print the line of a node trying to join a cluster again."""
    called = f" (first called {fact['called']})" if fact["called"] else ""
    click.echo(
        f"session {fact['session']}{called} was declared dead by its cluster, and tries to join {fact['cluster']} again"
        + (f"; the last attempt: {fact['trouble']}" if fact["trouble"] else "")
    )


def shards_in_words(counts: dict[str, int]) -> list[tuple[str, str]]:
    """Describe the up-to-date replicas of each shard, as counted by the head.

    A shard is lost with its last replica: a user wants to know before stopping a machine.
    """
    found = []
    shards = [name.partition("_replicas_wanted")[0] for name in counts if name.endswith("_replicas_wanted")]
    for number, shard in sorted((int(shard.rpartition("-")[2]), shard) for shard in shards):
        there, wanted, nodes = (counts[f"{shard}_{name}"] for name in ("replicas", "replicas_wanted", "machines"))
        words = f"{there} of {wanted} replicas" if wanted > 1 else f"{there} replica"
        words += f", on {nodes} nodes" if nodes > 1 else ""
        words += "; another one catches up" if 0 < there < wanted else ""
        found.append((f"GCS shard {number}", words))
    return found


def print_table(fact: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from .tables import show

    kind = "of a running program" if fact["is_embedded"] else "lasting"
    kind += f", first called {fact['called']}" if fact["called"] else ""
    table = Table(title=f"session {fact['session']} ({kind})", title_justify="left", show_header=False)
    table.add_row("started", fact["started"])
    for program in fact["programs"]:
        table.add_row("program", Text(program["command"]), f"pid {program['pid']}, since {program['started']}")
    memory, counts = fact["memory"], fact["counts"]
    really = f"{memory['used_bytes'] / 1e9:,.2f} GB really used by {memory['processes']} processes, without the store"
    for name, amount in shown(fact["resources"]):
        suffix = "" if name == "..." else " reserved" if name == "memory" else " in use"
        table.add_row(Text(name), amount + suffix, really if name == "memory" else "")
    if "memory" not in fact["resources"]:
        table.add_row("memory", "none reserved", really)
    used, capacity = (counts.get(f"store_{name}_bytes", 0) / 1e6 for name in ("used", "capacity"))
    really = f"{memory['store_bytes'] / 1e6:,.1f} MB of memory really taken"
    table.add_row("store", f"{used:,.1f} of {capacity:,.0f} MB in use", really)
    if spilled := counts.get("spill_file_bytes", 0) + counts.get("overflow_bytes", 0):
        table.add_row("spilled", f"{spilled / 1e6:,.1f} MB in files", "values that the store has no room for")
    for name, meaning in ROWS.items():
        table.add_row(name.replace("_", " "), f"{counts.get(name, 0):,}", meaning)
    for name, words in shards_in_words(counts):
        table.add_row(name, words)
    for note in fact["notes"]:
        table.add_row("placing tasks", Text(note))
    table.add_row("node", fact["node_id"])
    table.add_row("logs", Text(fact["logs"]))
    show(table)


def line_of(fact: dict[str, Any]) -> str:
    """Return a line for a session: resources and work."""
    counts = fact["counts"]
    used, capacity = (counts.get(f"store_{name}_bytes", 0) / 1e6 for name in ("used", "capacity"))
    parts = [counted(len(fact["programs"]), "program")]
    parts += [counted(counts.get(f"{name}s", 0), name) for name in ("worker", "actor", "task")]
    parts += [f"{counts.get(name, 0):,} {name}" for name in ("ready", "finished")]
    parts += [f"{amount} {name}" for name, amount in shown(fact["resources"])]
    parts.append(f"store {used:,.1f} of {capacity:,.0f} MB")
    return f"session {fact['session']}, since {fact['started']}: {', '.join(parts)}"


def print_cluster(fact: dict[str, Any], *, is_line: bool = False) -> None:
    """Print the nodes of a cluster on all machines; or one line for all of them."""
    if is_line:
        click.echo(cluster_line(fact))
        print_troubles(fact)
        return
    from rich.table import Table
    from rich.text import Text

    from .tables import show

    table = Table(title=f"cluster at {fact['cluster']}", title_justify="left")
    table.add_column("node", no_wrap=True, min_width=16)
    for name in ("kind", "address", "machine", "in use", "pending"):
        table.add_column(name)
    for node in fact["nodes"]:
        used = [f"{amount} {name}" for name, amount in shown(node["resources"])]
        kind = "head" if fact["kind"] == "head" and node["node_id"] == fact["node_id"] else node["kind"]
        kind += " (draining)" if node["is_draining"] else ""
        where = Text(node["address"]), Text(node["machine"])
        table.add_row(node["node_id"], kind, *where, Text(", ".join(used)), str(node["pending"]))
    show(table)
    print_troubles(fact)


def cluster_line(fact: dict[str, Any]) -> str:
    """A line for a cluster: the sums over its nodes."""
    nodes = fact["nodes"]
    total: dict[str, dict[str, float]] = {}
    for node in nodes:
        for name, amount in node["resources"].items():
            summed = total.setdefault(name, {"total": 0, "free": 0})
            summed["total"] += amount["total"]
            summed["free"] += amount["free"]
    parts = [counted(len(nodes), "node")]
    if draining := sum(node["is_draining"] for node in nodes):
        parts.append(f"{draining:,} draining")
    parts += [f"{amount} {name}" for name, amount in shown(total)]
    parts.append(f"{sum(node['pending'] for node in nodes):,} pending")
    return f"cluster at {fact['cluster']}: {', '.join(parts)}"


def print_troubles(fact: dict[str, Any]) -> None:
    """Print the lost nodes of a cluster, and the blocked work."""
    for lost in fact["lost"]:
        click.echo(f"node {lost['node_id']}: lost {lost['seconds']:.0f} s ago: {lost['reason']}")
    for stall in fact["stalls"]:
        click.secho(stall, fg="red")


def is_short(is_watched: bool) -> bool:
    """Whether a cluster is a line: what is printed again and again is, unless a terminal is cleared each time."""
    return is_watched and not sys.stdout.isatty()


def show_cluster(address: str, form: str, *, is_watched: bool) -> None:
    """Print the cluster at an address, as a reader with a token."""
    from zray.exceptions.printable import printable
    from zray.host.client import control
    from zray.host.cluster import read_only
    from zray.host.security import token_input
    from zray.wire.task_spec import RESOURCE_UNIT

    token = token_input.token_from_environment()
    if not token:
        raise click.UsageError(
            "A token for readers is needed in ZRAY_TOKEN: `zray keys reader` on the head's machine prints one."
        )
    try:
        found = read_only.read_cluster(token_input.cluster_address(address), token)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    all_nodes, stalls = control.shown(found.nodes), list(map(printable, found.stalls))
    nodes, lost = node_facts(all_nodes, RESOURCE_UNIT), lost_facts(all_nodes)
    fact = {"cluster": address, "kind": "", "node_id": "", "nodes": nodes, "lost": lost, "stalls": stalls}
    if form == "json":
        click.echo(json.dumps({"cluster": address, "nodes": nodes, "lost": lost, "stalls": stalls}, indent=2))
    else:
        print_cluster(fact, is_line=is_short(is_watched))


@click.command()
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Show the cluster whose head is there, with a token of `zray keys reader` in ZRAY_TOKEN.",
)
@click.option("--compact", is_flag=True, help="Print a line for each session, without explanations.")
@click.option(
    "--watch",
    metavar="S",
    is_flag=False,
    flag_value="2",
    type=click.FloatRange(min=0.1),
    help="Print it again every S seconds (2), as --compact, until Ctrl-C.  In a pipe a cluster is a line too.",
)
def status(form: str, address: str | None, compact: bool, watch: float | None) -> None:
    """Show the sessions of this machine, and the nodes of their clusters."""
    try:
        while True:
            if watch is not None:
                click.clear()  # on a terminal
                click.echo(time.strftime("%H:%M:%S"))
            if address is not None:
                show_cluster(address, form, is_watched=watch is not None)
            else:
                show_sessions(form, is_compact=compact or watch is not None, is_watched=watch is not None)
            if watch is None:
                return
            sys.stdout.flush()
            time.sleep(watch)
    except KeyboardInterrupt:
        if watch is None:
            raise


def show_sessions(form: str, *, is_compact: bool, is_watched: bool) -> None:
    """Print the sessions of this machine."""
    from zray.exceptions import ClusterLostError
    from zray.host.client import control
    from zray.wire.task_spec import RESOURCE_UNIT

    found = []
    is_silent = False
    silent: set[str] = set()  # clusters whose heads answer nobody
    for session, info in control.sessions():
        try:
            with control.Control(session, info.node_pid) as link:
                fact = facts(session, info, link.status(), RESOURCE_UNIT)
                add_nodes(fact, link, silent)
                found.append(fact)
        except ClusterLostError as error:
            click.echo(f"session {session.name}: {error}", err=True)
            is_silent = True
    returning = [returning_facts(info) for _, info in control.returning()]
    if form == "json":
        click.echo(json.dumps({"sessions": found, "returning": returning}, indent=2))
        return
    for fact in found:
        if is_compact:
            click.echo(line_of(fact))
        else:
            print_table(fact)
    print_clusters(found, is_line=is_short(is_watched))
    for fact in returning:
        print_returning(fact)
    if not found and not returning and not is_silent:
        click.echo("No session runs on this machine.")
        if elsewhere := os.environ.get("ZRAY_ADDRESS"):
            click.echo(f"ZRAY_ADDRESS names one: `zray status --address {elsewhere}` (a token of `zray keys reader`).")


def print_clusters(found: list[dict[str, Any]], *, is_line: bool) -> None:
    """Print each cluster once: by the view of a local head, if any; the last of these counts."""
    by_worth = sorted(found, key=lambda fact: (not fact["trouble"], fact["kind"] == "head"))
    clusters = {fact["cluster"]: fact for fact in by_worth}
    for cluster, fact in clusters.items():
        if cluster and fact["trouble"]:
            click.echo(f"cluster at {cluster}: {fact['trouble']}")
        elif cluster:
            print_cluster(fact, is_line=is_line)
