"""Child processes of a head: one per replica of a shard, one per global scheduler.

They end with the head (host/cluster/service_main.py).  Their key pairs are drawn by the head and handed over through a
pipe; the listening address comes back through another pipe.  A process that ends is replaced by a process under a new
host id.  A new replica offers the content of the old log: the offer counts if no other replica has more, and is
replaced otherwise.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import msgpack

from ...roles.replica_effects import ServiceAdded, ServiceEnded, ServiceListens
from ...wire.message import Local
from ..process.process_utils import last_lines, reap
from ..security.keyring import Key, KeyPair
from ..session.session import Session
from .membership import Membership
from .replica_processes import start_service

if TYPE_CHECKING:
    from ..reactor import Reactor

# Clients have precedence: a start takes a processor for a moment.  After repeated early ends the delay doubles each
# time.  Whatever the cause, a start every five seconds costs little, and a repair need not wait longer.
RESTART_SECONDS_MIN, RESTART_SECONDS_MAX = 0.1, 5.0
# A process that ran longer than the longest delay since it was ready has run well: its end has a new cause.
RAN_WELL_SECONDS = RESTART_SECONDS_MAX


NEVER = float("-inf")


class StartAgain(Local):
    """A process that has ended is started again."""

    order: dict[str, Any]


class Service:
    """A child process of the head."""

    def __init__(self, host: str, order: dict[str, Any], pid: int, ready: int) -> None:
        self.host = host
        self.order = order  # its start options: kind, shard, log, name
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.ready = ready  # a pipe that brings the listening address; -1: the address has arrived
        self.ready_at = NEVER
        self.is_superfluous = False  # and is being ended

    @property
    def is_ready(self) -> bool:
        """Whether the process has been ready."""
        return self.ready_at != NEVER


class ServiceProcesses:
    """All child processes of a head.  The reactor treats the object as a role, and passes timers to it."""

    def __init__(
        self,
        session: Session,
        member: Membership,
        names: dict[str, Any],
        log: Callable[[str], None],
        password: str = "",
    ) -> None:
        """names: names of roles: services, chains, shards (logical names of all shards); password: of their store."""
        self.address = f"{member.host}/processes"
        self.session = session
        self.member = member
        self.roles = names
        self.log = log
        self.password = password
        self.loop: Reactor
        self.running: dict[str, Service] = {}
        self.resting: dict[str, Service] = {}  # by name: ended, and about to be started again
        self.deaths: dict[str, int] = {}  # by name: in a row, none of which had run well
        self.refusals: dict[str, str] = {}  # by name: why it does not start again
        self.clock: Callable[[], float] = time.monotonic
        self.count = 0
        self.on_ready: Callable[[], None] = lambda: None  # all of the first ones are
        self.on_failure: Callable[[str], object] = lambda reason: None  # one of the first ones cannot be
        self.has_begun = False  # with the first ones, if there are any

    def tell(self, on_ready: Callable[[], None], on_failure: Callable[[str], object]) -> None:
        """Register two callbacks, each called once: all first processes are ready, or one never will be."""
        self.on_ready, self.on_failure = on_ready, on_failure

    def attach(self, loop: Reactor) -> None:
        """Attach to the reactor's loop."""
        self.loop = loop

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timers."""
        if self.resting.pop(message.order["name"], None) is not None:
            self.start(message.order)
        return []

    # --- starting ---

    def draw_host(self) -> str:
        """Return a host id for a process that is about to start."""
        return os.urandom(8).hex()

    def start(self, order: dict[str, Any], host: str = "") -> None:
        """Start one process. order: kind, name (of its log file), and for a replica shard and log (its folder)."""
        if self.loop.ended:
            return
        host = host or self.draw_host()
        links = self.member.neighbours
        keys = KeyPair.draw()
        listen_host, _, port = self.member.endpoint.rpartition(":")
        self.count += 1
        options = {
            **order,
            **self.roles,
            "session": self.session.name,
            "root": os.path.dirname(self.session.folder),
            "host": host,
            "listen_host": listen_host,
            "port": int(port) + self.count if int(port) + self.count < 1 << 16 else 0,
            "head": self.member.host,
            "head_endpoint": self.member.endpoint,
            "head_key": links.keys.public,
        }
        pid, ready = start_service(self.session, order["name"], keys, options, self.password)
        service = self.running[host] = Service(host, order, pid, ready)
        self.loop.watch(service.pidfd, lambda: self._ended(service))
        self.loop.watch(ready, lambda: self._listens(service))
        role = f"{host}/{order['shard']}" if order["kind"] == "replica" else f"{host}/global"
        links.meet(host, Key(keys.public, order["kind"], host, roles=[role]), "")
        added = ServiceAdded(host, order["kind"], keys.public, [role])
        self.loop.deliver(self.roles["services"], added)

    def _listens(self, service: Service) -> None:
        """Read the pipe of a process: the listening address, or its end."""
        said = os.read(service.ready, 4096)
        self._forget_pipe(service)
        if not said:
            return  # the process ends: its pidfd tells
        endpoint, refusal = msgpack.decode(said)
        if refusal:
            self.log(f"{service.order['name']}: {refusal}")
            self.refusals[service.order["name"]] = f"{service.order['name']} cannot start again: {refusal}"
            if not self.has_begun:
                self._give_up(refusal)
            return
        service.ready_at = self.clock()
        self.refusals.pop(service.order["name"], None)
        self.log(f"{service.order['name']} is host {service.host}, process {service.pid}, reached at {endpoint}")
        self.loop.deliver(self.roles["services"], ServiceListens(service.host, endpoint))
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

    def end(self, host: str) -> None:
        """End one process, with none in its place."""
        service = self.running.get(host)
        if service is not None:
            service.is_superfluous = True
            os.kill(service.pid, signal.SIGKILL)

    def end_unready(self, kind: str) -> None:
        """End processes of a kind that have not come up, with none in their place."""
        for service in self.running.values():
            if service.order["kind"] == kind and not service.is_ready:
                self.end(service.host)
        for name, service in list(self.resting.items()):
            if service.order["kind"] == kind and not service.is_ready:
                del self.resting[name]
                self.refusals.pop(name, None)

    def names(self) -> set[str]:
        """Return the names of all processes that run, or are about to."""
        return {*self.resting, *(service.order["name"] for service in self.running.values())}

    def _ended(self, service: Service) -> None:
        if service.ready >= 0 and not service.is_ready:
            self._listens(service)  # the pipe may hold the reason
        self._forget_pipe(service)
        self.loop.unwatch(service.pidfd)
        os.close(service.pidfd)
        del self.running[service.host]
        reason = reap(service.pid)
        name = service.order["name"]
        if not (self.has_begun or service.is_ready):
            self.log(f"{name} (host {service.host}) {reason}")
            self._give_up(f"{name} {reason}:\n{last_lines(self.session.log_path(name))}")
            return
        self.member.neighbours.forget(service.host)
        if service.is_superfluous:
            reason = "fewer global schedulers are needed"
        self.loop.deliver(self.roles["services"], ServiceEnded(service.host, reason))
        if service.is_superfluous:
            self.refusals.pop(name, None)
            self.deaths.pop(name, None)
            self.log(f"{name} (host {service.host}) was ended: {reason}")
            return
        delay = self._rest_of(service)
        self.log(f"{name} (host {service.host}) {reason}; it is started again in {delay:g} s")
        self.resting[name] = service
        self.loop.set_timer(delay, self.address, StartAgain(service.order))

    def _rest_of(self, service: Service) -> float:
        """Return the seconds until the process is started again."""
        name = service.order["name"]
        has_run_well = service.is_ready and self.clock() - service.ready_at > RAN_WELL_SECONDS
        deaths = 0 if has_run_well else self.deaths.get(name, 0)
        self.deaths[name] = deaths + 1
        return min(RESTART_SECONDS_MAX, RESTART_SECONDS_MIN * 2 ** min(deaths, 20))
