"""The memory of a node's machine and of its workers, read often enough to notice a shortage before the kernel acts.

A look reads one or two small files.  Memory of workers is read for those with a limit, and of all of them in a shortage
alone.  A worker's memory is what no other process shares: arrays in the object store are not in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from ...roles.work_effects import MemoryUse, WatchMemory
from ..process.machine_resources import Cgroups

# The time between looks, in seconds: as Ray's memory_monitor_refresh_ms; and while memory is plentiful and unlimited.
LOOK_SECONDS, SELDOM_SECONDS = 0.25, 1.0
PLENTIFUL_BELOW = 0.6  # of the threshold
LARGEST_COUNT = 3


class MemoryWatch:
    """Looks at the memory.

    Args:
        threshold: as `memory_threshold` returns it.
        pids: returns the workers with their pids.
        root: a folder in place of `/`.
    """

    def __init__(self, threshold: float, pids: Callable[[], dict[str, int]], root: str = "") -> None:
        self.threshold = threshold
        self.pids = pids
        self.root = root
        self.cgroups = Cgroups(root)
        self.orders = WatchMemory({}, False)
        self.before: dict[str, tuple[int, int]] = {}  # worker -> its limit, and its bytes when that was set
        self.part = 0.0  # of the memory in use

    def watch(self, orders: WatchMemory) -> None:
        """WatchMemory."""
        pids = self.pids()
        self.orders = orders
        self.before = {
            worker: self.before[worker]
            if worker in self.before and self.before[worker][0] == limit
            else (limit, anonymous_bytes(pids.get(worker, 0), self.root))
            for worker, limit in orders.limits.items()
        }

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        is_wanted = bool(self.before) or self.orders.is_followed
        return LOOK_SECONDS if is_wanted or self.part > PLENTIFUL_BELOW * self.threshold else SELDOM_SECONDS

    def look(self) -> MemoryUse | None:
        """Return what the local scheduler is to hear, if anything."""
        used, total = self.usage()
        self.part = used / total if total else 0.0
        limit = int(self.threshold * total)
        is_short = self.threshold < 1 and used > limit
        over = self._over() if self.before else {}
        if not (is_short or over or self.orders.is_followed):
            return None
        message = MemoryUse(used if is_short else min(used, limit), limit, total, over=over)
        if is_short:
            message.by_worker = {worker: _bytes_with_children(pid) for worker, pid in self.pids().items()}
            message.largest = _largest()
        return message

    def _over(self) -> dict[str, int]:
        pids, found = self.pids(), {}
        for worker, (limit, before) in self.before.items():
            grown = anonymous_bytes(pids.get(worker, 0), self.root) - before
            if grown > limit:
                found[worker] = grown
        return found

    def usage(self) -> tuple[int, int]:
        """Return the bytes in use, and how many there are: of the cgroup that is filled most, or of the machine.

        What the kernel can free at once (files in its cache) is not in use.
        """
        memory = _numbers_of(f"{self.root}/proc/meminfo", ("MemTotal:", "MemAvailable:"), 1024)
        found = [(memory[0] - memory[1], memory[0])] if len(memory) == 2 else []
        for folder in self.cgroups.memory_folders():
            for limit_name, use_name, prefix in (
                ("memory.max", "memory.current", ""),
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
            ):
                limit, use = self.cgroups.numbers(folder, limit_name), self.cgroups.numbers(folder, use_name)
                if limit and use and limit[0] > 0:
                    names = (f"{prefix}inactive_file", f"{prefix}active_file")
                    files = sum(_numbers_of(os.path.join(folder, "memory.stat"), names))
                    found.append((max(0, use[0] - files), limit[0]))
        return max(found, key=lambda pair: pair[0] / pair[1], default=(0, 0))


def _numbers_of(path: str, names: Iterable[str], unit: int = 1) -> list[int]:
    """Return the numbers behind these names in a file of lines, in the order of the file."""
    found = []
    with suppress(OSError, ValueError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            words = line.split()
            if words and words[0] in names:
                found.append(int(words[1]) * unit)
    return found


def anonymous_bytes(pid: int, root: str = "") -> int:
    """Return the bytes of a process that are in no file and no shared memory; 0: it is gone."""
    return sum(_numbers_of(f"{root}/proc/{pid}/status", ("RssAnon:",), 1024)) if pid else 0


def _bytes_with_children(pid: int) -> int:
    import psutil  # in a shortage alone

    children: list[Any] = []
    with suppress(psutil.Error):
        children = psutil.Process(pid).children(recursive=True)
    return anonymous_bytes(pid) + sum(anonymous_bytes(child.pid) for child in children)


def _largest() -> str:
    """Return the largest processes of the machine, in words."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            found.append((anonymous_bytes(process.pid), process.pid, process.name()))
    found.sort(reverse=True)
    return ", ".join(f"{name} (pid {pid}) {size / 1e9:.2f} GB" for size, pid, name in found[:LARGEST_COUNT])
