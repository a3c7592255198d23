"""`zray start --block`: the command stays as long as its session, and reports to a service manager.

The protocol is systemd's (sd_notify(3)): NOTIFY_SOCKET names a socket, and WATCHDOG_USEC how often the manager wants to
hear that the service works.  The command says that only as long as its node answers.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Any

import click

# The manager waits for one period: a look in each third of it leaves time for a late answer.
LOOKS_PER_PERIOD = 3
# Ends that somebody has ordered: no failure of the service.
ORDERED = ("told to stop", "it was drained", "the head of the cluster has ended (told to stop)")


class ServiceManager:
    """The manager that has started this command, if there is one.

    variables: the environment.  What is the manager's is taken out: tasks must not speak for the service.
    """

    def __init__(self, variables: MutableMapping[str, str]) -> None:
        self.address = variables.pop("NOTIFY_SOCKET", "")
        period_us, pid = variables.pop("WATCHDOG_USEC", ""), variables.pop("WATCHDOG_PID", "")
        is_watched = self.address and period_us.isdigit() and pid in ("", str(os.getpid()))
        self.seconds = int(period_us) / 1e6 / LOOKS_PER_PERIOD if is_watched else None

    def say(self, *lines: str) -> None:
        """Send lines of the protocol; a manager that is gone is none of the session's business."""
        if not self.address:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            try:
                connection.sendto("\n".join(lines).encode(), name)
            except OSError as error:
                click.echo(f"Note: the service manager at {self.address} cannot be told: {error.strerror}.", err=True)


def answers(session: Any, node_pid: int) -> bool:
    """Return whether the node answers a question within a few seconds."""
    from zray.exceptions import ZrayError
    from zray.host.client import control

    try:
        with control.Control(session, node_pid) as node:
            node.status()
    except ZrayError:
        return False
    return True


def stay(
    session: Any, node_pid: int, interrupted: Any, manager: ServiceManager, log: Any, drain_seconds: float
) -> None:
    """Wait for a signal or for the end of the node, whichever comes first, and end the session.

    interrupted: control.Interrupted.  log: the node's, open.  drain_seconds: a node that is told to end leaves its
    cluster in order, within so many seconds.

    Raises:
        ClickException: the node has ended, and nobody had ordered that.
    """
    from zray.host.client import control
    from zray.host.process import node_processes

    manager.say("READY=1", f"STATUS=session {session.name}")
    while (is_told := interrupted.wait(node_pid, manager.seconds)) is None:
        if answers(session, node_pid):
            manager.say("WATCHDOG=1")
    if is_told:
        manager.say("STOPPING=1")
        if drain_seconds:
            leave(session, node_pid, interrupted, drain_seconds)
        control.end(session, node_pid)
        return
    node_processes.end_node(session, node_pid)
    why = why_it_ended(log)
    if why.endswith(ORDERED):
        click.echo(f"The session has ended: {why}.", err=True)
        return
    raise click.ClickException(f"The session has ended{f': {why}' if why else ''}.")


def leave(session: Any, node_pid: int, interrupted: Any, seconds: float) -> None:
    """Have the node finish its tasks, hand over its values and leave; a further signal ends the wait."""
    from zray.exceptions import ZrayError
    from zray.host.client import control
    from zray.wire.drains import DrainReply, OrderDrain

    info = session.read_info()
    if info is None or info.kind != "node":
        return  # a head, or a node that has just ended
    click.echo(f"The node leaves its cluster, within {seconds:g} s; a further signal ends it at once.", err=True)
    try:
        with control.Control(session, node_pid) as node:
            node.order(OrderDrain(1, info.node_id, seconds), DrainReply)
    except ZrayError as error:
        click.echo(f"Note: the node cannot be drained: {error}", err=True)
    else:
        interrupted.wait(node_pid, seconds)


def open_log(session: Any) -> Any:
    """Return the node's log, which is deleted with the session; an open file can be read all the same."""
    try:
        return open(session.log_path("node"), "rb")  # noqa: SIM115
    except FileNotFoundError:
        return None  # it has ended already


def why_it_ended(log: Any) -> str:
    """The reason in the node's last lines; "" if it could not write one."""
    from zray.host.node.node import ENDS
    from zray.host.process.process_utils import last_lines

    if log is None:
        return ""
    with log:
        lines = last_lines(f"/proc/self/fd/{log.fileno()}").splitlines()
    found = [line.partition(ENDS)[2] for line in lines if ENDS in line]
    return found[-1] if found else ""
