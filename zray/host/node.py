"""The node process: which roles make it, and what performs their effects.

On a laptop one such process hosts them all.  It ends when its driver does (embedded), when it is told to
(StopSession), or when its fork server is beyond repair; it removes all it made.  It imports neither numpy nor
pickle: payloads are opaque bytes here.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

import zmq

from ..roles.effects import (
    CreateSegment,
    EndSession,
    ForgetProcess,
    KillWorker,
    OpenWindow,
    PagesAreThere,
    PagesRefused,
    RangeRead,
    RangeWritten,
    ReadRange,
    ReclaimTasks,
    ReservePages,
    SegmentCreated,
    SegmentCreateFailed,
    StartWorker,
    TasksReclaimed,
    WriteRange,
)
from ..roles.gcs import GcsShard
from ..roles.global_scheduler import GlobalScheduler
from ..roles.local_scheduler import LocalScheduler
from ..roles.local_scheduler.scheduler import Addresses
from ..roles.monitor import Monitor
from ..roles.object_manager import ObjectManager
from ..store.segment import Segment, segment_name
from ..wire.objects import AbandonObject, AllocateObject
from ..wire.session import Ack, GetStatus, Goodbye, StopSession
from .doorman import HOST, Doorman
from .node_main import DRIVER_DESCRIPTOR, READY_DESCRIPTOR
from .peers import Peers
from .processes import end_children
from .reactor import Reactor
from .session import Session, SessionInfo
from .workers import Workers

LOCAL, OBJECTS, GLOBAL, SHARD, MONITOR = "local", "objects", "global", "gcs-0", "monitor"
# How long the last messages may take to leave: they only have to reach a local socket.
LAST_WORDS_MS = 200
LOG_BYTES_MAX = 8 << 20


class Node:
    """One node process."""

    def __init__(
        self,
        session: Session,
        fork_server: tuple[int, socket.socket],
        lock: int,
        total: dict[str, int],
        capacity: int,
        driver_pid: int,
    ) -> None:
        self.session = session
        self.is_embedded = driver_pid != 0
        self.doorman = Doorman(self, driver_pid)
        self.log_bytes = 0
        self.lock = lock
        self.node_id = os.urandom(8)
        self.segments: dict[int, Segment] = {}
        self.slow: queue.SimpleQueue[Any] | None = None
        self.workers = Workers(session, fork_server, self.tell_local, self.log)
        self.context: zmq.Context[Any] = zmq.Context(io_threads=1)
        self.peers = Peers(self.context, session.address, self.log)
        addresses = Addresses(OBJECTS, [GLOBAL], [SHARD], MONITOR)
        self.local = LocalScheduler(
            LOCAL,
            addresses,
            total=total,
            node_id=self.node_id,
            session=session.name,
            is_embedded=True,
        )
        objects = ObjectManager(OBJECTS, LOCAL, capacity=capacity)
        roles = [
            self.local,
            GcsShard(SHARD),
            GlobalScheduler(GLOBAL, [SHARD]),
            Monitor(MONITOR, [GLOBAL, SHARD]),
            objects,
            self.doorman,
        ]
        routes: dict[type, str] = {AllocateObject: OBJECTS, AbandonObject: OBJECTS}
        routes.update({Goodbye: HOST, StopSession: HOST, GetStatus: HOST, Ack: HOST})
        self.reactor = Reactor(
            roles,  # type: ignore[arg-type]
            self.peers,
            routes,
            LOCAL,
            self._effects(),
            self.doorman.hello,
            self.doorman.drop,
        )
        self.reactor.watch(self.workers.connection.fileno(), self._hear_workers)
        if driver_pid:
            # Handed over open: it tells the driver's end even if that came before we looked.
            self.reactor.watch(DRIVER_DESCRIPTOR, lambda: self.end("its driver has ended"))
        self.local.pool.prestart()
        self.reactor._perform(LOCAL, self.local.take_effects())
        session.write_info(SessionInfo(session.name, os.getpid(), self.workers.pid, self.is_embedded, driver_pid))

    def log(self, line: str) -> None:
        """One line into node.log, up to a size."""
        if self.log_bytes < LOG_BYTES_MAX:
            self.log_bytes += len(line) + 32
            print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

    def end(self, reason: str) -> None:
        """After this turn."""
        self.reactor.ended = self.reactor.ended or reason

    def tell_local(self, message: Any) -> None:
        """A message of the host's own to the local scheduler."""
        self.reactor.deliver(LOCAL, message)

    def _hear_workers(self) -> None:
        before = self.workers.connection
        descriptor = before.fileno()
        if not self.workers.receive():
            self.end("its fork server died too often")
        elif self.workers.connection is not before:
            self.reactor.watched.pop(descriptor, None)
            self.reactor.watch(self.workers.connection.fileno(), self._hear_workers)

    # --- effects ---

    def _effects(self) -> dict[type, Any]:
        return {
            StartWorker: lambda role, effect: self.workers.start(effect.worker, effect.worker_id),
            KillWorker: lambda role, effect: self.workers.kill(effect.worker),
            OpenWindow: lambda role, effect: self.workers.open_window(effect.worker, effect.count),
            ReclaimTasks: self._reclaim,
            # At the end of the turn: a last message to it may be on its way out.
            ForgetProcess: lambda role, effect: self.reactor.leaving.append(effect.process),
            CreateSegment: self._create_segment,
            ReservePages: self._slowly,
            ReadRange: self._slowly,
            WriteRange: self._slowly,
            EndSession: lambda role, effect: self.end(effect.reason),
        }

    def _reclaim(self, role: str, effect: ReclaimTasks) -> None:
        taken = self.workers.reclaim(effect.worker, effect.count)
        self.reactor.deliver(role, TasksReclaimed(effect.worker, taken))

    def _create_segment(self, role: str, effect: CreateSegment) -> None:
        try:
            name = segment_name(self.session.name, effect.segment)
            self.segments[effect.segment] = Segment.create(name, effect.size)
            self.reactor.deliver(role, SegmentCreated(effect.segment))
        except OSError as error:
            self.reactor.deliver(role, SegmentCreateFailed(effect.segment, str(error)))

    def _slowly(self, role: str, effect: Any) -> None:
        """What would stall the reactor runs in a thread, and comes back as a message."""
        if self.slow is None:
            self.slow = queue.SimpleQueue()
            threading.Thread(target=self._slow_thread, name="zray-slow", daemon=True).start()
        self.slow.put((role, effect))

    def _slow_thread(self) -> None:
        assert self.slow is not None
        while True:
            role, effect = self.slow.get()
            segment = self.segments[effect.segment]
            outcome: Any
            if type(effect) is ReservePages:
                try:
                    segment.reserve(effect.offset, effect.length)
                    outcome = PagesAreThere(effect.token)
                except OSError as error:
                    outcome = PagesRefused(effect.token, str(error))
            elif type(effect) is ReadRange:
                outcome = RangeRead(effect.token, segment.mapping[effect.offset : effect.offset + effect.size])
            else:
                segment.mapping[effect.offset : effect.offset + len(effect.data)] = effect.data
                outcome = RangeWritten(effect.token)
            self.reactor.deliver_from_thread(role, outcome)

    # --- the whole ---

    def run(self) -> None:
        """Until the session ends; then nothing of it is left."""
        try:
            self.reactor.run()
            self.reactor.turn(())
            self.log(f"the session ends: {self.reactor.ended}")
        except Exception as error:
            self.log(traceback.format_exc())
            self.doorman.farewell(f"the node process failed ({type(error).__name__}: {error})")
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Processes, sockets, segments, folder."""
        # The fork server first, busy or still importing; its workers and what they have started fall to us.
        end_children()
        self.workers.close()
        self.reactor.close()
        self.context.destroy(linger=LAST_WORDS_MS)
        self.session.remove()


def run(session: Session, options: dict[str, Any], fork_server: tuple[int, socket.socket], lock: int) -> None:
    """Make the node, tell the driver that it listens, and run it until the session ends.

    options: total, capacity, driver_pid (node_main.py).  lock: the descriptor that keeps the session's lock.
    """
    node = Node(session, fork_server, lock, options["total"], options["capacity"], options["driver_pid"])
    signal.signal(signal.SIGTERM, lambda number, frame: node.reactor.end_soon("told to by a signal"))
    try:
        os.write(READY_DESCRIPTOR, b"1")
    except BrokenPipeError:
        pass  # the driver has ended: we are about to notice
    os.close(READY_DESCRIPTOR)
    gc.collect()
    gc.freeze()
    # Records are structs without collector headers; what is left grows slowly, and is looked at rarely.
    gc.set_threshold(100_000, 50, 100)
    node.run()
