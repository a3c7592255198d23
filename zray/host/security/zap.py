"""The gate: admission to the handshake of this host's TCP sockets (ZAP, https://rfc.zeromq.org/spec/27).

libzmq asks for each connection, over an inproc socket of its context.  The connection waits for the answer, and is
refused without one (ZAP_ENFORCE_DOMAIN on the sockets; the handshake's time limit).  Only CURVE keys of the ring are
admitted.  The user id of a connection is its public key in hexadecimal: each incoming frame carries the id, so that a
revoked key is refused on old connections too.
"""

from __future__ import annotations

from collections.abc import Callable

import zmq

from ..zmq_calls import has_arrived
from .keyring import KEY_BYTES, KeyRing

ENDPOINT = "inproc://zeromq.zap.01"
DOMAIN = b"zray"
REFUSALS_LOGGED_MAX = 1_000


class Gate:
    """Answers libzmq's questions.  Bound before any TCP socket of the context is."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], ring: KeyRing, log: Callable[[str], None]) -> None:
        self.ring = ring
        self.log = log
        self.refusals = 0
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(ENDPOINT)

    @property
    def descriptor(self) -> int:
        """Readable when somebody may be waiting."""
        return int(self.socket.fd)

    def answer(self) -> None:
        """Answer all pending questions."""
        while has_arrived(self.socket):
            question = self.socket.recv_multipart(zmq.NOBLOCK)
            try:
                reply = self._reply(question)
            except Exception as error:  # a failure of ours lets nobody in
                self.log(f"the gate failed: {type(error).__name__}: {error}")
                reply = self._denied(question)
            self.socket.send_multipart(reply, zmq.NOBLOCK)

    def _reply(self, question: list[bytes]) -> list[bytes]:
        if len(question) != 7:
            return self._refuse(question, "not a question of ZAP")
        version, request, domain, address, _, mechanism, key = question
        if version != b"1.0" or domain != DOMAIN or mechanism != b"CURVE" or len(key) != KEY_BYTES:
            return self._refuse(question, f"mechanism {mechanism!r} in domain {domain!r}")
        reason = self.ring.why_not(key)
        if reason:
            return self._refuse(question, reason)
        return [b"1.0", request, b"200", b"OK", key.hex().encode(), b""]

    def _refuse(self, question: list[bytes], reason: str) -> list[bytes]:
        self.refusals += 1
        if self.refusals <= REFUSALS_LOGGED_MAX:
            address = question[3].decode("ascii", "backslashreplace") if len(question) > 3 else "?"
            self.log(f"refused a connection from {address}: {reason}")
        return self._denied(question)

    @staticmethod
    def _denied(question: list[bytes]) -> list[bytes]:
        # The peer is not told why: a fault of a key is between the two who know it.
        request = question[1] if len(question) > 1 else b""
        return [b"1.0", request, b"400", b"denied", b"", b""]

    def close(self) -> None:
        """Refuse all connections from now on."""
        self.socket.close()
