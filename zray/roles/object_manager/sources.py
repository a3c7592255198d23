"""How much may be under way from one source: its window, in bytes.

Asked for and not received, by all pulls from that node: it lies there, on the way, or here in frames.  The window
grows while chunks come soon after they were asked for, and shrinks when they do not: other mail, heartbeats too, goes
the same way.  A pull that has nothing under way may always ask for one chunk, so that none waits for another's source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .pulls import Pull

WINDOW_BYTES, WINDOW_BYTES_MAX = 4 << 20, 16 << 20
# Of all windows together, where there are many sources, and what has come and is not copied into the arena yet.
WINDOWS_BYTES_MAX = 64 << 20
# A chunk should arrive so soon after it was asked for.
PATIENCE_SECONDS = 0.25
# Several chunks are asked for with one order, and early enough for its answer to be there when the rest has come.
ORDERS_PER_WINDOW = 4


def object_manager_of(local_scheduler: str) -> str:
    """The object manager beside a local scheduler."""
    return f"{local_scheduler.rpartition('/')[0]}/objects"


class Window:
    """Of one source."""

    __slots__ = ("asked", "pulls", "size")

    def __init__(self) -> None:
        self.size = WINDOW_BYTES
        self.asked = 0
        self.pulls: dict[bytes, Pull] = {}  # in the order in which they turned to it


class Windows:
    """Of all sources that something is pulled from."""

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
        """It pulls from there from now on."""
        self.by_source.setdefault(source, Window()).pulls[pull.object_id] = pull

    def leave(self, source: str, pull: Pull) -> None:
        """And no longer; nothing that it asked for is under way."""
        window = self.by_source[source]
        del window.pulls[pull.object_id]
        if not window.pulls:
            del self.by_source[source]

    def pulls_of(self, source: str) -> list[Pull]:
        """Those that pull from there, the first ones first."""
        window = self.by_source.get(source)
        return list(window.pulls.values()) if window is not None else []

    def room(self, source: str, *, is_first: bool = False) -> int:
        """How much may be asked for now.  is_first: by one that has nothing under way, here neither."""
        window = self.by_source[source]
        most = min(window.size, WINDOWS_BYTES_MAX // len(self.by_source))
        room = min(most - window.asked, WINDOWS_BYTES_MAX - self.total - self.copying)
        if room < most // ORDERS_PER_WINDOW:
            room = 0
        return max(room, self.chunk_bytes) if is_first else max(room, 0)

    def asked(self, source: str, length: int) -> None:
        """An order."""
        self.by_source[source].asked += length
        self.total += length

    def answered(self, source: str, length: int, waited: float | None = None) -> None:
        """So much has come, after so many seconds; or will not."""
        window = self.by_source[source]
        window.asked -= length
        self.total -= length
        if waited is not None:
            if waited > PATIENCE_SECONDS:
                window.size = max(self.chunk_bytes, window.size - length)
            else:
                window.size = min(WINDOW_BYTES_MAX, window.size + length)
