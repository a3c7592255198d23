"""How much of a worker's log stays: the oldest part of a long one gives its room back to the disk.

The file keeps its length and every byte of it its place, so that who reads it goes on where it was, and who writes into
it, the worker and whatever it has started, notices nothing.  What is gone is a hole.
"""

from __future__ import annotations

import os

from ..session.log_marks import errors_name

# A log that takes more room gives back all but the last so many bytes.  Its worker looks four times a second: one that
# prints very fast takes more for a moment.
LOG_BYTES_MAX = 64 << 20
LOG_BYTES_KEPT = 32 << 20
NOT_KEPT = f"it came faster than it was read, and its log keeps the last {LOG_BYTES_KEPT >> 20} MiB"
_STEP_BYTES = 1 << 20  # a multiple of the blocks of any file system: a part of one would be written, not given back
_BLOCK_BYTES = 512  # of st_blocks
# fallocate(2)
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


def room_of(path: str) -> int:
    """Bytes of the disk that a log takes; 0 where there is none."""
    try:
        return os.stat(path).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0


class LogRoom:
    """Room of one worker's log and of its file of errors."""

    def __init__(self, path: str) -> None:
        self.paths = (path, errors_name(path))
        self.is_possible = True  # in this file system

    def look(self) -> None:
        """Give back what is too much."""
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
    """At most so many of them."""
    if data.count(b"\n") <= count:
        return data
    end = -1
    for _ in range(count):
        end = data.index(b"\n", end + 1)
    return data[: end + 1]


def read_log(path: str, start: int, bytes_max: int) -> tuple[int, bytes]:
    """(how many bytes behind `start` are gone, what follows them).

    Raises:
        OSError: there is no such log.
    """
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        data = file.read(bytes_max)
        try:
            # Behind the reading: what was given back in between may have been read as zeros.
            gone = os.lseek(file.fileno(), start, os.SEEK_DATA) - start
        except OSError:
            gone = 0  # it ends there
    return gone, data[gone:]
