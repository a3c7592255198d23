"""POSIX shared memory by name: `/zray-<session>-<number>`.  Numpy is imported only for views.

    create, open    the node that owns the arena creates; its workers and drivers open, to read or to write
    reserve         allocate the pages before any write: a full machine is an error here, not a SIGBUS later
    give_back       return unused pages to the machine
    unlink          the name goes at once, the memory with its last mapping

The creator of a segment holds a lock on its file until the creator ends.  The lock tells sweepers that the segment is
in use.  A reading process maps a segment without permission to write: no library can change a value that others read.
A writing process has a second mapping.  Views keep their mapping alive: none can outlive it.  Python's own resource
tracker is not involved: it would unlink segments still used by other processes.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
from collections.abc import Callable
from typing import Any

import posix_ipc

SHARED_MEMORY_FOLDER = "/dev/shm"
# sem_open of `/name` uses the file "sem." and the name, in that folder.  Other libraries may use another place.
IS_GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names
SEMAPHORE_PREFIX = "sem."
SEMAPHORE_BYTES = 64  # no sem_t is larger; sem_open maps the needed part
# So that reserving a gigabyte does not stall whoever waits for the kernel to zero it: callers may pause
# between steps.
RESERVE_STEP_BYTES = 64 << 20
PAGE_BYTES = mmap.PAGESIZE
_SESSION = re.compile(r"[A-Za-z0-9_.]+")
# The files of segments and semaphores, of any session.
FILE_NAME = re.compile(rf"({re.escape(SEMAPHORE_PREFIX)})?zray-{_SESSION.pattern}-\w+")
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_MADV_POPULATE_WRITE = 23
_MADV_REMOVE = 9  # Linux: free the pages and the file's blocks behind them.


_locks: dict[str, int] = {}  # descriptors of named semaphores made by this process


class SegmentCutError(OSError):
    """The segment's file was truncated: an access to the lost part is a SIGBUS (definite: there was none)."""

    strerror: str

    def __init__(self, name: str, size: int) -> None:
        text = f"its shared memory {SHARED_MEMORY_FOLDER}{name} was truncated to {size:,} bytes"
        super().__init__(errno.ENXIO, text)


class SegmentFullError(OSError):
    """The machine has no memory left for the pages (definite; earlier reservations stay)."""


