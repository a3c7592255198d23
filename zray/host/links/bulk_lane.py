"""Bulk data for another host: it waits here, and not inside the connection, so that later messages overtake it.

A connection carries its frames in order, and a node that pulls an object asks for up to 16 MiB ahead
(object_manager/sources.py).  Inside the connection, such a window would hold back each later message for as long as the
line takes for the window: 134 ms at 1 Gbit/s.  Among these messages are the node's own requests for chunks, so that two
nodes would exchange large values in turns.

A connection therefore gets a piece of bulk data whenever it has taken the piece before it.  libzmq releases the memory
of a piece when it begins to send the piece.  The kernel takes little more than it can send soon
(tcp_connections.UNSENT_BYTES_MAX).  The slower a line is, the shorter are the pieces.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ...roles.object_manager.pulls import CHUNK_BYTES
from ...wire.codec import Letter
from ...wire.link import Parts
from ...wire.message import Bulk, Local
from ...wire.objects import ObjectChunk

if TYPE_CHECKING:
    from .host_links import Neighbours

# A connection gets no further piece while it has so many bytes that it has not begun to send.
WAITING_BYTES_MAX = 256 << 10
# A piece of several chunks is cut where the line takes longer for it.  Pieces cost time of the CPU: on a fast line, so
# many would be slower.
PIECE_SECONDS = 0.003
# The pace of a line is the average of so long at least: the first bytes after a pause only fill buffers.
PACE_SECONDS = 0.01


class Released(Local):
    """A connection has begun to send a piece of bulk data: it has room for another."""

    host: str

    def due(self, links: Neighbours) -> None:
        """Send the next piece."""
        neighbour = links.by_host.get(self.host)
        if neighbour is not None:
            links.flush(neighbour)


class BulkLane:
    """Bulk data of one link.  waiting: a message each; wake: called from another thread when there is room again."""

    def __init__(self) -> None:
        self.waiting: deque[Letter] = deque()
        self.wake: Callable[[], None] = lambda: None
        # Memory that the connection has not begun to send: by the number of a weak reference, that and the bytes.
        self._given: dict[int, tuple[Any, int]] = {}
        self._given_bytes = 0
        self._pace = 0.0  # bytes/s
        self._begun_bytes, self._since = 0, 0.0  # what the connection has begun to send since then
        self._released: deque[int] = deque()  # numbers out of these, from other threads

    def without_bulk(self, letters: list[Letter]) -> list[Letter]:
        """Return letters without their bulk data, which waits here from now on."""
        others = []
        for letter in letters:
            kept = [message for message in letter.messages if type(message) is not ObjectChunk]
            if len(kept) < len(letter.messages):
                if not self.waiting:  # the line may have been idle
                    self._begun_bytes, self._since = 0, time.monotonic()
                for message in letter.messages:
                    if type(message) is ObjectChunk:
                        self.waiting.append(Letter(letter.source, letter.target, [message]))
                letter = Letter(letter.source, letter.target, kept)
            if kept:
                others.append(letter)
        return others

    def following(self) -> list[Letter]:
        """Return the next message that the connection has room for, and remove it; none: an empty list."""
        begun = 0
        while self._released:
            begun += self._given.pop(self._released.popleft(), (None, 0))[1]
        if begun:
            self._given_bytes -= begun
            self._begun_bytes += begun
            now = time.monotonic()
            if now - self._since >= PACE_SECONDS:
                self._pace = self._begun_bytes / (now - self._since)
                self._begun_bytes, self._since = 0, now
        return [self._first_piece()] if self.waiting and self._given_bytes < WAITING_BYTES_MAX else []

    def _first_piece(self) -> Letter:
        """Return the first message, or as many chunks of it as the line takes in PIECE_SECONDS, and remove them."""
        letter = self.waiting[0]
        chunk: Any = letter.messages[0]
        length = max(1, int(self._pace * PIECE_SECONDS) // CHUNK_BYTES) * CHUNK_BYTES
        if len(chunk.data) <= length:
            return self.waiting.popleft()
        data = memoryview(chunk.data.data)
        first, rest = structs.replace(chunk, data=Bulk(data[:length])), structs.replace(chunk, data=Bulk(data[length:]))
        rest.offset, rest.contained = chunk.offset + length, ()
        self.waiting[0] = Letter(letter.source, letter.target, [rest])
        return Letter(letter.source, letter.target, [first])

    def watched(self, frame: Parts) -> Parts:
        """Return the frame with memory whose release by the connection is noticed."""
        views = [memoryview(part.data) for part in frame.bulk]
        for view in views:
            reference = weakref.ref(view, self._begun)
            self._given[id(reference)] = (reference, len(view))
            self._given_bytes += len(view)
        return Parts(frame.head, [Bulk(view) for view in views])

    def _begun(self, reference: Any) -> None:
        # Another thread may look at `waiting` before this release, but then it looks at `_released` after that.
        self._released.append(id(reference))
        if self.waiting:
            self.wake()

    def reset(self) -> None:
        """Forget a connection that has ended, with all that it had."""
        self.wake = lambda: None
        self._given.clear()
        self._released.clear()
        self._given_bytes = 0
