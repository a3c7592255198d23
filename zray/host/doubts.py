"""Whether a connection to us is there still, when libzmq's monitor says that one has ended and not which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.message import Local

if TYPE_CHECKING:
    from .neighbour import Neighbour
    from .neighbours import Neighbours

# The first question comes with the news; the others double their distance up to 1.3 s after it.  (On a busy machine
# libzmq's thread may be stopped between telling its monitor and telling its socket.)
DOUBT_SECONDS = 0.005
DOUBTS_MAX = 8


class Doubt(Local):
    """A connection to us has ended, and may be this one: does libzmq know by now?"""

    neighbour: Neighbour
    identity: bytes
    count: int = 0

    def due(self, links: Neighbours) -> None:
        """One question, and the next one later."""
        if self.neighbour.identity != self.identity:
            return
        links.stir(links.listener)
        if not links.listener.is_there(self.identity):
            links.hang_up(self.neighbour)  # it will connect again
        elif self.count < DOUBTS_MAX:
            again = Doubt(self.neighbour, self.identity, self.count + 1)
            links.loop.set_timer(DOUBT_SECONDS * 2**self.count, links.address, again)


def look_around(links: Neighbours) -> None:
    """Connections to us may have ended."""
    if lost := links.listener.take_lost():
        for neighbour in list(links.by_identity.values()):
            if neighbour.wire is not None and neighbour.wire.descriptor in lost:
                Doubt(neighbour, neighbour.identity).due(links)
