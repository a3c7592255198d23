"""The TCP connections under libzmq's sockets, for what it offers no option.

Apart from sockets.py: programs have that too, and would import Python's `socket` for this, which takes milliseconds of
their start.
"""

from __future__ import annotations

import contextlib
import os
import socket

# Linux's number of it (tcp(7)); Python has no name for it.
_TCP_THIN_LINEAR_TIMEOUTS = 16


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
