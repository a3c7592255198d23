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

# More parts than this in one message are no mail: a frame is cut where its bulk grows beyond a chunk (wire/link.py).
PARTS_MAX = 1_000


def has_arrived(socket: Any) -> bool:
    """Whether `receive` has something to give.  When False, the socket's descriptor tells when that changes."""
    return bool(_get(socket, _EVENTS) & _POLLIN)


def receive_if_any(socket: Any) -> bytes | None:
    """Where the socket's descriptor has told of something: its first part.  None: it told of something else.

    Cheaper than to ask first, where it is nearly always there.
    """
    try:
        return receive(socket, NOBLOCK)  # type: ignore[no-any-return]
    except zmq.Again:
        return None


def has_more_parts(socket: Any) -> bool:
    """Whether the message just received has another part."""
    return bool(_get(socket, _MORE))


def monitor_event(monitor: Any) -> tuple[int, int]:
    """What has happened to a socket, from its monitor: the event, and its value.

    As zmq.utils.monitor has it, which imports asyncio: a third of what a node of a cluster needs to start.
    """
    number, value = struct.unpack("=Hi", monitor.recv_multipart(NOBLOCK)[0])
    return number, value


def send_mail(socket: Any, frame: MailFrame) -> None:
    """A frame between hosts.  Bulk is not copied: its memory is read when its turn comes."""
    if isinstance(frame, bytes):
        send(socket, frame, NOBLOCK)
        return
    send(socket, frame.head, SEND_MORE)
    for part in frame.bulk[:-1]:
        send(socket, part.data, SEND_MORE, copy=False)
    send(socket, frame.bulk[-1].data, NOBLOCK, copy=False)


def receive_bulk(socket: Any) -> list[memoryview] | None:
    """What goes behind the part just received.  None: so much that it is no mail."""
    parts: list[memoryview] = []
    while has_more_parts(socket):
        part = receive(socket, NOBLOCK, copy=False).buffer
        if len(parts) <= PARTS_MAX:
            parts.append(part)
    return parts if len(parts) <= PARTS_MAX else None
