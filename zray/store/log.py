"""An append-only log in a folder, with snapshots: the records of a GCS shard, over any death.

    <folder>/lock                 names the owner; locked for the owner's life
    <folder>/log-<n>              records n+1, n+2, ...
    <folder>/snapshot-<n>         the state after record n
    <folder>/page-<n>             page n: one record
    <folder>/*.new                unfinished files, ignored

Whole files are written under another name, made durable, and renamed.  With a snapshot a new log file is begun, for
records appended during and after its parts; when the snapshot is complete, the older files go.  So at every moment the
newest snapshot and the log files reach from the beginning to the last record.

A failed fsync is final: the kernel has dropped the unwritten pages and calls them clean, so a second fsync would report
a false success.  A full disk is not final: the partial append is cut off again, and the log continues.  Framing, torn
and damaged records: records.py.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from .durable import Entry, StoreBroken, StoreDamaged, StoreError, StoreFull, StoreLocked
from .owner import boot_id
from .records import ENDS_SNAPSHOT, LOG, PAGE, SNAPSHOT, Scan, pack_file_header, pack_records
from .sweeper import check_private

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NAME = re.compile(r"(log|snapshot)-(\d{20})")
_PAGE = re.compile(r"page-(\d{20})")
# Unsynced bytes of a snapshot: the end of a snapshot must not hold up appends meanwhile.
SYNC_BYTES = 4 << 20

# The file layer, by name: tests replace it by failing functions.
_write = os.write
_sync = os.fdatasync


class Log:
    """A `durable.Store`.  folder: made if absent, for this user only."""

    def __init__(self, folder: str, *, is_lasting: bool = True) -> None:
        """Recover.

        is_lasting: False for records not needed after the end of this machine: nothing waits for the disk then, but
        written records still outlive the process.

        Raises:
            StoreLocked: another process holds the log.
            StoreDamaged: with file and offset.
            PermissionError: others may enter the folder.
        """
        self.folder = folder
        self.is_lasting = is_lasting
        self.last = 0
        self.cut_bytes = 0
        self.broken = ""  # why the log takes no more
        self._snapshot = -1  # its number; -1: none
        self._logs: list[int] = []
        self._file = -1
        self._end = 0  # of the last file, in bytes
        self._page = 0  # the last one
        self._coming: _Aside | None = None  # an unfinished snapshot
        self._coming_number = 0
        self._coming_parts = 0
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700)
            _sync_folder(os.path.dirname(os.path.abspath(folder)))
        check_private(folder)
        self._lock = lock_folder(folder)
        try:
            self._recover()
        except BaseException:
            self.close()
            raise

    def _sync(self, descriptor: int) -> None:
        if self.is_lasting:
            _sync(descriptor)

    def _path(self, kind: str, number: int) -> str:
        return os.path.join(self.folder, f"{kind}-{number:020}")

    # --- recovery ---

    def _recover(self) -> None:
        self._find()
        if self._snapshot >= 0:
            self._check_snapshot()
        self.last = max(self._snapshot, 0)
        scan: Scan | None = None
        for number in self._logs:
            scan = self._check_log(number)
        if scan is None or scan.is_headless or self._logs[-1] + scan.count != self.last:
            self._begin_file()
        else:
            self._file = os.open(scan.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._end = scan.end
            if scan.size > scan.end:
                os.ftruncate(self._file, scan.end)
            os.lseek(self._file, scan.end, os.SEEK_SET)
            self._sync(self._file)  # also makes records durable whose writer died before its fsync
        self._remove_older()

    def _find(self) -> None:
        numbers: dict[str, list[int]] = {"log": [], "snapshot": []}
        for name in sorted(os.listdir(self.folder)):
            found = _NAME.fullmatch(name)
            page = _PAGE.fullmatch(name)
            if found:
                numbers[found[1]].append(int(found[2]))
            elif page:
                self._page = int(page[1])
            elif name.endswith(".new"):
                os.unlink(os.path.join(self.folder, name))
        self._snapshot = max(numbers["snapshot"], default=-1)
        self._logs = self._needed(numbers["log"])

    def _needed(self, logs: list[int]) -> list[int]:
        """Return the logs without those whose records all come before the snapshot."""
        first = max((number for number in logs if number <= self._snapshot), default=0)
        return [number for number in logs if number >= first]

    def _check_snapshot(self) -> None:
        scan = Scan(self._path("snapshot", self._snapshot), SNAPSHOT, may_be_torn=False)
        for _ in scan:
            pass
        if scan.before != self._snapshot or not scan.is_ended:
            raise StoreDamaged(scan.path, scan.end, "the snapshot is not whole")

    def _check_log(self, number: int) -> Scan:
        path = self._path("log", number)
        if number > self.last:
            raise StoreDamaged(path, 0, f"the records {self.last + 1} to {number} are missing")
        scan = Scan(path, LOG, may_be_torn=number == self._logs[-1])
        for _ in scan:
            pass
        if not scan.is_headless and scan.before != number:
            raise StoreDamaged(path, 0, f"it begins after record {scan.before}")
        self.last = max(self.last, number + scan.count)
        self.cut_bytes += scan.size - scan.end
        return scan

    # --- reading ---

    def snapshot(self) -> Iterator[Entry]:
        """Yield the parts of the last snapshot, if any."""
        if self._snapshot >= 0:
            yield from self._read("snapshot", self._snapshot, SNAPSHOT)

    def records(self) -> Iterator[Entry]:
        """All records after the last snapshot."""
        for number in list(self._logs):
            for entry in self._read("log", number, LOG):
                if entry.sequence > self.last:
                    return
                if entry.sequence > self._snapshot:
                    yield entry

    def _read(self, kind: str, number: int, file_kind: int) -> Iterator[Entry]:
        path = self._path(kind, number)
        for record in Scan(path, file_kind, may_be_torn=file_kind == LOG):
            if record.flags & ENDS_SNAPSHOT:
                return
            yield Entry(record.sequence, record.payload, f"{path} at byte {record.offset}")

    # --- writing ---

    def append(self, records: Sequence[bytes]) -> int:
        """See durable.Store."""
        self._check_usable()
        if not records:
            return self.last
        data = pack_records(records, self.last + 1)
        try:
            _write_all(self._file, data)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise self._break("a write", error) from error
            self._take_back()
            raise StoreFull(f"{self._path('log', self._logs[-1])}: {error.strerror}", str(error.strerror)) from error
        try:
            self._sync(self._file)
        except OSError as error:
            raise self._break("fsync", error) from error
        self._end += len(data)
        self.last += len(records)
        return self.last

    def _take_back(self) -> None:
        """Restore the file as before a failed append."""
        try:
            os.ftruncate(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
        except OSError as error:
            raise self._break("taking a write back", error) from error

    def save_snapshot(self, parts: Iterable[bytes]) -> None:
        """Save a whole snapshot at once.  Raises: as the three following methods."""
        self._check_usable()
        if self.last == self._snapshot:
            return  # a snapshot of this state exists
        self.begin_snapshot()
        for part in parts:
            self.add_to_snapshot(part)
        self.end_snapshot()

    def begin_snapshot(self) -> None:
        """See durable.Store."""
        self._check_usable()
        self._drop_snapshot()
        self._begin_file()
        self._coming = _Aside(self._path("snapshot", self.last))
        self._coming_number, self._coming_parts = self.last, 0
        self._write_coming(pack_file_header(SNAPSHOT, self.last))

    def add_to_snapshot(self, part: bytes, *, flags: int = 0) -> None:
        """See durable.Store."""
        self._check_usable()
        self._coming_parts += 1
        self._write_coming(pack_records((part,), self._coming_number + self._coming_parts, last_flags=flags))

    def end_snapshot(self) -> None:
        """See durable.Store.  An empty part marks the end."""
        self.add_to_snapshot(b"", flags=ENDS_SNAPSHOT)
        assert self._coming is not None
        try:
            self._coming.finish(self._sync)
            if self.is_lasting:
                _sync_folder(self.folder)
        except OSError as error:
            raise self._break("fsync", error) from error
        self._coming = None
        self._snapshot = self._coming_number
        self._remove_older()

    def _write_coming(self, data: bytes) -> None:
        assert self._coming is not None, "a part of no snapshot"
        try:
            self._coming.write(data)
        except OSError as error:
            raise self._refuse(self._coming, error) from error
        if self._coming.unsynced >= SYNC_BYTES:
            try:
                self._coming.sync(self._sync)
            except OSError as error:
                raise self._break("fsync", error) from error

    def _refuse(self, aside: _Aside, error: OSError) -> StoreError:
        """A whole file cannot be written."""
        if error.errno not in _NO_SPACE:
            return self._break("a write", error)
        aside.drop()
        if aside is self._coming:
            self._coming = None
        return StoreFull(f"{aside.path}: {error.strerror}", str(error.strerror))

    def _drop_snapshot(self) -> None:
        if self._coming is not None:
            self._coming.drop()
            self._coming = None

    def _begin_file(self) -> None:
        """Begin a new log file, for records after the last.

        Raises:
            StoreFull: the former file continues.
            StoreBroken
        """
        path = self._path("log", self.last)
        if self._logs and self._logs[-1] == self.last and self._file >= 0:
            return  # the present file is empty
        header = pack_file_header(LOG, self.last)
        self._write_aside(path, (header,))
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        os.lseek(self._file, 0, os.SEEK_END)
        self._end = len(header)
        if self.last not in self._logs:
            self._logs.append(self.last)

    def _write_aside(self, path: str, chunks: Iterable[bytes]) -> None:
        aside = _Aside(path)
        try:
            for chunk in chunks:
                aside.write(chunk)
        except OSError as error:
            raise self._refuse(aside, error) from error
        else:
            try:
                aside.finish(self._sync)
                if self.is_lasting:
                    _sync_folder(self.folder)
            except OSError as error:
                raise self._break("fsync", error) from error
        finally:
            aside.close()

    def _remove_older(self) -> None:
        """Remove files made superfluous by the snapshot."""
        self._logs = self._needed(self._logs)
        keep = {os.path.basename(self._path("log", number)) for number in self._logs}
        keep.add(os.path.basename(self._path("snapshot", max(self._snapshot, 0))))
        for name in sorted(os.listdir(self.folder)):
            if _NAME.fullmatch(name) and name not in keep:
                os.unlink(os.path.join(self.folder, name))

    # --- pages ---

    def write_page(self, data: bytes) -> int:
        """See durable.Store."""
        self._check_usable()
        number = self._page + 1
        header = pack_file_header(PAGE, number)
        self._write_aside(self._path("page", number), (header, pack_records((data,), number + 1)))
        self._page = number
        return number

    def read_page(self, number: int) -> bytes:
        """See durable.Store."""
        path = self._path("page", number)
        scan = Scan(path, PAGE, may_be_torn=False)
        try:
            records = list(scan)
        except OSError as error:
            raise StoreDamaged(path, 0, f"it cannot be read: {error.strerror}") from error
        if scan.before != number or len(records) != 1:
            raise StoreDamaged(
                path, scan.end, f"{len(records)} records of page {scan.before}, where page {number} belongs"
            )
        return records[0].payload

    def keep_pages(self, numbers: Iterable[int], newest: int) -> None:
        """See durable.Store."""
        keep = set(numbers)
        for name in sorted(os.listdir(self.folder)):
            page = _PAGE.fullmatch(name)
            if page and int(page[1]) <= newest and int(page[1]) not in keep:
                os.unlink(os.path.join(self.folder, name))

    # --- the end ---

    def _check_usable(self) -> None:
        if self.broken:
            raise StoreBroken(self.broken)

    def _break(self, what: str, error: OSError) -> StoreBroken:
        self.broken = f"{self.folder}: {what} failed ({error}): the content of the disk is unknown, so the shard ends"
        return StoreBroken(self.broken)

    def close(self) -> None:
        """Release the log for another process."""
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1
        if self._coming is not None:
            self._coming.close()


class _Aside:
    """An unfinished file, under another name; errors of the disk are passed on."""

    def __init__(self, path: str) -> None:
        self.path = path + ".new"
        self.unsynced = 0
        self._goal = path
        self._descriptor = -1

    def write(self, data: bytes) -> None:
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, 0o600)
        _write_all(self._descriptor, data)
        self.unsynced += len(data)

    def sync(self, sync: Callable[[int], None]) -> None:
        """Make the written data durable."""
        sync(self._descriptor)
        self.unsynced = 0

    def finish(self, sync: Callable[[int], None]) -> None:
        """Give the file its final name."""
        sync(self._descriptor)
        os.rename(self.path, self._goal)
        self.close()

    def drop(self) -> None:
        """Drop the file."""
        if self._descriptor >= 0:
            self.close()
            os.unlink(self.path)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _write_all(descriptor: int, data: bytes) -> None:
    written = _write(descriptor, data)
    while written < len(data):
        written += _write(descriptor, memoryview(data)[written:])


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_folder(folder: str) -> int:
    """Lock a folder.

    Raises:
        StoreLocked
    """
    descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
        os.close(descriptor)
        owner = owner or "another process"
        raise StoreLocked(f"{folder} is in use by {owner}", owner) from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} of boot {boot_id()}\n".encode(), 0)
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, error.strerror, folder) from error  # which disk is full
    return descriptor
