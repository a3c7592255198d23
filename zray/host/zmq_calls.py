"""ZeroMQ calls of the hot path, without what pyzmq adds in Python for comfort.

Flags as plain integers (or-ing two of pyzmq's enums takes longer than a send), options by number; and whether
something has arrived is asked for, because being told by an exception costs four times as much.
"""

from __future__ import annotations

import struct
from typing import Any

import zmq
import zmq.backend

from ..wire.link import MailFrame

NOBLOCK = int(zmq.NOBLOCK)
SEND_MORE = int(zmq.SNDMORE) | NOBLOCK
_EVENTS = int(zmq.EVENTS)
_MORE = int(zmq.RCVMORE)
_POLLIN = int(zmq.POLLIN)

send = zmq.backend.Socket.send
receive = zmq.backend.Socket.recv
_get: Any = zmq.backend.Socket.get

# A message with more parts is no mail: a frame is cut where its bulk grows beyond a chunk (wire/link.py).
PARTS_MAX = 1_000


def has_arrived(socket: Any) -> bool:
    """Return whether `receive` has something to return.  If not, the socket's descriptor signals the next arrival."""
    return bool(_get(socket, _EVENTS) & _POLLIN)


def receive_if_any(socket: Any) -> bytes | None:
    """Return the first part of a message after an event of the socket's descriptor.  None: the event was another.

    Cheaper than a check first, if there is nearly always a message.
    """
    try:
        return receive(socket, NOBLOCK)  # type: ignore[no-any-return]
    except zmq.Again:
        return None


def has_more_parts(socket: Any) -> bool:
    """Whether the message just received has another part."""
    return bool(_get(socket, _MORE))


def monitor_event(monitor: Any) -> tuple[int, int]:
    """Return an event of a socket's monitor, and its value.

    zmq.utils.monitor does the same, but imports asyncio: a third of the start time of a cluster's node.
    """
    number, value = struct.unpack("=Hi", monitor.recv_multipart(NOBLOCK)[0])
    return number, value


def send_mail(socket: Any, frame: MailFrame) -> None:
    """Send a frame between hosts.  Bulk is not copied: libzmq reads its memory later."""
    if isinstance(frame, bytes):
        send(socket, frame, NOBLOCK)
        return
    send(socket, frame.head, SEND_MORE)
    for part in frame.bulk[:-1]:
        send(socket, part.data, SEND_MORE, copy=False)
    send(socket, frame.bulk[-1].data, NOBLOCK, copy=False)


def receive_bulk(socket: Any) -> list[memoryview] | None:
    """Return the parts behind the one just received.  None: too many for mail."""
    parts: list[memoryview] = []
    while has_more_parts(socket):
        part = receive(socket, NOBLOCK, copy=False).buffer
        if len(parts) <= PARTS_MAX:
            parts.append(part)
    return parts if len(parts) <= PARTS_MAX else None
