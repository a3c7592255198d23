"""CPUs and memory of this machine available to a session, within the limits of its cgroups (version 1 and 2).

A cgroup is bound by its own limits and by those of each cgroup above it, so the tightest on the way to the root counts.
A container shows a part of the way: the part above its mount point is invisible.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator

# The relevant controllers of version 1; version 2 has a single tree.
_CONTROLLERS = ("cpu", "memory")
_ALL = ""  # the name of the tree of version 2
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Cgroups:
    """The cgroups of this process, read from the machine's files."""

    def __init__(self, root: str = "") -> None:
        """root: a folder in place of `/`."""
        self.root = root
        memberships = self._memberships()
        self.folders: dict[str, list[str]] = {}  # by controller, the process's own first
        for controller, mount_root, mount_point in self._mounts():
            if controller in memberships:
                way = self._way_up(mount_root, mount_point, memberships[controller])
                self.folders[controller] = max(self.folders.get(controller, []), way, key=len)

    def cpus(self) -> float:
        """Return the CPUs by the tightest quota; 0.0: no quota.

        Limits on usable CPUs (cpuset) are part of the process's affinity.
        """
        found = [self._quota_of(folder) for folder in self.folders.get(_ALL, ())]
        found += [self._old_quota_of(folder) for folder in self.folders.get("cpu", ())]
        return min(filter(None, found), default=0.0)

    def memory_bytes(self) -> int | None:
        """Return the memory by the tightest limit; None: no limit.

        Processes above memory.high are slowed down to a standstill, so it counts as a limit.
        """
        found = []
        for controller, names in ((_ALL, ("memory.max", "memory.high")), ("memory", ("memory.limit_in_bytes",))):
            for folder in self.folders.get(controller, ()):
                found += [self.numbers(folder, name) for name in names]
        limits = [numbers[0] for numbers in found if numbers and numbers[0] > 0]
        return min(limits, default=None)

    def memory_folders(self) -> list[str]:
        """Return the cgroup of this process's memory, then the cgroups above."""
        return [*self.folders.get(_ALL, ()), *self.folders.get("memory", ())]

    def _quota_of(self, folder: str) -> float:
        numbers = self.numbers(folder, "cpu.max")
        return numbers[0] / numbers[1] if len(numbers) == 2 and min(numbers) > 0 else 0.0

    def _old_quota_of(self, folder: str) -> float:
        numbers = self.numbers(folder, "cpu.cfs_quota_us") + self.numbers(folder, "cpu.cfs_period_us")
        return numbers[0] / numbers[1] if len(numbers) == 2 and min(numbers) > 0 else 0.0

    @staticmethod
    def numbers(folder: str, name: str) -> list[int]:
        """Return the numbers in a file; none if the file says "max", or cannot be read."""
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                return [int(word) for word in file.read().split()]
        except (OSError, ValueError):
            return []

    def _memberships(self) -> dict[str, str]:
        """Return the path of this process's cgroup, by controller."""
        found = {}
        for line in self._lines("/proc/self/cgroup"):
            _, _, rest = line.partition(":")
            controllers, colon, path = rest.partition(":")
            if colon:
                found.update(dict.fromkeys(controllers.split(","), path))
        return found

    def _mounts(self) -> Iterator[tuple[str, str, str]]:
        """Yield (controller, the mounted part of its tree, mount point) of each mounted tree."""
        for line in self._lines("/proc/self/mountinfo"):
            left, dash, right = line.partition(" - ")
            fields, kind = left.split(), right.split()
            if not dash or len(fields) < 5 or len(kind) < 3:
                continue
            mount_root, mount_point = (_ESCAPE.sub(_character, field) for field in fields[3:5])
            if kind[0] == "cgroup2":
                yield _ALL, mount_root, mount_point
            elif kind[0] == "cgroup":
                for controller in set(_CONTROLLERS) & set(kind[2].split(",")):
                    yield controller, mount_root, mount_point

    def _lines(self, path: str) -> list[str]:
        try:
            with open(self.root + path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read().splitlines()
        except OSError:
            return []

    def _way_up(self, mount_root: str, mount_point: str, path: str) -> list[str]:
        """Return the folders of a cgroup and of all above, up to the mount point.

        A path outside the mounted part is the host's name of a cgroup that the container sees as its root.
        """
        top = self.root + mount_point
        inside = os.path.relpath(path, mount_root)
        is_inside = not inside.startswith("..") and not path.startswith("/..")
        names = [name for name in inside.split("/") if name != "."] if is_inside else []
        return [os.path.join(top, *names[:count]) for count in range(len(names), -1, -1)]


def _character(found: re.Match[str]) -> str:
    return chr(int(found.group(1), 8))


SHARED_MEMORY = "/dev/shm"
# The filled part of the memory from which on workers are ended.  As Ray's memory_usage_threshold.
SHORT_ABOVE = 0.95
# The filled part of a store from which on objects are spilled.  As Ray's object_spilling_threshold.
SPILL_ABOVE = 0.8


def cpu_count(root: str = "") -> int:
    """Return the CPUs of this process: its affinity, and the tightest quota of its cgroups rounded up.

    root: a folder with files of cgroups, in place of `/`.
    """
    count = len(os.sched_getaffinity(0))
    quota = Cgroups(root).cpus()
    return max(1, min(count, math.ceil(quota))) if quota else count


def memory_bytes(root: str = "") -> int:
    """Return the memory of the machine, or the tightest limit of its cgroups if less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Cgroups(root).memory_bytes()
    return total if limit is None else min(total, limit)


def work_bytes(root: str = "") -> int:
    """Return the default of the resource "memory": the rest beside the default object store."""
    return memory_bytes(root) * 7 // 10 >> 20 << 20


def store_bytes(root: str = "") -> int:
    """Default size of the object store: 30 % of memory, at most 80 % of the free shared memory."""
    status = os.statvfs(SHARED_MEMORY)
    return max(1 << 20, min(memory_bytes(root) * 3 // 10, status.f_bavail * status.f_frsize * 8 // 10)) >> 12 << 12


def why_store_is_too_large(asked: float | None, root: str = "") -> str:
    """Return why the machine could never hold an object store of so many bytes; "": it could.

    This is no error: the store works up to the actual limit, and a program that asks for a certain size runs anywhere.
    """
    if asked is None:
        return ""
    status = os.statvfs(SHARED_MEMORY)
    most = status.f_blocks * status.f_frsize
    if most and asked > most:  # a tmpfs without a limit says 0
        return (
            f"an object store of {asked:,.0f} bytes was requested, but {SHARED_MEMORY} of this machine holds {most:,}: "
            "the store will be full at that size.  Request less, or enlarge it (of a container: --shm-size)."
        )
    if asked > (most := memory_bytes(root)):
        return (
            f"an object store of {asked:,.0f} bytes was requested, but this process may use {most:,} bytes of memory: "
            "processes are killed when the store grows beyond that.  Request less, or raise the limit (of a container: "
            "--memory; of Slurm: --mem; of systemd-run: -p MemoryMax)."
        )
    return ""


def memory_threshold() -> float:
    """Return the filled part of memory from which on workers are ended: ZRAY_MEMORY_USAGE_THRESHOLD, or 0.95.

    Raises:
        ValueError: not a number above 0 and up to 1; 1 ends none.
    """
    return _part("ZRAY_MEMORY_USAGE_THRESHOLD", SHORT_ABOVE)


def spill_threshold() -> float:
    """Return the filled part of the store from which on objects are spilled: ZRAY_SPILL_THRESHOLD, or 0.8.

    Raises:
        ValueError: not a number above 0 and up to 1.
    """
    return _part("ZRAY_SPILL_THRESHOLD", SPILL_ABOVE)


def _part(name: str, default: float) -> float:
    """Return the part of a whole that an environment variable gives, or the default where it is not set."""
    text = os.environ.get(name, "")
    try:
        part = float(text) if text else default
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise ValueError(f"{name} must be a number above 0 and up to 1, not {text!r}.")
    return part
