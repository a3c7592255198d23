"""Shared parts of the commands for a launched cluster: the file of hosts, troubles in words, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import click

from . import records
from .hosts_file import Cluster, Host, load
from .marked import Mistake

DEFAULT_FILE = "hosts.yaml"
ENDINGS = (".yaml", ".yml", ".json")


class WrongFile(click.ClickException):
    """A file of hosts that cannot be used."""

    exit_code = 2


def cluster_of(file: str | None) -> tuple[Cluster, records.Record]:
    """Return the cluster of a file of hosts, and its record.

    Without a file, hosts.yaml of this folder is taken, else that of the only cluster that is up.

    Raises:
        click.ClickException: there is no such file, or something in it is wrong.
    """
    path = file or chosen_file()
    try:
        cluster = load(path)
        return cluster, records.of_cluster(cluster)
    except ImportError:
        raise click.ClickException(
            "A file of hosts needs PyYAML: install zray[launch], or `pip install pyyaml`."
        ) from None
    except FileNotFoundError:
        raise WrongFile(f"There is no file {path}.") from None
    except OSError as error:
        raise WrongFile(f"{path} cannot be read: {error.strerror or error}.") from None
    except (Mistake, ValueError) as error:
        raise WrongFile(str(error)) from None


def chosen_file() -> str:
    """Return the file of hosts that is meant when none is named."""
    if os.path.exists(DEFAULT_FILE):
        return DEFAULT_FILE
    there = [record.path for record in records.all_records() if os.path.exists(record.path)]
    if len(there) == 1:
        return there[0]
    if there:
        raise WrongFile(f"Several clusters are up; name the file of hosts: {', '.join(there)}.")
    raise WrongFile(f"Name a file of hosts: there is no {DEFAULT_FILE} in this folder, and no cluster is up.")


def split_file(words: tuple[str, ...], *, least: int) -> tuple[str | None, tuple[str, ...]]:
    """Take a file of hosts off the beginning of arguments, as Ray's commands have it; at least `least` others stay."""
    if len(words) > least and words[0].endswith(ENDINGS):
        return words[0], words[1:]
    return None, words


class Printer:
    """Prints a line for each host that has come to an end."""

    def __init__(self, hosts: list[Host]) -> None:
        self.width = max(len(host.label) for host in hosts)

    def __call__(self, host: Host, is_well: bool, words: str) -> None:
        from zray.exceptions.printable import printable

        line = f"{host.label:{self.width}}  {printable(words)}"
        if is_well:
            click.echo(line)
        else:
            click.secho(f"{host.label:{self.width}}  FAILED: {printable(words)}.", fg="red", err=True)

    def progress(self, host: Host, words: str) -> None:
        """Print what a host does."""
        from zray.exceptions.printable import printable

        click.echo(f"{host.label:{self.width}}  {printable(words)} ...", err=True)


def change(record: records.Record, work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that changes a cluster; two at once would be in each other's way.

    Raises:
        click.ClickException: another command changes the cluster.
    """
    try:
        with record.held():
            return run(work)
    except BlockingIOError:
        work.close()
        raise click.ClickException(
            f"Another `zray up` or `zray down` of {record.name!r} runs on this machine."
        ) from None


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine; Ctrl-C and SIGTERM cancel it, and raise KeyboardInterrupt when it has ended."""

    async def main() -> Any:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        return await task

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def host_of(cluster: Cluster, name: str | None) -> Host:
    """Return a host of the file: the head without a name.

    Raises:
        click.UsageError: the file has no such host.
    """
    found = [host for host in cluster.hosts if name in (None, host.name, host.label)]
    if not found:
        labels = ", ".join(host.label for host in cluster.hosts)
        raise click.UsageError(f"{cluster.path} has no host {name!r}; there are: {labels}.")
    return found[0]


def execute(line: list[str]) -> None:
    """Become ssh.

    Raises:
        click.ClickException: it is not installed.
    """
    try:
        os.execvp(line[0], line)
    except FileNotFoundError:
        raise click.ClickException("The command ssh is not installed: install OpenSSH's client.") from None


def run_on(cluster: Cluster, record: records.Record, hosts: list[Host], work: Callable[[Any, Host], Any]) -> None:
    """Do work on hosts, with a line for each; the exit code is 1 if one of them failed."""
    from .runner import Work

    async def all_of_it() -> bool:
        together = Work(cluster, record, Printer(hosts), 0.0)
        try:
            return await together.each(hosts, lambda host: work(together, host))
        finally:
            await together.close()

    if not run(all_of_it()):
        raise SystemExit(1)
