"""`zray logs`: the output of workers and submitted programs, also of sessions that have ended."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from .tables import counted, literal, show

if TYPE_CHECKING:
    from zray.api.log_reader import LogLine, Wanted
    from zray.api.log_sessions import LogSession

# Ray's words ahead of an id, as `ray logs actor --id ID`.
KINDS = ("actor", "cluster", "job", "task", "worker")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("what", nargs=-1, metavar="[WHAT]")
@click.option("--last", is_flag=True, help="The newest session, running or ended.")
@click.option("--session", "name", metavar="NAME", help="A session, by the beginning of its name.")
@click.option("--follow", "-f", is_flag=True, help="Show further output until the session ends.")
@click.option(
    "--tail", type=click.IntRange(0), metavar="N", help="The last N lines; with --follow, of those there are."
)
@click.option("--err", "is_error", is_flag=True, help="Standard error alone.")
@click.option("--json", "is_json", is_flag=True, help="Each line as an object of JSON, with ids and time.")
@click.option("--id", "given_id", metavar="ID", help="As WHAT: id of an actor or a task, as of Ray.")
@click.option("--pid", metavar="PID", help="As WHAT: a process.")
@click.option("--node-id", metavar="ID", help="As WHAT: a node.")
def logs(
    what: tuple[str, ...],
    last: bool,
    name: str | None,
    follow: bool,
    tail: int | None,
    is_error: bool,
    is_json: bool,
    given_id: str | None,
    pid: str | None,
    node_id: str | None,
) -> None:
    """Show the output of workers and submitted programs, also of ended sessions.  Without arguments: list the sessions.

    WHAT is a task (id, or function), an actor (id, name or class), a process (pid), a worker (worker-3), a submitted
    program (id), a node, or a file of logs.  The beginning of an id is enough.
    """
    from zray.api.log_reader import Wanted, has
    from zray.api.log_sessions import grouped, log_sessions

    asked = _asked(what, given_id, pid, node_id)
    groups = grouped(log_sessions())
    if name is not None:
        groups = [group for group in groups if any(one.name.startswith(name) for one in group)]
    elif last:
        groups = groups[:1]
    if not groups:
        which = f"No session {name!r}" if name is not None else "No session"
        raise click.ClickException(f"{which} has logs on this machine; they are kept in {_root()}.")
    if not (asked or last or follow or is_json or name is not None or tail is not None or is_error):
        _list(groups)
        return
    if asked and _is_file(asked):
        _show_files(groups, asked, tail)
        return
    found = ((group, wanted) for wanted in (Wanted(asked), Wanted(asked, is_pid=False)) for group in groups)
    group, wanted = next(((group, wanted) for group, wanted in found if has(group, wanted)), (None, Wanted(asked)))
    if group is None and asked:
        others = sorted({node for group in groups for node in _others(group)})
        raise click.ClickException(_unknown(asked, groups, [node for node in others if node.startswith(asked)]))
    group = group or groups[0]
    _show(group, wanted, follow=follow, tail=tail, is_error=is_error, is_json=is_json)
    for node, host in _others(group).items():
        if not asked:
            click.echo(f"Logs of node {node} are on its machine, {host}: `zray logs` there shows them.", err=True)


def _asked(what: tuple[str, ...], *ids: str | None) -> str:
    """The output that a command line names, in zray's words or in Ray's."""
    words = [*what[1:], *filter(None, ids)] if what and what[0] in KINDS else [*what, *filter(None, ids)]
    if len(words) > 1:
        raise click.UsageError(
            f"One task, actor, process, worker, program or node at a time, not {' and '.join(words)}."
        )
    return words[0] if words else ""


def _root() -> str:
    from zray.host.session.kept_logs import log_root

    return log_root()


def _others(group: list[LogSession]) -> dict[str, str]:
    from zray.api.log_sessions import elsewhere

    return elsewhere(group)


def _unknown(asked: str, groups: list[list[LogSession]], nodes: list[str]) -> str:
    for group in groups:
        for node in nodes:
            if host := _others(group).get(node):
                return f"Logs of node {node} are on its machine, {host}: `zray logs` there shows them."
    count = counted(len(groups), "session")
    return (
        f"No output of {asked!r} is in the logs of {count} on this machine: none has such a task, actor, process, "
        "worker, program or node that has printed.  `zray logs` lists the sessions."
    )


def _list(groups: list[list[LogSession]]) -> None:
    from rich.table import Table

    table = Table("session", "begun", "duration", "program", "nodes", "size", "end")
    for group in groups:
        first = group[0]
        others = len(_others(group))
        nodes = f"{len(group)}, and {others} elsewhere" if others else str(len(group))
        program = str(first.facts.get("program", "")) or "-"
        seconds = max(0.0, max(one.ended for one in group) - first.started)
        size = sum(one.room() for one in group) / 1e6
        begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(first.started))
        row = (first.name, begun, f"{seconds:,.0f} s", program, nodes, f"{size:,.1f} MB", first.ending)
        table.add_row(*map(literal, row))
    show(table)


def _show(
    group: list[LogSession], wanted: Wanted, *, follow: bool, tail: int | None, is_error: bool, is_json: bool
) -> None:
    from zray.api import log_reader

    def is_chosen(line: LogLine) -> bool:
        return line.is_error or not is_error

    try:
        if follow:
            chosen: Iterable[LogLine] = log_reader.follow(group, wanted, tail, is_chosen)
        else:
            chosen = filter(is_chosen, log_reader.lines(group, wanted))
            chosen = chosen if tail is None else deque(chosen, maxlen=tail)
        for line in chosen:
            _print(line, is_json)
    except KeyboardInterrupt:
        sys.exit(130)


def _print(line: LogLine, is_json: bool) -> None:
    from zray.exceptions.printable import coloured

    if is_json:
        click.echo(json.dumps(line.as_dict()))
    else:
        click.echo(coloured(f"{line.label} {line.text}"))


def _is_file(asked: str) -> bool:
    return any(sign in asked for sign in "*?[") or asked.endswith((".log", ".err", ".out"))


def _show_files(groups: list[list[LogSession]], asked: str, tail: int | None) -> None:
    """Show a file of logs; of several, list them.  Names are zray's, or Ray's: *.out, raylet.*."""
    pattern = asked.replace("raylet", "node")
    pattern = pattern.removesuffix(".out") + ".log" if pattern.endswith(".out") else pattern
    for group in groups:
        found = [(one, name) for one in group for name in one.files() if fnmatchcase(name, pattern)]
        if len(found) == 1:
            one, name = found[0]
            _show_file(os.path.join(one.folder, name), tail)
        for one, name in found if len(found) > 1 else ():
            click.echo(f"{one.node_id or one.name}  {name}")
        if found:
            return
    raise click.ClickException(
        f"No file {asked!r} is among the logs; `zray logs '*'` lists those of the newest session."
    )


def _show_file(path: str, tail: int | None) -> None:
    from zray.api.log_reader import lines_of_file
    from zray.exceptions.printable import coloured

    rows = lines_of_file(path)
    for row in rows if tail is None else deque(rows, maxlen=tail):
        click.echo(coloured(row), nl=False)
