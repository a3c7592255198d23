"""Relay, on the head: tunnels between hosts that only the head can reach.

Bytes are passed on unparsed (wire/relay.py).

Dialog (sender, message, reaction):

    a host     OpenTunnel      the other end is told; of a pair's tunnels the latest counts
    a host     TunnelBytes     pass them on, as far as the other end has granted
    a host     TunnelCredit    the other end may send more
    a host     TunnelClosed    forget it, tell the other end
    monitor    NodeJoined, NodeLost    members may have tunnels
    services   ServiceAdded, ServiceEnded    replicas on nodes may too, and no other host

The buffered bytes are bounded: each end may have at most TUNNEL_BYTES_MAX under way, and a sender that exceeds the
limit loses the tunnel.
"""

from __future__ import annotations

from ..wire import gcs, relay
from ..wire.message import Message
from .replica_effects import ServiceAdded, ServiceEnded
from .role import Role, on

# Bytes under way in one direction.  They share the head's links with heartbeats, so they must not fill these (8 MiB);
# 10 MB/s at a round trip of 50 ms.
TUNNEL_BYTES_MAX = 512 << 10
# The limit for a host: the total of its tunnels in the link to the head stays below 32 MiB.
TUNNELS_MAX = 64


class Tunnel:
    """A tunnel between two hosts."""

    __slots__ = ("left", "number")

    def __init__(self, number: int, ends: tuple[str, str]) -> None:
        self.number = number
        self.left = dict.fromkeys(ends, TUNNEL_BYTES_MAX)  # what each may still send


class Relay(Role):
    """All tunnels of a cluster."""

    LASTING = {"members tunnels": None, "tunnels of a host": (lambda it: map(len, it.members.values()), "TUNNELS_MAX")}

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.members: dict[str, dict[str, None]] = {}  # hosts -> the others that they have a tunnel with
        self.tunnels: dict[tuple[str, str], Tunnel] = {}

    @on(gcs.NodeJoined)
    def on_node_joined(self, message: gcs.NodeJoined) -> None:
        self.members.setdefault(_host(message.node), {})

    @on(ServiceAdded)
    def on_service_added(self, message: ServiceAdded) -> None:
        self.members.setdefault(message.host, {})

    @on(gcs.NodeLost)
    def on_node_lost(self, message: gcs.NodeLost) -> None:
        self._leaves(_host(message.node))

    @on(ServiceEnded)
    def on_service_ended(self, message: ServiceEnded) -> None:
        self._leaves(message.host)

    def _leaves(self, host: str) -> None:
        for other in list(self.members.get(host, ())):
            self._close(host, other, f"host {host} is lost", to=(other,))
        self.members.pop(host, None)

    @on(relay.OpenTunnel)
    def on_open_tunnel(self, message: relay.OpenTunnel) -> None:
        host, peer = _host(self.sender), message.peer
        refusal = self._why_not(host, peer)
        if refusal:
            self.send(self.sender, relay.TunnelClosed(peer, message.number, refusal))
            return
        self.tunnels[_pair(host, peer)] = Tunnel(message.number, (host, peer))
        self.members[host][peer] = self.members[peer][host] = None
        self._pass_on(peer, relay.OpenTunnel(host, message.number))

    def _why_not(self, host: str, peer: str) -> str:
        if host == peer or host not in self.members or peer not in self.members:
            return "both must be members of the cluster"
        for end, other in ((host, peer), (peer, host)):
            if len(self.members[end]) >= TUNNELS_MAX and other not in self.members[end]:
                return f"host {end} has {TUNNELS_MAX} tunnels already"
        return ""

    @on(relay.TunnelBytes)
    def on_tunnel_bytes(self, message: relay.TunnelBytes) -> None:
        host = _host(self.sender)
        tunnel = self._find(host, message)
        if tunnel is None:
            return
        if len(message.data) > tunnel.left[host]:
            self._close(host, message.peer, "more bytes than were granted", to=(host, message.peer))
            return
        tunnel.left[host] -= len(message.data)
        self._pass_on(message.peer, relay.TunnelBytes(host, message.number, message.data))

    @on(relay.TunnelCredit)
    def on_tunnel_credit(self, message: relay.TunnelCredit) -> None:
        host = _host(self.sender)
        tunnel = self._find(host, message)
        if tunnel is None:
            return
        if tunnel.left[message.peer] + message.count > TUNNEL_BYTES_MAX:
            self._close(host, message.peer, "more was granted than had come", to=(host, message.peer))
            return
        tunnel.left[message.peer] += message.count
        self._pass_on(message.peer, relay.TunnelCredit(host, message.number, message.count))

    @on(relay.TunnelClosed)
    def on_tunnel_closed(self, message: relay.TunnelClosed) -> None:
        host = _host(self.sender)
        if self._tunnel(host, message) is not None:
            self._close(host, message.peer, message.reason, to=(message.peer,))

    def _tunnel(self, host: str, message: relay.TunnelBytes | relay.TunnelCredit | relay.TunnelClosed) -> Tunnel | None:
        tunnel = self.tunnels.get(_pair(host, message.peer))
        return tunnel if tunnel is not None and tunnel.number == message.number else None

    def _find(self, host: str, message: relay.TunnelBytes | relay.TunnelCredit) -> Tunnel | None:
        """Return the tunnel, or None after reporting to the sender that no such tunnel exists."""
        tunnel = self._tunnel(host, message)
        if tunnel is None:
            self.send(self.sender, relay.TunnelClosed(message.peer, message.number, "there is no such tunnel"))
        return tunnel

    def _close(self, host: str, peer: str, reason: str, to: tuple[str, ...]) -> None:
        tunnel = self.tunnels.pop(_pair(host, peer))
        self.members[host].pop(peer)
        self.members[peer].pop(host)
        for end in to:
            self._pass_on(end, relay.TunnelClosed(peer if end == host else host, tunnel.number, reason))

    def _pass_on(self, host: str, message: Message) -> None:
        self.send(f"{host}/tunnels", message)

    def check_everything(self) -> None:
        """Assert that both indexes of the tunnels agree, and no end has more credit than the maximum."""
        pairs = {_pair(host, peer) for host, peers in self.members.items() for peer in peers}
        assert pairs == set(self.tunnels)
        for tunnel in self.tunnels.values():
            assert all(0 <= left <= TUNNEL_BYTES_MAX for left in tunnel.left.values())


def _host(role: str) -> str:
    return role.partition("/")[0]


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
