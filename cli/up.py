"""`zray up`: a cluster on the hosts of a file, over ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .launch.hosts_file import Cluster
    from .launch.records import Record

UP = """\
The cluster at {address} is up.

  run a program   zray submit {file} PROGRAM
  a shell there   zray attach {file}
  look at it      zray exec {file} 'zray status'
  end it          zray down {file}"""


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="S",
    help="A node that must change or leave finishes its tasks for S seconds at most. [60]",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the command lines for hosts on which nothing runs; connect to none."
)
@click.option("--yes", "-y", is_flag=True, help="Accepted: nothing is asked.")
@click.option(
    "--forget", multiple=True, metavar="HOST", help="Give up a host that does not exist any more; repeatable."
)
def up(file: str, timeout: float, forget: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Start a cluster on the hosts of FILE over ssh; run again, change what differs and start what died."""
    from .launch import commands

    cluster, record = commands.cluster_of(file)
    record.hosts = [host for host in record.hosts if host.label not in forget]
    for note in cluster.notes:
        click.echo(f"Note: {file}, {note}.", err=True)
    if dry_run:
        from .launch.dry_run import lines

        for line in lines(cluster):
            click.echo(line)
        return
    if not commands.change(record, _up(cluster, record, timeout)):
        raise SystemExit(1)
    click.echo("\n" + UP.format(address=record.address, file=file))


async def _up(cluster: Cluster, record: Record, timeout: float) -> Any:
    """Bring the hosts up; say what is up and what is not, also after Ctrl-C."""
    import asyncio

    from .launch.commands import Printer
    from .launch.runner import Up

    printer = Printer([*cluster.hosts, *record.hosts])
    work = Up(cluster, record, printer, timeout)
    work.progress = printer.progress
    try:
        is_well = await work.run()
        if not is_well:
            _say_what_is_up(cluster, record, work)
        return is_well
    except asyncio.CancelledError:
        click.echo("\nInterrupted.", err=True)
        _say_what_is_up(cluster, record, work)
        raise
    finally:
        await work.close()


def _say_what_is_up(cluster: Cluster, record: Record, work: Any) -> None:
    """Print how many hosts are up, and how to go on."""
    labels = [host.label for host in cluster.hosts]
    there = [label for label in labels if label in work.up]
    text = f"{len(there)} of {len(labels)} hosts are up" + (f": {', '.join(there)}" if there else "")
    stopped = [f"{label} was {state}" for label, state in work.interrupted.items()]
    text += "".join(f"; {words}" for words in stopped)
    click.echo(f"{text}.  `zray up` goes on, `zray down` ends all.  Logs: {record.folder}", err=True)
