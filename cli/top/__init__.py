"""`zray top`: a session on a full screen, second by second; in a pipe, one look at it."""

from __future__ import annotations

import os
import sys

import click

from ..looks import looks_at

INSTALL = (
    "The screen of `zray top` needs the package textual, which is not installed: `pip install textual`, or zray with "
    "its extra `zray[top]`.  `zray top --once` works without it."
)


@click.command()
@looks_at
@click.option("--once", is_flag=True, help="Print one look as text, and end; in a pipe this is the default.")
def top(address: str | None, once: bool) -> None:
    """Show nodes, tasks, actors, objects and logs of a session on a full screen, second by second; `?` shows the keys.

    The screen asks the session once a second at most, and nothing while it is paused.
    """
    from .asking import Asker

    # textual draws on standard error.
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if not once and is_terminal and os.environ.get("TERM") != "dumb":
        try:
            import textual  # noqa: F401
        except ImportError:
            raise click.ClickException(INSTALL) from None
        from .app import Top

        asker = Asker(address or "auto")
        asker.join()  # without a session, the command ends as others do
        Top(asker).run()
        return
    from zray.wire.listing import ROWS_MAX

    from .snapshot import snapshot
    from .summary import Waits

    asker = Asker(address or "auto")
    asker.join()
    try:
        asker.rows = ROWS_MAX
        sample = asker.look(objects=True)
        waits = Waits(looks_min=1)
        waits.look(sample, asker.explain)
        for line in snapshot(sample, asker.history, waits):
            click.echo(line)
    finally:
        asker.leave()
