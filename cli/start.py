"""`zray start`: a node on this machine that outlives its drivers: the head of a cluster, or one that joins it."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from . import foreground
from .counts import COUNT_MAX, CountRange, FixedCount

HEAD_STARTED = """\
zray runs: session {session}, head of the cluster at {cluster}.

  add a node  ZRAY_TOKEN={token} zray start --address {cluster}
  join it     zray.init(address="auto") on this machine; elsewhere zray.init(address="{cluster}"),
              with the same ZRAY_TOKEN in the environment
  look at it  zray status
  end it      {end}
"""
LOOPBACK_HEAD_STARTED = """\
zray runs: session {session}, head of the cluster at {cluster}.

  add a node  ZRAY_TOKEN={token} zray start --address {cluster}
              on this machine
  join it     zray.init(address="auto") on this machine
  look at it  zray status
  end it      {end}

"""
LOOPBACK_NOTE = """\
Only this machine can reach the head.  For other machines, start the head with `zray start --head --host ADDRESS`:
an address of this machine that they can reach (`hostname -I` shows all)."""
OPEN_NOTE = """
Other machines can reach this head: programs with the token run here as this user."""
NODE_STARTED = """\
zray runs: session {session}, a node of the cluster at {cluster}.

  join it     zray.init(address="auto")
  look at it  zray status
  end it      {end}
"""
RUNNING = """\
Note: {count} on this machine already:

{lines}

{joins}
To end one: {ends}"""

TWICE = """\
Note: this machine is in that cluster already, with {sessions}.  Its resources are counted twice,
unless --num-cpus and the other options divide them.
To end one: {ends}"""

# A head need not know where others reach it: who joins says so.
HEAD_IS_ADVERTISED = (
    "--advertise is for nodes that join.  Name an address of this machine with --host; behind a router, have nodes "
    "`zray start --address ROUTER:PORT`, with a port of the router's that leads to the head's."
)
# They make sense with --head alone.
HEAD_OPTIONS = (
    "gcs_shards",
    "gcs_replicas",
    "global_schedulers",
    "policy",
    "state_dir",
    "gcs_store",
    "gcs_store_password_file",
    "gcs_lineage_memory",
    "driver_wait",
)


def resource_map(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, float] | None:
    """--resources as a dict."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"the value is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.BadParameter('a JSON object is needed, like {"disk": 2}.')
    return value


def label_map(context: click.Context, option: click.Parameter, text: str | None) -> dict[str, str] | None:
    """--labels as a dict."""
    if text is None or text.lstrip().startswith("{"):
        return resource_map(context, option, text)  # type: ignore[return-value]
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(separator for _, separator, _ in pairs):
        raise click.BadParameter("labels are like disk=ssd,zone=a.")
    return {key.strip(): value.strip() for key, _, value in pairs}


def read_token(path: str | None, from_stdin: bool) -> str:
    """The join token: of a file, of standard input, or of the environment."""
    from zray.host.security.keyring import read_secret
    from zray.host.security.token_input import token_from_environment

    token = token_from_environment()
    if path is not None and from_stdin:
        raise click.UsageError("Give --token-file or --token-stdin, not both.")
    if path is not None:
        try:
            token = read_secret(path).decode("ascii", "replace")
        except OSError as error:
            raise click.ClickException(f"The token cannot be read from {path}: {error.strerror or error}.") from error
    elif from_stdin:
        token = click.get_text_stream("stdin").readline()
    if not token.strip():
        raise click.UsageError(
            "A join token is needed: set ZRAY_TOKEN, or give --token-file or --token-stdin.  `zray start --head` "
            "printed one, and `zray keys token` on the head's machine prints another."
        )
    return token.strip()


def other_sessions(new: str) -> list[Any]:
    """Return (session, its node's facts) of each lasting session on the machine, except `new`."""
    from zray.host.session.session import lasting_sessions

    found = [(session, info) for session in lasting_sessions() if (info := session.read_info()) is not None]
    return [(session, info) for session, info in found if session.name != new]


def note_others(new: str) -> None:
    """Say on standard error which sessions ran already, and that a program will join `new`, the latest."""
    from zray.host.session.discovery import find_session

    others = other_sessions(new)
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


def note_nodes_beside(new: Any) -> None:
    """Say on standard error which other nodes of the cluster the user has on the machine."""
    info = new.read_info()
    if info is None:
        return  # it has ended already
    beside = [session.name for session, other in other_sessions(new.name) if other.cluster == info.cluster]
    if beside:
        ends = ", ".join(f"zray stop {name}" for name in (*beside, new.name))
        sessions = "session " if len(beside) == 1 else "sessions "
        click.echo(TWICE.format(sessions=sessions + ", ".join(beside), ends=ends), err=True)


