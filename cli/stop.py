"""`zray stop`: end a session that `zray start` has started."""

from __future__ import annotations

import click


@click.command()
@click.argument("session", required=False)
def stop(session: str | None) -> None:
    """End SESSION; it may be left out when there is only one."""
    from zray.host import control

    lasting = {found.name: (found, info) for found, info in control.sessions() if not info.is_embedded}
    names = ", ".join(lasting)
    if session is None:
        if not lasting:
            click.echo("No session runs on this machine.")
            return
        if len(lasting) > 1:
            raise click.UsageError(f"There are several sessions; say which one: {names}.")
        session = next(iter(lasting))
    if session not in lasting:
        there = f"there are: {names}" if lasting else "there is none"
        raise click.UsageError(f"No session of that name was started by `zray start`; {there}.")
    found, info = lasting[session]
    how = "has ended" if control.end(found, info.node_pid) else "did not answer and was killed"
    click.echo(f"Session {session} {how}.")
