"""Environments with packages on this machine: made once for all sessions of a user, and kept, up to a limit.

    <cache>/<name>/         a virtual environment, made in place, since its scripts name this path
    <cache>/<name>.ready    marks a complete environment; text: size in bytes; time: of the last use
    <cache>/<name>.lock     held exclusively to make or remove the environment, shared to use it
    <cache>/room            held to free space

The kernel releases locks of processes that die.  A folder without the mark `.ready` is left by a dead process, and is
made again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress

from ...exceptions import RuntimeEnvSetupError
from ...store.sweeper import check_private

VARIABLE = "ZRAY_ENV_CACHE"
# An environment of a deep-learning library takes some 5 GB, most others a hundred times less.
COUNT_MAX = 20
BYTES_MAX = 20 << 30
# Interval of looks at a lock held by another process.
POLL_SECONDS = 0.02


def cache_folder() -> str:
    """Return the folder of this user: ZRAY_ENV_CACHE, else `zray/environments` among the user's caches."""
    if named := os.environ.get(VARIABLE):
        return os.path.abspath(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "zray", "environments")


class EnvironmentCache:
    """The folder of environments, as used by a process."""

    def __init__(self, folder: str, count_max: int = COUNT_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Open the folder.  Raises RuntimeEnvSetupError: the folder cannot be made, or others may enter it."""
        self.folder = folder
        self.count_max = count_max
        self.bytes_max = bytes_max
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            check_private(folder)
        except OSError as error:
            raise RuntimeEnvSetupError(
                f"Environments cannot be kept in {folder}: {error}.  Set {VARIABLE} to a folder of this user."
            ) from error

    def take(self, name: str, make: Callable[[str], None], look: Callable[[], None]) -> tuple[str, int]:
        """Return the folder of an environment, and a descriptor: while open, the environment stays.

        make: makes the environment in an empty place, or raises.  look: called while another process makes the same
        environment; raises to give up.
        """
        path = os.path.join(self.folder, name)
        while True:
            lock = self._lock(name, fcntl.LOCK_SH, look)
            if os.path.exists(f"{path}.ready"):
                os.utime(f"{path}.ready")
                return path, lock
            os.close(lock)
            lock = self._lock(name, fcntl.LOCK_EX, look)
            try:
                if not os.path.exists(f"{path}.ready"):
                    self.make_room()
                    self._make(path, make)
            finally:
                os.close(lock)  # the next round takes it shared, unless removed meanwhile

    def _make(self, path: str, make: Callable[[str], None]) -> None:
        shutil.rmtree(path, ignore_errors=True)  # left by a process that died meanwhile
        try:
            make(path)
            with open(f"{path}.new", "w", encoding="ascii") as file:
                file.write(str(size_of(path)))
            os.rename(f"{path}.new", f"{path}.ready")
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            os.unlink(f"{path}.lock")  # held by this process
            raise

    def _lock(self, name: str, kind: int, look: Callable[[], None]) -> int:
        path = os.path.join(self.folder, f"{name}.lock")
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                while not _try_lock(descriptor, kind):
                    look()
                    time.sleep(POLL_SECONDS)
                if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                    return descriptor
            except FileNotFoundError:
                pass  # removed between the two steps
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def make_room(self) -> None:
        """Evict for another environment: unused ones, the least recently used first, and incomplete ones."""
        with open(os.path.join(self.folder, "room"), "w", encoding="ascii") as room:
            if not _try_lock(room.fileno(), fcntl.LOCK_EX):
                return  # another process does so at this moment
            whole = []
            for entry in os.scandir(self.folder):
                name, _, kind = entry.name.partition(".")
                if kind == "ready":
                    with suppress(OSError, ValueError), open(entry.path, encoding="ascii") as file:
                        whole.append((entry.stat().st_mtime_ns, int(file.read() or 0), name))
                elif not kind and entry.is_dir() and not os.path.exists(f"{entry.path}.ready"):
                    self._remove(name)
            count, total = len(whole), sum(size for _, size, _ in whole)
            for _, size, name in sorted(whole):
                if count < self.count_max and total <= self.bytes_max:
                    return
                if self._remove(name):
                    count, total = count - 1, total - size

    def _remove(self, name: str) -> bool:
        """Remove an environment, and return True, unless in use or being made."""
        path = os.path.join(self.folder, name)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if not _try_lock(lock, fcntl.LOCK_EX):
                return False
            with suppress(FileNotFoundError):
                os.unlink(f"{path}.ready")
            shutil.rmtree(path, ignore_errors=True)
            with suppress(FileNotFoundError):
                os.unlink(f"{path}.lock")
            return True
        finally:
            os.close(lock)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def size_of(folder: str) -> int:
    """Return the bytes of a folder's files; links count as such."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total