@click.command()
@click.option("--head", is_flag=True, help="Start a cluster on this machine.")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="P", help="The port to listen on; 0 is any. [with --head: 6379]"
)
@click.option(
    "--host",
    metavar="IP",
    help="The address of this machine to listen on, where others reach it. [with --head: 127.0.0.1, for this machine "
    "only]",
)
@click.option("--address", metavar="HOST:PORT", help="Join the cluster whose head is there.")
@click.option(
    "--advertise", metavar="HOST[:PORT]", help="With --address: where others reach this node, if that is not --host."
)
@click.option("--token-file", metavar="PATH", help="Read the join token from a file (mode 0600).")
@click.option("--token-stdin", is_flag=True, help="Read the join token from standard input.")
@click.option("--num-cpus", type=float, metavar="N", help="CPUs to hand out; default: those that this process may use.")
@click.option("--num-gpus", type=float, metavar="N", help="GPUs to hand out; default: those that are detected.")
@click.option(
    "--memory", type=float, metavar="BYTES", help="Memory to hand out; default: 70 % of what this process may use."
)
@click.option("--resources", callback=resource_map, metavar="JSON", help='Further resources, like {"disk": 2}.')
@click.option(
    "--labels", callback=label_map, metavar="K=V,...", help='Labels of the node; or JSON, like {"disk": "ssd"}.'
)
@click.option(
    "--object-store-memory", type=float, metavar="BYTES", help="Shared memory to use at most; default: 30 % of memory."
)
@click.option(
    "--object-spilling-directory",
    "spill_directory",
    metavar="PATH",
    help='Folder for values that the store has no room for; "" is none. [the session\'s, unless that is in memory]',
)
@click.option("--gcs-shards", type=FixedCount(1, COUNT_MAX), metavar="N", help="With --head: shards of the GCS. [1]")
@click.option(
    "--gcs-replicas", type=click.IntRange(1, 64), metavar="R", help="With --head: replicas of each shard. [1]"
)
@click.option(
    "--gcs-lineage-memory",
    type=click.IntRange(1),
    metavar="BYTES",
    help="With --head: lineage that a shard keeps in memory; the rest goes to disk. [256 MiB]",
)
@click.option(
    "--global-schedulers",
    type=CountRange(),
    metavar="COUNT",
    help="With --head: number of global schedulers; MIN:MAX, or auto: as many as the load asks for. [1]",
)
@click.option(
    "--policy", metavar="NAME", help="With --head: placement of tasks: bottom_up, or another policy for comparison."
)
@click.option(
    "--state-dir", metavar="PATH", help="With --head: folder of the cluster's state; a new start continues from it."
)
@click.option(
    "--gcs-store",
    metavar="URL",
    help="With --head and --state-dir: a Redis or Valkey server for the records of the GCS: redis://HOST:PORT/DB.",
)
@click.option(
    "--gcs-store-password-file",
    metavar="PATH",
    help="With --head: read that server's password from a file (mode 0600).  [ZRAY_GCS_STORE_PASSWORD]",
)
@click.option(
    "--driver-wait",
    type=float,
    metavar="S",
    help="With --head: a program on another machine may be cut off or asleep for S seconds. [60]",
)
@click.option(
    "--head-wait", type=float, metavar="S", help="With --address: wait S seconds for a head that is gone. [60]"
)
@click.option("--no-replicas", is_flag=True, help="With --address: this node runs no replicas of GCS shards.")
@click.option(
    "--metrics-export-port",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="P",
    help="Serve the metrics of the session to Prometheus at this port of 127.0.0.1; 0 is any.",
)
@click.option("--block", is_flag=True, help="Stay in the foreground; the session ends with this command.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0.0),
    default=0.0,
    metavar="S",
    help="With --address and --block: when told to end, finish the tasks and leave in order, within S seconds. [0]",
)
def start(
    head: bool,
    address: str | None,
    num_cpus: float | None,
    num_gpus: float | None,
    memory: float | None,
    resources: dict[str, float] | None,
    object_store_memory: float | None,
    metrics_port: int | None,
    block: bool,
    drain: float,
    **where: Any,
) -> None:
    """Start a node that outlives its drivers: a head, or one that joins a cluster."""
    from zray.host.client import control
    from zray.host.process import node_processes
    from zray.host.process.machine_resources import why_store_is_too_large

    if head == (address is not None):
        both = ", not both" if head else ""
        raise click.UsageError(f"Give --head to start a cluster, or --address HOST:PORT to join one{both}.")
    if drain and not (block and address is not None):
        raise click.UsageError("--drain is for nodes that join (--address), and that stay in the foreground (--block).")
    metrics = metrics_listener(metrics_port)
    interrupted = control.Interrupted() if block else None
    manager = foreground.ServiceManager(os.environ)
    try:
        total = node_processes.declared_resources(num_cpus, num_gpus, resources, memory)
        if address is None:
            session, node_pid = start_head(total, object_store_memory, where, is_foreground=block)
        else:
            session, node_pid = join(total, object_store_memory, address, where, is_foreground=block)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise click.UsageError(str(error)) from error
    if note := why_store_is_too_large(object_store_memory):
        click.echo(f"Note: {note}\n", err=True)
    serve_metrics(metrics, session, node_pid)
    log = foreground.open_log(session) if block else None
    say_how(session, "Ctrl-C" if block else f"zray stop {session.name}")
    if head:
        note_others(session.name)
    else:
        note_nodes_beside(session)
    if interrupted is not None:
        foreground.stay(session, node_pid, interrupted, manager, log, drain)


