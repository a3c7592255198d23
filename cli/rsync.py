"""`zray rsync-up` and `zray rsync-down`: files to and from hosts of a cluster that `zray up` has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import click

from .tables import counted


@click.command("rsync-up")
@click.option("--file", "-f", metavar="FILE", help="File of hosts; it may also stand before the source.")
@click.option("--all", "everywhere", is_flag=True, help="To all hosts in place of the head alone.")
@click.argument("paths", nargs=-1, required=True, metavar="[FILE] SOURCE [TARGET]")
def rsync_up(file: str | None, everywhere: bool, paths: tuple[str, ...]) -> None:
    """Copy SOURCE, a file or folder of this machine, to TARGET on the head.

    A relative TARGET is in the home folder; without it, the name is that of SOURCE. Files that are equal already are
    not sent, and none is removed. No rsync is needed on either side.
    """
    from .launch import commands, files

    file, source, target = _split(file, paths)
    if not os.path.exists(source):
        raise click.UsageError(f"There is no file or folder {source} on this machine.")
    cluster, record = commands.cluster_of(file)
    target = target or os.path.basename(os.path.abspath(source))
    found = files.collect([(target, os.path.abspath(source))], cluster.exclude)

    async def send(work: Any, host: Any) -> str:
        connection = await work.open(host)
        ours = [item.facts() for item in found]
        differing = (await work.ask(connection, "compare", "files were compared", files=ours))["differing"]
        for item in found:
            if item.place in differing:
                facts = {"path": item.place, "size": item.size, "mode": item.mode}
                await work.ask(connection, "file", f"{item.place} was sent", data=item.data(), **facts)
        return f"{counted(len(differing), 'file')} sent, {len(found) - len(differing):,} equal"

    commands.run_on(cluster, record, cluster.hosts if everywhere else [cluster.head], send)


@click.command("rsync-down")
@click.option("--file", "-f", metavar="FILE", help="File of hosts; it may also stand before the source.")
@click.option("--host", metavar="NAME", help="From another host of the file than the head.")
@click.argument("paths", nargs=-1, required=True, metavar="[FILE] SOURCE [TARGET]")
def rsync_down(file: str | None, host: str | None, paths: tuple[str, ...]) -> None:
    """Copy SOURCE, a file or folder of the head, to TARGET on this machine.

    A relative SOURCE is in the home folder; without TARGET, the name is that of SOURCE, in this folder. Files that are
    equal already are not sent, and none is removed.
    """
    from .launch import commands, files

    file, source, target = _split(file, paths)
    cluster, record = commands.cluster_of(file)
    target = target or os.path.basename(os.path.normpath(source))
    have = files.have(target)

    async def receive(work: Any, host: Any) -> str:
        connection = await work.open(host)
        into = os.path.join(target, os.path.basename(source)) if os.path.isdir(target) else target
        connection.receives = lambda name, mode: _opened(target if name else into, name, mode)
        exclude = [*files.EXCLUDED, *cluster.exclude]
        answer = await work.ask(connection, "read", f"{source} was read", path=source, have=have, exclude=exclude)
        return f"{counted(answer['sent'], 'file')} received into {target}"

    commands.run_on(cluster, record, [commands.host_of(cluster, host)], receive)


def _split(file: str | None, paths: tuple[str, ...]) -> tuple[str | None, str, str]:
    from .launch import commands

    if file is None:
        file, paths = commands.split_file(paths, least=1)
    if len(paths) > 2:
        raise click.UsageError("Give a source and at most one target.")
    return file, paths[0], paths[1] if len(paths) == 2 else ""


@contextmanager
def _opened(target: str, name: str, mode: int) -> Iterator[BinaryIO]:
    """A file of this machine, written whole or not at all; no name leads out of the target."""
    if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == "..":
        raise click.ClickException(f"The host sent a file with the name {name!r}, which leads out of {target}.")
    path = os.path.join(target, name) if name else target
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = f"{path}.zray-{os.getpid()}"
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
