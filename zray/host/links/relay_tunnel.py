"""Tunnels: connections through the head's relay, between hosts that cannot reach each other.

The connecting end listens at a Unix socket of its own, to which its DEALER connects; the other end connects to its own
port in place of the caller.  In between the bytes are letters to the relay (wire/relay.py, roles/relay.py), on the
links to the head.  The two ends prove their keys to each other over the tunnel, and encrypt, as on any connection: the
head cannot read the bytes.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from ...roles.relay import TUNNEL_BYTES_MAX
from ...wire.message import Local, Message
from ...wire.relay import OpenTunnel, TunnelBytes, TunnelClosed, TunnelCredit
from .host_link import Loop

# Taken from a socket at a time.
PIECE_BYTES = 128 << 10
# Credit is granted again after this many bytes: rarely enough to cost little, and long before the other end stops.
CREDIT_BYTES = TUNNEL_BYTES_MAX // 4
# libzmq reads its socket promptly; only on a busy machine the socket is full.
WRITE_AGAIN_SECONDS = 0.01


def user_of(caller: socket.socket) -> int:
    """Return the user id of the process at the other end of a local connection."""
    _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


class WriteAgain(Local):
    """A socket was full."""

    peer: str
    number: int


class Stream:
    """Our end of a tunnel."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.listener: socket.socket | None = None  # until our own DEALER has come
        self.socket: socket.socket | None = None
        self.is_watched = False
        self.left = TUNNEL_BYTES_MAX  # bytes that we may send
        self.to_write = bytearray()  # bounded by the credit that we granted
        self.written = 0  # not granted again yet


class Tunnels:
    """All tunnels of a host.  The reactor treats the object as a role: the relay sends messages to it."""

    def __init__(self, host: str, own_endpoint: str, folder: str, log: Callable[[str], None]) -> None:
        self.host = host
        self.address = f"{host}/tunnels"
        self.own_endpoint = own_endpoint  # our port as reachable from this machine; or a Unix socket's (ipc://PATH)
        self.folder = folder
        self.log = log
        self.loop: Loop
        self.say: Callable[[Message], None]  # to the relay
        self.streams: dict[str, Stream] = {}  # by the other end
        self.count = 0

    def attach(self, loop: Loop, say: Callable[[Message], None]) -> None:
        """Attach to the reactor's loop."""
        self.loop, self.say = loop, say

    def open(self, peer: str) -> str:
        """Begin a tunnel to a host, and return the endpoint to connect to.

        Raises:
            OSError: the socket cannot be made.
        """
        self._drop(peer)
        self.count += 1
        stream = Stream(2 * self.count + (self.host > peer))
        path = os.path.join(self.folder, f"t{stream.number}")
        listener = stream.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listener.bind(path)
            listener.listen(1)
        except OSError:
            listener.close()
            raise
        self.streams[peer] = stream
        self.loop.watch(listener.fileno(), lambda: self._accept(peer, stream))
        self.say(OpenTunnel(peer, stream.number))
        return f"ipc://{path}"

    def _accept(self, peer: str, stream: Stream) -> None:
        assert stream.listener is not None
        try:
            ours, _ = stream.listener.accept()
        except OSError:
            return
        if user_of(ours) != os.geteuid():
            ours.close()
            return
        self._stop_listening(stream)
        self._carry(peer, stream, ours)

    def _stop_listening(self, stream: Stream) -> None:
        listener, stream.listener = stream.listener, None
        if listener is not None:
            self.loop.unwatch(listener.fileno())
            os.unlink(listener.getsockname())
            listener.close()

    def _carry(self, peer: str, stream: Stream, ours: socket.socket) -> None:
        ours.setblocking(False)
        stream.socket = ours
        self._watch(peer, stream)
        self._write(peer, stream)

    def _watch(self, peer: str, stream: Stream) -> None:
        if stream.socket is not None and not stream.is_watched:
            stream.is_watched = True
            self.loop.watch(stream.socket.fileno(), lambda: self._read(peer, stream))

    def _unwatch(self, stream: Stream) -> None:
        if stream.socket is not None and stream.is_watched:
            stream.is_watched = False
            self.loop.unwatch(stream.socket.fileno())

    # --- from the socket to the relay ---

    def _read(self, peer: str, stream: Stream) -> None:
        assert stream.socket is not None
        try:
            data = stream.socket.recv(min(PIECE_BYTES, stream.left))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close(peer, stream, "the connection has ended")
            return
        stream.left -= len(data)
        if not stream.left:
            self._unwatch(stream)
        self.say(TunnelBytes(peer, stream.number, data))

    # --- from the relay to the socket ---

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Handle the relay's messages and our timers."""
        if type(message) is OpenTunnel:
            self._offered(message.peer, message.number)
            return []
        stream = self.streams.get(message.peer)
        if stream is None or stream.number != message.number:
            if type(message) is TunnelBytes:
                self.say(TunnelClosed(message.peer, message.number, "there is no such tunnel"))
        elif type(message) is TunnelBytes:
            if len(stream.to_write) + len(message.data) > TUNNEL_BYTES_MAX:
                self._close(message.peer, stream, "more bytes than were granted")
                return []
            stream.to_write += message.data
            self._write(message.peer, stream)
        elif type(message) is TunnelCredit:
            stream.left += message.count
            self._watch(message.peer, stream)
        elif type(message) is TunnelClosed:
            self.log(f"the tunnel to host {message.peer} is closed: {message.reason[:200]}")
            self._drop(message.peer)
        else:
            self._write(message.peer, stream)
        return []

    def _offered(self, peer: str, number: int) -> None:
        self._drop(peer)
        stream = self.streams[peer] = Stream(number)
        kind, _, path = self.own_endpoint.partition("://")
        family = socket.AF_UNIX if path else socket.AF_INET
        ours = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        address, _, port = kind.rpartition(":")
        ours.connect_ex(path or (address, int(port)))  # local: connected at once or never, and a write shows which
        self._carry(peer, stream, ours)

    def _write(self, peer: str, stream: Stream) -> None:
        if stream.socket is None or not stream.to_write:
            return
        try:
            count = stream.socket.send(stream.to_write)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._close(peer, stream, f"the connection has ended ({error})")
            return
        del stream.to_write[:count]
        stream.written += count
        if stream.written >= CREDIT_BYTES:
            self.say(TunnelCredit(peer, stream.number, stream.written))
            stream.written = 0
        if stream.to_write:
            self.loop.set_timer(WRITE_AGAIN_SECONDS, self.address, WriteAgain(peer, stream.number))

    # --- the end ---

    def _close(self, peer: str, stream: Stream, reason: str) -> None:
        self.say(TunnelClosed(peer, stream.number, reason))
        if self.streams.get(peer) is stream:
            self._drop(peer)

    def _drop(self, peer: str) -> None:
        stream = self.streams.pop(peer, None)
        if stream is None:
            return
        self._stop_listening(stream)
        self._unwatch(stream)
        if stream.socket is not None:
            stream.socket.close()

    def close(self) -> None:
        """Close all tunnels: the relay is gone, or this host ends."""
        for peer in list(self.streams):
            self._drop(peer)
