"""`zray why`: what a task, an actor, an object or a node waits for, or how it ended."""

from __future__ import annotations

from contextlib import nullcontext

import click

from .looks import looked_at, looks_at


@click.command()
@click.argument("id", default="", metavar="[ID]")
@click.option("--record", metavar="RECORD", help="Record of a run, as ZRAY_RECORD makes it, in place of a session.")
@looks_at
def why(id: str, record: str | None, address: str | None) -> None:
    """Explain what a task, an object, an actor or a node waits for, or how it ended.

    The beginning of an id is enough.  The name of a function or of an actor takes the place of an ID; of several tasks
    three that have not ended are explained, or else the last one.  Without an ID, the tasks of the session that have
    not ended are explained; of a record, the end of the program and its failed tasks.
    """
    from zray.exceptions.printable import printable
    from zray.util.why import why as explain

    if record is not None and address is not None:
        raise click.UsageError("A record and a session are two things to look at: give one of the two.")
    with nullcontext() if record is not None else looked_at(address):
        try:
            lines = explain(id, record=record)
        except ValueError as error:
            raise click.ClickException(str(error)) from None
    for line in lines:
        click.echo(printable(line))
