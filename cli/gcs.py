"""`zray gcs`: what the shards of a control store have written down."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click


def on_servers(folder: str) -> Iterator[tuple[str, int]]:
    """Yield (folder, last acknowledged record) of each replica that keeps its records on a server."""
    from zray.store.redis_store import MARK

    for place, folders, names in os.walk(folder):
        folders.sort()
        if MARK in names:
            with open(os.path.join(place, MARK), "rb") as file:
                number = file.read()
            yield place, int(number) if number.isdigit() else 0


@click.group()
def gcs() -> None:
    """Look at what the shards of a cluster have written down."""


@gcs.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
def check(folder: str) -> None:
    """Verify all logs of shards in FOLDER (a head's --state-dir): each record, and its checksums.  Nothing is changed.

    What a death has torn off at the end of a log is said, and no fault: the next start cuts it off.  Exit code 1: a
    file is damaged; its line says at which byte.
    """
    from zray.store.check import check as checked

    found = list(checked(folder))
    for file in found:
        verdict = "whole"
        if file.reason:
            verdict = f"{'DAMAGED' if file.is_damaged else 'torn'} at byte {file.end}: {file.reason}"
        click.echo(f"{file.path}: {file.records} records, {file.size} bytes, {verdict}")
    for place, number in on_servers(folder):
        click.echo(
            f"Note: the records of {place}, at least {number}, are on a server: a head checks them at its start.",
            err=True,
        )
    if not found:
        raise click.ClickException(f"{folder} has no log of a shard in it")
    if any(file.is_damaged for file in found):
        raise SystemExit(1)
