"""A driver's or worker's end of its link to the node: one DEALER, used by several threads.

The socket and the client's state are guarded by one lock, held for microseconds.  A finalizer or a signal handler may
call while its own thread has the lock: the call is refused, while a plain lock would wait for ever.  A single thread
receives at a time, and sleeps on the socket's descriptor without the lock.  Another thread's send may swallow that
descriptor's edge, so the sender checks afterwards for arrivals, and wakes the receiver.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import zmq

from ...exceptions import ClusterLostError, ProtocolError
from ...wire.link import Link
from ...wire.message import Message
from ...wire.session import Ack, Hello, HelloRefused, Welcome
from ..context import refuse_at_the_end
from ..zmq_calls import NOBLOCK, has_arrived, receive_if_any, send

HELLO_SECONDS = 20.0


class Connection:
    """A link that sends and receives frames.  `lock` also guards the owner's state that must stay in step with the
    link.
    """

    def __init__(self, address: str, node_pidfd: int) -> None:
        self.lock = threading.RLock()  # taken once by a thread: `is_inside` detects a nested call
        self.is_inside: Callable[[], bool] = self.lock._is_owned  # type: ignore[attr-defined]
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.sndhwm = self.socket.rcvhwm = 0
        self.socket.reconnect_ivl = 10
        self.socket.connect(address)
        self.link = Link()
        self.node_pidfd = node_pidfd
        self.wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # Not closed by close(): a thread may be about to wait on the descriptor, or to write to it.
        weakref.finalize(self, os.close, self.wake_fd)
        self.poll = self._new_poll()
        self.is_waiting = False
        self.is_closed = False
        self.over = ""  # why nothing more will come; empty while something may
        self.how_node_ended: Callable[[], str] = lambda: ""

    def refuse_in_the_middle(self) -> None:
        """Refuse a call that cannot wait, from a thread that has the lock: a finalizer or a signal handler.

        Raises:
            RuntimeError: the thread has the lock.
        """
        if self.is_inside():
            raise RuntimeError(
                "zray was called by a finalizer (__del__, the callback of a weak reference) or a signal handler while "
                "the same thread was inside another call of zray.  Only tasks, actor calls and kill() can begin there."
                "  Make the call from another thread, or from the program itself"
            )

    def _new_poll(self) -> select.poll:
        poll = select.poll()
        for descriptor in (int(self.socket.fd), self.wake_fd, self.node_pidfd):
            poll.register(descriptor, select.POLLIN)
        return poll

    def join(self, hello: Hello, seconds: float = HELLO_SECONDS) -> tuple[Welcome, list[Message]]:
        """Shake hands.  Returns the Welcome, and the messages right behind.

        Raises:
            ProtocolError: the node refuses; says why.
            ClusterLostError: the node ended, or does not answer.
        """
        with self.lock:
            self.send([hello])
        deadline = time.monotonic() + seconds
        while True:
            messages = self.receive(deadline)
            if messages is None:
                raise ClusterLostError(f"The node did not answer within {seconds:g} s.")
            if not messages:
                continue
            first, *rest = messages
            if type(first) is HelloRefused:
                raise ProtocolError(f"The session refuses this process: {first.reason}.")
            if type(first) is Welcome:
                return first, rest

    def send(self, messages: Sequence[Message]) -> None:
        """Send one frame.  With the lock held."""
        try:
            send(self.socket, self.link.pack(messages), NOBLOCK)
        except zmq.Again:
            raise ClusterLostError("The node of this session has ended, and takes no requests.") from None
        except zmq.ZMQError:
            if self.is_closed:  # by another thread, a moment ago
                raise self.lost() from None
            raise
        if self.is_waiting and has_arrived(self.socket):
            os.eventfd_write(self.wake_fd, 1)

    def receive(
        self,
        deadline: float | None,
        handle: Callable[[Iterable[Message]], None] | None = None,
        seen: int | None = None,
    ) -> Iterable[Message] | None:
        """Return the next frame's messages, or None after the deadline (of time.monotonic).

        For one thread at a time.  May return nothing before the deadline.  `handle` receives the messages with the lock
        still held, so that no other event comes between them and the rest of the link.  `seen`: the link's count of
        received frames when the caller last checked; a handler in its thread may have received more since.

        Raises:
            ClusterLostError: the node's process has ended.
        """
        lock, socket = self.lock, self.socket
        is_told = False  # by the socket's descriptor
        while True:
            with lock:
                self.is_waiting = False
                if self.over:
                    raise self.lost()
                if is_told or has_arrived(socket):
                    frame = receive_if_any(socket)
                    is_told = False
                    if frame is None:
                        continue
                    messages = self.link.unpack(frame)
                    if self.link.owes_acknowledgement:
                        self.send([Ack()])
                    if handle is not None:
                        handle(messages)
                    return messages
                if seen is not None and self.link.received != seen:
                    return ()
                self.is_waiting = True
            timeout = None
            if deadline is not None:
                timeout = (deadline - time.monotonic()) * 1000
                if timeout <= 0:
                    self.is_waiting = False
                    return None
            try:
                found = self.poll.poll(timeout)
            except RuntimeError:  # this thread already sleeps in the poll, and a signal handler waits meanwhile
                found = self._new_poll().poll(timeout)
            is_woken = False
            for descriptor, _ in found:
                if descriptor == self.wake_fd:
                    self._drain_wake()
                    is_woken = True
                elif descriptor == self.node_pidfd:
                    self._node_ended()
                else:
                    is_told = True
            if is_woken and not is_told:
                return ()

    def _drain_wake(self) -> None:
        try:
            os.eventfd_read(self.wake_fd)
        except BlockingIOError:
            pass

    def _node_ended(self) -> None:
        """Note the node's end; messages sent before the end still count."""
        with self.lock:
            if self.is_closed:
                raise self.lost()
            if has_arrived(self.socket):
                return
        how = self.how_node_ended()
        how = f" ({how})" if how else ""
        self.over = f"The node process of this session has ended{how}: all its tasks and objects are gone."
        raise ClusterLostError(self.over)

    def lost(self) -> ClusterLostError:
        """Return the error for later users of the connection."""
        if self.is_closed:
            refuse_at_the_end()
        return ClusterLostError(self.over)

    def wake(self) -> None:
        """Make the receiver look around."""
        os.eventfd_write(self.wake_fd, 1)

    def close(self) -> None:
        """Nothing more is sent or received."""
        with self.lock:
            if self.is_closed:
                return
            self.is_closed = True
            self.over = self.over or "This process has left its session."
            os.eventfd_write(self.wake_fd, 1)
            self.socket.close(linger=0)
            self.context.destroy(linger=0)


class Disconnected:
    """A stand-in for parts of a runtime after it left its session: every use raises an error."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        raise self._connection.lost()