class Segment:
    """A mapped segment.  name; size in bytes; mapping: until the last view is gone, writable on request."""

    __slots__ = ("name", "size", "mapping", "_address", "_begin", "_descriptor", "_read_only")

    def __init__(
        self, name: str, size: int, descriptor: int, *, writable: bool = True, part: tuple[int, int] | None = None
    ) -> None:
        """part: offset and length of the range to map; None: the whole segment."""
        self.name = name
        self.size = size
        offset, length = part or (0, size)
        self._begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        length += offset - self._begin
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        try:
            self.mapping = mmap.mmap(descriptor, length, access=access, offset=self._begin)
        except OSError as error:
            if error.errno == errno.ENOMEM:
                raise OSError(errno.ENOMEM, _why_not_mapped(length)) from None
            raise
        self._descriptor = descriptor
        self._address = 0
        # numpy asks the memory below an array before making it writable again: this view refuses.
        self._read_only = memoryview(self.mapping).toreadonly()

    @classmethod
    def create_file(cls, path: str, size: int) -> Segment:
        """Create a segment in a file on a disk, with all its blocks allocated.

        Raises:
            OSError: the disk has no space, or the file cannot be made.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            segment = cls(path, size, descriptor)
        except BaseException:
            os.close(descriptor)
            os.unlink(path)
            raise
        return segment

    @classmethod
    def open_file(cls, path: str, *, writable: bool) -> Segment:
        """Open a segment of `create_file`.

        Raises: as `open`.
        """
        return cls._opened(path, path, writable=writable)

    @classmethod
    def create(cls, name: str, size: int) -> Segment:
        """Create a segment that only this user can open.  Its pages must be allocated by `reserve`.

        Raises:
            FileExistsError: the name is taken.
            OSError: the machine, or a limit of this process, does not allow the size; names the limit.
        """
        descriptor = _create_locked(_path(name))
        try:
            os.ftruncate(descriptor, size)
            return cls(name, size, descriptor)
        except BaseException as error:
            os.close(descriptor)
            unlink(name)
            if isinstance(error, OSError) and error.errno == errno.EFBIG:
                raise OSError(errno.EFBIG, _why_not_so_long(size)) from None
            raise

    @classmethod
    def open(cls, name: str, *, writable: bool = False, part: tuple[int, int] | None = None) -> Segment:
        """Open a segment that another process created.

        part: as in the constructor.

        Raises:
            FileNotFoundError: there is no segment of this name (any more).
            ValueError: the segment was truncated before the part.
            OSError: the segment cannot be mapped; says why.
        """
        return cls._opened(name, _path(name), writable=writable, part=part)

    @classmethod
    def _opened(cls, name: str, path: str, *, writable: bool, part: tuple[int, int] | None = None) -> Segment:
        descriptor = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | _OPEN_FLAGS)
        try:
            segment = cls(name, os.fstat(descriptor).st_size, descriptor, writable=writable, part=part)
        except BaseException:
            os.close(descriptor)
            raise
        segment.close_descriptor()
        return segment

    def reserve(self, offset: int, length: int) -> None:
        """Allocate the pages of a range.  Pages already allocated keep their content.

        Raises:
            SegmentFullError: the machine has too little memory.
            SegmentCutError: the file was truncated; the call would restore its size, with zeros in place of values.
        """
        self.check(0, self.size)
        end = min(offset + length, self.size)
        while offset < end:
            step = min(RESERVE_STEP_BYTES, end - offset)
            try:
                os.posix_fallocate(self._descriptor, offset, step)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                    raise
                message = f"{SHARED_MEMORY_FOLDER} has no free space for {end - offset} more bytes of {self.name}"
                raise SegmentFullError(error.errno, message) from error
            offset += step

    def give_back(self, offset: int, length: int) -> None:
        """Free the whole pages inside a range: they read as zeros, and must be reserved before a write."""
        start = -(-offset // PAGE_BYTES) * PAGE_BYTES
        stop = (offset + length) // PAGE_BYTES * PAGE_BYTES
        if stop > start:
            self.mapping.madvise(_MADV_REMOVE, start - self._begin, stop - start)

    def check(self, offset: int, size: int) -> None:
        """Check that a range exists, ahead of its use; a later truncation is a SIGBUS at the next access.

        Raises:
            SegmentCutError: the range is cut off.
        """
        there = self.mapping.size()  # of the file, in less than a microsecond: not `self.size`
        if offset + size > there:
            raise SegmentCutError(self.name, there)

    def has_name(self) -> bool:
        """Return whether others can open the segment.  Needs the descriptor."""
        return os.fstat(self._descriptor).st_nlink > 0

    def view(self, offset: int, size: int, *, writable: bool = False) -> Any:
        """Return a range as a 1-d uint8 array, kept alive by arrays made from it (none can become writable).

        Raises:
            SegmentCutError: the range is cut off.
        """
        import numpy

        self.check(offset, size)
        # Straight from the mapping, not a slice of a larger array: numpy lets a view hold the first array in
        # the chain whose own base is no array, and that must be this one.
        memory = self.mapping if writable else self._read_only
        return numpy.frombuffer(memory, numpy.uint8, size, offset - self._begin)

    def writable(self, offset: int, size: int) -> memoryview:
        """A range as plain bytes to write into.

        Raises:
            SegmentCutError: as `view`.
        """
        self.check(offset, size)
        return memoryview(self.mapping)[offset - self._begin : offset - self._begin + size]

    def map_range(self, offset: int, size: int) -> None:
        """Map the pages of a range, as `map_pages`, ahead of reads or writes of all of it."""
        import ctypes

        first = ctypes.c_char.from_buffer(self.mapping, offset - self._begin)
        map_pages(ctypes.addressof(first), size)

    def explain_writes(self) -> None:
        """Have a write into this read-only mapping, which ends the process, explained on standard error."""
        import numpy

        from .write_faults import watch

        self._address = numpy.frombuffer(self.mapping, numpy.uint8, 1).ctypes.data
        watch(self._address, self._address + len(self.mapping))

    def address_of(self, offset: int) -> int:
        """Return the address of a part of a mapping registered by `explain_writes`."""
        return self._address + offset - self._begin

    def bytes_of(self, offset: int, size: int) -> memoryview:
        """A range as plain bytes, read-only, without numpy.

        Raises:
            SegmentCutError: as `view`.
        """
        self.check(offset, size)
        return self._read_only[offset - self._begin : offset - self._begin + size]

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Copy bytes into a reserved range, without the interpreter's lock.

        Raises:
            SegmentCutError: as `view`.
        """
        import ctypes

        self.check(offset, len(data))
        unit = ctypes.c_char * len(data)
        source = data if isinstance(data, bytes) else unit.from_buffer(data)
        ctypes.memmove(unit.from_buffer(self.mapping, offset - self._begin), source, len(data))

    def close_descriptor(self) -> None:
        """The mapping stays; `reserve` is over."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def map_pages(address: int, length: int) -> None:
    """Map reserved shared pages for writes by this process: in a single call, without the interpreter's lock.

    The call takes half as long as a fault for each page.  On kernels without it (before Linux 5.14), pages are mapped
    at the first write.
    """
    import ctypes

    start = address // PAGE_BYTES * PAGE_BYTES
    madvise = ctypes.CDLL(None).madvise
    madvise(ctypes.c_void_p(start), ctypes.c_size_t(address + length - start), _MADV_POPULATE_WRITE)


def _why_not_mapped(size: int) -> str:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    text = f"{size:,} bytes of shared memory cannot be mapped into this process"
    if limit == resource.RLIM_INFINITY:
        return text
    return (
        f"{text}, which may have {limit:,} bytes of address space in all (RLIMIT_AS, `ulimit -v`): raise that limit, "
        "or start with a smaller object_store_memory"
    )


def _why_not_so_long(size: int) -> str:
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return (
        f"{size:,} bytes of shared memory are a file, and a file of this process may have {limit:,} bytes at most "
        "(RLIMIT_FSIZE, `ulimit -f`): raise that limit, or start with an object_store_memory below it"
    )


def _path(name: str) -> str:
    """Return the path of a segment.

    Raises:
        ValueError: no segment has such a name.
    """
    if not name.startswith("/") or "/" in name[1:]:
        raise ValueError(f"not a name of a segment: {name!r}")
    return SHARED_MEMORY_FOLDER + name


def segment_name(session: str, number: int) -> str:
    """The name of a session's segment.

    Raises:
        ValueError: a session's name has other characters than letters, digits, "_" and ".": then the names of
        one
            session could be taken for another's.
    """
    if not _SESSION.fullmatch(session):
        raise ValueError(f"not a name for a session: {session!r}")
    return f"/zray-{session}-{number}"


def unlink(name: str) -> bool:
    """Remove a segment's name.  False if already gone."""
    try:
        posix_ipc.unlink_shared_memory(name)
    except posix_ipc.ExistentialError:
        return False
    return True


