"""Logs that outlive their session: its folder `logs` is a link into the user's folder of state.

    $ZRAY_LOG_DIR, or $XDG_STATE_HOME/zray/logs, or ~/.local/state/zray/logs      0700
        SESSION/              0700
            session.jsonl     facts in lines of JSON; locked by the node while it lives
            node.log ...      as in session.py

The files lie there from the start, so that a kill -9 of all processes loses none.  A node that starts sweeps logs of
ended sessions: those older than ZRAY_LOG_DAYS, and the oldest while all take more than ZRAY_LOG_BYTES.  If the folder
cannot be written, logs lie in the session's folder and go with it.

Only modules of the node's first steps are imported (node/main.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from contextlib import suppress
from typing import Any

from ...store.sweeper import check_private
from .spill_directory import is_in_memory

INDEX = "session.jsonl"
DAYS, BYTES = 7.0, 1 << 30
# More sessions than anybody reads: the sweep of a start takes milliseconds.
SESSIONS_MAX = 1_000
# The time of the last sweep is that of this file.
STAMP = ".swept"
SWEEP_SECONDS = 60.0
# A folder without an index may be one that is being made.
WITHOUT_INDEX_S_MIN = 60.0
BLOCK_BYTES = 512  # of st_blocks


def log_root() -> str:
    """Return the folder of all kept logs."""
    if folder := os.environ.get("ZRAY_LOG_DIR"):
        return os.path.abspath(folder)
    base = os.environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.local/state"), "zray", "logs")


def bounds() -> tuple[float, int]:
    """Return the limits of kept logs, in days and in bytes; a 0 keeps none.

    Raises:
        ValueError: a variable of the environment is no number of at least 0.
    """
    found = []
    for name, default in (("ZRAY_LOG_DAYS", DAYS), ("ZRAY_LOG_BYTES", float(BYTES))):
        text = os.environ.get(name, "")
        try:
            number = float(text) if text else default
        except ValueError:
            number = -1.0
        if not number >= 0:
            raise ValueError(f"{name} must be a number of at least 0, not {text!r}.")
        found.append(number)
    return found[0], int(min(found[1], 1 << 62))


class KeptLogs:
    """The kept logs of a running session, held by its node."""

    def __init__(self, session: str) -> None:
        """Make the folder of the session, and lock its index.

        Raises:
            OSError: the folder cannot be made or written, or lies in memory.
        """
        root = log_root()
        if not os.path.isabs(root):
            raise OSError("this user has no home folder")
        os.makedirs(root, mode=0o700, exist_ok=True)
        check_private(root)
        if not os.environ.get("ZRAY_LOG_DIR") and is_in_memory(root):
            raise OSError(f"{root} lies in memory")
        self.folder = os.path.join(root, session)
        os.mkdir(self.folder, 0o700)
        path = os.path.join(self.folder, INDEX)
        try:
            self.descriptor = os.open(
                f"{path}.new", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            os.write(self.descriptor, f'{{"session":"{session}"}}\n'.encode())  # now a full disk is noticed
            os.rename(f"{path}.new", path)  # locked before it gets its name
        except OSError:
            self.remove()
            raise

    def note(self, **facts: Any) -> None:
        """Add facts to the index."""
        from msgspec import json

        with suppress(OSError):  # a full disk is no reason to end
            os.write(self.descriptor, json.encode(facts) + b"\n")

    def end(self, reason: str, *, is_worth_keeping: bool) -> None:
        """Note the end of the session, once.  Logs not worth keeping go if no worker has printed."""
        if self.descriptor < 0:
            return
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        if is_worth_keeping or any(_has_output(os.path.join(self.folder, name)) for name in names):
            tidy(self.folder)
            self.note(ended=time.time(), reason=reason)
        else:
            self.remove()
        os.close(self.descriptor)  # this process may go on, to join its cluster again
        self.descriptor = -1

    def remove(self) -> None:
        """Remove the logs."""
        shutil.rmtree(self.folder, ignore_errors=True)


def begin(session: str) -> tuple[KeptLogs | None, str]:
    """Return the kept logs of a new session; or None, and why there are none ("": the user wants none)."""
    try:
        if 0 in bounds():
            return None, ""
        return KeptLogs(session), ""
    except (OSError, ValueError) as error:
        return None, f"{error}"


def _has_output(path: str) -> bool:
    name = os.path.basename(path)
    try:
        return name.startswith(("worker-", "job-", "crash-", "replay-")) and os.stat(path).st_size > 0
    except OSError:
        return False


def tidy(folder: str) -> None:
    """Remove from an ended session's logs what only its processes needed: folders of jobs, notes and empty logs."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif entry.name.startswith(".") or (entry.name != INDEX and not entry.stat().st_size):
                    os.unlink(entry.path)


def is_running(folder: str) -> bool:
    """Return whether the node of the session lives."""
    try:
        descriptor = os.open(os.path.join(folder, INDEX), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(descriptor)


def room_of(folder: str) -> int:
    """Return the bytes of a session's logs on disk; a file counts once, whatever links lead to it."""
    with suppress(OSError):
        return sum(
            entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
            for entry in os.scandir(folder)
            if not entry.is_dir(follow_symlinks=False)
        )
    return 0


def newest_change(folder: str) -> float:
    """Return when the index of a session was written last, or its folder if it has none."""
    for path in (os.path.join(folder, INDEX), folder):
        with suppress(OSError):
            return os.lstat(path).st_mtime
    return 0.0


def sweep_if_due() -> None:
    """Sweep, unless a session has done so within the last minute: programs may start many."""
    stamp = os.path.join(log_root(), STAMP)
    with suppress(OSError):
        if 0 <= time.time() - os.lstat(stamp).st_mtime < SWEEP_SECONDS:
            return
    with suppress(OSError):
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        os.utime(stamp)
    sweep()


def sweep() -> None:
    """Remove logs of ended sessions beyond the limits, oldest first.  Several processes may do so at a time."""
    days, room = bounds()
    root, now = log_root(), time.time()
    try:
        folders = [entry.path for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    ages = {folder: newest_change(folder) for folder in folders}
    used = {folder: room_of(folder) for folder in folders}
    excess, count = sum(used.values()) - room, len(folders)
    for folder in sorted(folders, key=ages.__getitem__):
        is_old = ages[folder] < now - 86_400 * days
        if not (is_old or excess > 0 or count > SESSIONS_MAX):
            return
        has_index = os.path.exists(os.path.join(folder, INDEX))
        if is_running(folder) or (not has_index and now - ages[folder] < WITHOUT_INDEX_S_MIN):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        excess, count = excess - used[folder], count - 1
