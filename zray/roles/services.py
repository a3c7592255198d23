"""Services: the cluster's hosts that are no nodes: replicas of shards and global schedulers.

The role runs on the head, beside the processes' parent.  Nodes learn of each other from the monitor.  Nodes learn of
services, and services of nodes and of each other, from this role.

Dialog (sender, message, reaction):

    our host, hosting   ServiceAdded     tell the service of all hosts
    our host, hosting   ServiceListens   tell all hosts, which connect to it; of a scheduler, the scheduler count too
    our host, hosting   ServiceEnded     the chain master closes the chain over its replica, or tells a global scheduler
                                         no more of its chains; all forget the service
    monitor     NodeJoined, NodeLost     pass it on to those hosts, and to the schedulers among them

Nodes connect to services beside the head, whichever was there first, because every host can reach them, and no host can
reach a node behind NAT. A replica on another node (hosting.py) listens on no port, and connects to all others.  Two
such replicas of a chain meet through the relay, which is told of both.
"""

from __future__ import annotations

from collections import Counter

from ..wire import chain, gcs, hosting, hosts
from .kept import Latest
from .replica_effects import ServiceAdded, ServiceEnded, ServiceListens
from .role import Role, on

# Hosts of schedulers that a newcomer is told to forget: it may have been told of them when it asked to join, seconds
# before it is a member.  A process that ends at once is started again after 0.1 s and more
# (host/cluster/head_processes).
ENDED_MAX = 100


class Service:
    """A service of the cluster."""

    __slots__ = ("added", "endpoint", "is_hosted")

    def __init__(self, added: ServiceAdded) -> None:
        self.added = added
        self.endpoint = ""  # not known yet
        self.is_hosted = bool(added.node)  # on a node: it calls, and is not called

    def fact(self, is_earlier: bool) -> hosts.HostAdded:
        """Return the service's description for other hosts."""
        added = self.added
        return hosts.HostAdded(
            added.host, added.kind, self.endpoint, added.public_key, is_earlier, added.roles, added.node
        )


class Services(Role):
    """The services of a cluster.

    master: the chain master; head: the own host, known to every service; relay, counts: the role's address ("": none).
    """

    # The head's own are as many as it was told to start; the nodes as many as the monitor lets in.
    LASTING = {
        "replicas of a node": (
            lambda it: Counter(each.added.node for each in it.services.values() if each.added.node).values(),
            hosting.REPLICAS_MAX,
        )
    }

    def __init__(self, address: str, master: str, head: str, relay: str = "", counts: str = "") -> None:
        super().__init__(address)
        self.master = master
        self.relay = relay
        self.counts = counts
        self.head = head
        self.services: dict[str, Service] = {}
        self.ended: Latest[str, hosts.HostRemoved] = Latest(ENDED_MAX)  # hosts of schedulers
        self.nodes: dict[str, gcs.NodeJoined] = {}

    # --- services ---

    @on(ServiceAdded)
    def on_service_added(self, message: ServiceAdded) -> None:
        service = Service(message)
        if service.is_hosted and self.relay:
            self.send(self.relay, message)
        for other in self.services.values():
            if other.endpoint and (service.is_hosted or not other.is_hosted):
                self._introduce(service, other)
        self.services[message.host] = service
        for node in self.nodes.values():
            self._tell_of_node(service, node)
            self._tell_schedulers(service, node)

    def _introduce(self, caller: Service, listening: Service) -> None:
        """Introduce two services to each other: once per pair, as soon as the listening service is reachable."""
        self.send(f"{caller.added.host}/host", listening.fact(True))
        self.send(f"{listening.added.host}/host", caller.fact(False))

    @on(ServiceListens)
    def on_service_listens(self, message: ServiceListens) -> None:
        service = self.services.get(message.host)
        if service is None:
            return
        service.endpoint = message.endpoint
        if service.added.kind == "scheduler" and self.counts:
            self.send(self.counts, service.added)
        for node in self.nodes:
            self.send(_desk(node), service.fact(not service.is_hosted))
        for other in self.services.values():
            if other is service:
                continue
            # A service that was added later than a listening one has been introduced by then.
            if other.is_hosted if other.is_hosted != service.is_hosted else not other.endpoint:
                self._introduce(other, service)

    @on(ServiceEnded)
    def on_service_ended(self, message: ServiceEnded) -> None:
        service = self.services.pop(message.host, None)
        if service is None:
            return
        for role in service.added.roles if service.added.kind == "replica" else ():
            self.send(self.master, chain.ChainMemberLost(role, message.reason))
        if service.is_hosted and self.relay:
            self.send(self.relay, message)
        removed = hosts.HostRemoved(message.host, message.reason)
        if service.added.kind == "scheduler":
            self.ended[message.host] = removed
            if self.counts:
                self.send(self.counts, message)
            for role in service.added.roles:
                self.send(self.master, gcs.NodeLost(role, message.reason))
        for node in self.nodes:
            self.send(_desk(node), removed)
        for host in self.services:
            self.send(f"{host}/host", removed)

    # --- nodes ---

    @on(gcs.NodeJoined)
    def on_node_joined(self, message: gcs.NodeJoined) -> None:
        self.nodes[message.node] = message
        for removed in self.ended.values():  # since the newcomer was told which there are, perhaps
            self.send(_desk(message.node), removed)
        for service in self.services.values():
            if service.endpoint:
                self.send(_desk(message.node), service.fact(not service.is_hosted))
            self._tell_of_node(service, message)
            self._tell_schedulers(service, message)

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        if self.nodes.pop(message.node, None) is None:
            return
        removed = hosts.HostRemoved(message.node.partition("/")[0], message.reason)
        for host, service in self.services.items():
            self.send(f"{host}/host", removed)
            self._tell_schedulers(service, message)

    def _tell_of_node(self, service: Service, node: gcs.NodeJoined) -> None:
        host = node.node.partition("/")[0]
        if host != self.head:
            fact = hosts.HostAdded(host, node.kind, node.endpoint, node.public_key, is_earlier=service.is_hosted)
            self.send(f"{service.added.host}/host", fact)

    def _tell_schedulers(self, service: Service, message: gcs.NodeJoined | gcs.NodeLost) -> None:
        if service.added.kind == "scheduler":
            for role in service.added.roles:
                self.send(role, message)


def _desk(node: str) -> str:
    """Return the address of a node's host for services."""
    return f"{node.partition('/')[0]}/host"
