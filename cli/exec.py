"""`zray exec`: a command on hosts of a cluster that `zray up` has started."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .launch.hosts_file import Cluster, Host

LINE_BYTES_MAX = 1 << 20


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--all", "everywhere", is_flag=True, help="On all hosts at once; each line begins with its host.")
@click.option("--host", metavar="NAME", help="On another host of the file than the head.")
@click.option("--file", "-f", metavar="FILE", help="File of hosts; it may also stand before the command.")
@click.option("--dry-run", is_flag=True, help="Print the command lines.")
@click.argument("command", nargs=-1, required=True, metavar="[FILE] -- COMMAND", type=click.UNPROCESSED)
def exec_(everywhere: bool, host: str | None, file: str | None, dry_run: bool, command: tuple[str, ...]) -> None:
    """Run COMMAND on the head, in the home folder; `zray` and `python` are those of the cluster there.

    One word is a line for the shell, as in `zray exec 'zray status | head'`; several are a command and its arguments.
    The exit code is that of the command; with --all it is 1 if a host failed.
    """
    from .launch import commands, ssh

    if file is None:
        file, command = commands.split_file(command, least=1)
    command = command[1:] if command[:1] == ("--",) and len(command) > 1 else command
    if everywhere and host is not None:
        raise click.UsageError("Give --all or --host, not both.")
    cluster, record = commands.cluster_of(file)
    text = command[0] if len(command) == 1 else shlex.join(command)
    folder = "CONNECTIONS" if dry_run else ssh.control_folder()
    hosts = cluster.hosts if everywhere else [commands.host_of(cluster, host)]
    lines = {
        there.label: [*ssh.line(cluster, there, folder), ssh.user_command(there, text, record.address)]
        for there in hosts
    }
    if dry_run:
        for line in lines.values():
            click.echo(shlex.join(line))
    elif everywhere:
        if not commands.run(_on_all(cluster, lines)):
            raise SystemExit(1)
    else:
        sys.stdout.flush()
        os.chdir(cluster.folder)
        commands.execute(lines[hosts[0].label])


async def _on_all(cluster: Cluster, lines: dict[str, list[str]]) -> bool:
    """Run the command on all hosts, and return whether it has succeeded on each."""
    import asyncio

    from .launch.ssh import LOGINS_MAX

    slots, width = asyncio.Semaphore(LOGINS_MAX), max(map(len, lines))

    async def one(host: Host) -> bool:
        async with slots:
            process = await asyncio.create_subprocess_exec(
                *lines[host.label],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                cwd=cluster.folder,
            )
            try:
                errors: list[str] = []
                await asyncio.gather(
                    _show(process.stdout, f"{host.label:{width}}  ", errors, is_error=False),
                    _show(process.stderr, f"{host.label:{width}}  ", errors, is_error=True),
                )
                status = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if status:
            click.secho(f"{host.label:{width}}  FAILED: {_why(status, errors, host)}.", fg="red", err=True)
        return not status

    return all(await asyncio.gather(*map(one, cluster.hosts)))


def _why(status: int, errors: list[str], host: Host) -> str:
    from .launch import troubles

    if status == 255:  # of ssh itself
        return str(troubles.of_ssh("\n".join(errors), status, host.name, host.python))
    return f"the command ended with status {status}"


async def _show(stream: Any, prefix: str, kept: list[str], *, is_error: bool) -> None:
    """Print a stream line by line; the last lines of errors are kept."""
    while line := await _line(stream):
        text = line.decode(errors="replace").rstrip("\r\n")
        click.echo(prefix + text, err=is_error)
        if is_error:
            kept[:] = [*kept[-20:], text]


async def _line(stream: Any) -> bytes:
    """A line, or what has arrived of a very long one."""
    import asyncio

    try:
        found: bytes = await stream.readuntil(b"\n")
        return found
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        part: bytes = await stream.readexactly(error.consumed)
        return part
