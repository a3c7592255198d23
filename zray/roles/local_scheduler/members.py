"""A local scheduler as a member of its cluster: it registers, says that it is alive and how loaded, and learns who
else is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...wire.gcs import Heartbeat, HeartbeatReply, NodeJoined, NodeLost, RegisterNode
from ...wire.message import Local
from ...wire.scheduling import LoadReport
from ..effects import EndSession, ForgetHost, KillWorker, MeetHost

if TYPE_CHECKING:
    from .scheduler import LocalScheduler

LOAD_SECONDS = 0.1
# So many reports without an answer of the monitor, and the lease is over: before the monitor's own count for a silent
# node is (27 ticks of the same length), so that nobody else runs what runs here while it does.
LEASE_REPORTS = 22
BANDWIDTH_FIRST_GUESS = 1e9  # bytes per second, until one is measured


class LoadTimeout(Local):
    """Report the load again."""


class Members:
    """The cluster, seen from one node."""

    def __init__(self, node: LocalScheduler) -> None:
        self.node = node
        self.peers: dict[str, dict[str, int]] = {}  # other local schedulers -> their total resources
        self.bandwidth = BANDWIDTH_FIRST_GUESS
        self.unanswered = 0  # reports since the monitor's last word: counted, since a stopped machine's clock goes on
        self.is_fenced = False

    def start(self, kind: str = "node", endpoint: str = "", public_key: bytes = b"") -> None:
        """Join the cluster: once, before anything else.  As in RegisterNode."""
        node = self.node
        node.send(node.addresses.monitor, RegisterNode(node.address, node.resources.total, kind, endpoint, public_key))
        self.on_load_timeout()

    def on_load_timeout(self) -> None:
        """LoadTimeout: report, regularly."""
        node = self.node
        if self.is_fenced:
            return
        self.unanswered += 1
        if self.unanswered > LEASE_REPORTS:
            self.fence(f"the monitor has not answered for {LEASE_REPORTS * LOAD_SECONDS:.1f} s")
            return
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

    def on_heartbeat_reply(self, message: HeartbeatReply) -> None:
        """HeartbeatReply: the lease begins anew."""
        self.unanswered = 0

    def on_node_lost(self, message: NodeLost) -> None:
        """NodeLost."""
        if message.node == self.node.address:
            self.fence(f"this node was declared lost: {message.reason}")
            return
        self.peers.pop(message.node, None)
        self.node.recovery.node_lost(message)
        self.node.remote_calls.node_lost(message.node, message.reason)
        self.node.perform(ForgetHost(message.node))

    def fence(self, reason: str) -> None:
        """No member any more: what runs here must not go on, since others run it again."""
        if not self.is_fenced:
            self.is_fenced = True
            for worker in self.node.pool.workers.values():
                self.node.perform(KillWorker(worker.address))
            self.node.perform(EndSession(f"not a member of its cluster any more: {reason}"))
