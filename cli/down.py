"""`zray down`: the end of a cluster that `zray up` has started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .launch.hosts_file import Cluster
    from .launch.records import Record


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--now", is_flag=True, help="Kill all sessions at once; running tasks are lost.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="S",
    help="Nodes finish their tasks for S seconds at most. [60]",
)
@click.option("--dry-run", is_flag=True, help="Print the command lines; connect to no host.")
@click.option("--yes", "-y", is_flag=True, help="Accepted: nothing is asked.")
@click.option(
    "--forget", multiple=True, metavar="HOST", help="Give up a host that does not exist any more; repeatable."
)
def down(file: str | None, now: bool, timeout: float, forget: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """End the cluster of FILE on all hosts: nodes finish their tasks and leave, the head ends last.

    FILE is hosts.yaml of this folder by default, else the file of the only cluster that is up.
    """
    from .launch import commands

    cluster, record = commands.cluster_of(file)
    record.hosts = [host for host in record.hosts if host.label not in forget]
    if dry_run:
        from .launch.dry_run import end_lines

        for line in end_lines(cluster, now=now):
            click.echo(line)
        return
    if not commands.change(record, _down(cluster, record, timeout, now=now)):
        click.echo(
            f"Something may be left: `zray down` again ends it; --forget HOST gives a host up.  Logs: {record.folder}",
            err=True,
        )
        raise SystemExit(1)


async def _down(cluster: Cluster, record: Record, timeout: float, *, now: bool) -> Any:
    from .launch.commands import Printer
    from .launch.runner import Down

    printer = Printer([*cluster.hosts, *record.hosts])
    work = Down(cluster, record, printer, timeout, now=now)
    work.progress = printer.progress
    try:
        return await work.run()
    finally:
        await work.close()
