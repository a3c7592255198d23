"""Objects that come from other nodes, chunk by chunk (Ray paper 4.2.3).

The puller asks for each chunk; so what is in flight per object is one chunk, and a holder that is gone is
replaced by the next one.  Small values travel whole and inline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...wire.gcs import NodeLost
from ...wire.objects import (
    AllocateRefused,
    FetchFailed,
    FetchObject,
    InlineRead,
    ObjectAllocated,
    ObjectChunk,
    ObjectFetched,
    PullObject,
    PullRefused,
    ReadInline,
)
from ...wire.task_spec import StoredValue
from ..effects import RangeRead, RangeWritten, ReadRange, WriteRange

if TYPE_CHECKING:
    from .manager import ObjectManager

CHUNK_BYTES = 4 << 20


def object_manager_of(local_scheduler: str) -> str:
    """The object manager beside a local scheduler."""
    return f"{local_scheduler.rpartition('/')[0]}/objects"


class Pull:
    """One object on its way here."""

    __slots__ = ("contained", "first", "holders", "object_id", "offset", "place", "size")

    def __init__(self, object_id: bytes, size: int, holders: list[str]) -> None:
        self.object_id = object_id
        self.size = size
        self.holders = holders  # the first one is asked
        self.place: StoredValue | None = None
        self.offset = 0  # bytes that are here
        self.first: ObjectChunk | None = None  # waits for its place
        self.contained: tuple[bytes, ...] = ()


class Pulls:
    """What this node fetches, and what it gives."""

    def __init__(self, manager: ObjectManager) -> None:
        self.manager = manager
        self.coming: dict[bytes, Pull] = {}
        self.writing: dict[int, Pull] = {}  # by token
        self.reading: dict[int, tuple[str, bytes, int, int, tuple[bytes, ...]]] = {}  # by token
        self.lost: set[str] = set()  # local schedulers of lost nodes: membership only
        self.asked: dict[tuple[bytes, str], int] = {}  # pulls here that wait for the local scheduler: offset

    # --- coming ---

    def fetch(self, message: FetchObject) -> None:
        """FetchObject; a second order for the same object is the first one."""
        if message.object_id in self.coming or message.object_id in self.manager.objects:
            return
        holders = [holder for holder in message.holders if holder not in self.lost]
        pull = Pull(message.object_id, message.size, holders)
        self.coming[message.object_id] = pull
        self._ask(pull)

    def _ask(self, pull: Pull) -> None:
        if not pull.holders:
            self._fail(pull, "no node has it")
            return
        self.manager.send(object_manager_of(pull.holders[0]), PullObject(pull.object_id, pull.offset))

    def _fail(self, pull: Pull, reason: str) -> None:
        del self.coming[pull.object_id]
        self.manager.free(pull.object_id)
        self.manager.send(self.manager.local_scheduler, FetchFailed(pull.object_id, reason))

    def chunk(self, message: ObjectChunk) -> None:
        """ObjectChunk."""
        pull = self.coming.get(message.object_id)
        if pull is None or message.offset != pull.offset:
            return
        pull.contained = pull.contained or message.contained
        if message.is_inline:
            del self.coming[pull.object_id]
            fetched = ObjectFetched(pull.object_id, message.data, pull.contained)
            self.manager.send(self.manager.local_scheduler, fetched)
        elif len(message.data) == 0 or message.offset + len(message.data) > message.size:
            self._fail(pull, "a chunk beyond the object's end")
        elif pull.place is None:
            pull.size = message.size
            pull.first = message
            self.manager.ask(self.manager.address, pull.object_id, pull.size)
        else:
            self._write(pull, message)

    def allocation_answered(self, message: Any) -> None:
        """ObjectAllocated (all reserved or not), PagesReserved, AllocateRefused: for an object that comes."""
        pull = self.coming.get(message.object_id)
        if pull is None:
            self.manager.free(message.object_id)
            return
        if type(message) is AllocateRefused:
            self._fail(pull, message.reason)
            return
        if type(message) is ObjectAllocated:
            pull.place = message.place
        if message.reserved >= pull.size and pull.first is not None:
            first, pull.first = pull.first, None
            self._write(pull, first)

    def _write(self, pull: Pull, message: ObjectChunk) -> None:
        manager = self.manager
        assert pull.place is not None
        manager.token_of_copies += 1
        token = manager.token_of_copies
        self.writing[token] = pull
        pull.offset += len(message.data)
        place = pull.place
        manager.perform(WriteRange(place.segment, place.offset + message.offset, message.data, token))

    def written(self, message: RangeWritten) -> None:
        """RangeWritten: ask for the next, or done."""
        pull = self.writing.pop(message.token, None)
        if pull is None or self.coming.get(pull.object_id) is not pull:
            return
        if pull.offset < pull.size:
            self._ask(pull)
            return
        del self.coming[pull.object_id]
        assert pull.place is not None
        fetched = ObjectFetched(pull.object_id, pull.place, pull.contained)
        self.manager.send(self.manager.local_scheduler, fetched)

    def refused(self, message: PullRefused) -> None:
        """PullRefused: the next holder, from where we are."""
        pull = self.coming.get(message.object_id)
        if pull is not None and pull.holders and object_manager_of(pull.holders[0]) == self.manager.sender:
            pull.holders.pop(0)
            self._ask(pull)

    def node_lost(self, message: NodeLost) -> None:
        """NodeLost, by the local scheduler: what came from there goes on with the next holder."""
        self.lost.add(message.node)
        for pull in list(self.coming.values()):
            if message.node not in pull.holders:
                continue
            was_asked = pull.holders[0] == message.node
            pull.holders.remove(message.node)
            if was_asked and pull.first is None and pull not in self.writing.values():
                self._ask(pull)

    # --- giving ---

    def give(self, message: PullObject) -> None:
        """PullObject: the local scheduler knows what it is."""
        puller = self.manager.sender
        self.asked[(message.object_id, puller)] = message.offset
        self.manager.send(self.manager.local_scheduler, ReadInline(message.object_id, puller))

    def inline_read(self, message: InlineRead) -> None:
        """InlineRead."""
        manager = self.manager
        offset = self.asked.pop((message.object_id, message.puller), None)
        if offset is None:
            return
        if message.value is not None:
            value = message.value
            chunk = ObjectChunk(message.object_id, len(value), 0, value, True, message.contained)
            manager.send(message.puller, chunk)
            return
        stored = manager.objects.get(message.object_id)
        if stored is None or stored.process or not 0 <= offset < stored.place.size:
            manager.send(message.puller, PullRefused(message.object_id))
            return
        manager.token_of_copies += 1
        place = stored.place
        size = min(manager.chunk_bytes, place.size - offset)
        self.reading[manager.token_of_copies] = (
            message.puller,
            message.object_id,
            place.size,
            offset,
            message.contained,
        )
        manager.perform(ReadRange(place.segment, place.offset + offset, size, manager.token_of_copies))

    def read(self, message: RangeRead) -> None:
        """RangeRead."""
        request = self.reading.pop(message.token, None)
        if request is not None:
            puller, object_id, size, offset, contained = request
            self.manager.send(puller, ObjectChunk(object_id, size, offset, message.data, False, contained))


PULL_HANDLERS: dict[type, Callable[..., None]] = {
    FetchObject: lambda self, message: self.pulls.fetch(message),
    ObjectChunk: lambda self, message: self.pulls.chunk(message),
    PullRefused: lambda self, message: self.pulls.refused(message),
    NodeLost: lambda self, message: self.pulls.node_lost(message),
    PullObject: lambda self, message: self.pulls.give(message),
    InlineRead: lambda self, message: self.pulls.inline_read(message),
    RangeRead: lambda self, message: self.pulls.read(message),
    RangeWritten: lambda self, message: self.pulls.written(message),
}
