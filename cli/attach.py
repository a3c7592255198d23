"""`zray attach`: a shell on the head of a cluster that `zray up` has started."""

from __future__ import annotations

import os
import sys

import click


@click.command()
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--host", metavar="NAME", help="Another host of the file than the head.")
@click.option("--dry-run", is_flag=True, help="Print the command line.")
def attach(file: str | None, host: str | None, dry_run: bool) -> None:
    """Open a shell on the head of the cluster of FILE; `zray` and `python` are those of the cluster there.

    FILE is hosts.yaml of this folder by default, else the file of the only cluster that is up.
    """
    import shlex

    from .launch import commands, ssh

    cluster, record = commands.cluster_of(file)
    there = commands.host_of(cluster, host)
    folder = "CONNECTIONS" if dry_run else ssh.control_folder()
    line = ssh.line(cluster, there, folder, is_batch=False, further=["-t"])
    line.append(ssh.user_command(there, "", record.address, is_login=True))
    if dry_run:
        click.echo(shlex.join(line))
        return
    sys.stdout.flush()
    os.chdir(cluster.folder)
    commands.execute(line)
