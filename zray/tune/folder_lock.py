"""The lock of an experiment's folder: one program at a time runs an experiment.

The lock is on a file of its own, since the journal may be renamed or written anew while the experiment is running.  The
file names the program, for the error that another one gets.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time

from .errors import TuneError

__all__ = ["LOCK", "FolderLock", "JournalInUse", "is_running"]

# The file's name in the experiment's folder.
LOCK = ".zray_lock"


# A look at a folder shares the lock for some microseconds.
LOOKS_SECONDS, LOOK_SECONDS = 2.0, 0.001


class JournalInUse(TuneError, RuntimeError):
    """Another process runs the experiment."""


class FolderLock:
    """The lock, held until `release` or the end of the process.

    Args:
        folder: the experiment's folder, which is there.

    Raises:
        JournalInUse: another program holds it.
    """

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, LOCK)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + LOOKS_SECONDS
        while not (is_held := _try(self._file, fcntl.LOCK_EX)):
            if not _try(self._file, fcntl.LOCK_SH) or time.monotonic() > deadline:
                break  # another program holds it, or looks do not end
            fcntl.flock(self._file, fcntl.LOCK_UN)
            time.sleep(LOOK_SECONDS)
        if not is_held:
            owner = os.pread(self._file, 300, 0).decode(errors="replace")
            os.close(self._file)
            raise JournalInUse(
                f"Another process runs the experiment {os.path.basename(folder)!r} in {folder}"
                f"{f': {owner}' if owner.isprintable() and owner else ''}.  Wait for its end, or take another name "
                "(RunConfig(name=...))."
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"pid {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, 0)
                fcntl.flock(self._file, fcntl.LOCK_UN)  # also for children that have inherited the file
            os.close(self._file)
            self._file = -1


def is_running(folder: str) -> bool:
    """Whether a program runs the experiment in a folder now."""
    try:
        file = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _try(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
