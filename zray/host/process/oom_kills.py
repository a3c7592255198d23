"""The kernel's OOM killer: whether a SIGKILL was its work, by the counter of the cgroup of a node and its workers.

The kernel counts a kill before it sends the signal, so the count is there when the process has ended.
"""

from __future__ import annotations

import os
import signal

from .machine_resources import Cgroups

# Version 2, version 1, and machines whose processes are in no cgroup with a memory controller.
_EVENTS, _OLD_EVENTS, _MACHINE_EVENTS = "memory.events", "memory.oom_control", "/proc/vmstat"
# A count that rose for another process of the cgroup explains no later death.
FRESH_SECONDS = 5.0


class OomKills:
    """The kills that the kernel has counted, and those of them that have explained a death."""

    def __init__(self, root: str = "") -> None:
        """root: a folder that stands for `/`."""
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
        self.unexplained = 0  # kills that no death of ours was blamed on
        self.risen_at = 0.0

    def _count(self) -> int:
        return _count_in(self.path) or 0

    def look(self, now: float) -> None:
        """Take in the count: kills from now on are told from those before."""
        count = self._count()
        if now - self.risen_at > FRESH_SECONDS:
            self.unexplained = 0
        if count > self.seen:
            self.unexplained += count - self.seen
            self.risen_at = now
        self.seen = count

    def explain(self, status: int, peak_bytes: int, now: float) -> str:
        """Words on the memory of a process that the OOM killer has ended; "" for another end.

        status: its wait status.  peak_bytes: the most memory that it had; 0 where unknown.
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
    """The kills that a file counts; None where it has no such line."""
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
