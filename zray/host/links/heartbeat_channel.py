"""A second connection between a node and the head, which heartbeats take where the link is slow.

What one host says to another goes over one connection, in order: so a heartbeat waits behind all that was said before
it.  On a line of 4 Mbit/s a megabyte of code, arguments or objects takes two seconds, and a lease is over by then.  Of
two connections the line gives each its share, and this one has next to nothing to carry.

    node    HostAside       this connection is beside our link: the first thing said on it
    both    a heartbeat, or the answer to one, outside the numbering; it goes on the link as well

It carries something only while what was said on the link is not acknowledged in time; and only while there is a link:
who cannot be told anything is no member for long.
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
# A link on which nothing was acknowledged for so long is slow.  As Lease.LOOK_SECONDS: answers come in milliseconds,
# and a lease of 2.2 s has room for some more beats.
SLOW_SECONDS = 0.5
# From when this connection broke.  The first one does not wait: it is made before there is much on the line.
OPEN_SECONDS = 0.5
FRAMES_MAX = 16


class Open(Local):
    """Time for a connection beside the link to that host."""

    host: str
    attempt: int

    def due(self, links: Neighbours) -> None:
        """Where the link is still the one that this attempt brought."""
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
        """Looked at with each beat: what was under way at an earlier one is not acknowledged after SLOW_SECONDS."""
        if link.peer_acknowledged >= self.mark:
            self.mark, self.marked_at = link.sent, now
        return now - self.marked_at > SLOW_SECONDS


class Pulses:
    """Of all links of a host."""

    def __init__(self, links: Neighbours) -> None:
        self.links = links
        self.by_identity: dict[bytes, Neighbour] = {}
        self.by_dealer: dict[Dealer, Neighbour] = {}

    # --- connections ---

    def link_is_up(self, neighbour: Neighbour) -> None:
        """With any host: one that sends heartbeats to the other opens it."""
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
        """HostAside: a connection of that host to us."""
        self.close(neighbour)
        pulse = neighbour.pulse = Pulse()
        pulse.identity, pulse.wire = arrival.identity, Wire(arrival.frame)
        self.by_identity[arrival.identity] = neighbour

    def close(self, neighbour: Neighbour) -> None:
        """Whatever connection there is beside that link."""
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

    # --- what is said ---

    def beat(self, neighbour: Neighbour, letters: list[Letter]) -> None:
        """All that goes to a host with a connection beside its link, for the heartbeats among it."""
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
        """What has come on a connection of ours."""
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
        """The heartbeats of a frame, where they are its sender's to say.

        Raises:
            ProtocolError: there is anything else.
        """
        if mail.sequence or any(type(message) not in BEATS for letter in mail.letters for message in letter.messages):
            raise ProtocolError("beside a link there are heartbeats, and nothing else")
        yield from self.links.sifted(neighbour, (letter for letter in mail.letters if neighbour.is_up))
