"""Links between the members of a group on one node: a socket pair for each two of them, and the memory of the group.

A message is a datagram (SOCK_SEQPACKET).  The end of a process closes its sockets, so all others know at once.  A
member that fails says why before it closes: those who wait for it name the rank that began.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress

from .errors import CollectiveGroupError
from .memory import Memory
from .stopped import LOOK_SECONDS, Suspects, stopped_among, text_of

# First byte of a message.
CALL, STEP, FAILED, LEFT = b"C", b"S", b"F", b"L"
THERE, GONE, DEAD = range(3)
# A call with a small tensor carries the tensor.
INLINE_BYTES_MAX = 32 << 10
MESSAGE_BYTES_MAX = INLINE_BYTES_MAX + (16 << 10)  # a header names a shape, of at most 64 dimensions
BUFFER_BYTES = 4 * MESSAGE_BYTES_MAX


class Link:
    """Way to one other rank.  arrived: messages that are not used yet; state: THERE, GONE in order, or DEAD."""

    __slots__ = ("arrived", "pid", "process", "socket", "state")

    def __init__(self, connected: socket.socket, pid: int) -> None:
        self.socket = connected
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        # A child of the peer may have its socket too: the end of the process counts.
        self.pid = pid
        self.process = os.pidfd_open(pid)
        self.arrived: deque[bytes] = deque()
        self.state = THERE

    def close(self) -> None:
        self.socket.close()
        os.close(self.process)


class Mesh:
    """Links of one rank to all others, and what they share.

    names: a text on each rank, for errors; memory: None in a group of one.
    """

    def __init__(
        self, group: str, rank: int, names: Sequence[str], links: dict[int, Link], memory: Memory | None
    ) -> None:
        self.group = group
        self.rank = rank
        self.names = names
        self.links = links
        self.memory = memory
        self.others = sorted(links)
        self._suspects = Suspects()
        self._failure = ""  # why the group is over, from the member that was the first to know
        self._buffer = bytearray(MESSAGE_BYTES_MAX)
        self._poll = select.poll()
        self._rank_by_descriptor: dict[int, int] = {}
        for other, link in links.items():
            for descriptor in (link.socket.fileno(), link.process):
                self._poll.register(descriptor, select.POLLIN)
                self._rank_by_descriptor[descriptor] = other

    # --- messages ---

    def send(self, rank: int, *parts: bytes | memoryview) -> None:
        """Send a message to a rank.  A peer that is gone is noticed by `receive`."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.links[rank].socket.sendmsg(parts)

    def send_all(self, *parts: bytes | memoryview) -> None:
        """Send one message to all others."""
        for rank in self.others:
            self.send(rank, *parts)

    def receive(self, ranks: Sequence[int]) -> list[bytes]:
        """Return the next message of each of the ranks, as soon as all have sent one.

        Raises:
            CollectiveGroupError: any member has failed or died, or is stopped, or one of the ranks has left.
        """
        links = self.links
        while any(not links[rank].arrived for rank in ranks):
            self._require_members(rank for rank in ranks if not links[rank].arrived)
            found = self._poll.poll(LOOK_SECONDS * 1e3)
            if not found:
                self._look_for_stopped()
            for descriptor, _ in found:
                self._take(self._rank_by_descriptor[descriptor], descriptor)
        return [links[rank].arrived.popleft() for rank in ranks]

    def look(self) -> None:
        """Take in what has come, without waiting.

        Raises:
            CollectiveGroupError: a member has failed, died or left.
        """
        while found := self._poll.poll(0):
            for descriptor, _ in found:
                self._take(self._rank_by_descriptor[descriptor], descriptor)
        self._require_members(self.others)

    def _look_for_stopped(self) -> None:
        """Look for stopped processes, after each LOOK_SECONDS of a wait.

        Raises:
            CollectiveGroupError: a member's process is stopped.
        """
        by_pid = {link.pid: rank for rank, link in self.links.items() if link.state == THERE}
        for pid in self._suspects.confirmed(stopped_among(by_pid)):
            raise CollectiveGroupError(text_of(self.group, self.names[by_pid[pid]]))

    def _require_members(self, ranks: Iterable[int]) -> None:
        """Check that no member has failed or died, and that none of the ranks has left.

        Raises:
            CollectiveGroupError: one has.
        """
        if self._failure:
            raise CollectiveGroupError(self._failure)
        for rank, link in self.links.items():
            if link.state == DEAD:
                raise CollectiveGroupError(self._text(rank, "has ended: its process is gone"))
        for rank in ranks:
            if self.links[rank].state == GONE:
                raise CollectiveGroupError(self._text(rank, "has left it"))

    def _take(self, rank: int, descriptor: int) -> None:
        """Take in a message, or the end of a peer.

        Messages that came before the end count: a member may end when it has all that it wants.
        """
        link = self.links[rank]
        if link.state != THERE:
            self._poll.unregister(descriptor)
            return
        try:
            length = link.socket.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if descriptor == link.process:  # its process has ended, and all that it has sent is here
                link.state = DEAD
            return
        except ConnectionResetError:
            length = 0
        message = bytes(memoryview(self._buffer)[:length])
        if not message:
            link.state = DEAD
        elif message[:1] == LEFT:
            link.state = GONE
        elif message[:1] == FAILED:
            link.state = GONE
            self._failure = self._failure or message[1:].decode()
        else:
            link.arrived.append(message)

    def _text(self, rank: int, what: str) -> str:
        return (
            f"Group {self.group!r} is over: {self.names[rank]} {what}.  Its members can call init_collective_group "
            "again, when all of them are there."
        )

    # --- the end ---

    def fail(self, text: str) -> None:
        """Tell all others why the group is over, and close."""
        self._close(FAILED + text.encode()[: MESSAGE_BYTES_MAX - 1])

    def leave(self) -> None:
        """Leave in order: others go on with what they have got, and fail when they wait for more."""
        self._close(LEFT)

    def _close(self, message: bytes) -> None:
        for link in self.links.values():
            with suppress(OSError):  # the peer is gone, or reads nothing
                link.socket.send(message, socket.MSG_DONTWAIT)
            link.close()
        if self.memory is not None:
            self.memory.close()
