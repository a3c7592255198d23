"""The TCP connections under libzmq's sockets: options it lacks, which one has ended, and the unauthenticated ones.

Apart from zmq_calls.py: programs have that too, and would import Python's `socket` for this, which takes milliseconds
of their start.

A connection without a greeting costs little, and no other peer notices (docs/security.md, S10).  Who is let in greets
first, and says more when the greeting is answered.  libzmq has one limit for all frames, and reads one of an
unauthenticated peer into memory as it would a member's: so the kernel is asked what a connection has sent.
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

# Linux's number of it (tcp(7)); Python has no name for it.
_TCP_THIN_LINEAR_TIMEOUTS = 16
# Where Linux's struct tcp_info (linux/tcp.h, since 4.1) has tcpi_bytes_received, and how long that is.
_BYTES_RECEIVED, _NUMBER_BYTES = 128, 8


def opened(descriptor: int) -> socket.socket:
    """A TCP connection of libzmq's, as Python has one: another descriptor of it.

    The number may be another connection's by now, or a file's: then this is one that leads nowhere.
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
    """Lost packets of this connection are sent again at equal distances, while there are few of them.

    TCP doubles the distance each time.  On a line whose queue is kept full by others a small packet is often lost
    twice, and the third attempt comes after more than a lease.
    """
    with opened(descriptor) as connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_THIN_LINEAR_TIMEOUTS, 1)


def bytes_received(descriptor: int) -> int:
    """How many the other side of this connection has sent; 0 where the kernel does not say."""
    end = _BYTES_RECEIVED + _NUMBER_BYTES
    with opened(descriptor) as connection:
        try:
            facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, end)
        except OSError:
            return 0
    return int.from_bytes(facts[_BYTES_RECEIVED:end], sys.byteorder)


# The first question comes with the news; the others double their distance up to 1.3 s after it.  (On a busy machine
# libzmq's thread may be stopped between telling its monitor and telling its socket.)
CHECK_SECONDS = 0.005
CHECKS_MAX = 8


class ConnectionCheck(Local):
    """A connection to us has ended, and may be this one: does libzmq know by now?"""

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
    """Connections to us may have ended."""
    if lost := links.listener.take_lost():
        for neighbour in list(links.by_identity.values()):
            if neighbour.wire is not None and neighbour.wire.descriptor in lost:
                ConnectionCheck(neighbour, neighbour.identity).due(links)


# Each costs a descriptor, for HANDSHAKE_MS at most unless it is let in, and a node that has no descriptors left is of
# no use.  Many times as many as hosts that join at once.
HALF_OPEN_MAX = 256
# A handshake and a greeting have a few kilobytes; libzmq lets metadata have more.
UNAUTHENTICATED_BYTES_MAX = 64 << 10
# As much as the network brings in this time is held for unauthenticated peers: 25 MB at 10 Gbit/s.
UNAUTHENTICATED_CHECK_SECONDS = 0.02


class CheckUnauthenticated(Local):
    """Has one of them said too much by now?"""

    def due(self, links: Neighbours) -> None:
        """While there are any."""
        unauthenticated = links.listener.unauthenticated
        unauthenticated.cut_talkative()
        unauthenticated.is_watched = False
        watch_unauthenticated(links)


def watch_unauthenticated(links: Neighbours) -> None:
    """Look at those that there are, again and again."""
    unauthenticated = links.listener.unauthenticated
    if unauthenticated.half_open and not unauthenticated.is_watched:
        unauthenticated.is_watched = True
        links.loop.set_timer(UNAUTHENTICATED_CHECK_SECONDS, links.address, CheckUnauthenticated())


class UnauthenticatedConnections:
    """Connections that have not authenticated yet, by the descriptors that libzmq has of them."""

    def __init__(self) -> None:
        self.port = 0
        self.half_open: dict[int, None] = {}  # the oldest first
        self.being_cut: set[int] = set()
        self.is_watched = False

    def has_come(self, descriptor: int) -> None:
        """A new one; the oldest may have to go."""
        self.half_open[descriptor] = None
        while len(self.half_open) > HALF_OPEN_MAX:
            self._cut(next(iter(self.half_open)))

    def has_spoken(self, descriptor: int) -> None:
        """The connection has authenticated."""
        self.half_open.pop(descriptor, None)

    def has_ended(self, descriptor: int) -> bool:
        """A connection, authenticated or not.  Whether that is news: it was not cut here."""
        if descriptor in self.being_cut:
            self.being_cut.remove(descriptor)
            return False
        self.half_open.pop(descriptor, None)
        return True

    def cut_talkative(self) -> None:
        """Cut connections that have sent more than a greeting takes."""
        for descriptor in [it for it in self.half_open if bytes_received(it) > UNAUTHENTICATED_BYTES_MAX]:
            self._cut(descriptor)

    def _cut(self, descriptor: int) -> None:
        del self.half_open[descriptor]
        with opened(descriptor) as copy:
            try:
                if copy.family == socket.AF_INET and copy.getsockname()[1] == self.port:
                    # What it goes on to send is answered with a reset: its other end would wait a minute for room.
                    copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    copy.shutdown(socket.SHUT_RDWR)
                    self.being_cut.add(descriptor)
            except OSError:
                pass  # it has ended already, and the number may be something else's
