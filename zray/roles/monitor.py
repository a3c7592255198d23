"""GCS monitor: who is a member, and the verdict on those that are silent.

Dialog (who says it -> what we do):

    local scheduler    RegisterNode    tell everybody of everybody
    local scheduler    Heartbeat       it is alive: HeartbeatReply
    our host           HostLeft        a node ends in order: all are told
    our host           HostLinkChanged    its connection broke, or is back
    our timer          MonitorTimeout  who has been silent, or cut off, for too long is lost: NodeLost to all

Silence is counted in ticks of our own, not in seconds: where everybody was stopped at once (a laptop's lid), or we
alone, nobody has been silent for more than one tick.  The verdict is final.
"""

from __future__ import annotations

from ..wire.gcs import Heartbeat, HeartbeatReply, NodeJoined, NodeLost, RegisterNode
from ..wire.message import Local
from .effects import HostLeft, HostLinkChanged
from .role import Role

TICK_SECONDS = 0.1
# A process that ends closes its connections: 0.5 s from its death to the verdict (issue: killed) are these ticks,
# one more that has begun, and what the news takes.  A connection that broke by itself is back within 50 ms.
DOWN_TICKS_MAX = 3
# Heartbeats come every 0.1 s.  27 ticks and the one that has begun are within the 3 s for a node that is frozen;
# it is longer than any pause of an honest node that we have seen (collector, swapping: below 1 s).
SILENT_TICKS_MAX = 27


class MonitorTimeout(Local):
    """One tick."""


class Monitor(Role):
    """Membership of one cluster."""

    def __init__(self, address: str, listeners: list[str]) -> None:
        super().__init__(address)
        self.listeners = listeners  # global schedulers and shards that are told of every node
        self.nodes: dict[str, RegisterNode] = {}  # in the order in which they joined
        self.lost: set[str] = set()  # membership only
        self.silent_ticks: dict[str, int] = {}
        self.down_ticks: dict[str, int] = {}  # of nodes whose connection broke, and is not back
        self.is_ticking = False

    def on_register_node(self, message: RegisterNode) -> None:
        if message.node in self.nodes or message.node in self.lost:
            return  # a repeat
        self.silent_ticks[message.node] = 0
        joined = _joined(message)
        for node, other in self.nodes.items():
            self.send(message.node, _joined(other, is_earlier=True))
            self.send(node, joined)
        self.nodes[message.node] = message
        for listener in self.listeners:
            self.send(listener, joined)
        if not self.is_ticking:
            self.is_ticking = True
            self.set_timer(TICK_SECONDS, MonitorTimeout())

    def on_host_left(self, message: HostLeft) -> None:
        self._lose(message.node, message.reason)

    def on_host_link_changed(self, message: HostLinkChanged) -> None:
        if message.is_up:
            self.down_ticks.pop(message.node, None)
        elif message.node in self.nodes:
            self.down_ticks[message.node] = 0

    def on_monitor_timeout(self, message: MonitorTimeout) -> None:
        self.set_timer(TICK_SECONDS, MonitorTimeout())
        for node in list(self.nodes):
            self.silent_ticks[node] += 1
            if self.silent_ticks[node] > SILENT_TICKS_MAX:
                seconds = SILENT_TICKS_MAX * TICK_SECONDS
                self._lose(node, f"it has not been heard of for {seconds:.1f} s")
            elif node in self.down_ticks:
                self.down_ticks[node] += 1
                if self.down_ticks[node] > DOWN_TICKS_MAX:
                    self._lose(node, "its process has ended: its connection broke and did not come back")

    def _lose(self, node: str, reason: str) -> None:
        """The verdict, which is final."""
        if self.nodes.pop(node, None) is None:
            return
        self.lost.add(node)
        self.silent_ticks.pop(node, None)
        self.down_ticks.pop(node, None)
        for other in (*self.listeners, *self.nodes):
            self.send(other, NodeLost(node, reason))
        self.send(node, NodeLost(node, reason))  # should it come back: it is not a member any more

    def on_heartbeat(self, message: Heartbeat) -> None:
        if message.node in self.nodes:
            self.silent_ticks[message.node] = 0
            self.send(message.node, HeartbeatReply())
        elif message.node in self.lost:
            self.send(message.node, NodeLost(message.node, "its epoch is over"))

    HANDLERS = {
        RegisterNode: on_register_node,
        Heartbeat: on_heartbeat,
        HostLeft: on_host_left,
        HostLinkChanged: on_host_link_changed,
        MonitorTimeout: on_monitor_timeout,
    }


def _joined(node: RegisterNode, *, is_earlier: bool = False) -> NodeJoined:
    return NodeJoined(node.node, node.total, node.kind, node.endpoint, node.public_key, is_earlier)
