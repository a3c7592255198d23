"""Removal of the remains of dead sessions: shared memory, semaphores and folders.

A session lives while a process holds the lock of `<session_root>/<session>/lock`; the kernel releases the lock when the
last such process ends, however it ends.

The folder may be gone too (a container's, a batch job's), or be under another root (TMPDIR).  So shared memory has
separate locks: the node holds a lock on each segment and semaphore.
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
# A link in the session's folder to the folder of its spill files, in a directory that the user has named.
SPILLED_AT = "spilled-at"
# A folder without a lock may be a session being made, and so may an empty file in shared memory.
WITHOUT_LOCK_S_MIN = 60.0


def lock_session(session_folder: str) -> int:
    """Make the session live.  Returns a descriptor to keep open, shared by forked children, but not by programs they
    run.

    Raises:
        BlockingIOError: another process holds the lock.
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
    """Create the lock file, locked before it gets its name: an unlocked file means a dead session to a sweeper."""
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
    """Remove dead sessions, and return their names.  A root that does not exist has none.

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
        return []  # the last session in it has just ended, and removed the root
    swept = []
    for session in sessions:
        folder = os.path.join(session_root, session)
        try:
            check_private(folder)
            if _sweep_if_dead(session, folder):
                swept.append(session)
        except (PermissionError, FileNotFoundError, ValueError):
            continue  # Another user's, swept by another process, or no session's name: left alone.
    return swept


def check_private(folder: str) -> None:
    """Check that a folder is private.

    Raises:
        PermissionError: a link, no folder, another user's, or open to others.
        FileNotFoundError: the path does not exist.
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
        remove_spill_files(session, folder)
        # The lock is held until the folder is gone, so that two sweepers do not meet in it.
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except BlockingIOError:
        return False
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def remove_spill_files(session: str, session_folder: str) -> None:
    """Remove the spill files of a session whose node is dead, and the folder of all sessions if empty."""
    try:
        folder = os.readlink(os.path.join(session_folder, SPILLED_AT))
    except OSError:
        return  # none, or in the session's folder
    if os.path.basename(folder) == session and remove_if_dead(folder):
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(folder))


def remove_if_dead(folder: str) -> bool:
    """Remove a folder of spill files, unless its node lives.  Returns whether the folder was removed."""
    try:
        check_private(folder)
        lock = lock_session(folder)
    except (OSError, ValueError):
        return False  # in use, being made, gone, or not ours
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    return True


def sweep_memory() -> list[str]:
    """Remove this user's unlocked segments and semaphores, of any session root, and return their names."""
    try:
        names = sorted(name for name in os.listdir(SHARED_MEMORY_FOLDER) if FILE_NAME.fullmatch(name))
    except FileNotFoundError:
        return []
    locked: dict[str, int] = {}
    try:
        for name in names:
            if (descriptor := _lock_if_free(os.path.join(SHARED_MEMORY_FOLDER, name))) is not None:
                locked[name] = descriptor
        # Earlier versions of zray locked nothing.  A program may still use the arrays of an ended session.
        swept = sorted(locked.keys() - _mapped_files()) if locked else []
        for name in swept:
            with contextlib.suppress(FileNotFoundError):  # its session is being removed just now
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
    """Return names of files in shared memory mapped by processes visible to this user."""
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
