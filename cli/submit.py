"""`zray submit`: a program of this machine, run beside the head of a cluster that `zray up` has started."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from .launch.hosts_file import Cluster
    from .launch.records import Record

# A program that was interrupted cancels its tasks, and ends.
END_SECONDS = 10.0


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--file", "-f", metavar="FILE", help="File of hosts; it may also stand before the program.")
@click.argument("program", nargs=-1, required=True, metavar="[FILE] PROGRAM [ARGS]...", type=click.UNPROCESSED)
def submit(file: str | None, program: tuple[str, ...]) -> None:
    """Send PROGRAM, a Python file, to the head, and run it there: `zray.init()` in it joins the cluster.

    The program runs in the home folder, where `files:` lie, with the Python of the cluster. The exit code is the
    program's. The program ends with this command; one of `zray job submit` goes on.
    """
    from .launch import commands

    if file is None:
        file, program = commands.split_file(program, least=1)
    name, *arguments = program
    if not os.path.isfile(name):
        raise click.UsageError(f"There is no program {name}: give a Python file of this machine.")
    cluster, record = commands.cluster_of(file)
    if not record.address:
        raise click.ClickException(f"The cluster is not up: `zray up {cluster.path}` starts it.")
    status = commands.run(_submit(cluster, record, name, arguments))
    sys.exit(status if status >= 0 else 128 - status)  # as a shell says that a signal ended it


async def _submit(cluster: Cluster, record: Record, name: str, arguments: list[str]) -> Any:
    import asyncio

    from .launch import files, records, ssh
    from .launch.connection import Connection
    from .launch.troubles import Trouble

    log = records.Log(record.log_path(cluster.head))
    connection = Connection(cluster, cluster.head, ssh.control_folder(), log)
    connection.hears = _show
    ((file,)) = files.collect([(os.path.basename(name), name)], ())
    try:
        await connection.open(asyncio.Semaphore(1))
        facts = {"name": file.place, "size": file.size, "arguments": arguments}
        variables = {"ZRAY_ADDRESS": record.address}
        asking = asyncio.ensure_future(
            connection.ask("program", "the program ran", data=file.data(), env=variables, **facts)
        )
        try:
            return (await asyncio.shield(asking))["status"]
        except asyncio.CancelledError:
            await connection.signal(signal.SIGINT)
            return (await asyncio.wait_for(asking, END_SECONDS))["status"]
    except asyncio.TimeoutError:
        raise click.ClickException("The program did not end by Ctrl-C, and is killed.") from None
    except Trouble as trouble:
        raise click.ClickException(f"{cluster.head.label}: {trouble}.") from None
    finally:
        await connection.close()
        log.close()


def _show(kind: str, data: bytes) -> None:
    stream = sys.stdout if kind == "out" else sys.stderr
    stream.buffer.write(data)
    stream.flush()
