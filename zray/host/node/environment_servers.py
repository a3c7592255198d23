"""The node's side of environments with packages: one fork server for each, started with its first worker.

While a fork server installs its packages, orders wait in its connection, or in the node.  A fork server without workers
reports so after a while, and is ended.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import msgpack

from ...roles.kept import Latest
from ..process.launch_fork_server import launch_environment_server
from ..process.process_utils import end_children, last_lines, reap
from ..process.spawn import PACKET_BYTES_MAX

if TYPE_CHECKING:
    from ..reactor import Reactor
    from .worker_processes import Workers

# An idle fork server takes 50 MB.  A program that runs a task now and then should not wait for a start each time.
IDLE_SECONDS = 60.0
# Packages that could not be installed fail further requests for this long.
UNFIT_SECONDS = 10.0
UNFIT_MAX = 100
# Installers at a time; others wait for a turn.  Each takes a CPU and the disk.
INSTALLERS_MAX = 4


class EnvironmentServer:
    """The fork server of an environment."""

    def __init__(self, packages: str) -> None:
        self.packages = packages
        self.pid = 0
        self.log_path = ""
        self.connection: socket.socket | None = None  # None: waits for its turn
        self.orders: deque[bytes] = deque()  # orders that the server does not take yet
        self.workers: dict[str, bool] = {}  # ordered, and not ended; True: started
        self.is_ready = False
        self.is_ending = False
        self.reason = ""  # why the packages cannot be installed


class EnvironmentServers:
    """The environments' fork servers of a node."""

    def __init__(self, workers: Workers, idle_seconds: float = IDLE_SECONDS) -> None:
        self.workers = workers
        self.idle_seconds = idle_seconds
        self.reactor: Reactor | None = None
        self.by_packages: dict[str, EnvironmentServer] = {}
        self.by_worker: dict[str, EnvironmentServer] = {}
        self.running: dict[int, EnvironmentServer] = {}  # by pid; also servers that are ending
        self.unfit: Latest[str, tuple[float, str]] = Latest(UNFIT_MAX)  # until when, and why
        self.count = 0

    def why_unfit(self, packages: str) -> str:
        """Return why the installation of these packages failed a moment ago, or ""."""
        until, reason = self.unfit.get(packages, (0.0, ""))
        return reason if time.monotonic() < until else ""

    def start(self, worker: str, worker_id: int, packages: str) -> None:
        """Order a worker's start."""
        server = self.by_packages.get(packages)
        if server is None:
            server = self.by_packages[packages] = EnvironmentServer(packages)
        self.by_worker[worker] = server
        server.workers[worker] = False
        server.orders.append(msgpack.encode(("start", worker, worker_id)))
        self._launch_next()
        self._flush(server)

    def order(self, worker: str, *order: object) -> bool:
        """Send an order about a worker to its fork server.  False: no environment's worker."""
        server = self.by_worker.get(worker)
        if server is not None:
            server.orders.append(msgpack.encode((order[0], worker, *order[1:])))
            self._flush(server)
        return server is not None

    def order_all(self, *order: object) -> None:
        """Send an order to all fork servers."""
        for server in self.running.values():
            server.orders.append(msgpack.encode(order))
            self._flush(server)

    def forget(self, worker: str) -> None:
        """The worker has ended."""
        server = self.by_worker.pop(worker, None)
        if server is not None:
            server.workers.pop(worker, None)

    def _launch_next(self) -> None:
        installing = sum(not server.is_ready for server in self.running.values())
        for server in list(self.by_packages.values()):
            if server.connection is None and installing < INSTALLERS_MAX:
                try:
                    self._launch(server)
                    installing += 1
                except OSError as error:  # no descriptors, or no memory: the pool tries again, to a limit
                    del self.by_packages[server.packages]
                    for worker in list(server.workers):
                        self.workers.start_failed(worker, f"no fork server to be had: {error}")

    def _launch(self, server: EnvironmentServer) -> None:
        self.count += 1
        session, name = self.workers.session, f"fork-server-{self.count}"
        server.log_path = session.log_path(name)
        server.pid, server.connection = launch_environment_server(
            session, name, self.workers.hash_seed, server.packages, self.idle_seconds
        )
        self.running[server.pid] = server
        if self.reactor is not None:
            self.reactor.watch(server.connection.fileno(), lambda: self.receive(server))
        self._flush(server)

    def _flush(self, server: EnvironmentServer) -> None:
        connection = server.connection
        if connection is None:
            return
        is_full = False
        while server.orders and not is_full:
            try:
                connection.send(server.orders[0], socket.MSG_DONTWAIT)
                server.orders.popleft()
            except BlockingIOError:
                is_full = True
            except OSError:
                server.orders.clear()  # the server is dead: `receive` notices
        if self.reactor is not None:
            self.reactor.watch_writing(connection.fileno(), is_full)

    def receive(self, server: EnvironmentServer) -> None:
        """Receive a server's report, and send pending orders."""
        connection = server.connection
        assert connection is not None
        if server.orders:
            self._flush(server)
        try:
            packet = connection.recv(PACKET_BYTES_MAX, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._ended(server)
            return
        kind, *report = msgpack.decode(packet)
        if kind == "ready":
            server.is_ready = True
            self._launch_next()
        elif kind == "unfit":
            server.reason = str(report[0])
        elif kind == "idle":
            if not server.workers:
                self._retire(server)
        else:
            if kind == "started":
                server.workers[report[0]] = True
            self.workers.take_report(kind, *report)

    def _retire(self, server: EnvironmentServer) -> None:
        """End an idle server.  Later requests for its packages start another one."""
        assert server.connection is not None
        server.is_ending = True
        if self.by_packages.get(server.packages) is server:
            del self.by_packages[server.packages]
        with suppress(OSError):  # the server has just died, as `receive` will see
            server.connection.shutdown(socket.SHUT_WR)

    def _ended(self, server: EnvironmentServer) -> None:
        """Handle a server's death: its workers have died too, and their children, now ours, are killed."""
        assert server.connection is not None
        if self.reactor is not None:
            self.reactor.unwatch(server.connection.fileno())
        server.connection.close()
        how = reap(server.pid)
        del self.running[server.pid]
        if self.by_packages.get(server.packages) is server:
            del self.by_packages[server.packages]
        end_children(spared=self.workers.spared())
        log = last_lines(server.log_path, 10).strip()
        if not server.is_ready and not server.is_ending:
            self._is_unfit(server, how, log)
        elif not server.is_ending:
            self.workers.log(f"the fork server of an environment {how}; the end of its log:\n{log}")
        with suppress(OSError):
            os.unlink(server.log_path)  # a lasting session may have any number of logs
        words = f"died with the fork server of its environment ({how})"
        for worker, is_there in list(server.workers.items()):
            if is_there:
                self.workers.exited(worker, words)
            else:
                self.workers.start_failed(worker, server.reason or words, is_unfit=bool(server.reason))
        self._launch_next()

    def _is_unfit(self, server: EnvironmentServer, how: str, log: str) -> None:
        """Report a server that ended before the first fork."""
        if not server.reason:
            server.reason = f"the process that makes it {how}" + (f"; its last lines:\n{log}" if log else "")
        server.reason = f"The environment cannot be set up: {server.reason}"
        self.workers.log(server.reason)
        self.unfit.pop(server.packages, None)  # reinserted as the newest
        self.unfit[server.packages] = time.monotonic() + UNFIT_SECONDS, server.reason

    def close(self) -> None:
        """Close everything after the end of all processes."""
        for server in self.running.values():
            if server.connection is not None:
                server.connection.close()
