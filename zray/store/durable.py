"""The interface between a GCS shard and the store that keeps its records over a death, with a log as the default.

    open            recovery: torn ends are cut off, damage is refused with its place
    snapshot        the last saved state, in parts
    records         the records appended since, in order
    append          group commit: many records, one fsync; durable on return
    begin_snapshot  the state after the last record, in parts, with records allowed in between; when it is complete, the
                    records up to it may go
    write_page      large and rarely read data, beside the records; read_page, keep_pages

Records and parts are opaque bytes.  A store belongs to one process at a time.  `log.Log` is the default;
`redis_store.RedisStore` keeps records on a server; `sqlite_store.SqliteStore` shows that the interface fits a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """A record.  place: its position as a text, for the report of a malformed record."""

    sequence: int  # from 1, without gaps
    payload: bytes
    place: str


class Store(Protocol):
    """See above."""

    last: int  # the sequence of the last durable record; 0: none
    cut_bytes: int  # bytes cut off by recovery: an append torn by a death

    def snapshot(self) -> Iterator[Entry]:
        """Yield the parts of the last snapshot, if any."""
        ...

    def records(self) -> Iterator[Entry]:
        """All records after the last snapshot."""
        ...

    def append(self, records: Sequence[bytes]) -> int:
        """Make records durable.  Returns the sequence of the last.

        Raises:
            StoreFull: no record was stored; later attempts may succeed; reading goes on.
            StoreBroken: records may or may not be stored; the store takes no more, and its shard has to end.
        """
        ...

    def begin_snapshot(self) -> None:
        """Begin a snapshot of the state after all records so far, in parts.  An unfinished one is dropped.

        Raises:
            StoreFull: the snapshot is dropped; no record is lost.
            StoreBroken: as above.
        """
        ...

    def add_to_snapshot(self, part: bytes) -> None:
        """Add a part.  Raises: as begin_snapshot."""
        ...

    def end_snapshot(self) -> None:
        """Complete the snapshot, which replaces the former one.  Raises: as begin_snapshot."""
        ...

    def write_page(self, data: bytes) -> int:
        """Write a durable page, never changed.  Returns its number, from 1, unique while the store is open.

        Raises:
            StoreFull: the page was not stored.
            StoreBroken: as above.
        """
        ...

    def read_page(self, number: int) -> bytes:
        """Return a page as written.

        Raises:
            StoreDamaged: the page is missing or damaged.
        """
        ...

    def keep_pages(self, numbers: Iterable[int], newest: int) -> None:
        """Let all other pages up to `newest` go."""
        ...

    def close(self) -> None:
        """Release the store for another process."""
        ...


class StoreError(Exception):
    """Base of a store's errors; the text names the file."""


class StoreFull(StoreError):
    """No space is left: nothing of the request was stored (definite, until there is space again).

    why: in the system's words alone.  place: that of the store, if it is not the shard's folder.  until: the end of
    the wait, in words.
    """

    def __init__(
        self,
        text: str,
        why: str = "no space is left",
        place: str = "",
        until: str = "the disk has free space.  Free some, and",
    ) -> None:
        super().__init__(text)
        self.why = why
        self.place = place
        self.until = until


class StoreAway(StoreFull):
    """The server of a store is away.  The same records may be appended again, and are stored once.

    is_silent: the server keeps the connection and does not answer.
    """

    def __init__(self, text: str, why: str, place: str, *, is_silent: bool = False) -> None:
        super().__init__(text, why, place, "the server answers, and")
        self.is_silent = is_silent


class StoreUnfit(StoreError):
    """The store cannot be used as it is set up; the text says what to set."""


class StoreBroken(StoreError):
    """The disk failed, or an fsync did: the stored content is unknown (indefinite; the store is not used again)."""


class StoreLocked(StoreError):
    """Another process holds the store; the text names it, and so does owner."""

    def __init__(self, text: str, owner: str = "another process") -> None:
        super().__init__(text)
        self.owner = owner


class StoreDamaged(StoreError):
    """The content differs from the written data.  file and offset (bytes) give the place."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file} at byte {offset}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason
