"""The host role of a simulated node, if global schedulers have separate processes (schedulers.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles.effects import SchedulerGone
from ..roles.inquiries import Inquiries
from ..roles.role import Role, on
from ..wire.hosts import GetNodes, HostAdded, HostRemoved, NodesReply

if TYPE_CHECKING:
    from .node import Node
    from .simulator import Simulator


class Desk(Role):
    """The role of a node that is told of hosts which are no nodes, and asked by processes for the members
    (session_server.py).
    """

    def __init__(self, world: Simulator, node: Node) -> None:
        super().__init__(f"{node.name}/host")
        self.world = world
        self.node = node
        self.gone: dict[str, None] = {}  # hosts
        self.inquiries = Inquiries()
        self.answers = 0

    @on(HostAdded)
    def on_host_added(self, message: HostAdded) -> None:
        if message.kind != "scheduler" or message.host in self.gone:
            return
        self.world.schedulers.meet(self.node, message.host)
        for role in self.node.scheduler.addresses.add_schedulers(message.roles, self.gone):
            self._forget(role)

    @on(HostRemoved)
    def on_host_removed(self, message: HostRemoved) -> None:
        self.gone[message.host] = None
        for connection in self.world.faults.between(self.node.name, message.host):
            connection.close()
        outgoing = self.node.outgoing
        self.node.outgoing = {key: sent for key, sent in outgoing.items() if not key[1].startswith(f"{message.host}/")}
        for role in self.node.scheduler.addresses.remove_schedulers(message.host):
            self._forget(role)

    def _forget(self, scheduler: str) -> None:
        self.send(self.node.scheduler.address, SchedulerGone(scheduler))
        self._effects += self.inquiries.ask_again(self.node.scheduler.addresses.global_schedulers[0], scheduler)

    @on(GetNodes)
    def on_get_nodes(self, message: GetNodes) -> None:
        """Answer a process of this node."""
        scheduler = self.node.scheduler.addresses.global_schedulers[0]
        self._effects.append(self.inquiries.ask(scheduler, message, self._answered))

    def _answered(self, reply: NodesReply) -> None:
        self.answers += 1

    @on(NodesReply)
    def on_nodes_reply(self, message: NodesReply) -> None:
        self.inquiries.answered(message)
