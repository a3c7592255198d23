"""GCS monitor: who is a member.

Dialog (who says it -> what we do):

    local scheduler    RegisterNode    tell everybody of everybody
    local scheduler    Heartbeat       it is alive

The verdict on a silent node is the next step of this role: here a node, once in, stays in.
"""

from __future__ import annotations

from ..wire.gcs import Heartbeat, NodeJoined, RegisterNode
from .role import Role


class Monitor(Role):
    """Membership of one cluster."""

    def __init__(self, address: str, listeners: list[str]) -> None:
        super().__init__(address)
        self.listeners = listeners  # global schedulers and shards that are told of every node
        self.nodes: dict[str, RegisterNode] = {}  # in the order in which they joined
        self.heard_at: dict[str, float] = {}

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

    def on_heartbeat(self, message: Heartbeat) -> None:
        if message.node in self.nodes:
            self.heard_at[message.node] = self.now

    HANDLERS = {RegisterNode: on_register_node, Heartbeat: on_heartbeat}


def _joined(node: RegisterNode, *, is_earlier: bool = False) -> NodeJoined:
    return NodeJoined(node.node, node.total, node.kind, node.endpoint, node.public_key, is_earlier)
