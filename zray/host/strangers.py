"""Connections to our port without a greeting yet: they cost little, and no other peer notices (docs/security.md, S10).

Who is let in greets first, and says more when the greeting is answered.  libzmq has one limit for all frames, and
reads one of a stranger's into memory as it would a member's: so the kernel is asked what a connection has sent.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from ..wire.message import Local
from .tcp import bytes_received, opened

if TYPE_CHECKING:
    from .neighbours import Neighbours

# Each costs a descriptor, for HANDSHAKE_MS at most unless it is let in, and a node that has no descriptors left is of
# no use.  Many times as many as hosts that join at once.
HALF_OPEN_MAX = 256
# A handshake and a greeting have a few kilobytes; libzmq lets metadata have more.
BYTES_MAX = 64 << 10
# As much as the network brings in this time is held for strangers: 25 MB at 10 Gbit/s.
LOOK_SECONDS = 0.02


class LookAtStrangers(Local):
    """Has one of them said too much by now?"""

    def due(self, links: Neighbours) -> None:
        """While there are any."""
        strangers = links.listener.strangers
        strangers.cut_talkative()
        strangers.is_watched = False
        watch(links)


def watch(links: Neighbours) -> None:
    """Look at those that there are, again and again."""
    strangers = links.listener.strangers
    if strangers.half_open and not strangers.is_watched:
        strangers.is_watched = True
        links.loop.set_timer(LOOK_SECONDS, links.address, LookAtStrangers())


class Strangers:
    """By the descriptors that libzmq has of them."""

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
        """It is none any more."""
        self.half_open.pop(descriptor, None)

    def has_ended(self, descriptor: int) -> bool:
        """A connection, a stranger's or not.  Whether that is news: it was not cut here."""
        if descriptor in self.being_cut:
            self.being_cut.remove(descriptor)
            return False
        self.half_open.pop(descriptor, None)
        return True

    def cut_talkative(self) -> None:
        """Those that have sent more than a greeting takes."""
        for descriptor in [it for it in self.half_open if bytes_received(it) > BYTES_MAX]:
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
