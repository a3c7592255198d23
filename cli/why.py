"""`zray why`: what a task, an actor, an object or a node waits for, or how it ended."""

from __future__ import annotations

import click

from .looks import looked_at, looks_at


@click.command()
@click.argument("id", default="", metavar="[ID]")
@looks_at
def why(id: str, address: str | None) -> None:
    """Explain what a task, an object, an actor or a node waits for, or how it ended.

    The beginning of an id is enough.  The name of a function or of an actor takes the place of an ID; of several tasks
    three that have not ended are explained, or else the last one.  Without an ID, the tasks of the session that have
    not ended are explained.
    """
    from zray.exceptions.printable import printable
    from zray.util.why import why as explain

    with looked_at(address):
        try:
            lines = explain(id)
        except ValueError as error:
            raise click.ClickException(str(error)) from None
    for line in lines:
        click.echo(printable(line))
