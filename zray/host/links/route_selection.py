"""Which way to another host: straight to its port, or through a tunnel (relay_tunnel.py).

Straight is tried first.  Where nobody has taken that call within HASTE_SECONDS, a tunnel is tried at once: somebody may
wait.  Otherwise it has STRAIGHT_SECONDS since the host was up; then both are tried in turn until one comes about.  Over
a tunnel that is up we try the straight way again, at once and now and then, beside it, and change over when its
handshake is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...wire.hosts import RELAYED
from ...wire.message import Local
from .dialer import ATTEMPT_SECONDS, Dealer
from .host_link import Neighbour
from .relay_tunnel import Tunnels

if TYPE_CHECKING:
    from .host_links import Neighbours

# A connection within a data centre takes milliseconds, around the world a second.  A call that a firewall drops would
# take as long as we let it.
STRAIGHT_SECONDS = 2.0
# Kernels take calls, however busy their processes are.
HASTE_SECONDS = 0.25
STRAIGHT_AGAIN_SECONDS = 30.0
# An attempt that fails, and is followed by others.
NOWHERE = "127.0.0.1:1"
# Those that need no detour: the head, and its processes, are reached by all.  Those on nodes (RELAYED) call.
_STRAIGHT_KINDS = ("head", "replica", "scheduler")


class StraightAgain(Local):
    """A tunnel has been used for a while."""

    host: str
    attempt: int


class Haste(Local):
    """Has the straight way come so far that it is worth the wait?"""

    host: str


def takes_detour(*, was_detour: bool, down_seconds: float) -> bool:
    """Whether the next attempt goes through a tunnel.  was_detour: the last one did."""
    return not was_detour and down_seconds >= STRAIGHT_SECONDS


class Detours:
    """The choice, for all of a host's links.  To the reactor it looks like a role, which is given its timers."""

    def __init__(self, links: Neighbours, tunnels: Tunnels) -> None:
        self.links = links
        self.tunnels = tunnels
        self.address = f"{links.host}/detours"
        links.way, links.on_reached = self.way, self.came_about
        self.hasty: set[str] = set()  # hosts that go by a tunnel next
        self.candidates: dict[str, Dealer] = {}  # straight connections beside a tunnel

    def way(self, neighbour: Neighbour, now: float) -> tuple[str, float]:
        """Where to connect to, and how many seconds that may take."""
        has_port = neighbour.endpoint != RELAYED
        if neighbour.key.kind in _STRAIGHT_KINDS and has_port:
            return neighbour.endpoint, ATTEMPT_SECONDS
        was_detour = neighbour.is_detour
        neighbour.is_detour = (
            not has_port
            or neighbour.host in self.hasty
            or takes_detour(was_detour=was_detour, down_seconds=now - neighbour.down_since)
        )
        self.hasty.discard(neighbour.host)
        if neighbour.is_detour:
            try:
                return self.tunnels.open(neighbour.host), ATTEMPT_SECONDS
            except OSError as error:
                self.links.log(f"no tunnel to host {neighbour.host}: {error}")
                neighbour.is_detour = False
                if not has_port:
                    return NOWHERE, STRAIGHT_SECONDS
        if not neighbour.failures:
            self.links.loop.set_timer(HASTE_SECONDS, self.address, Haste(neighbour.host))
        return neighbour.endpoint, STRAIGHT_SECONDS

    def _make_haste(self, neighbour: Neighbour) -> None:
        dealer = neighbour.dealer
        is_there = dealer.has_connected if dealer is not None else neighbour.is_denied
        if not neighbour.is_up and not neighbour.is_detour and not is_there:
            self.hasty.add(neighbour.host)
            self.links.hang_up(neighbour)
            self.links.connect(neighbour)

    def came_about(self, neighbour: Neighbour) -> None:
        """An attempt of ours has succeeded."""
        if neighbour.is_detour and neighbour.endpoint != RELAYED:
            self.links.log(f"host {neighbour.host} is reached through the head: {neighbour.endpoint} is unreachable")
            self._try(neighbour)

    def _later(self, neighbour: Neighbour) -> None:
        again = StraightAgain(neighbour.host, neighbour.attempt)
        self.links.loop.set_timer(STRAIGHT_AGAIN_SECONDS, self.address, again)

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        neighbour = self.links.by_host.get(message.host)
        if neighbour is None:
            return []
        if type(message) is Haste:
            self._make_haste(neighbour)
        elif neighbour.attempt == message.attempt and neighbour.is_up and neighbour.is_detour:
            self._try(neighbour)
        return []

    def _try(self, neighbour: Neighbour) -> None:
        if neighbour.host in self.candidates:
            return
        dealer = self.candidates[neighbour.host] = self.links.dealer_to(neighbour, neighbour.endpoint)
        look = self._looker(neighbour, dealer)
        self.links.loop.watch(dealer.descriptors()[1], look)
        look()  # of what has happened before, the descriptor tells nothing

    def _looker(self, neighbour: Neighbour, dealer: Dealer) -> Callable[[], None]:
        attempt = neighbour.attempt

        def look() -> None:
            dealer.look()
            if not dealer.is_let_in and not dealer.over:
                return
            self._forget(neighbour.host, dealer)
            is_wanted = neighbour.is_up and neighbour.attempt == attempt
            if is_wanted and not dealer.over:
                neighbour.is_detour = False
                self.links.log(f"host {neighbour.host} is reached at {neighbour.endpoint} now")
                self.links.hang_up(neighbour)  # what is lost with the tunnel is sent again
                self.links.use(neighbour, dealer, ATTEMPT_SECONDS)
                return
            dealer.close()
            if is_wanted:
                self._later(neighbour)

        return look

    def _forget(self, host: str, dealer: Dealer) -> None:
        del self.candidates[host]
        self.links.loop.unwatch(dealer.descriptors()[1])

    def close(self) -> None:
        """No more."""
        for host, dealer in list(self.candidates.items()):
            self._forget(host, dealer)
            dealer.close()
