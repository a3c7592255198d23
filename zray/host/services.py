"""The head's processes beside it: one per replica of a shard, one per global scheduler.

They are its children and end with it (host/service_main.py).  Their key pairs are drawn here and handed over through
a pipe; what they listen on comes back through another.  One that ends is replaced by one that is new to everybody but
for its log: a replica offers what that holds, which counts where nobody has more, and is replaced where somebody has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import msgpack

from ..roles.replica_effects import ServiceAdded, ServiceEnded, ServiceListens
from ..wire.message import Local
from .hosted import start_service
from .keys import Key, KeyPair
from .membership import Membership
from .processes import last_lines, reap
from .session import Session

if TYPE_CHECKING:
    from .reactor import Reactor

# The clients go on first: a start takes a processor for a moment.  One that ends at once is not started again at once.
RESTART_SECONDS_MIN, RESTART_SECONDS_MAX = 0.1, 5.0


class StartAgain(Local):
    """A process that has ended is replaced."""

    order: dict[str, Any]


class Service:
    """One process."""

    def __init__(self, host: str, order: dict[str, Any], pid: int, ready: int) -> None:
        self.host = host
        self.order = order  # what it was started for: kind, shard, log, name
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.ready = ready  # of a pipe: what it listens on; -1: it has said it
        self.is_ready = False


class ServiceProcesses:
    """All of a head's.  To the reactor it looks like a role, which is given its timers."""

    def __init__(
        self,
        session: Session,
        member: Membership,
        names: dict[str, Any],
        log: Callable[[str], None],
    ) -> None:
        """names: of roles: services, chains, shards (logical names of all shards)."""
        self.address = f"{member.host}/processes"
        self.session = session
        self.member = member
        self.names = names
        self.log = log
        self.loop: Reactor
        self.running: dict[str, Service] = {}
        self.deaths = 0
        self.count = 0
        self.on_ready: Callable[[], None] = lambda: None  # all of the first ones are
        self.on_failure: Callable[[str], object] = lambda reason: None  # one of the first ones cannot be
        self.has_begun = False

    def tell(self, on_ready: Callable[[], None], on_failure: Callable[[str], object]) -> None:
        """Once: that all of the first ones are ready, or why one never will be."""
        self.on_ready, self.on_failure = on_ready, on_failure

    def attach(self, loop: Reactor) -> None:
        """Run on this loop."""
        self.loop = loop

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        self.start(message.order)
        return []

    # --- starting ---

    def draw_host(self) -> str:
        """An id for one that is about to be started."""
        return os.urandom(8).hex()

    def start(self, order: dict[str, Any], host: str = "") -> None:
        """Start one.  order: kind, name (of its log file), and for a replica shard and log (its folder)."""
        if self.loop.ended:
            return
        host = host or self.draw_host()
        links = self.member.neighbours
        keys = KeyPair.draw()
        listen_host, _, port = self.member.endpoint.rpartition(":")
        self.count += 1
        options = {
            **order,
            **self.names,
            "session": self.session.name,
            "root": os.path.dirname(self.session.folder),
            "host": host,
            "listen_host": listen_host,
            "port": int(port) + self.count if int(port) + self.count < 1 << 16 else 0,
            "head": self.member.host,
            "head_endpoint": self.member.endpoint,
            "head_key": links.keys.public,
        }
        pid, ready = start_service(self.session, order["name"], keys, options)
        service = self.running[host] = Service(host, order, pid, ready)
        self.loop.watch(service.pidfd, lambda: self._ended(service))
        self.loop.watch(ready, lambda: self._listens(service))
        role = f"{host}/{order['shard']}" if order["kind"] == "replica" else f"{host}/global"
        links.meet(host, Key(keys.public, order["kind"], host, roles=[role]), "")
        added = ServiceAdded(host, order["kind"], keys.public, [role])
        self.loop.deliver(self.names["services"], added)

    def _listens(self, service: Service) -> None:
        """What it wrote when it was ready; or it ended."""
        said = os.read(service.ready, 4096)
        self._forget_pipe(service)
        if not said:
            return  # it ends: its pidfd tells
        endpoint, refusal = msgpack.decode(said)
        if refusal:
            self.log(f"{service.order['name']}: {refusal}")
            if not self.has_begun:
                self._give_up(refusal)
            return
        service.is_ready = True
        self.log(f"{service.order['name']} is host {service.host}, process {service.pid}, reached at {endpoint}")
        self.loop.deliver(self.names["services"], ServiceListens(service.host, endpoint))
        if not self.has_begun and all(other.is_ready for other in self.running.values()):
            self.has_begun = True
            self.on_ready()

    def _give_up(self, reason: str) -> None:
        on_failure, self.on_failure = self.on_failure, lambda reason: None
        on_failure(reason)

    def _forget_pipe(self, service: Service) -> None:
        if service.ready >= 0:
            self.loop.unwatch(service.ready)
            os.close(service.ready)
            service.ready = -1

    # --- ending ---

    def _ended(self, service: Service) -> None:
        if service.ready >= 0 and not service.is_ready:
            self._listens(service)  # it may have said why
        self._forget_pipe(service)
        self.loop.unwatch(service.pidfd)
        os.close(service.pidfd)
        del self.running[service.host]
        reason = reap(service.pid)
        name = service.order["name"]
        self.log(f"{name} (host {service.host}): {reason}")
        if not (self.has_begun or service.is_ready):
            self._give_up(f"{name} {reason}:\n{last_lines(self.session.log_path(name))}")
            return
        self.member.neighbours.forget(service.host)
        self.loop.deliver(self.names["services"], ServiceEnded(service.host, reason))
        if service.is_ready:
            self.deaths = 0
        delay = RESTART_SECONDS_MIN * 2 ** min(self.deaths, 20)
        self.deaths += 1
        self.loop.set_timer(min(RESTART_SECONDS_MAX, delay), self.address, StartAgain(service.order))
