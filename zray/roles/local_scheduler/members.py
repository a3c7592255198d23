"""A local scheduler as a member of its cluster: it registers, says that it is alive and how loaded, and learns who
else is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.gcs import Heartbeat, NodeJoined, NodeLost, RegisterNode
from ...wire.message import Local
from ...wire.scheduling import LoadReport
from ..effects import ForgetHost, MeetHost

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

LOAD_SECONDS = 0.1
BANDWIDTH_FIRST_GUESS = 1e9  # bytes per second, until one is measured


class LoadTimeout(Local):
    """Report the load again."""


class Members:
    """The cluster, seen from one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.peers: dict[str, dict[str, int]] = {}  # other local schedulers -> their total resources
        self.bandwidth = BANDWIDTH_FIRST_GUESS

    def start(self, kind: str = "node", endpoint: str = "", public_key: bytes = b"") -> None:
        """Join the cluster: once, before anything else.  As in RegisterNode."""
        node = self.node
        node.send(node.addresses.monitor, RegisterNode(node.address, node.resources.total, kind, endpoint, public_key))
        self.on_load_timeout()

    def on_load_timeout(self) -> None:
        """LoadTimeout: report, regularly."""
        node = self.node
        means = node.dispatch.mean_us
        mean = sum(means.values()) / len(means) / 1e6 if means else 0.0
        report = LoadReport(
            node.address,
            node.resources.total,
            dict(node.resources.free),
            node.dispatch.ready_count,
            mean,
            self.bandwidth,
        )
        for scheduler in node.addresses.global_schedulers:
            node.send(scheduler, report)
        node.send(node.addresses.monitor, Heartbeat(node.address))
        node.set_timer(LOAD_SECONDS, LoadTimeout())

    def on_node_joined(self, message: NodeJoined) -> None:
        """NodeJoined: there is somewhere to spill to."""
        if message.node != self.node.address:
            self.node.perform(
                MeetHost(message.node, message.kind, message.endpoint, message.public_key, message.is_earlier)
            )
            self.peers[message.node] = message.total

    def on_node_lost(self, message: NodeLost) -> None:
        """NodeLost."""
        self.peers.pop(message.node, None)
        self.node.remote_calls.node_lost(message.node, message.reason)
        self.node.perform(ForgetHost(message.node))
