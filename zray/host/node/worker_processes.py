"""The node's side of its workers: the fork server, and each worker's claim window.

A claim window is a POSIX semaphore that counts the tasks a worker may still begin.  The worker takes a token before
each task (from the head of its queue); the node takes tokens too, to reclaim tasks (from the tail).  No token is
returned by its taker, so a kill -9 between two of them leaves nothing locked.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import posix_ipc
from msgspec import msgpack

from ...roles.effects import WorkerExited, WorkerStarted, WorkerStartFailed
from ...store.segment import create_semaphore, unlink_semaphore
from ..output.truncation import room_of
from ..process.crash_reports import read_report
from ..process.interpreter import chosen_hash_seed
from ..process.launch_fork_server import launch_fork_server
from ..process.oom_kills import OomKills
from ..process.process_utils import end_children, how_it_ended, last_lines, reap
from ..process.spawn import PACKET_BYTES_MAX
from ..session.session import Session
from .environment_servers import EnvironmentServers
from .event_rings import EventRings
from .metric_pages import MetricPages

# Number of dead workers' logs kept for diagnosis; the oldest go.  In a lasting session with an actor per request, say,
# they would fill a folder that drivers list ten times a second.
DEAD_LOGS_MAX = 200
DEAD_LOGS_BYTES_MAX = 512 << 20  # of all kept logs; the newest stays in any case
# A dead fork server is replaced, but not for ever: after so many deaths in quick succession the node gives up.  A
# server ready for some seconds is sound: the cause of its end came from outside (an OOM killer, say), and may recur any
# number of times in a lasting session.
FORK_SERVER_DEATHS_MAX = 5
SOUND_SECONDS = 3.0


class Workers:
    """Performs StartWorker, KillWorker, StopWorkers, OpenWindow, ReclaimTasks, and reports the outcomes."""

    def __init__(
        self,
        session: Session,
        fork_server: tuple[int, socket.socket] | None,
        deliver: Callable[[Any], None],
        log: Callable[[str], None],
        watch: Callable[[], None],
        others: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """watch: called when `is_full` has changed, so that `receive` is called when the connection takes more.

        others: children of this process that are neither the fork server nor below it; they outlive it.
        """
        self.session = session
        self.deliver = deliver
        self.log = log
        self.windows: dict[str, posix_ipc.Semaphore] = {}
        self.worker_id: dict[str, int] = {}
        self.pids: dict[str, int] = {}
        self.unjoined: dict[str, None] = {}  # ordered, and not heard of yet
        self.dead_logs: deque[tuple[int, int, int]] = deque()  # (worker's number, pid, bytes)
        self.dead_bytes = 0  # of the kept logs
        self.deaths = 0  # of fork servers, since the last sound one
        self.death = ""  # of the latest dead fork server
        self.ready_at: float | None = None  # since when the present server forks; None: not ready yet
        self.oom_kills: OomKills | None = None  # counted from the first fork server on
        self.pid = 0
        self.connection: socket.socket | None = None  # None: no fork server yet
        # Orders that cannot be sent yet: no server, or a full connection.  At most a start and a kill for each worker
        # of the pool.
        self.orders: deque[bytes] = deque()
        self.hash_seed = chosen_hash_seed()  # of all workers, also under a replacement fork server
        self.is_full = False
        self.watch = watch
        self.others = others
        self.environments = EnvironmentServers(self)
        self.event_rings = EventRings(session.name)
        self.metric_pages = MetricPages(session.name)
        if fork_server is not None:
            self._use(fork_server)

    def launch(self) -> socket.socket:
        """Start the fork server, send pending orders, and return the connection."""
        connection = self._use(launch_fork_server(self.session, self.hash_seed))
        self.flush()
        return connection

    def _use(self, fork_server: tuple[int, socket.socket]) -> socket.socket:
        self.ready_at = None
        self.pid, connection = fork_server
        self.connection = connection
        return connection

    def start(self, worker: str, worker_id: int, packages: str = "") -> None:
        """StartWorker."""
        if packages and (reason := self.environments.why_unfit(packages)):
            self.deliver(WorkerStartFailed(worker, reason, is_unfit=True))
            return
        try:
            self.windows[worker] = create_semaphore(self.session.window_name(worker_id))
        except (OSError, posix_ipc.Error) as error:
            self.deliver(WorkerStartFailed(worker, f"no semaphore can be created: {error}"))
            return
        self.worker_id[worker] = worker_id
        if packages:
            self.environments.start(worker, worker_id, packages)
            return
        self.unjoined[worker] = None
        self._order("start", worker, worker_id)

    def kill(self, worker: str) -> None:
        """KillWorker."""
        if not self.environments.order(worker, "kill"):
            self._order("kill", worker)

    def interrupt(self, worker: str) -> None:
        """InterruptWorker."""
        if not self.environments.order(worker, "interrupt"):
            self._order("interrupt", worker)

    def stop(self, *, are_stopped: bool) -> None:
        """StopWorkers."""
        if are_stopped:
            self.log("this node is suspended until it knows whether it is a member: its workers are stopped")
        else:
            self.log("the head answers heartbeats again, and this node is a member: its workers continue")
        order = ("stop" if are_stopped else "continue", "")
        self._order(*order)
        self.environments.order_all(*order)

    def _order(self, *order: object) -> None:
        self.orders.append(msgpack.encode(order))
        if self.connection is not None and not self.is_full:
            self.flush()

    def flush(self) -> None:
        """Send as many orders as the fork server takes.  Waiting would deadlock: the server has reports for
        the node.
        """
        assert self.connection is not None
        is_full = False
        while self.orders:
            try:
                self.connection.send(self.orders[0], socket.MSG_DONTWAIT)
            except BlockingIOError:
                is_full = True
                break
            except OSError:
                self.orders.clear()  # the fork server is dead: `receive` notices
                break
            self.orders.popleft()
        if is_full != self.is_full:
            self.is_full = is_full
            self.watch()

    def receive(self) -> bool:
        """Receive a report of the fork server, and send pending orders.  False: the server is dead for good."""
        assert self.connection is not None
        if self.is_full:
            self.flush()
        try:
            packet = self.connection.recv(PACKET_BYTES_MAX, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            packet = b""
        if not packet:
            return self._fork_server_died()
        kind, *report = msgpack.decode(packet)
        if kind == "ready":
            self.ready_at = time.monotonic()
            if self.oom_kills is None:
                self.oom_kills = OomKills()
            return True
        self.take_report(kind, *report)
        return True

    def take_report(self, kind: str, worker: str, detail: Any, *more: Any) -> None:
        """Handle a fork server's report about a worker."""
        if kind == "started":
            self.pids[worker] = detail
            self.deliver(WorkerStarted(worker, detail))
        elif kind == "failed":
            self.start_failed(worker, detail)
        elif kind == "exited":
            self.exited(worker, self._how_it_ended(detail, more[1]))

    def start_failed(self, worker: str, reason: str, *, is_unfit: bool = False) -> None:
        """Report that a worker could not be started."""
        self._forget(worker)
        self.deliver(WorkerStartFailed(worker, reason, is_unfit))

    def _how_it_ended(self, status: int, peak_bytes: int = 0) -> str:
        oom = self.oom_kills.explain(status, peak_bytes, time.monotonic()) if self.oom_kills is not None else ""
        return how_it_ended(status) + oom

    def exited(self, worker: str, how: str) -> None:
        """Handle the end of a worker, reaped by its fork server."""
        unclaimed = self.windows[worker].value if worker in self.windows else 0
        pid = self.pids.get(worker, 0)
        worker_id = self.worker_id.get(worker, 0)
        report = read_report(self.session, worker_id, pid)
        self.session.remove_note(worker_id, pid)
        self.process_ended(pid)
        self._keep_log(worker_id, pid)
        self._forget(worker)
        self.deliver(WorkerExited(worker, how, unclaimed, pid, report))

    def process_ended(self, pid: int) -> None:
        """Keep what a process that has ended had recorded in shared memory."""
        self.event_rings.process_ended(pid)
        self.metric_pages.process_ended(pid)

    def _keep_log(self, worker_id: int, pid: int) -> None:
        self.session.remove_empty_errors(worker_id, pid)
        size = room_of(self.session.worker_log_path(worker_id, pid))
        size += room_of(self.session.worker_errors_path(worker_id, pid))
        self.dead_logs.append((worker_id, pid, size))
        self.dead_bytes += size
        while len(self.dead_logs) > DEAD_LOGS_MAX or (
            self.dead_bytes > DEAD_LOGS_BYTES_MAX and len(self.dead_logs) > 1
        ):
            *oldest, size = self.dead_logs.popleft()
            self.dead_bytes -= size
            self.session.remove_log(*oldest)

    def _forget(self, worker: str) -> None:
        window = self.windows.pop(worker, None)
        if window is not None:
            window.close()
            self._unlink(worker)
        self.worker_id.pop(worker, None)
        self.pids.pop(worker, None)
        self.unjoined.pop(worker, None)
        self.environments.forget(worker)

    def _unlink(self, worker: str) -> None:
        unlink_semaphore(self.session.window_name(self.worker_id[worker]))

    def joined(self, worker: str) -> None:
        """Note that a worker has opened its window: the name is no longer needed."""
        self.unjoined.pop(worker, None)
        self._unlink(worker)

    def _fork_server_died(self) -> bool:
        """Replace a dead fork server: its workers have died too, and their children, now ours, are killed."""
        if self.connection is not None:
            self.connection.close()
        self.orders.clear()
        self.is_full = False
        how = reap(self.pid, self._how_it_ended)
        log = last_lines(self.session.log_path("fork-server"), 10).strip()
        words = f"the end of its log:\n{log}\n" if log else "its log is empty"
        self.death = f"its fork server {how}; {words}"
        self.log(self.death)
        end_children(spared=self.spared())
        if self.ready_at is not None and time.monotonic() - self.ready_at >= SOUND_SECONDS:
            self.deaths = 0
        self.deaths += 1
        if self.deaths >= FORK_SERVER_DEATHS_MAX:
            return False
        elsewhere = self.environments.by_worker
        lost = [worker for worker in self.windows if worker not in self.unjoined and worker not in elsewhere]
        again = list(self.unjoined)
        self.launch()
        for worker in lost:
            self.exited(worker, f"died with the fork server ({how})")
        for worker in again:
            self._order("start", worker, self.worker_id[worker])
        return True

    def spared(self) -> list[int]:
        """Return children of this process that outlive a dead fork server: other fork servers, and services."""
        return [*self.others(), *self.environments.running, *([self.pid] if self.pid else [])]

    # --- claim windows ---

    def open_window(self, worker: str, count: int) -> None:
        """OpenWindow."""
        window = self.windows.get(worker)
        if window is not None:
            release = window.release
            for _ in range(count):
                release()

    def reclaim(self, worker: str, count: int) -> int:
        """ReclaimTasks: return the number of reclaimed tasks."""
        window = self.windows.get(worker)
        taken = 0
        if window is not None:
            try:
                while taken < count:
                    window.acquire(0)
                    taken += 1
            except posix_ipc.BusyError:
                pass
        return taken

    def close(self) -> None:
        """Close the windows after the end of all processes."""
        if self.connection is not None:
            self.connection.close()
        self.environments.close()
        for worker in list(self.windows):
            self._forget(worker)
