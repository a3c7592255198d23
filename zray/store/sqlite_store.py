"""A `durable.Store` in an SQLite file: the proof that the interface can be put in front of a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from .durable import Entry, StoreBroken, StoreDamaged, StoreFull, StoreLocked

_TABLES = (
    "CREATE TABLE IF NOT EXISTS records (sequence INTEGER PRIMARY KEY, payload BLOB)",
    "CREATE TABLE IF NOT EXISTS snapshot (part INTEGER PRIMARY KEY, payload BLOB, last INTEGER)",
    "CREATE TABLE IF NOT EXISTS coming (part INTEGER PRIMARY KEY, payload BLOB)",
    "CREATE TABLE IF NOT EXISTS pages (number INTEGER PRIMARY KEY, payload BLOB)",
)


class SqliteStore:
    """A store in an SQLite file.  path: of the file.  Locked while open; used by one thread at a time."""

    def __init__(self, path: str, *, is_lasting: bool = True) -> None:
        """Open the file.  is_lasting: as in Log.

        Raises: StoreLocked, StoreBroken
        """
        self.path = path
        self.cut_bytes = 0
        self._coming = 0  # after which record the snapshot is that has been begun
        self._database = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            synchronous = f"PRAGMA synchronous = {'FULL' if is_lasting else 'OFF'}"
            for words in ("PRAGMA locking_mode = EXCLUSIVE", synchronous, "BEGIN EXCLUSIVE", *_TABLES):
                self._database.execute(words)
            self.last = 0
            for words in ("SELECT max(sequence) FROM records", "SELECT max(last) FROM snapshot"):
                self.last = max(self.last, self._database.execute(words).fetchone()[0] or 0)
            self._page = self._database.execute("SELECT max(number) FROM pages").fetchone()[0] or 0
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self._database.close()
            kind = StoreLocked if "locked" in str(error) else StoreBroken
            raise kind(f"{path}: {error}") from error

    def _read(self, words: str) -> Iterator[Entry]:
        for sequence, payload in self._database.execute(words):
            yield Entry(sequence, payload, f"{self.path} row {sequence}")

    def snapshot(self) -> Iterator[Entry]:
        return self._read("SELECT part, payload FROM snapshot ORDER BY part")

    def records(self) -> Iterator[Entry]:
        return self._read("SELECT sequence, payload FROM records ORDER BY sequence")

    def append(self, records: Sequence[bytes]) -> int:
        self._change([("INSERT INTO records VALUES (?, ?)", enumerate(records, start=self.last + 1))])
        self.last += len(records)
        return self.last

    def begin_snapshot(self) -> None:
        self._change([("DELETE FROM coming", [()])])
        self._coming = self.last

    def add_to_snapshot(self, part: bytes) -> None:
        self._change([("INSERT INTO coming SELECT coalesce(max(part), 0) + 1, ? FROM coming", [(part,)])])

    def end_snapshot(self) -> None:
        self._change(
            [
                ("DELETE FROM records WHERE sequence <= ?", [(self._coming,)]),
                ("DELETE FROM snapshot", [()]),
                ("INSERT INTO snapshot SELECT part, payload, ? FROM coming", [(self._coming,)]),
                ("DELETE FROM coming", [()]),
            ]
        )

    def write_page(self, data: bytes) -> int:
        self._change([("INSERT INTO pages VALUES (?, ?)", [(self._page + 1, data)])])
        self._page += 1
        return self._page

    def read_page(self, number: int) -> bytes:
        row = self._database.execute("SELECT payload FROM pages WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise StoreDamaged(self.path, 0, f"there is no page {number}")
        return bytes(row[0])

    def keep_pages(self, numbers: Iterable[int], newest: int) -> None:
        keep = set(numbers)
        rows = self._database.execute("SELECT number FROM pages WHERE number <= ?", (newest,)).fetchall()
        self._change([("DELETE FROM pages WHERE number = ?", [row for row in rows if row[0] not in keep])])

    def _change(self, orders: list[tuple[str, Iterable[tuple[object, ...]]]]) -> None:
        try:
            self._database.execute("BEGIN")
            for words, rows in orders:
                self._database.executemany(words, rows)
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            text = f"{self.path}: {error}"
            raise StoreFull(text, str(error)) if "full" in str(error) else StoreBroken(text) from error

    def close(self) -> None:
        self._database.close()
