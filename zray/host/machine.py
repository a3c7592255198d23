"""What this machine gives a session: CPUs and memory, as far as limits allow (U13, U26)."""

from __future__ import annotations

import os

SHARED_MEMORY = "/dev/shm"


def cpu_count() -> int:
    """CPUs that this process may use: its affinity, and its cgroup's quota rounded up."""
    count = len(os.sched_getaffinity(0))
    quota = _cgroup_cpus()
    return max(1, min(count, -(-quota // 1) if quota else count).__int__())


def _cgroup_cpus() -> float:
    """CPUs by quota; 0.0 where there is none."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
            return 0.0 if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", encoding="ascii") as file:
            quota_us = int(file.read())
        with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us", encoding="ascii") as file:
            return quota_us / int(file.read()) if quota_us > 0 else 0.0
    except (OSError, ValueError):
        return 0.0


def memory_bytes() -> int:
    """Memory of the machine, or of the cgroup where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path, encoding="ascii") as file:
                total = min(total, int(file.read()))
        except (OSError, ValueError):
            continue
    return total


def work_bytes() -> int:
    """Default of the resource "memory": what the default object store leaves."""
    return memory_bytes() * 7 // 10 >> 20 << 20


def store_bytes() -> int:
    """Default size of the object store: 30 % of memory, at most 80 % of the free shared memory."""
    status = os.statvfs(SHARED_MEMORY)
    return max(1 << 20, min(memory_bytes() * 3 // 10, status.f_bavail * status.f_frsize * 8 // 10)) >> 12 << 12


def why_store_is_too_large(asked: float | None) -> str:
    """In words, where the machine could never hold an object store of so many bytes; "" where it could.

    It is no error: the store works up to what there is, and a program that asks for a certain size runs anywhere.
    """
    status = os.statvfs(SHARED_MEMORY)
    most = status.f_blocks * status.f_frsize
    if asked is None or not most or asked <= most:  # a tmpfs without a limit says 0
        return ""
    return (
        f"an object store of {asked:,.0f} bytes was asked for, but {SHARED_MEMORY} of this machine holds {most:,}: the "
        "store will be full at that.  Ask for less, or make it larger (of a container: --shm-size)."
    )
