"""ZeroMQ calls of the hot path, without what pyzmq adds in Python for comfort.

Flags as plain integers (or-ing two of pyzmq's enums takes longer than a send), options by number; and whether
something has arrived is asked for, because being told by an exception costs four times as much.
"""

from __future__ import annotations

from typing import Any

import zmq
import zmq.backend

NOBLOCK = int(zmq.NOBLOCK)
SEND_MORE = int(zmq.SNDMORE) | NOBLOCK
_EVENTS = int(zmq.EVENTS)
_MORE = int(zmq.RCVMORE)
_POLLIN = int(zmq.POLLIN)

send = zmq.backend.Socket.send
receive = zmq.backend.Socket.recv
_get: Any = zmq.backend.Socket.get


def has_arrived(socket: Any) -> bool:
    """Whether `receive` has something to give.  When False, the socket's descriptor tells when that changes."""
    return bool(_get(socket, _EVENTS) & _POLLIN)


def has_more_parts(socket: Any) -> bool:
    """Whether the message just received has another part."""
    return bool(_get(socket, _MORE))
