"""Limits for workers' logs: the oldest part of a long log gives its space back to the disk.

The file keeps its length, and each byte its place, so that readers continue in place, and writers, the worker and its
child processes, notice nothing.  The removed part is a hole.
"""

from __future__ import annotations

import os

from ..session.log_marks import errors_name, index_name

# A larger log gives back all but its last LOG_BYTES_KEPT.  Its worker looks four times a second: a fast printer takes
# more for a moment.
LOG_BYTES_MAX = 64 << 20
LOG_BYTES_KEPT = 32 << 20
NOT_KEPT = f"it came faster than it was read, and its log keeps the last {LOG_BYTES_KEPT >> 20} MiB"
_STEP_BYTES = 1 << 20  # a multiple of the blocks of any file system: a part of a block would be written, not given back
_BLOCK_BYTES = 512  # of st_blocks
# fallocate(2)
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def room_of(path: str) -> int:
    """Return the bytes of a log on disk; 0 if the log is absent."""
    try:
        return os.stat(path).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


class LogRoom:
    """The disk space of a worker's log and of its file of errors."""

    def __init__(self, path: str) -> None:
        self.paths = (path, errors_name(path), index_name(path))
        self.is_possible = True  # in this file system

    def look(self) -> None:
        """Give back the excess."""
        for path in self.paths:
            if self.is_possible and room_of(path) > LOG_BYTES_MAX:
                self._give_back(path)

    def _give_back(self, path: str) -> None:
        import ctypes  # only now: few sessions have a log so long, and all of them start

        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return  # the session ends
        try:
            end = (os.fstat(descriptor).st_size - LOG_BYTES_KEPT) // _STEP_BYTES * _STEP_BYTES
            call = ctypes.CDLL(None).fallocate64
            call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
            self.is_possible = call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, 0, end) == 0
        finally:
            os.close(descriptor)


def first_lines(data: bytes, count: int) -> bytes:
    """Return at most so many lines."""
    if data.count(b"\n") <= count:
        return data
    end = -1
    for _ in range(count):
        end = data.index(b"\n", end + 1)
    return data[: end + 1]


def read_log(path: str, start: int, bytes_max: int) -> tuple[int, bytes]:
    """Return (number of removed bytes behind `start`, the bytes after them).

    Raises:
        OSError: there is no such log.
    """
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        data = file.read(bytes_max)
        try:
            # After the read: bytes given back in between may have been read as zeros.
            gone = os.lseek(file.fileno(), start, os.SEEK_DATA) - start
        except OSError:
            gone = 0  # the file ends there
    return gone, data[gone:]
