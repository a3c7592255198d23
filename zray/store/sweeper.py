"""What dead sessions left behind: their shared memory, semaphores and folders.

A session lives while some process holds the lock of `<session_root>/<session>/lock`; the kernel lets go of it
when the last such process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time

from .segment import unlink_session

LOCK = "lock"
# A folder without a lock may be a session that is just being made.
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