def read_start(name: str, head_bytes: int, length_of: Callable[[bytes], int]) -> bytes | None:
    """Return the beginning of a segment: its head, and the bytes behind it.  None: there is no such segment.

    length_of: tells from the head how many bytes behind it are written.
    """
    try:
        descriptor = os.open(_path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        head = os.pread(descriptor, head_bytes, 0)
        return head + os.pread(descriptor, length_of(head), head_bytes)
    finally:
        os.close(descriptor)


def event_ring_name(session: str, pid: int) -> str:
    """The name of the ring of a process's event records (event_ring.py)."""
    return f"/zray-{session}-events{pid}"


def event_rings_of(session: str) -> list[str]:
    """The names of a session's rings of event records, sorted."""
    return _named(event_ring_name(session, 0)[1:-1])


def metric_page_name(session: str, pid: int) -> str:
    """The name of the page of a process's metrics (metric_page.py)."""
    return f"/zray-{session}-metrics{pid}"


def metric_pages_of(session: str) -> list[str]:
    """The names of a session's pages of metrics, sorted."""
    return _named(metric_page_name(session, 0)[1:-1])


def segments_of(session: str) -> list[str]:
    """The names of a session's segments, sorted."""
    return _named(segment_name(session, 0)[1:-1])


def _named(beginning: str) -> list[str]:
    """The names in shared memory that continue a beginning with a number."""
    pattern = re.compile(re.escape(beginning) + r"\d+")
    return sorted("/" + entry for entry in os.listdir(SHARED_MEMORY_FOLDER) if pattern.fullmatch(entry))


def semaphores_of(session: str) -> list[str]:
    """The names of a session's semaphores, `/zray-<session>-<anything>`, sorted."""
    prefix = SEMAPHORE_PREFIX + segment_name(session, 0)[1:-1]
    return sorted(
        "/" + entry[len(SEMAPHORE_PREFIX) :] for entry in os.listdir(SHARED_MEMORY_FOLDER) if entry.startswith(prefix)
    )


def create_semaphore(name: str) -> posix_ipc.Semaphore:
    """Create a semaphore that only this user can open, at 0.

    It has its name from the first moment, so that sweepers know its owner.  glibc's sem_open makes a file of a random
    name first, which stays behind if the process is killed in between.

    Raises:
        FileExistsError, posix_ipc.ExistentialError: the name is taken.
        OSError: the machine has no free space for it.
    """
    if not IS_GLIBC:
        return posix_ipc.Semaphore(name, posix_ipc.O_CREX, mode=0o600, initial_value=0)
    path = os.path.join(SHARED_MEMORY_FOLDER, SEMAPHORE_PREFIX + name[1:])
    descriptor = _create_locked(path)
    try:
        _write_semaphore(descriptor)
        semaphore = posix_ipc.Semaphore(name)
    except BaseException:
        os.unlink(path)
        os.close(descriptor)
        raise
    _locks[name] = descriptor
    return semaphore


def unlink_semaphore(name: str) -> bool:
    """Remove a semaphore's name, and its lock if this process made it.  False if already gone."""
    descriptor = _locks.pop(name, None)
    if descriptor is not None:
        os.close(descriptor)
    try:
        posix_ipc.unlink_semaphore(name)
    except posix_ipc.ExistentialError:
        return False
    return True


def _create_locked(path: str) -> int:
    """Create an empty file, with a lock for as long as this process keeps it open.

    A sweeper takes an unlocked file for a dead session's, and an empty file for one being made: so the lock comes
    before the length.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # a sweeper may have it for a moment
    return descriptor


def _write_semaphore(descriptor: int) -> None:
    """Into an empty file."""
    import ctypes

    os.write(descriptor, bytes(SEMAPHORE_BYTES))  # a page of its own, or an error: to touch a hole is a SIGBUS
    with mmap.mmap(descriptor, SEMAPHORE_BYTES) as mapping:
        first = ctypes.c_char.from_buffer(mapping)
        is_shared, value = 1, 0
        ctypes.CDLL(None).sem_init(ctypes.byref(first), is_shared, value)
        del first  # else it could not be unmapped


def unlink_session(session: str) -> list[str]:
    """Remove all names of a session's shared memory and semaphores, and return them."""
    names = (*segments_of(session), *event_rings_of(session), *metric_pages_of(session))
    gone = [name for name in names if unlink(name)]
    return gone + [name for name in semaphores_of(session) if unlink_semaphore(name)]
