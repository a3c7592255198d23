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

from .message import Message, Natural


class OpenTunnel(Message, tag=200):
    """host -> relay -> host.  number: A's own count, made odd or even by whose id is larger."""

    peer: str
    number: int


class TunnelBytes(Message, tag=201):
    """host -> relay -> host.  The next bytes of the connection, in order."""

    peer: str
    number: int
    data: bytes


class TunnelCredit(Message, tag=202):
    """host -> relay -> host.  So many more bytes may come."""

    peer: str
    number: int
    count: Natural


class TunnelClosed(Message, tag=203):
    """host -> relay -> host.  The connection has ended there, or cannot be; the reason is for the log."""

    peer: str
    number: int
    reason: str
