"""The TCP connections under libzmq's sockets, for what it offers no option.

Apart from sockets.py: programs have that too, and would import Python's `socket` for this, which takes milliseconds of
their start.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

# Linux's number of it (tcp(7)); Python has no name for it.
_TCP_THIN_LINEAR_TIMEOUTS = 16
# Where Linux's struct tcp_info (linux/tcp.h, since 4.1) has tcpi_bytes_received, and how long that is.
_BYTES_RECEIVED, _NUMBER_BYTES = 128, 8


def opened(descriptor: int) -> socket.socket:
    """A TCP connection of libzmq's, as Python has one: another descriptor of it.

    The number may be another connection's by now, or a file's: then this is one that leads nowhere.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        return socket.socket()
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return socket.socket()


def repeat_steadily(descriptor: int) -> None:
    """What this connection loses is sent again at equal distances, while there is little of it.

    TCP doubles the distance each time.  On a line whose queue is kept full by others a small packet is often lost
    twice, and the third attempt comes after more than a lease.
    """
    with opened(descriptor) as connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_THIN_LINEAR_TIMEOUTS, 1)


def bytes_received(descriptor: int) -> int:
    """How many the other side of this connection has sent; 0 where the kernel does not say."""
    end = _BYTES_RECEIVED + _NUMBER_BYTES
    with opened(descriptor) as connection:
        try:
            facts = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, end)
        except OSError:
            return 0
    return int.from_bytes(facts[_BYTES_RECEIVED:end], sys.byteorder)
