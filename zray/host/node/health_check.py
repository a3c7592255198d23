"""What a node stands on outside of its own process, looked at once a second: its session's folder, its shared memory.

Whoever empties a temporary folder takes the folder away.  Nobody finds the session then, and no worker has a log to
start with.  Memory that was removed or truncated by hand loses what lies in it, and who reads that in place is killed
by a SIGBUS (processes look ahead of that, store/arena.py).  So the node ends, and says why to its drivers, and to the
machine's log, for its own may be gone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...store.segment import SHARED_MEMORY_FOLDER, SegmentCutError
from ...wire.message import Local
from ..process.syslog import say_to_machine

if TYPE_CHECKING:
    from .node import Node

# A look costs some microseconds; whoever removes the folder should not wait longer for the memory to be free.
LOOK_SECONDS = 1.0


class LookAgain(Local):
    """Time for the next look."""


class HealthCheck:
    """To the reactor it looks like a role, which is given its timers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.address = f"{node.host}/health"
        self.verdict = ""  # why the session cannot go on; "": it can

    def begin(self) -> None:
        """Look from now on."""
        self.node.reactor.set_timer(LOOK_SECONDS, self.address, LookAgain())

    def handle(self, sender: str, message: Any, now: float) -> list[Any]:
        """Our timer."""
        if reason := self._folder_trouble() or self._memory_trouble():
            self.give_up(reason)
        else:
            self.begin()
        return []

    def give_up(self, reason: str) -> None:
        """The session ends with this turn, and its drivers are told why."""
        if not self.verdict:
            self.verdict = reason
            self.node.farewell_and_end(reason)

    def say_at_last(self) -> None:
        """When nothing is left of the session that could be looked at."""
        if self.verdict:
            say_to_machine(f"session {self.node.session.name} (node {self.node.host}) has ended: {self.verdict}")

    def _folder_trouble(self) -> str:
        """The lock tells it from another folder of the same name: we hold it open, so no other file has its number."""
        session = self.node.session
        lock = os.fstat(self.node.lock)
        try:
            found = os.stat(session.lock_path, follow_symlinks=False)
            is_ours = (found.st_dev, found.st_ino) == (lock.st_dev, lock.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            is_ours = False
        except OSError:
            return ""  # it cannot be looked at, which is no proof
        if not is_ours:
            return f"its folder {session.folder}, or a file in it, was removed"
        if not os.path.lexists(session.socket_path):
            return f"its socket {session.socket_path}, by which programs find it, was removed"
        return ""

    def _memory_trouble(self) -> str:
        for segment in self.node.segments.values():
            try:
                segment.check(0, segment.size)
            except SegmentCutError as error:
                return error.strerror
            if not segment.has_name():
                return f"its shared memory {SHARED_MEMORY_FOLDER}{segment.name} was removed"
        return ""
