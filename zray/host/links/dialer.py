"""An attempt to reach another host: a DEALER that connects once, and reports the outcome.

The DEALER never reconnects: messages in its pipe at a break would arrive on the next connection ahead of the greeting.
The next attempt uses a new DEALER; unacknowledged frames are sent again (wire/link.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import zmq

from ...wire.link import MailFrame
from ..security.keyring import KeyPair, text
from ..security.zap import DOMAIN
from ..zmq_calls import NOBLOCK, has_arrived, monitor_event, receive, receive_bulk, send_mail
from .tcp_connections import repeat_steadily

if TYPE_CHECKING:
    from .host_link import Loop

# libzmq refuses longer frames.  Chunks of objects are shorter, and a turn's mail is cut at 8 MiB; the longest message
# can be the code of a function.
FRAME_BYTES_MAX = 64 << 20
HANDSHAKE_MS = 5_000
# An attempt that ends after this part of it was not refused: either side had no time for it.
UNANSWERED_MS = 4_000
CONNECT_MS = 5_000
# The time until libzmq would reconnect: the socket is closed long before.  With -1 (never), libzmq drops the pipe as
# soon as the connection ends, and unread messages are lost: the goodbye.
NEVER_MS = 24 * 3600 * 1000
# Connected, and no answer to the greeting.
ATTEMPT_SECONDS = 10.0
# A pulled cable gives no sign: silence for this long is a break.  The kernels exchange keep-alives, and bytes in flight
# count.  libzmq's own heartbeats would wait behind a message that takes a slow line longer than the limit.
KEEPALIVE_SECONDS = 1
SILENCE_SECONDS = 5

_ATTEMPT_IS_OVER: dict[int, str] = {
    zmq.EVENT_CLOSED: "nothing listens there",
    zmq.EVENT_CONNECT_RETRIED: "nothing listens there",
    zmq.EVENT_DISCONNECTED: "the connection broke",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the handshake failed",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the handshake failed",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the key is refused",
}
DENIED = _ATTEMPT_IS_OVER[zmq.EVENT_HANDSHAKE_FAILED_AUTH]
WRONG_KEY = "wrong cluster key, or no zray node there"
UNANSWERED = "the program that listens there does not answer"
_WATCHED = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECTED
for _event in _ATTEMPT_IS_OVER:
    _WATCHED |= _event


def set_limits(socket: zmq.Socket[bytes]) -> None:
    """Set the options common to all TCP sockets of a host."""
    socket.linger = 0
    socket.sndhwm = socket.rcvhwm = 0  # flow is controlled by the links
    socket.maxmsgsize = FRAME_BYTES_MAX
    socket.handshake_ivl = HANDSHAKE_MS
    socket.tcp_keepalive = 1
    socket.tcp_keepalive_idle = socket.tcp_keepalive_intvl = KEEPALIVE_SECONDS
    socket.tcp_keepalive_cnt = SILENCE_SECONDS
    socket.setsockopt(zmq.TCP_MAXRT, SILENCE_SECONDS * 1000)
    socket.ipv6 = False


def server(context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair) -> zmq.Socket[bytes]:
    """Return an unbound ROUTER that accepts only keys admitted by the gate of the context."""
    socket = context.socket(zmq.ROUTER)
    set_limits(socket)
    socket.router_mandatory = True
    socket.zap_domain = DOMAIN
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    socket.curve_server = True
    socket.curve_secretkey = text(keys.secret)
    return socket


def client(context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server_key: bytes) -> zmq.Socket[bytes]:
    """Return an unconnected DEALER that talks only to the holder of the given key."""
    socket = context.socket(zmq.DEALER)
    set_limits(socket)
    socket.reconnect_ivl = NEVER_MS
    socket.connect_timeout = CONNECT_MS
    socket.curve_serverkey = text(server_key)
    socket.curve_publickey = text(keys.public)
    socket.curve_secretkey = text(keys.secret)
    return socket


class Dealer:
    """An attempt to connect, and the connection after success."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        keys: KeyPair,
        endpoint: str,
        server_key: bytes,
        greeting: bytes,
    ) -> None:
        self.over = ""  # why the attempt failed or the connection ended
        self.has_connected = False
        self.began_at = time.monotonic()
        self.is_let_in = False
        self.socket = client(context, keys, server_key)
        self.monitor: Any = self.socket.get_monitor_socket(_WATCHED)
        self.monitor.linger = 0
        self.socket.connect(endpoint if "://" in endpoint else f"tcp://{endpoint}")
        self.send(greeting)

    def descriptors(self) -> tuple[int, int]:
        """Readable when `hear` or `look` may have something."""
        return int(self.socket.fd), int(self.monitor.fd)

    def watch(self, loop: Loop, hear: Callable[[], None], look: Callable[[], None]) -> None:
        """Call `hear` when messages may have arrived, and `look` when the state of the connection may have changed."""
        for descriptor, action in zip(self.descriptors(), (hear, look), strict=True):
            loop.watch(descriptor, action)

    def unwatch(self, loop: Loop) -> None:
        """No longer."""
        for descriptor in self.descriptors():
            loop.unwatch(descriptor)

    def send(self, frame: MailFrame) -> None:
        """Send a frame; to an ended connection, drop it."""
        try:
            send_mail(self.socket, frame)
        except zmq.Again:
            pass  # no pipe any more: `look` is about to tell

    def hear(self, count_max: int) -> list[tuple[bytes, Sequence[memoryview]]]:
        """Return the frames that have arrived, each with its bulk parts."""
        frames: list[tuple[bytes, Sequence[memoryview]]] = []
        while len(frames) < count_max and has_arrived(self.socket):
            frame = receive(self.socket, NOBLOCK)
            bulk = receive_bulk(self.socket)
            if bulk is not None:
                frames.append((frame, bulk))
        return frames

    def look(self) -> None:
        """Update the state of the connection from libzmq's monitor."""
        while not self.over and has_arrived(self.monitor):
            event, descriptor = monitor_event(self.monitor)
            if event == zmq.EVENT_CONNECTED:
                self.has_connected = True
                repeat_steadily(descriptor)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.is_let_in = True
            else:
                self.over = _ATTEMPT_IS_OVER.get(event, f"event {event}")
                if self.has_connected and not self.is_let_in and self.over != DENIED:
                    seconds = time.monotonic() - self.began_at
                    self.over = WRONG_KEY if seconds * 1000 < UNANSWERED_MS else UNANSWERED

    def close(self, linger_ms: int = 0) -> None:
        """No more."""
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=linger_ms)
