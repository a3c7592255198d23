"""Dialog: two hosts without a direct route, and the head between them.

host A   OpenTunnel ->  relay  -> OpenTunnel     host B    A could not connect to B
either   TunnelBytes -> relay  -> TunnelBytes    the other
either   TunnelCredit -> relay -> TunnelCredit   the other: so many bytes have been passed on there
any      TunnelClosed                            end of the tunnel

A tunnel carries a connection of A to B's own port, encrypted from end to end.  The relay sees the two hosts, the times,
and the number of bytes.  `peer` is the other end: the target on the way to the relay, and the source after the relay.

Each pair of hosts has one tunnel at a time.  A new tunnel replaces the old tunnel.  Frames under way may still name the
old tunnel.
"""

from typing import Annotated

from msgspec import Meta

from .limits import Text
from .message import Message, Natural, routed

# Bytes of one TunnelBytes: many times the size of a host's single read (host/links/relay_tunnel.py).
PIECE_BYTES_MAX = 1 << 20


class OpenTunnel(Message, tag=routed(200, "tunnels -> relay -> tunnels")):
    """A new tunnel.  `number` is A's own count, made odd or even by comparison of the ids."""

    peer: Text
    number: int


class TunnelBytes(Message, tag=routed(201, "tunnels -> relay -> tunnels")):
    """The next bytes of the connection, in order."""

    peer: Text
    number: int
    data: Annotated[bytes, Meta(max_length=PIECE_BYTES_MAX)]


class TunnelCredit(Message, tag=routed(202, "tunnels -> relay -> tunnels")):
    """Permission for `count` more bytes."""

    peer: Text
    number: int
    count: Natural


class TunnelClosed(Message, tag=routed(203, "tunnels -> relay -> tunnels")):
    """The connection has ended there, or is impossible.  The reason is for the log."""

    peer: Text
    number: int
    reason: Text
