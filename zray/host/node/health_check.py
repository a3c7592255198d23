"""Checks, each second at least, of the session's folder, the shared memory, and the memory of the machine.

A user who empties a temporary folder removes the session's folder.  Then no program finds the session, and no worker
has a log to start with.  Shared memory removed or truncated by hand loses its content, and a reader in place is killed
by SIGBUS (processes check before they read, store/arena.py).  So the node ends, and tells the reason to its drivers and
the machine's log, since its own may be gone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...store.segment import SHARED_MEMORY_FOLDER, SegmentCutError
from ...wire.message import Local
from ..process.machine_resources import memory_threshold
from ..process.syslog import say_to_machine
from .memory_watch import MemoryWatch

if TYPE_CHECKING:
    from .node import Node


class LookAgain(Local):
    """Time for the next look."""


class HealthCheck:
    """The check of a node.  The reactor treats the object as a role, and passes timers to it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.address = f"{node.host}/health"
        self.memory = MemoryWatch(memory_threshold(), lambda: node.workers.pids)
        self.verdict = ""  # why the session cannot continue, or ""

    def begin(self) -> None:
        """Look from now on."""
        self.node.reactor.set_timer(self.memory.pause, self.address, LookAgain())

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timer."""
        if reason := self._folder_trouble() or self._memory_trouble():
            self.give_up(reason)
            return []
        if (use := self.memory.look()) is not None:
            self.node.tell_local(use)
        self.begin()
        return []

    def give_up(self, reason: str) -> None:
        """End the session with this turn, and tell the drivers why."""
        if not self.verdict:
            self.verdict = reason
            self.node.farewell_and_end(reason)

    def say_at_last(self) -> None:
        """Report the reason to the machine's log, when the session's own log is gone."""
        if self.verdict:
            say_to_machine(f"session {self.node.session.name} (node {self.node.host}) has ended: {self.verdict}")

    def _folder_trouble(self) -> str:
        """Return why the folder is unusable, or "".  The lock file identifies it: the file is open, so its inode number
        is unique.
        """
        session = self.node.session
        lock = os.fstat(self.node.lock)
        try:
            found = os.stat(session.lock_path, follow_symlinks=False)
            is_ours = (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            is_ours = False
        except OSError:
            return ""  # the folder cannot be examined, which is no proof
        if not is_ours:
            return f"its folder {session.folder}, or a file in it, was removed"
        if not os.path.lexists(session.socket_path):
            return f"its socket {session.socket_path}, by which programs find it, was removed"
        return ""

    def _memory_trouble(self) -> str:
        segment = self.node.segments.get(0)  # the arena; the others are in files
        if segment is not None:
            try:
                segment.check(0, segment.size)
            except SegmentCutError as error:
                return error.strerror
            if not segment.has_name():
                return f"its shared memory {SHARED_MEMORY_FOLDER}{segment.name} was removed"
        return ""
