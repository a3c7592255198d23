"""CURVE spoken by hand, up to the end of the handshake: libzmq's own client never says this (docs/security.md, B10).

With the libsodium that pyzmq brings along; RFC 26 (CurveZMQ) has the names.
"""

import ctypes
import glob
import os
import socket
import struct

import zmq

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
COMMAND, LONG_COMMAND = 4, 6


def library():
    """None where pyzmq was built otherwise."""
    folder = os.path.join(os.path.dirname(os.path.dirname(zmq.__file__)), "pyzmq.libs")
    found = glob.glob(os.path.join(folder, "libsodium*"))
    return ctypes.CDLL(found[0]) if found else None


def pair(sodium):
    public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    assert sodium.crypto_box_keypair(public, secret) == 0
    return public.raw, secret.raw


def box(sodium, data, nonce, public, secret):
    assert len(nonce) == 24
    sealed = ctypes.create_string_buffer(len(data) + 16)
    assert sodium.crypto_box_easy(sealed, data, ctypes.c_ulonglong(len(data)), nonce, public, secret) == 0
    return sealed.raw


def opened(sodium, data, nonce, public, secret):
    plain = ctypes.create_string_buffer(len(data) - 16)
    assert sodium.crypto_box_open_easy(plain, data, ctypes.c_ulonglong(len(data)), nonce, public, secret) == 0
    return plain.raw


def metadata(size):
    """Of a DEALER, and as long as that."""
    proper = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER"
    if size <= len(proper):
        return proper
    name = b"\x06X-Long"
    return proper + name + struct.pack(">I", size) + bytes(size)


class Client:
    """One connection.  sodium: of `library`."""

    def __init__(self, sodium, port, server_public, keys):
        self.sodium, self.server_public, self.keys = sodium, server_public, keys
        self.wire = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.wire.setblocking(False)
        self.heard = b""
        self.short_public, self.short_secret = pair(sodium)

    def close(self):
        self.wire.close()

    def take(self, count):
        """So many bytes; None: they are not here yet.  ConnectionError: it has hung up."""
        while len(self.heard) < count:
            try:
                data = self.wire.recv(65536)
            except BlockingIOError:
                return None
            if not data:
                raise ConnectionResetError("hung up")
            self.heard += data
        taken, self.heard = self.heard[:count], self.heard[count:]
        return taken

    def has_hung_up(self):
        try:
            self.take(1)
            return False
        except ConnectionError:
            return True

    def say_hello(self):
        nonce = b"CurveZMQHELLO---" + struct.pack(">Q", 1)
        sealed = box(self.sodium, bytes(64), nonce, self.server_public, self.short_secret)
        self._command(b"\x05HELLO\x01\x00" + bytes(72) + self.short_public + nonce[16:] + sealed)

    def hear_welcome(self, frame):
        """frame: WELCOME, without its header."""
        assert frame.startswith(b"\x07WELCOME")
        plain = opened(self.sodium, frame[24:], b"WELCOME-" + frame[8:24], self.server_public, self.short_secret)
        self.server_short, self.cookie = plain[:32], plain[32:]

    def say_initiate(self, size):
        """With metadata as long as that."""
        public, secret = self.keys
        vouch_nonce = os.urandom(16)
        inner = self.short_public + self.server_public
        vouch = box(self.sodium, inner, b"VOUCH---" + vouch_nonce, self.server_short, secret)
        nonce = b"CurveZMQINITIATE" + struct.pack(">Q", 2)
        plain = public + vouch_nonce + vouch + metadata(size)
        sealed = box(self.sodium, plain, nonce, self.server_short, self.short_secret)
        self._command(b"\x08INITIATE" + self.cookie + nonce[16:] + sealed)

    def _command(self, body):
        head = bytes((COMMAND, len(body))) if len(body) < 256 else struct.pack(">BQ", LONG_COMMAND, len(body))
        self.wire.sendall(head + body)
