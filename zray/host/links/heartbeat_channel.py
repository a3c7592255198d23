"""A second connection between a node and the head, for heartbeats while the link is slow.

Messages between two hosts go over a single connection, in order, so a heartbeat waits behind all earlier messages.  On
a line of 4 Mbit/s a megabyte of code, arguments or objects takes two seconds, and a lease is over by then.  The line
gives each of two connections its share, and the second has next to nothing to carry.

    node    HostAside       this connection belongs to our link: the first message on it
    both    a heartbeat, or its answer, unnumbered; also sent on the link

Heartbeats take the second connection only while frames on the link are not acknowledged in time, and only while there
is a link: a host without a link is no member for long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from ...exceptions import ProtocolError
from ...wire import gcs, hosts
from ...wire.codec import Letter, Mail, decode_mail, encode_mail
from ...wire.link import Link, unnumbered
from ...wire.message import Local
from .dialer import Dealer
from .listener import Arrival, Wire

if TYPE_CHECKING:
    from .host_link import Neighbour
    from .host_links import Neighbours

BEATS = (gcs.Heartbeat, gcs.HeartbeatReply)
# A link without acknowledgement for this long is slow.  As Lease.LOOK_SECONDS: answers come in milliseconds,
# and a lease of 2.2 s has time for some more heartbeats.
SLOW_SECONDS = 0.5
# Time since the end of the former connection.  The first connection is made at once, before the line is full.
OPEN_SECONDS = 0.5
FRAMES_MAX = 16


class Open(Local):
    """A second connection to that host is due."""

    host: str
    attempt: int

    def due(self, links: Neighbours) -> None:
        """Open the second connection, if the link of this attempt is still in use."""
        neighbour = links.by_host.get(self.host)
        if neighbour is not None and neighbour.attempt == self.attempt and neighbour.is_up and neighbour.pulse is None:
            links.pulses.open(neighbour)


class Pulse(Struct, eq=False):
    """Of one link: the connection beside it, and whether the link is slow."""

    dealer: Dealer | None = None  # ours to it
    identity: bytes = b""  # of its connection to us
    wire: Wire | None = None  # that connection
    mark: int = -1  # a frame of the link that is not acknowledged, as far as we know; -1: none
    marked_at: float = 0.0

    def is_slow(self, link: Link, now: float) -> bool:
        """Return whether frames in flight at an earlier heartbeat are still not acknowledged after SLOW_SECONDS.
        Called at each heartbeat.
        """
        if link.peer_acknowledged >= self.mark:
            self.mark, self.marked_at = link.sent, now
        return now - self.marked_at > SLOW_SECONDS


class Pulses:
    """The second connections of all links of a host."""

    def __init__(self, links: Neighbours) -> None:
        self.links = links
        self.by_identity: dict[bytes, Neighbour] = {}
        self.by_dealer: dict[Dealer, Neighbour] = {}

    # --- connections ---

    def link_is_up(self, neighbour: Neighbour) -> None:
        """Open the second connection on the side that sends heartbeats."""
        if neighbour.key.kind == "head" and neighbour.dealer is not None:
            self.open(neighbour)

    def _open_soon(self, neighbour: Neighbour) -> None:
        links = self.links
        links.loop.set_timer(OPEN_SECONDS, links.address, Open(neighbour.host, neighbour.attempt))

    def open(self, neighbour: Neighbour) -> None:
        """Open."""
        links = self.links
        greeting = unnumbered(hosts.HostAside())
        dealer = Dealer(links.context, links.keys, neighbour.endpoint, neighbour.key.public, greeting)
        neighbour.pulse = Pulse()
        neighbour.pulse.dealer = dealer
        self.by_dealer[dealer] = neighbour
        dealer.watch(links.loop, lambda: links.stir(dealer), lambda: self._look(neighbour, dealer))
        links.stir(dealer)
        self._look(neighbour, dealer)

    def _look(self, neighbour: Neighbour, dealer: Dealer) -> None:
        if self.by_dealer.get(dealer) is not neighbour:
            return
        dealer.look()
        if dealer.over:
            self.close(neighbour)
            self._open_soon(neighbour)

    def greeted(self, neighbour: Neighbour, arrival: Arrival) -> None:
        """Handle HostAside: a second connection from that host."""
        self.close(neighbour)
        pulse = neighbour.pulse = Pulse()
        pulse.identity, pulse.wire = arrival.identity, Wire(arrival.frame)
        self.by_identity[arrival.identity] = neighbour

    def close(self, neighbour: Neighbour) -> None:
        """Close the second connection of a link, if any."""
        pulse, neighbour.pulse = neighbour.pulse, None
        if pulse is None:
            return
        if pulse.dealer is not None:
            del self.by_dealer[pulse.dealer]
            pulse.dealer.unwatch(self.links.loop)
            self.links.restless.pop(pulse.dealer, None)
            pulse.dealer.close()
        if pulse.wire is not None:
            self.by_identity.pop(pulse.identity, None)
            pulse.wire.cut()

    # --- messages ---

    def beat(self, neighbour: Neighbour, letters: list[Letter]) -> None:
        """Send the heartbeats among these messages on the second connection, if the link is slow."""
        pulse = neighbour.pulse
        for letter in letters:
            beats = [message for message in letter.messages if type(message) in BEATS]
            if beats and pulse is not None and neighbour.is_up and pulse.is_slow(neighbour.link, time.monotonic()):
                frame, _ = encode_mail(Mail(0, 0, 0, [Letter(letter.source, letter.target, beats)]))
                if pulse.dealer is not None:
                    pulse.dealer.send(frame)
                    self.links.stir(pulse.dealer)
                else:
                    self.links.answer(pulse.identity, frame)

    def take_from_dealer(self, dealer: Dealer) -> Iterator[tuple[Neighbour, Letter]]:
        """Yield the messages of a connection that this host opened."""
        neighbour = self.by_dealer[dealer]
        frames = dealer.hear(FRAMES_MAX)
        if len(frames) < FRAMES_MAX:
            self.links.restless.pop(dealer, None)
        for frame, _ in frames:
            try:
                yield from self.heard(neighbour, decode_mail(frame))
            except ProtocolError as error:
                self.links.offend(neighbour, str(error))

    def heard(self, neighbour: Neighbour, mail: Mail) -> Iterator[tuple[Neighbour, Letter]]:
        """Yield the heartbeats of a frame, if the sender may send them.

        Raises:
            ProtocolError: there is anything else.
        """
        if mail.sequence or any(type(message) not in BEATS for letter in mail.letters for message in letter.messages):
            raise ProtocolError("beside a link there are heartbeats, and nothing else")
        yield from self.links.sifted(neighbour, (letter for letter in mail.letters if neighbour.is_up))
