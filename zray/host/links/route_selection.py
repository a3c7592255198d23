"""The choice of a route to another host: direct to its port, or through a tunnel (relay_tunnel.py).

The direct route is tried first.  If no connection is accepted within HASTE_SECONDS, a tunnel is tried at once, since a
caller may wait.  Otherwise the direct route has STRAIGHT_SECONDS since the link was last up; then both routes are tried
in turn until a connection is made.  While a tunnel is in use, the direct route is tried beside it, at once and now and
then, and used when its handshake is done.
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

# A connection within a data centre takes milliseconds, around the world a second.  A firewall that drops packets would
# take all the time allowed.
STRAIGHT_SECONDS = 2.0
# Kernels accept connections, however busy their processes are.
HASTE_SECONDS = 0.25
STRAIGHT_AGAIN_SECONDS = 30.0
# An endpoint that fails, so that further attempts follow.
NOWHERE = "127.0.0.1:1"
# Hosts without need of tunnels: the head and its processes are reachable for all.  Replicas on nodes (RELAYED) connect
# themselves.
_STRAIGHT_KINDS = ("head", "replica", "scheduler")


class StraightAgain(Local):
    """A tunnel has been used for a while."""

    host: str
    attempt: int


class Haste(Local):
    """A check is due: has the direct route come far enough to wait for?"""

    host: str


def takes_detour(*, was_detour: bool, down_seconds: float) -> bool:
    """Return whether the next attempt uses a tunnel.  was_detour: the last one did."""
    return not was_detour and down_seconds >= STRAIGHT_SECONDS


class Detours:
    """The choice of routes for all links of a host.  The reactor treats the object as a role, and passes
    timers to it.
    """

    def __init__(self, links: Neighbours, tunnels: Tunnels) -> None:
        self.links = links
        self.tunnels = tunnels
        self.address = f"{links.host}/detours"
        links.way, links.on_reached = self.way, self.came_about
        self.hasty: set[str] = set()  # hosts that use a tunnel next
        self.candidates: dict[str, Dealer] = {}  # straight connections beside a tunnel

    def way(self, neighbour: Neighbour, now: float) -> tuple[str, float]:
        """Return the endpoint of the next attempt, and the seconds that the attempt may take."""
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
        """Note that an attempt has succeeded."""
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
        look()  # the descriptor shows no earlier events

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
                self.links.hang_up(neighbour)  # frames lost with the tunnel are sent again
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
