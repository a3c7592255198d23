"""The window of each source: the limit of bytes that may be under way from that node.

Bytes count from the request until the answer has been received, for all pulls from a node: at the source, on the
network, or in received frames.  The window grows while chunks come soon after the request, and shrinks when they are
late, because other messages, heartbeats too, share the connection.  A pull with nothing under way may always ask for
one chunk, so no pull waits for another's source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pulls import Pull

WINDOW_BYTES, WINDOW_BYTES_MAX = 4 << 20, 16 << 20
# The limit for all windows together, with many sources, including received bytes not copied into the arena yet.
WINDOWS_BYTES_MAX = 64 << 20
# A chunk should arrive so soon after it was asked for.
PATIENCE_SECONDS = 0.25
# Several chunks are asked for with one order, and early enough for its answer to be there when the rest has come.
ORDERS_PER_WINDOW = 4


def object_manager_of(local_scheduler: str) -> str:
    """Return the object manager beside a local scheduler."""
    return f"{local_scheduler.rpartition('/')[0]}/objects"


class Window:
    """The window of a source."""

    __slots__ = ("asked", "pulls", "size")

    def __init__(self) -> None:
        self.size = WINDOW_BYTES
        self.asked = 0
        self.pulls: dict[bytes, Pull] = {}  # in the order in which they turned to it


class Windows:
    """The windows of all sources of a node's pulls."""

    PASSING = {"by_source": None} | {
        "asked beyond a chunk": (
            lambda it: (each.asked - it.chunk_bytes * len(each.pulls) for each in it.by_source.values()),
            "WINDOW_BYTES_MAX",
        )
    }

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.by_source: dict[str, Window] = {}
        self.total = 0  # asked of all of them
        self.copying = 0  # bytes that have come, in the frames that brought them

    def enter(self, source: str, pull: Pull) -> None:
        """Record that the pull uses the source."""
        self.by_source.setdefault(source, Window()).pulls[pull.object_id] = pull

    def leave(self, source: str, pull: Pull) -> None:
        """Record that the pull, with nothing under way, no longer uses the source."""
        window = self.by_source[source]
        del window.pulls[pull.object_id]
        if not window.pulls:
            del self.by_source[source]

    def pulls_of(self, source: str) -> list[Pull]:
        """Return the pulls from a source, the oldest first."""
        window = self.by_source.get(source)
        return list(window.pulls.values()) if window is not None else []

    def room(self, source: str, *, is_first: bool = False) -> int:
        """Return how many bytes may be asked for now.

        is_first: the pull has nothing under way from the source, and nothing being copied here.
        """
        window = self.by_source[source]
        most = min(window.size, WINDOWS_BYTES_MAX // len(self.by_source))
        room = min(most - window.asked, WINDOWS_BYTES_MAX - self.total - self.copying)
        if room < most // ORDERS_PER_WINDOW:
            room = 0
        return max(room, self.chunk_bytes) if is_first else max(room, 0)

    def asked(self, source: str, length: int) -> None:
        """Count an order of `length` bytes."""
        self.by_source[source].asked += length
        self.total += length

    def answered(self, source: str, length: int, waited: float | None = None) -> None:
        """Record `length` bytes as received after `waited` seconds, or as no longer expected if `waited` is None."""
        window = self.by_source[source]
        window.asked -= length
        self.total -= length
        if waited is not None:
            if waited > PATIENCE_SECONDS:
                window.size = max(self.chunk_bytes, window.size - length)
            else:
                window.size = min(WINDOW_BYTES_MAX, window.size + length)
