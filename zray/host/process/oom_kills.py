"""The kernel's OOM killer: whether it sent a SIGKILL, by the counter of the cgroup of a node and its workers.

The kernel counts a kill before it sends the signal, so the count is complete when the process has ended.
"""

from __future__ import annotations

import os
import signal

from .machine_resources import Cgroups

# Version 2, version 1, and machines without a memory controller for the process.
_EVENTS, _OLD_EVENTS, _MACHINE_EVENTS = "memory.events", "memory.oom_control", "/proc/vmstat"
# A count that rose for another process of the cgroup explains no later death.
FRESH_SECONDS = 5.0


class OomKills:
    """Kills counted by the kernel, and how many of them explained a death."""

    def __init__(self, root: str = "") -> None:
        """root: a folder in place of `/`."""
        self.cgroups = Cgroups(root)
        self.folders = self.cgroups.memory_folders()
        self.path = next(
            (
                path
                for folder in self.folders
                for name in (_EVENTS, _OLD_EVENTS)
                if _count_in(path := os.path.join(folder, name)) is not None
            ),
            root + _MACHINE_EVENTS,
        )
        self.seen = self._count()
        self.unexplained = 0  # kills not yet used to explain a death
        self.risen_at = 0.0

    def _count(self) -> int:
        return _count_in(self.path) or 0

    def look(self, now: float) -> None:
        """Read the count, to separate later kills from earlier ones."""
        count = self._count()
        if now - self.risen_at > FRESH_SECONDS:
            self.unexplained = 0
        if count > self.seen:
            self.unexplained += count - self.seen
            self.risen_at = now
        self.seen = count

    def explain(self, status: int, peak_bytes: int, now: float) -> str:
        """Return a text on the memory of a process that the OOM killer has ended; "" for another end.

        status: the wait status.  peak_bytes: the most memory in use; 0 if unknown.
        """
        self.look(now)
        if not self.unexplained or not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            return ""
        self.unexplained -= 1
        own = f"; the process used up to {_gigabytes(peak_bytes)}" if peak_bytes else ""
        return f" by the kernel's OOM killer: memory ran out{own}; {self._usage()}"

    def _usage(self) -> str:
        limit = self.cgroups.memory_bytes()
        if limit is None:
            total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            return f"the machine has {_gigabytes(total)}"
        for folder in self.folders:
            for name in ("memory.peak", "memory.max_usage_in_bytes", "memory.current", "memory.usage_in_bytes"):
                if used := Cgroups.numbers(folder, name):
                    return f"its cgroup used {_gigabytes(used[0])} of a limit of {_gigabytes(limit)}"
        return f"the limit of its cgroup is {_gigabytes(limit)}"


def _count_in(path: str) -> int | None:
    """Return the kills counted in a file; None if the file has no such line."""
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, count = line.partition(" ")
                if name == "oom_kill":
                    return int(count)
    except (OSError, ValueError):
        pass
    return None


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"
