"""`zray start --head`: a session on this machine that outlives its drivers."""

from __future__ import annotations

import json

import click

STARTED = """\
zray runs: session {session}.

  join it     zray.init(address="auto")
  look at it  zray status
  end it      {end}"""
RUNNING = """\
Note: {count} on this machine already:

{lines}

{joins}
To end one: {ends}"""


def resource_map(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, float] | None:
    """--resources as a dict."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.BadParameter('a JSON object is needed, like {"disk": 2}.')
    return value


def note_others(new: str) -> None:
    """Say on standard error which sessions ran already, and which one a program will join: `new` is the latest."""
    from zray.host.nodes import find_session
    from zray.host.session import lasting_sessions

    others = [(session, info) for session in lasting_sessions() if (info := session.read_info()) is not None]
    others = [(session, info) for session, info in others if session.name != new]
    if not others:
        return
    try:
        joined = find_session()[0].name
    except ConnectionError:
        return  # they have all ended meanwhile
    text = RUNNING.format(
        count="a session of this user runs" if len(others) == 1 else f"{len(others)} sessions of this user run",
        lines="\n".join(
            f"  {session.name}  started {session.started_at()}, node pid {info.node_pid}" for session, info in others
        ),
        joins=f'zray.init(address="auto") joins the newest, {joined}{" (this one)" if joined == new else ""}.',
        ends=", ".join(f"zray stop {session.name}" for session, _ in others),
    )
    click.echo(text, err=True)


@click.command()
@click.option("--head", is_flag=True, help="Start a session on this machine.")
@click.option("--address", metavar="HOST:PORT", help="Join another machine's session (not built yet).")
@click.option("--num-cpus", type=float, metavar="N", help="CPUs to hand out; default: those of this machine.")
@click.option("--num-gpus", type=float, metavar="N", help="GPUs to hand out; default 0.")
@click.option("--resources", callback=resource_map, metavar="JSON", help='Further ones, like {"disk": 2}.')
@click.option("--object-store-memory", type=int, metavar="BYTES", help="Shared memory to use at most.")
@click.option("--block", is_flag=True, help="Stay in the foreground; the session ends with this command.")
def start(
    head: bool,
    address: str | None,
    num_cpus: float | None,
    num_gpus: float | None,
    resources: dict[str, float] | None,
    object_store_memory: int | None,
    block: bool,
) -> None:
    """Start a session that outlives its drivers."""
    from zray.host import control, nodes

    if address is not None:
        raise NotImplementedError("--address is not built yet: a session has one machine, started with --head.")
    if not head:
        raise click.UsageError("Say --head: start a session on this machine.")
    interrupted = control.Interrupted() if block else None
    try:
        total = nodes.declared_resources(num_cpus, num_gpus, resources)
        session, node_pid = nodes.start_node(total, object_store_memory, driver_pid=0)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(STARTED.format(session=session.name, end="Ctrl-C" if block else f"zray stop {session.name}"))
    note_others(session.name)
    if interrupted is not None and not interrupted.wait(node_pid):
        nodes.end_node(session, node_pid)
        raise click.ClickException("The session has ended.")
    if interrupted is not None:
        control.end(session, node_pid)
