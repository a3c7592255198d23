"""The command lines of `zray up --dry-run` and `zray down --dry-run`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from . import plan, ssh
from .hosts_file import HEAD_PORT, Cluster, Host


def _opening(cluster: Cluster, host: Host) -> Iterator[str]:
    yield f"# {host.label}{', the head' if host.is_head else ''}"
    yield shlex.join([*ssh.line(cluster, host, "CONNECTIONS"), ssh.agent_command(host)])


def head_address(cluster: Cluster) -> str:
    """Return the head's address as far as the file has it."""
    return f"{cluster.head.address or cluster.head.name}:{cluster.head.options.get('port', HEAD_PORT)}"


def lines(cluster: Cluster) -> Iterator[str]:
    """Yield the lines that start a cluster on hosts where nothing is: those of ssh, and those that it has run there."""
    for host in cluster.hosts:
        yield from _opening(cluster, host)
        for place, path in cluster.files:
            yield f"    send {shlex.quote(path)} to {shlex.quote(place)}"
        for command in host.setup:
            yield f"    {command}"
        yield f"    zray {shlex.join(plan.start_arguments(host, head_address(cluster)))}"


def end_lines(cluster: Cluster, *, now: bool) -> Iterator[str]:
    """Yield the lines that end a cluster."""
    for host in [*cluster.nodes, cluster.head]:
        yield from _opening(cluster, host)
        if not now and not host.is_head:
            yield "    zray drain NODE    # on the head"
        yield f"    zray stop SESSION{' --force' if now else ''}"
        yield shlex.join(ssh.closing_line(cluster, host, "CONNECTIONS"))
