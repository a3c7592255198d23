"""Meeting of a group's members on one node, without a process of its own.

All members try to listen under one name, which the group has on the node (an abstract address of Unix sockets: nothing
stays behind).  One of them succeeds and is the *host*; the others connect.  The host waits for all ranks, then makes a
socket pair for each two of them and the memory of the group, and hands them out.  If the host ends before, the others
find another one among them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import select
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from .errors import CollectiveGroupError, ranks_text
from .memory import Memory
from .mesh import Link, Mesh

MESSAGE_BYTES_MAX = 64 << 10
UCRED_BYTES = struct.calcsize("3i")


class Join(msgspec.Struct, frozen=True):
    """Introduction of a member to its group."""

    rank: int
    size: int
    pid: int
    name: str  # for errors
    node: str  # the id of its node


class News(msgspec.Struct, frozen=True):
    """Answer of the host.

    present: the ranks that are there; a descriptor comes with `link` (to that rank) and with `names` (the memory).
    """

    present: tuple[int, ...] = ()
    refused: str = ""  # this member cannot join
    over: str = ""  # the host waits no longer
    link: int = -1
    names: tuple[str, ...] = ()  # of all ranks: the group is complete
    pids: tuple[int, ...] = ()


class HostGoneError(Exception):
    """The host has ended, and another one is needed."""


def meet(group: str, scope: str, me: Join, timeout: float) -> Mesh:
    """Wait until all ranks of a group are there, and return the links to them.

    Args:
        group: its name.
        scope: distinguishes groups of one name: session, node and program.
        me: this member.
        timeout: seconds to wait at most.

    Raises:
        CollectiveGroupError: ranks are missing after the timeout.
        RuntimeError: another member has this rank, or gave another size.
    """
    address = address_of(group, scope)
    deadline = time.monotonic() + timeout
    while True:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(address)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise
            with suppress(HostGoneError):
                return _join(group, address, me, deadline)
        else:
            with listener:
                listener.listen(me.size)
                return Host(group, listener, me, deadline).wait()


def address_of(group: str, scope: str) -> str:
    """Return the abstract address at which the members of a group meet."""
    return f"\0zray-collective-{hashlib.blake2b(f'{scope}/{group}'.encode(), digest_size=20).hexdigest()}"


def missing_text(group: str, size: int, present: Sequence[int]) -> str:
    """The text on ranks that did not come in time."""
    missing = [rank for rank in range(size) if rank not in present]
    return (
        f"Group {group!r} was not complete in time: {ranks_text(missing)} of {size} did not call "
        "init_collective_group, or made no collective call.  gloo_timeout says how long members wait, in milliseconds."
    )


def why_not(group: str, join: Join, joined: Iterable[Join]) -> str:
    """Return why a member cannot join those that are there; "" if it can."""
    for other in joined:
        if other.size != join.size:
            return (
                f"The members of group {group!r} differ in world_size: rank {join.rank} says {join.size}, and "
                f"{other.name} says {other.size}."
            )
        if other.rank == join.rank:
            return f"Rank {join.rank} of group {group!r} is there twice: {other.name}, and {join.name}."
    return ""


# --- the host ---


class Host:
    """The member that all others connect to."""

    def __init__(self, group: str, listener: socket.socket, me: Join, deadline: float) -> None:
        self.group = group
        self.listener = listener
        self.me = me
        self.deadline = deadline
        self.connections: dict[int, socket.socket] = {}  # by descriptor
        self.joined: dict[int, Join] = {}  # by descriptor
        self.own: Mine = Mine(me)

    def wait(self) -> Mesh:
        """Wait for all ranks, and hand out the links.

        Raises: as `meet`.
        """
        try:
            while len(self.joined) + 1 < self.me.size:
                self._wait_once()
            self.listener.close()  # from here a group of this name is another one
            return self._hand_out()
        finally:
            for connection in self.connections.values():
                connection.close()

    def _wait_once(self) -> None:
        waiting = [self.listener.fileno(), *self.connections]
        ready, _, _ = select.select(waiting, [], [], max(self.deadline - time.monotonic(), 0))
        if not ready:
            text = missing_text(self.group, self.me.size, self._present())
            self._tell_all(News(over=text))
            raise CollectiveGroupError(text)
        for descriptor in ready:  # ends first: a member that comes again has its rank back
            if descriptor in self.connections:
                self._hear(descriptor)
        if self.listener.fileno() in ready:
            connection, _ = self.listener.accept()
            if user_of(connection) == os.getuid():
                self.connections[connection.fileno()] = connection
            else:
                connection.close()

    def _present(self) -> tuple[int, ...]:
        return tuple(sorted([self.me.rank, *(join.rank for join in self.joined.values())]))

    def _hear(self, descriptor: int) -> None:
        connection = self.connections[descriptor]
        try:
            data = connection.recv(MESSAGE_BYTES_MAX)
        except ConnectionResetError:
            data = b""
        if not data:
            del self.connections[descriptor]
            self.joined.pop(descriptor, None)
            connection.close()
            return
        join = msgspec.msgpack.decode(data, type=Join)
        why = why_not(self.group, join, (self.me, *self.joined.values()))
        if why:
            _tell(connection, News(refused=why))
            return
        self.joined[descriptor] = join
        self._tell_all(News(present=self._present()))

    def _tell_all(self, news: News) -> None:
        for descriptor in self.joined:
            _tell(self.connections[descriptor], news)

    def _hand_out(self) -> Mesh:
        """Give each two ranks a socket pair, and all of them the memory."""
        ways = {join.rank: self.connections[descriptor] for descriptor, join in self.joined.items()}
        by_rank = {join.rank: join for join in (self.me, *self.joined.values())}
        ranks = sorted(by_rank)
        for first in ranks:
            for second in ranks[first + 1 :]:
                for rank, peer, end in zip(
                    (first, second), (second, first), socket.socketpair(type=socket.SOCK_SEQPACKET), strict=True
                ):
                    if rank == self.me.rank:
                        self.own.sockets[peer] = end
                    else:
                        _tell(ways[rank], News(link=peer), end.fileno())
                        end.close()
        memory = Memory.create("collective", self.me.size)
        last = News(names=tuple(by_rank[rank].name for rank in ranks), pids=tuple(by_rank[rank].pid for rank in ranks))
        for way in ways.values():
            _tell(way, last, memory)
        return self.own.mesh(self.group, last, memory)


# --- the others ---


class Mine:
    """What a member has of its group so far."""

    def __init__(self, me: Join) -> None:
        self.me = me
        self.sockets: dict[int, socket.socket] = {}  # by rank

    def close(self) -> None:
        for connected in self.sockets.values():
            connected.close()

    def mesh(self, group: str, last: News, memory: int) -> Mesh:
        """Return the complete group.

        Raises:
            CollectiveGroupError: a member has died meanwhile.
        """
        links = {}
        for rank, connected in self.sockets.items():
            try:
                links[rank] = Link(connected, last.pids[rank])
            except ProcessLookupError:
                os.close(memory)
                self.close()
                raise CollectiveGroupError(f"{last.names[rank]} of group {group!r} has ended.") from None
        return Mesh(group, self.me.rank, last.names, links, Memory(memory, self.me.size))


def _join(group: str, address: str, me: Join, deadline: float) -> Mesh:
    """Connect to the host, and wait for the links.

    Raises:
        HostGoneError: the host has ended.
        as `meet`.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(address)
            connection.send(msgspec.msgpack.encode(me))
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            os.sched_yield()
            raise HostGoneError from None
        if user_of(connection) != os.getuid():
            raise RuntimeError(f"Another user listens under the name of group {group!r} on this node.")
        mine = Mine(me)
        present: Sequence[int] = (me.rank,)
        while True:
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES_MAX, 1, socket.MSG_CMSG_CLOEXEC)
            except TimeoutError:
                raise CollectiveGroupError(missing_text(group, me.size, present)) from None
            except ConnectionResetError:
                data, descriptors = b"", []
            if not data:
                mine.close()
                raise HostGoneError
            news = msgspec.msgpack.decode(data, type=News)
            if news.refused:
                raise RuntimeError(news.refused)
            if news.over:
                raise CollectiveGroupError(news.over)
            if news.names:
                return mine.mesh(group, news, descriptors[0])
            if news.link >= 0:
                mine.sockets[news.link] = socket.socket(fileno=descriptors[0])
            else:
                present = news.present


def user_of(connection: socket.socket) -> int:
    """Return the user of the peer, as the kernel knows it."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED_BYTES)
    return int(struct.unpack("3i", found)[1])


def _tell(connection: socket.socket, news: News, *descriptors: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: the next look shows that
        socket.send_fds(connection, [msgspec.msgpack.encode(news)], list(descriptors))
