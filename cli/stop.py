"""`zray stop`: end what `zray start` has started on this machine."""

from __future__ import annotations

import click


def named(sessions: dict[str, str], text: str) -> list[str]:
    """Return the names of the sessions named by `text`, or, without any, beginning with `text`.

    Args:
        sessions: first name (of a node that has joined again) by name of the session.
    """
    exact = [name for name, called in sessions.items() if text and text in (name, called)]
    return exact or [
        name for name, called in sessions.items() if text and (name.startswith(text) or called.startswith(text))
    ]


def nothing_to_end(embedded: dict[str, int]) -> str:
    """Say why there is nothing to end.  embedded: pids of the nodes of running programs, by session."""
    text = "Nothing was running: no session that `zray start` has started is on this machine."
    if embedded:
        names = ", ".join(f"{name} (node pid {pid})" for name, pid in embedded.items())
        text += f"  Sessions of running programs end with their programs: {names}."
    return text


@click.command()
@click.argument("session", required=False)
@click.option("--all", "everything", is_flag=True, help="End all that `zray start` has started here.")
@click.option("--force", "-f", is_flag=True, help="Kill the session at once, without asking its node to end.")
def stop(session: str | None, everything: bool, force: bool) -> None:
    """End SESSION (its name, or how that begins), which `zray start` has started on this machine.

    The name may be left out when there is only one.  Exit code 0 also where nothing was running.
    """
    from zray.host.client import control

    found_here = control.sessions()
    lasting = {found.name: (found, info) for found, info in found_here if not info.is_embedded}
    embedded = {found.name: info.node_pid for found, info in found_here if info.is_embedded}
    names = ", ".join(f"{name} ({info.kind} of {info.cluster})" for name, (_, info) in lasting.items())
    lasting.update({info.session: (found, info) for found, info in control.returning()})
    if everything and session is not None:
        raise click.UsageError("Give the name of a session or --all, not both.")
    if session is not None:
        meant = named({name: info.called for name, (_, info) in lasting.items()}, session)
        if not meant and (of_program := named(dict.fromkeys(embedded, ""), session)):
            raise click.UsageError(f"Session {of_program[0]} belongs to a running program, and ends with it.")
        if not meant:
            there = f"there are: {names}" if lasting else "there is none"
            raise click.UsageError(f"`zray start` has started no session of that name here; {there}.")
        if len(meant) > 1:
            raise click.UsageError(f"Several sessions have names that begin so: {', '.join(meant)}.")
        session = meant[0]
    if not lasting:
        click.echo(nothing_to_end(embedded))
        return
    if session is None and len(lasting) > 1 and not everything:
        raise click.UsageError(f"Several sessions run here; name one, or give --all: {names}.")
    # The newest first: a head is older than the nodes that have joined it.
    for name in [session] if session is not None else list(lasting):
        found, info = lasting[name]
        if info.kind == "returning":
            how = "has ended" if control.end_return(found, info) else "does not join its cluster again"
        elif force:
            control.kill(found, info.node_pid)
            how = "was killed"
        else:
            how = "has ended" if control.end(found, info.node_pid) else "did not answer and was killed"
        click.echo(f"Session {name}{f' (first called {info.called})' if info.called else ''} {how}.")
