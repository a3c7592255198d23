"""The breakpoints of the sessions of this machine, and of other nodes through an actor on each."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import click

# A node that has not answered after this time is named, and left out.
ANSWER_SECONDS = 10.0
CHUNK_BYTES = 1 << 16


@dataclass
class Breakpoint:
    """A task that waits for a debugger."""

    path: str  # of the socket
    task_id: str
    name: str
    actor_id: str
    node_id: str
    pid: int
    file: str
    line: int
    since: float
    why: str
    relay: Any = None  # the actor of its node; None: the node is on this machine

    def is_called(self, text: str) -> bool:
        """Whether a text names the task: an id or its beginning, a name, or a pid."""
        wanted = text.lower()
        return text in (self.name, self.name.rpartition(".")[2], str(self.pid)) or any(
            len(wanted) >= 4 and id.startswith(wanted) for id in (self.task_id, self.actor_id)
        )


def in_folder(folder: str) -> list[dict[str, Any]]:
    """Return the breakpoints in a session's folder; remains of workers that were killed are removed."""
    from zray.host.worker.breakpoints import PREFIX

    found = []
    for name in sorted(os.listdir(folder)):
        if not (name.startswith(PREFIX) and name.endswith(".json")):
            continue
        path = os.path.join(folder, name.removesuffix(".json"))
        with suppress(OSError, ValueError), open(f"{path}.json", encoding="utf-8") as file:
            facts = json.load(file)
            if os.path.exists(f"/proc/{facts['pid']}"):
                found.append({**facts, "path": path})
            else:
                os.unlink(f"{path}.json")
                os.unlink(path)
    return found


def here() -> list[Breakpoint]:
    """Return the breakpoints of all sessions of this user on this machine."""
    from zray.host.client import control

    found = []
    for session, _ in control.sessions():
        with suppress(OSError):
            found += [Breakpoint(**facts) for facts in in_folder(session.folder)]
    return found


@contextmanager
def on_other_nodes(address: str | None) -> Iterator[tuple[list[Breakpoint], list[str]]]:
    """Yield the breakpoints on nodes of other machines, and the nodes that do not answer.

    address: HOST:PORT of the cluster; None: that of this machine's session, if it has one.
    """
    import zray
    from zray.host.client import control

    local = {info.node_id for _, info in control.sessions()}
    if address is None and not any(info.cluster for _, info in control.sessions()):
        yield [], []
        return
    with zray.init(address=address or "auto", log_to_driver=False):
        others = [node["NodeID"] for node in zray.nodes() if node["Alive"] and node["NodeID"] not in local]
        yield on_nodes(others)


def on_nodes(nodes: list[str]) -> tuple[list[Breakpoint], list[str]]:
    """Return the breakpoints on nodes of this cluster, and the nodes that do not answer: an actor on each looks."""
    import zray
    from zray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from .debug_relay import OUTPUT, Relay

    actor = zray.remote(num_cpus=0, concurrency_groups={OUTPUT: 1})(Relay)
    relays, asked = {}, {}
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        relays[node] = actor.options(scheduling_strategy=strategy).remote()
        asked[relays[node].found.remote()] = node
    if not asked:
        return [], []
    ready, _ = zray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_SECONDS)
    found, silent = [], [node for ref, node in asked.items() if ref not in ready]
    for ref in ready:
        try:
            found += [Breakpoint(**facts, relay=relays[asked[ref]]) for facts in zray.get(ref)]
        except zray.exceptions.RayError:
            silent.append(asked[ref])
    return found, silent


class LocalLine:
    """The connection to a debugger on this machine."""

    def __init__(self, place: Breakpoint) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(place.path)
        except OSError as error:
            self.socket.close()
            raise click.ClickException(f"The task does not stand at its breakpoint any more: {error}.") from None

    def read(self) -> bytes:
        """Return more output; nothing at the end, which closes the connection."""
        try:
            data = self.socket.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            self.socket.close()
        return data

    def write(self, line: bytes) -> None:
        """Send a command."""
        with suppress(OSError):
            self.socket.sendall(line)

    def finish(self) -> None:
        """Say that no command follows; the task stays at its breakpoint."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)


class RemoteLine:
    """The connection to a debugger on another node, through the node's actor."""

    def __init__(self, place: Breakpoint) -> None:
        import zray

        self.relay = place.relay
        try:
            zray.get(self.relay.attach.remote(place.path))
        except zray.exceptions.RayTaskError as error:
            raise click.ClickException(f"The task does not stand at its breakpoint any more: {error.cause}.") from None

    def read(self) -> bytes:
        """Return more output; nothing at the end."""
        import zray

        try:
            data: bytes = zray.get(self.relay.read.remote())
        except zray.exceptions.RayError:
            return b""
        return data

    def write(self, line: bytes) -> None:
        """Send a command."""
        self.relay.write.remote(line)

    def finish(self) -> None:
        """Say that no command follows; the task stays at its breakpoint."""
        self.relay.finish.remote()
