"""The TCP connections under libzmq's sockets: missing options, ended connections, and unauthenticated peers.

Separate from zmq_calls.py: programs import that module, and would import Python's `socket` with it, for milliseconds of
their start.

A connection without a greeting costs little, and no other peer notices (docs/security.md, S10).  An admitted peer
greets first, and sends more only after the answer.  libzmq has a single limit for all frames, and reads an
unauthenticated peer's frame into memory like a member's: so the kernel is asked for the number of received bytes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING

from ...wire.message import Local

if TYPE_CHECKING:
    from .host_link import Neighbour
    from .host_links import Neighbours

# Linux's number of the option (tcp(7)); Python has no name for it.
_TCP_THIN_LINEAR_TIMEOUTS = 16
# The kernel takes no more bytes that it cannot send yet: whatever a sender says next waits behind them.
UNSENT_BYTES_MAX = 128 << 10
# Position and length of tcpi_bytes_received in Linux's struct tcp_info (linux/tcp.h, since 4.1).
_BYTES_RECEIVED, _NUMBER_BYTES = 128, 8


def opened(descriptor: int) -> socket.socket:
    """Return a TCP connection of libzmq's as a Python socket, with another descriptor.

    The number may belong to another connection by now, or to a file: then the result is an unconnected socket.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return socket.socket()
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return socket.socket()


def repeat_steadily(descriptor: int) -> None:
    """Resend lost packets of this connection at equal intervals, while there are few.

    TCP doubles the interval each time.  On a line with a queue filled by others, a small packet is often lost twice,
    and the third attempt comes after more than a lease.
    """
    with opened(descriptor) as connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_THIN_LINEAR_TIMEOUTS, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES_MAX)


def bytes_received(descriptor: int) -> int:
    """Return the bytes received on this connection; 0 if the kernel does not say."""
    end = _BYTES_RECEIVED + _NUMBER_BYTES
    with opened(descriptor) as connection:
        try:
            facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, end)
        except OSError:
            return 0
    return int.from_bytes(facts[_BYTES_RECEIVED:end], sys.byteorder)


# The first check comes with the event; the others double their distance up to 1.3 s after it.  (On a busy machine
# libzmq's thread may be stopped between its notice to the monitor and its notice to the socket.)
CHECK_SECONDS = 0.005
CHECKS_MAX = 8


class ConnectionCheck(Local):
    """A check is due whether an ended connection was this link's: does libzmq know by now?"""

    neighbour: Neighbour
    identity: bytes
    count: int = 0

    def due(self, links: Neighbours) -> None:
        """Ask once, and set a timer for the next question."""
        if self.neighbour.identity != self.identity:
            return
        links.stir(links.listener)
        if not links.listener.is_there(self.identity):
            links.hang_up(self.neighbour)  # it will connect again
        elif self.count < CHECKS_MAX:
            again = ConnectionCheck(self.neighbour, self.identity, self.count + 1)
            links.loop.set_timer(CHECK_SECONDS * 2**self.count, links.address, again)


def check_ended_connections(links: Neighbours) -> None:
    """Start checks after some incoming connections have ended."""
    if lost := links.listener.take_lost():
        for neighbour in list(links.by_identity.values()):
            if neighbour.wire is not None and neighbour.wire.descriptor in lost:
                ConnectionCheck(neighbour, neighbour.identity).due(links)


# Each costs a descriptor, for HANDSHAKE_MS at most unless admitted, and a node without free descriptors is useless.
# Many times the number of hosts that join at once.
HALF_OPEN_MAX = 256
# A handshake and a greeting have a few kilobytes; libzmq lets metadata have more.
UNAUTHENTICATED_BYTES_MAX = 64 << 10
# The bytes that the network brings in this time are held for unauthenticated peers: 25 MB at 10 Gbit/s.
UNAUTHENTICATED_CHECK_SECONDS = 0.02


class CheckUnauthenticated(Local):
    """A check of the unauthenticated connections is due: has any sent too much?"""

    def due(self, links: Neighbours) -> None:
        """Cut the offenders, and repeat while there are unauthenticated connections."""
        unauthenticated = links.listener.unauthenticated
        unauthenticated.cut_talkative()
        unauthenticated.is_watched = False
        watch_unauthenticated(links)


def watch_unauthenticated(links: Neighbours) -> None:
    """Watch the unauthenticated connections, by repeated checks."""
    unauthenticated = links.listener.unauthenticated
    if unauthenticated.half_open and not unauthenticated.is_watched:
        unauthenticated.is_watched = True
        links.loop.set_timer(UNAUTHENTICATED_CHECK_SECONDS, links.address, CheckUnauthenticated())


class UnauthenticatedConnections:
    """Connections without authentication so far, by libzmq's descriptors."""

    def __init__(self) -> None:
        self.port = 0
        self.half_open: dict[int, None] = {}  # the oldest first
        self.being_cut: set[int] = set()
        self.is_watched = False

    def has_come(self, descriptor: int) -> None:
        """Add a new connection; the oldest may be cut."""
        self.half_open[descriptor] = None
        while len(self.half_open) > HALF_OPEN_MAX:
            self._cut(next(iter(self.half_open)))

    def has_spoken(self, descriptor: int) -> None:
        """The connection has authenticated."""
        self.half_open.pop(descriptor, None)

    def has_ended(self, descriptor: int) -> bool:
        """Note the end of a connection.  Returns whether the end is new: the connection was not cut here."""
        if descriptor in self.being_cut:
            self.being_cut.remove(descriptor)
            return False
        self.half_open.pop(descriptor, None)
        return True

    def cut_talkative(self) -> None:
        """Cut connections with more received bytes than a greeting takes."""
        for descriptor in [it for it in self.half_open if bytes_received(it) > UNAUTHENTICATED_BYTES_MAX]:
            self._cut(descriptor)

    def _cut(self, descriptor: int) -> None:
        del self.half_open[descriptor]
        with opened(descriptor) as copy:
            try:
                if copy.family == socket.AF_INET and copy.getsockname()[1] == self.port:
                    # Later data is answered with a reset: otherwise the other end would wait a minute for window space.
                    copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    copy.shutdown(socket.SHUT_RDWR)
                    self.being_cut.add(descriptor)
            except OSError:
                pass  # the connection has ended, and the descriptor may be reused
