"""The node's ends of its links to drivers and workers: a ROUTER, and a Link per process.

A process is known by the ZeroMQ identity of its connection after its Hello.  Earlier frames, and malformed frames, are
counted and dropped, at the expense of the sender alone.

libzmq closes connections of other user ids (SO_PEERCRED, at accept).  The folder of the socket keeps other users out,
and this check holds even if the folder was opened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import zmq
from msgspec import Struct, field

from ...exceptions import ProtocolError
from ...wire import events, hosts, listing, reasons, session, tasks
from ...wire.link import Link
from ...wire.message import Message
from ..zmq_calls import NOBLOCK, SEND_MORE, has_arrived, has_more_parts, receive, receive_if_any, send

# Larger frames from a process are refused by ZeroMQ itself: chunks and inline values stay far below.
FRAME_BYTES_MAX = 512 << 20
# Limits per turn, frames and bytes: more would delay the first messages, and the next sender.  (So many bytes are
# some 3,000 small tasks, 10 ms.)
TURN_FRAMES_MAX = 256
TURN_BYTES_MAX = 128 << 10
# A smaller frame comes from a waiting process; a larger one does not come alone.
LIGHT_BYTES = 1024
# Limit of unread answers per process, some 300 bytes each: a driver may compute for long while its waits end.  Values
# do not count: they are as many as its refs.
UNREAD_MAX = 100_000
UNREAD_LOOK = 1_000
WEIGHTS: dict[type[Message], int] = {
    tasks.ObjectsReady: 0,
    session.StatusReply: 20,
    hosts.NodesReply: 20,
    reasons.ExplainReply: 20,
    listing.WorkListed: 1_000,
    events.EventsListed: 10_000,
}


class Peer(Struct, eq=False):
    """One process at the other end."""

    address: str
    identity: bytes
    roles: Mapping[type, Any] = {}  # message type -> the role that it is for; what is not in it is not its to say
    link: Link = field(default_factory=Link)
    backlog: list[Message] = []  # what the link is too full for
    looked_into_at: int = UNREAD_LOOK  # when that is longer


class Peers:
    """All links of a node."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, log: Callable[[str], None]) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.sndhwm = self.socket.rcvhwm = 0  # flow is controlled by the links
        self.socket.router_mandatory = True
        self.socket.maxmsgsize = FRAME_BYTES_MAX
        self.socket.setsockopt(zmq.IPC_FILTER_UID, os.geteuid())
        self.socket.bind(address)
        self.log = log
        self.by_identity: dict[bytes, Peer] = {}
        self.by_address: dict[str, Peer] = {}
        self.bad_frames = 0
        self.holders: set[str] = set()  # roles that hold processes back
        self.on_stuck: Callable[[Peer], None] = lambda peer: None  # too many unread messages

    def receive(self) -> list[tuple[bytes, bytes]]:
        """Return the frames that have arrived, with their senders' identities."""
        frames: list[tuple[bytes, bytes]] = []
        socket = self.socket
        left = TURN_BYTES_MAX
        while left > 0 and len(frames) < TURN_FRAMES_MAX and has_arrived(socket):
            identity = receive(socket, NOBLOCK)
            left -= self._receive_rest(identity, frames)
        return frames

    def receive_first(self) -> list[tuple[bytes, bytes]]:
        """Receive after the socket's descriptor has ended a sleep: one frame, if small.

        The frame is taken without a check for arrival or for more: in a round trip, these two checks are a twentieth.
        """
        frames: list[tuple[bytes, bytes]] = []
        identity = receive_if_any(self.socket)
        if identity is not None and self._receive_rest(identity, frames) >= LIGHT_BYTES:
            frames += self.receive()
        return frames

    def _receive_rest(self, identity: bytes, frames: list[tuple[bytes, bytes]]) -> int:
        """Receive the rest of a message, and append it to `frames` if well-formed.  Returns its bytes."""
        socket = self.socket
        frame = receive(socket, NOBLOCK)
        if not has_more_parts(socket):
            frames.append((identity, frame))
            return len(frame)
        size = len(frame)
        while has_more_parts(socket):
            size += len(receive(socket, NOBLOCK))
        self.bad_frame(identity, "more than one part in a message")
        return size

    def bad_frame(self, identity: bytes, reason: str) -> None:
        """Count a malformed frame; log the first ones with the sender."""
        self.bad_frames += 1
        if self.bad_frames <= 100:
            peer = self.by_identity.get(identity)
            self.log(f"bad frame from {peer.address if peer else identity.hex()}: {reason}")

    def add(self, peer: Peer) -> None:
        """Add a process after its Hello."""
        self.by_identity[peer.identity] = peer
        self.by_address[peer.address] = peer
        peer.link.hold(bool(self.holders))

    def remove(self, address: str) -> None:
        """Forget an ended process."""
        peer = self.by_address.pop(address, None)
        if peer is not None:
            del self.by_identity[peer.identity]

    def send(self, address: str, messages: list[Message]) -> None:
        """Send a frame; drop it for a process that is gone, whose end is reported otherwise."""
        peer = self.by_address.get(address)
        if peer is None:
            return
        if peer.backlog or peer.link.is_full:
            peer.backlog += messages
            if len(peer.backlog) > peer.looked_into_at:
                self._look_into(peer)
            return
        self._send(peer, messages)

    def _look_into(self, peer: Peer) -> None:
        """Cut a peer that asks without reading (docs/security.md, B21)."""
        if sum(WEIGHTS.get(type(message), 1) for message in peer.backlog) > UNREAD_MAX:
            peer.backlog.clear()
            self.on_stuck(peer)
        else:
            peer.looked_into_at = 2 * len(peer.backlog)

    def _send(self, peer: Peer, messages: Iterable[Message]) -> None:
        try:
            send(self.socket, peer.identity, SEND_MORE)
            send(self.socket, peer.link.pack(list(messages)), NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise

    def unpack(self, peer: Peer, frame: bytes) -> Iterable[Message]:
        """The messages of a frame.  Acknowledgements may let a backlog go.

        Raises:
            ProtocolError: the frame is malformed (counted and logged).
        """
        try:
            messages = peer.link.unpack(frame)
        except ProtocolError as error:
            self.bad_frame(peer.identity, str(error))
            raise
        if peer.backlog and not peer.link.is_full:
            backlog, peer.backlog = peer.backlog, []
            self._send(peer, backlog)
        return messages

    def acknowledge(self, peers: Iterable[Peer]) -> None:
        """Acknowledge to processes that have sent much and received nothing."""
        for peer in peers:
            if peer.link.owes_acknowledgement:
                self._send(peer, [session.Ack()])

    def hold(self, role: str, is_held: bool) -> None:
        """Hold processes back for a role, or release them; processes resume when no role holds them."""
        if is_held:
            self.holders.add(role)
        else:
            self.holders.discard(role)
        for peer in self.by_address.values():
            if peer.link.hold(bool(self.holders)):
                self._send(peer, [session.Ack()])

    def refuse(self, identity: bytes, message: Message) -> None:
        """Send an answer to a process that does not become a peer."""
        self._send(Peer("", identity), [message])

    def close(self) -> None:
        """No more."""
        self.socket.close()
