"""What a GCS shard asks of whatever keeps its records over a death: a small interface with a log as its default.

    open            recovery: what a death has torn off is cut, what is damaged is refused with its place
    snapshot        the state that was saved last, in parts
    records         what has been appended since, in order
    append          group commit: many records, one fsync; when it returns they are there for good
    begin_snapshot  the state after the last record, in parts, between which records may come; when it is whole, the
                    records up to it may go
    write_page      something large and seldom looked at, beside the records; read_page, keep_pages

Records and parts are opaque bytes here.  A store belongs to one process at a time.  `log.Log` is the default;
`sqlite_store.SqliteStore` shows that the interface can be put in front of a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One record.  place: where it lies, in words, for whoever finds that it makes no sense."""

    sequence: int  # from 1, without gaps
    payload: bytes
    place: str


class Store(Protocol):
    """See above."""

    last: int  # the sequence of the last record that is there for good; 0: none
    cut_bytes: int  # what recovery has cut off: an append that a death had torn

    def snapshot(self) -> Iterator[Entry]:
        """The parts of the last snapshot; none: there is none."""
        ...

    def records(self) -> Iterator[Entry]:
        """All records after the last snapshot."""
        ...

    def append(self, records: Sequence[bytes]) -> int:
        """Have them all for good.  Returns the sequence of the last.

        Raises:
            StoreFull: none of them is there; later attempts may succeed; reading goes on.
            StoreBroken: they may or may not be there; the store takes no more, and its shard has to end.
        """
        ...

    def begin_snapshot(self) -> None:
        """What follows are parts of the state that all records so far lead to.  One that was begun before is dropped.

        Raises:
            StoreFull: it is dropped; the records are all there.
            StoreBroken: as above.
        """
        ...

    def add_to_snapshot(self, part: bytes) -> None:
        """Raises: as begin_snapshot."""
        ...

    def end_snapshot(self) -> None:
        """It is whole, and takes the place of the one before.  Raises: as begin_snapshot."""
        ...

    def write_page(self, data: bytes) -> int:
        """Have it for good; it is never changed.  Returns its number, from 1: no other page's while the store is open.

        Raises:
            StoreFull: it is not there.
            StoreBroken: as above.
        """
        ...

    def read_page(self, number: int) -> bytes:
        """As it was written.

        Raises:
            StoreDamaged: it is not there, or is something else.
        """
        ...

    def keep_pages(self, numbers: Iterable[int], newest: int) -> None:
        """All other pages up to this one may go."""
        ...

    def close(self) -> None:
        """Another process may have it."""
        ...


class StoreError(Exception):
    """Base of what a store raises; the text names the file."""


class StoreFull(StoreError):
    """No space is left: nothing of what was asked for is there (definite, until there is space again).

    why: in the system's words alone.
    """

    def __init__(self, text: str, why: str = "no space is left") -> None:
        super().__init__(text)
        self.why = why


class StoreBroken(StoreError):
    """The disk failed, or an fsync did: nobody knows what is there (indefinite; the store is not used again)."""


class StoreLocked(StoreError):
    """Another process has it; the text says which, and owner alone, in words."""

    def __init__(self, text: str, owner: str = "another process") -> None:
        super().__init__(text)
        self.owner = owner


class StoreDamaged(StoreError):
    """What lies there is not what was written.  file and offset (bytes) say where."""

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file} at byte {offset}: {reason}")
        self.file = file
        self.offset = offset
        self.reason = reason
