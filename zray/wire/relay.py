"""Dialog: two hosts that cannot reach each other, and the head between them.

host A   OpenTunnel ->  relay  -> OpenTunnel     host B    A could not connect to B
either   TunnelBytes -> relay  -> TunnelBytes    the other
either   TunnelCredit -> relay -> TunnelCredit   the other: so many bytes have been passed on there
any      TunnelClosed                            no more of it

What a tunnel carries is a connection of A to B's own port, encrypted from end to end: the relay sees who speaks to
whom, when, and how much.  `peer` is the other end: whom it goes to on the way to the relay, whom it comes from behind
it.  There is one tunnel a pair at a time; a new one takes the place of the old one, which frames on their way may
still name.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .limits import Text
from .message import Message, Natural

# Of one TunnelBytes: many times what a host reads at once (host/tunnels.py).
PIECE_BYTES_MAX = 1 << 20


class OpenTunnel(Message, tag=200):
    """host -> relay -> host.  number: A's own count, made odd or even by whose id is larger."""

    peer: Text
    number: int


class TunnelBytes(Message, tag=201):
    """host -> relay -> host.  The next bytes of the connection, in order."""

    peer: Text
    number: int
    data: Annotated[bytes, Meta(max_length=PIECE_BYTES_MAX)]


class TunnelCredit(Message, tag=202):
    """host -> relay -> host.  So many more bytes may come."""

    peer: Text
    number: int
    count: Natural


class TunnelClosed(Message, tag=203):
    """host -> relay -> host.  The connection has ended there, or cannot be; the reason is for the log."""

    peer: Text
    number: int
    reason: Text
