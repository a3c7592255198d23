"""The own port: a ROUTER to which other hosts connect.  The key identifies the sender of a frame."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Any

import zmq

from ...wire.link import MailFrame, unnumbered
from ...wire.session import Ack
from ..security.keyring import Key, KeyPair, KeyRing
from ..zmq_calls import NOBLOCK, SEND_MORE, has_arrived, monitor_event, receive, receive_bulk, send, send_mail
from .dialer import server
from .tcp_connections import UnauthenticatedConnections, opened, repeat_steadily


class Wire:
    """The TCP connection of a received frame.  A ROUTER cannot be told to close a connection."""

    __slots__ = ("descriptor", "name")

    def __init__(self, frame: zmq.Frame) -> None:
        self.descriptor = int(frame.get(zmq.SRCFD))
        copy = opened(self.descriptor)
        self.name = _other_end(copy)  # None: the connection has ended
        copy.close()

    def cut(self) -> None:
        """Shut the connection down beneath libzmq, which takes the shutdown for the other side's."""
        copy = opened(self.descriptor)
        # The number may be another connection's by now.
        if self.name is not None and _other_end(copy) == self.name:
            copy.shutdown(socket.SHUT_RDWR)
        copy.close()


def _other_end(connection: socket.socket) -> Any:
    """Return the other side's address; None: not connected (any more)."""
    try:
        return connection.getpeername()
    except OSError:
        return None


class Arrival:
    """A received frame, with its sender."""

    __slots__ = ("bulk", "data", "frame", "identity", "key", "peer_address")

    def __init__(
        self, identity: bytes, key: Key | None, frame: zmq.Frame, bulk: list[memoryview] | None, peer_address: str
    ) -> None:
        self.identity = identity
        self.frame = frame
        self.key = key  # None: a key admitted formerly, but refused now
        self.data: Any = frame.buffer
        self.bulk = bulk  # the parts behind the frame; None: too many for mail
        self.peer_address = peer_address


class Listener:
    """The listening socket; the gate of its context must exist before the socket is bound."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, ring: KeyRing) -> None:
        self.ring = ring
        self.socket = server(context, keys)
        self.port = 0
        self.unauthenticated = UnauthenticatedConnections()
        self.lost: set[int] = set()  # connections that have ended since the last look
        self.monitor: Any = self.socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        self.monitor.linger = 0

    def bind(self, host: str, port: int) -> int:
        """Accept connections at that address from now on, and return the port (0: any free port).

        Raises:
            OSError: the address is not available.
        """
        try:
            self.socket.bind(f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            why = f"{host}:{port}: {os.strerror(error.errno or errno.EIO)}"
            if error.errno == errno.EADDRINUSE:
                why = f"port {port} of {host} is taken"
            raise OSError(error.errno, why) from error
        endpoint: Any = self.socket.getsockopt(zmq.LAST_ENDPOINT)
        self.port = self.unauthenticated.port = int(endpoint.rstrip(b"\0").rpartition(b":")[2])
        return self.port

    def bind_here(self, path: str) -> str:
        """Accept connections from this machine alone, at a Unix socket, and return the endpoint.

        Raises:
            OSError: the path is not available.
        """
        endpoint = f"ipc://{path}"
        try:
            self.socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{path}: {os.strerror(error.errno or errno.EIO)}") from error
        return endpoint

    def hear(self) -> Iterator[Arrival]:
        """Yield the frames that have arrived."""
        router = self.socket
        while has_arrived(router):
            identity = receive(router, NOBLOCK)
            frame = router.recv(zmq.NOBLOCK, copy=False)
            key, address = self._key_of(frame), str(frame.get("Peer-Address"))
            if self.unauthenticated.half_open or has_arrived(self.monitor):
                self._look()  # the connection's start may be among the events
                self.unauthenticated.has_spoken(int(frame.get(zmq.SRCFD)))
            bulk = receive_bulk(router) if frame.more else []
            yield Arrival(identity, key, frame, bulk, address)

    def _key_of(self, frame: zmq.Frame) -> Key | None:
        try:
            return self.ring.find(bytes.fromhex(str(frame.get("User-Id"))))
        except (zmq.ZMQError, ValueError):
            return None

    def send(self, identity: bytes, frame: MailFrame) -> bool:
        """Send a frame.  False: that connection is gone."""
        try:
            send(self.socket, identity, SEND_MORE)
            send_mail(self.socket, frame)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            return False
        return True

    # --- ended connections ---

    def take_lost(self) -> set[int]:
        """Return descriptors of connections that have ended since the last call; a descriptor may be reused by now."""
        self._look()
        lost, self.lost = self.lost, set()
        return lost

    def is_there(self, identity: bytes) -> bool:
        """Return whether a connection exists.  A ROUTER reports this on a write, but only after reading its
        own events.
        """
        has_arrived(self.socket)  # has libzmq read its pending events
        return self.send(identity, unnumbered(Ack()))

    def _look(self) -> None:
        while has_arrived(self.monitor):
            event, descriptor = monitor_event(self.monitor)
            if event == zmq.EVENT_ACCEPTED:
                self.unauthenticated.has_come(descriptor)
                repeat_steadily(descriptor)
            elif self.unauthenticated.has_ended(descriptor):
                self.lost.add(descriptor)  # half-open connections too: a first message may be here, unread

    def close(self, linger_ms: int) -> None:
        """No more."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=linger_ms)