def metrics_listener(port: int | None) -> Any:
    """A socket for metrics, before anything is started; None: none are to be served."""
    if port is None:
        return None
    from zray.api import metrics_endpoint

    try:
        return metrics_endpoint.listener(port)
    except (ImportError, OSError) as error:
        raise click.ClickException(str(error)) from None


def serve_metrics(listener: Any, session: Any, node_pid: int) -> None:
    """Serve the metrics of a session until its node ends."""
    if listener is None:
        return
    from zray.api import metrics_endpoint

    with listener:
        metrics_endpoint.start(listener, session.address, session.log_path("metrics"), node_pid)
        click.echo(
            f"Metrics for Prometheus are at http://{metrics_endpoint.HOST}:{listener.getsockname()[1]}/metrics.\n"
        )


def start_head(total: dict[str, int], store: float | None, where: dict[str, Any], *, is_foreground: bool) -> Any:
    """--head."""
    from zray.host.process import node_processes
    from zray.host.security import token_input

    if where["token_file"] is not None or where["token_stdin"]:
        raise click.UsageError("A head creates its own token; --token-file and --token-stdin are for nodes that join.")
    if where["head_wait"] is not None:
        raise click.UsageError("--head-wait is for nodes that join.")
    if where["no_replicas"]:
        raise click.UsageError("--no-replicas is for nodes that join: the head runs the first replica of each shard.")
    if where["advertise"] is not None:
        raise click.UsageError(HEAD_IS_ADVERTISED)
    plan = {name: where[name] for name in HEAD_OPTIONS if where[name] is not None}
    host = token_input.own_address(where["host"]) if where["host"] is not None else ""
    further = {"host": host, "port": where["port"], "labels": where["labels"], "is_bound": is_foreground}
    further["spill_directory"] = where["spill_directory"]
    return node_processes.start_head(total, store, **further, **plan)


def join(
    total: dict[str, int], store: float | None, address: str, where: dict[str, Any], *, is_foreground: bool
) -> Any:
    """--address."""
    from zray.host.process import node_processes
    from zray.host.security import token_input

    for name in HEAD_OPTIONS:
        if where[name] is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} is an option of the head: give it to `zray start --head`."
            )
    token = read_token(where["token_file"], where["token_stdin"])
    host = token_input.own_address(where["host"]) if where["host"] is not None else ""
    address = token_input.cluster_address(address)
    advertise = token_input.advertised_address(where["advertise"]) if where["advertise"] is not None else ""
    further = {
        "host": host,
        "port": where["port"] or 0,
        "advertise": advertise,
        "head_wait": where["head_wait"],
        "labels": where["labels"],
        "rejoin": not is_foreground,
        "is_bound": is_foreground,
        "replicas": not where["no_replicas"],
        "spill_directory": where["spill_directory"],
    }
    return node_processes.start_member(total, store, address, token, **further)


def say_how(session: Any, end: str) -> None:
    """Print what can be done with the session."""
    from zray.host.security.keyring import read_secret

    info = session.read_info()
    if info is None:
        raise click.ClickException("The session has ended.")
    if info.kind == "head":
        token = read_secret(session.token_path).decode()
        is_loopback = info.cluster.startswith("127.")
        text = LOOPBACK_HEAD_STARTED if is_loopback else HEAD_STARTED
        click.echo(text.format(session=session.name, cluster=info.cluster, token=token, end=end), nl=False)
        if is_loopback:
            click.echo(LOOPBACK_NOTE)
        else:
            click.echo(OPEN_NOTE, err=True)
    else:
        click.echo(NODE_STARTED.format(session=session.name, cluster=info.cluster, end=end), nl=False)
    if info.notice:
        click.echo(f"\nNote: {info.notice}", err=True)
