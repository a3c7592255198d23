"""`zray doctor`: what is wrong on this machine, with a way to start clusters, or on the way to a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import click

WAYS = ("up", "slurm", "mpi", "systemd", "kubernetes")


@click.command()
@click.option("--to", "target", metavar="HOST:PORT", help="Try the way to the head of a cluster that listens there.")
@click.option("--for", "ways", type=click.Choice(WAYS), multiple=True, help="Check what starts clusters; repeatable.")
@click.option("--hosts", metavar="FILE", help="With --for up: log in to the hosts of FILE and check them.")
@click.option("--gcs-store", metavar="URL", help="Check a Redis or Valkey server for the records of shards.")
@click.option("--gcs-store-password-file", metavar="PATH", default="", help="File of its password, mode 0600.")
@click.option("--port", type=click.IntRange(1, 65535), default=6379, metavar="N", help="Port of a head here. [6379]")
@click.pass_context
def doctor(
    context: click.Context,
    target: str | None,
    ways: tuple[str, ...],
    hosts: str | None,
    gcs_store: str | None,
    gcs_store_password_file: str,
    port: int,
) -> None:
    """Say what is wrong on this machine and what to do: shared memory, limits, the port of a head.

    With --to, the way to a cluster is tried step by step instead, with the token in ZRAY_TOKEN.  With --for, also what
    `zray up`, `slurm`, `mpi`, `systemd` and `manifests` need.  Exit code 1 where something fails.  Nothing is changed.
    """
    if hosts is not None and "up" not in ways:
        raise click.UsageError("--hosts is for --for up.")
    is_well = True
    if target is None:
        from .launch import checks

        found = [checks.of_this_machine(port), *(_check(way) for way in ways)]
        if gcs_store:
            found.append(checks.of_store(gcs_store, gcs_store_password_file))
        for finding in (each for findings in found for each in findings):
            is_well &= _say(finding.level, finding.text)
        if hosts is not None:
            is_well &= _check_hosts(hosts)
    elif ways or gcs_store:
        raise click.UsageError("--to is for a cluster that runs; give it alone.")
    else:
        is_well = _try_the_way(target)
    context.exit(0 if is_well else 1)


def _try_the_way(target: str) -> bool:
    from zray.host.cluster.doctor import examine
    from zray.host.security.token_input import token_from_environment

    is_well = True
    try:
        for step in examine(target, token_from_environment()):
            is_well &= _say("ok" if step.is_done else "FAILED", step.text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return is_well


def _check(way: str) -> Iterator[Any]:
    from .launch import checks

    every: dict[str, Callable[[], Iterator[Any]]] = {
        "up": checks.of_ssh,
        "slurm": lambda: checks.of_slurm(os.environ),
        "mpi": checks.of_mpi,
        "systemd": checks.of_systemd,
        "kubernetes": checks.of_kubernetes,
    }
    return every[way]()


def _check_hosts(file: str) -> bool:
    """Check the hosts of a file, and print what was found in the order of the file."""
    from .launch import commands
    from .launch.host_checks import examine

    cluster, record = commands.cluster_of(file)
    found = commands.run(examine(cluster, record))
    lines = [(label, finding) for label, findings in found.items() for finding in findings]
    return all([_say(finding.level, f"{label}: {finding.text}") for label, finding in lines])


def _say(level: str, text: str) -> bool:
    """Print a finding; return whether it is none of a failure."""
    click.echo(f"{level:6} {text}")
    return level != "FAILED"
