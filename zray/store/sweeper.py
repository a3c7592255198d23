"""What dead sessions left behind: their shared memory, semaphores and folders.

A session lives while some process holds the lock of `<session_root>/<session>/lock`; the kernel lets go of it
when the last such process ends, however it ends.

The folder may be gone too (a container's, a batch job's), or be of another root (TMPDIR).  So shared memory is swept by
a lock of its own as well: the node holds it on each segment and semaphore.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import time

from .segment import FILE_NAME, SHARED_MEMORY_FOLDER, unlink_session

LOCK = "lock"
# A folder without a lock may be a session that is just being made, and so may an empty file in shared memory.
WITHOUT_LOCK_S_MIN = 60.0


def lock_session(session_folder: str) -> int:
    """Make the session live: a descriptor to keep open.  Forked children share it, programs they run do not.

    Raises:
        BlockingIOError: another process holds it.
    """
    path = os.path.join(session_folder, LOCK)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return _new_lock(path)
    return _locked(descriptor)


def _locked(descriptor: int) -> int:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _new_lock(path: str) -> int:
    """Locked before it has its name: a lock that nobody holds means to a sweeper that the session is dead."""
    unnamed = f"{path}.{os.getpid()}"
    descriptor = _locked(os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    try:
        os.link(unnamed, path)
    except FileExistsError:
        os.close(descriptor)
        raise BlockingIOError(f"{path}: another process has just locked it") from None
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        os.unlink(unnamed)
    return descriptor


def sweep(session_root: str) -> list[str]:
    """Remove dead sessions; their names.  A root that does not exist has none.

    Raises:
        PermissionError: the root is not a folder that only this user can enter.
    """
    try:
        check_private(session_root)
    except FileNotFoundError:
        return []
    try:
        sessions = sorted(os.listdir(session_root))
    except FileNotFoundError:
        return []  # the last session in it has just ended, and took it along
    swept = []
    for session in sessions:
        folder = os.path.join(session_root, session)
        try:
            check_private(folder)
            if _sweep_if_dead(session, folder):
                swept.append(session)
        except (PermissionError, FileNotFoundError, ValueError):
            continue  # Not ours, swept by another, or no session's name: let it lie.
    return swept


def check_private(folder: str) -> None:
    """Raises:
    PermissionError: a link, no folder, another user's, or open to others.
    FileNotFoundError: there is nothing.
    """
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise PermissionError(f"{folder} is not a folder")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to others (mode {stat.S_IMODE(found.st_mode):o}): chmod 700")


def _sweep_if_dead(session: str, folder: str) -> bool:
    try:
        descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - os.lstat(folder).st_mtime < WITHOUT_LOCK_S_MIN:
            return False
        descriptor = -1
    try:
        if descriptor >= 0:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unlink_session(session)
        # The lock is held until the folder is gone, so that two sweepers do not meet in it.
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except BlockingIOError:
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def sweep_memory() -> list[str]:
    """Remove this user's segments and semaphores that nobody holds, whatever folder their sessions had; their names."""
    try:
        names = sorted(name for name in os.listdir(SHARED_MEMORY_FOLDER) if FILE_NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    locked: dict[str, int] = {}
    try:
        for name in names:
            if (descriptor := _lock_if_free(os.path.join(SHARED_MEMORY_FOLDER, name))) is not None:
                locked[name] = descriptor
        # An earlier version of zray locked nothing.  A program may still use the arrays of a session that has ended.
        swept = sorted(locked.keys() - _mapped_files()) if locked else []
        for name in swept:
            with contextlib.suppress(FileNotFoundError):  # its session is just being removed
                os.unlink(os.path.join(SHARED_MEMORY_FOLDER, name))
        return swept
    finally:
        for descriptor in locked.values():
            os.close(descriptor)


def _lock_if_free(path: str) -> int | None:
    """A descriptor with the lock; None: the file is held, another user's, being made or gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        is_being_made = found.st_size == 0 and time.time() - found.st_ctime < WITHOUT_LOCK_S_MIN
        if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode) and found.st_nlink and not is_being_made:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _mapped_files() -> set[str]:
    """Names of files in shared memory that a process which we may look at has mapped."""
    mark = f" {SHARED_MEMORY_FOLDER}/"
    found: set[str] = set()
    for pid in os.listdir("/proc"):
        if pid.isdecimal():
            try:
                with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
                    found.update(line.partition(mark)[2].rstrip("\n") for line in file if mark in line)
            except OSError:
                continue
    return found
