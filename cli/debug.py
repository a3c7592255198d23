"""`zray debug`: list the tasks that stand at a breakpoint, and attach to one."""

from __future__ import annotations

import sys
import time

import click

from .breakpoints import Breakpoint, LocalLine, RemoteLine, here, on_other_nodes
from .debug_terminal import talk


@click.command()
@click.argument("id", default="", metavar="[ID]")
@click.option("--list", "only_list", is_flag=True, help="List the breakpoints, and end.")
@click.option("--address", metavar="HOST:PORT", help="Cluster to look at.  Default: the sessions of this machine.")
def debug(id: str, only_list: bool, address: str | None) -> None:
    """Attach to a task that called breakpoint(), with pdb.

    ID is that of the task or the actor, its beginning, the name of the function, or a pid.  Without one, the only
    breakpoint is taken, or you choose from the list.  Nodes of a cluster on other machines are asked too.

    Ctrl-D leaves the task at its breakpoint, "c" lets it go on, "q" ends it with bdb.BdbQuit.
    """
    with on_other_nodes(address) as (elsewhere, silent):
        found = sorted((*here(), *elsewhere), key=lambda each: each.since)
        for node in silent:
            click.echo(f"Node {node[:8]} does not answer: its breakpoints are not listed.", err=True)
        if id:
            found = [each for each in found if each.is_called(id)]
        if only_list:
            show(found)
            return
        if not found:
            raise click.ClickException(
                f"No task {f'called {id!r} ' if id else ''}stands at a breakpoint.  Call breakpoint() in the task."
            )
        place = found[0] if len(found) == 1 else _choose(found)
        talk(LocalLine(place) if place.relay is None else RemoteLine(place))


def show(found: list[Breakpoint]) -> None:
    """Print the breakpoints, a line each."""
    from zray.exceptions.printable import printable

    for number, each in enumerate(found, 1):
        id = (each.task_id or str(each.pid))[:16]
        waits = f"{max(0.0, time.time() - each.since):.0f} s"
        click.echo(
            printable(
                f"{number}  {id}  {each.name or 'a thread'} {each.why} {each.file}:{each.line} for {waits}, "
                f"pid {each.pid}, node {each.node_id[:8]}"
            )
        )
    if not found:
        click.echo("No task stands at a breakpoint.")


def _choose(found: list[Breakpoint]) -> Breakpoint:
    show(found)
    if not sys.stdin.isatty():
        raise click.ClickException("Several tasks stand at a breakpoint: name one by its ID.")
    number: int = click.prompt("Attach to", type=click.IntRange(1, len(found)), default=1)
    return found[number - 1]
