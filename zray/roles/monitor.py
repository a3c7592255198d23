"""GCS monitor: who is a member.

Dialog (who says it -> what we do):

    local scheduler    RegisterNode    tell everybody of everybody
    local scheduler    Heartbeat       it is alive
    our host           HostLeft        a node ends in order: all are told
    our host           HostLinkChanged    its connection broke, or is back

The verdict on a silent node is the next step of this role: here a node stays in until it says that it ends.
"""

from __future__ import annotations

from ..wire.gcs import Heartbeat, NodeJoined, NodeLost, RegisterNode
from .effects import HostLeft, HostLinkChanged
from .role import Role


class Monitor(Role):
    """Membership of one cluster."""

    def __init__(self, address: str, listeners: list[str]) -> None:
        super().__init__(address)
        self.listeners = listeners  # global schedulers and shards that are told of every node
        self.nodes: dict[str, RegisterNode] = {}  # in the order in which they joined
        self.heard_at: dict[str, float] = {}
        self.down_since: dict[str, float] = {}  # nodes whose connection broke, and is not back

    def on_register_node(self, message: RegisterNode) -> None:
        self.heard_at[message.node] = self.now
        if message.node in self.nodes:
            return  # a repeat
        joined = _joined(message)
        for node, other in self.nodes.items():
            self.send(message.node, _joined(other, is_earlier=True))
            self.send(node, joined)
        self.nodes[message.node] = message
        for listener in self.listeners:
            self.send(listener, joined)

    def on_host_left(self, message: HostLeft) -> None:
        self._lose(message.node, message.reason)

    def on_host_link_changed(self, message: HostLinkChanged) -> None:
        if message.is_up:
            self.down_since.pop(message.node, None)
        elif message.node in self.nodes:
            self.down_since[message.node] = self.now

    def _lose(self, node: str, reason: str) -> None:
        """The verdict, which is final."""
        if self.nodes.pop(node, None) is None:
            return
        self.heard_at.pop(node, None)
        self.down_since.pop(node, None)
        for other in (*self.nodes, *self.listeners):
            self.send(other, NodeLost(node, reason))

    def on_heartbeat(self, message: Heartbeat) -> None:
        if message.node in self.nodes:
            self.heard_at[message.node] = self.now

    HANDLERS = {
        RegisterNode: on_register_node,
        Heartbeat: on_heartbeat,
        HostLeft: on_host_left,
        HostLinkChanged: on_host_link_changed,
    }


def _joined(node: RegisterNode, *, is_earlier: bool = False) -> NodeJoined:
    return NodeJoined(node.node, node.total, node.kind, node.endpoint, node.public_key, is_earlier)
