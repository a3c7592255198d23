"""CPUs and memory that this machine gives a session, as far as limits allow."""

from __future__ import annotations

import math
import os

from .cgroups import Cgroups

SHARED_MEMORY = "/dev/shm"


def cpu_count(root: str = "") -> int:
    """CPUs that this process may use: its affinity, and the tightest quota of its cgroups rounded up.

    root: a folder with files of cgroups that stands for `/`.
    """
    count = len(os.sched_getaffinity(0))
    quota = Cgroups(root).cpus()
    return max(1, min(count, math.ceil(quota))) if quota else count


def memory_bytes(root: str = "") -> int:
    """Memory of the machine, or the tightest limit of its cgroups where that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Cgroups(root).memory_bytes()
    return total if limit is None else min(total, limit)


def work_bytes(root: str = "") -> int:
    """Default of the resource "memory": what the default object store leaves."""
    return memory_bytes(root) * 7 // 10 >> 20 << 20


def store_bytes(root: str = "") -> int:
    """Default size of the object store: 30 % of memory, at most 80 % of the free shared memory."""
    status = os.statvfs(SHARED_MEMORY)
    return max(1 << 20, min(memory_bytes(root) * 3 // 10, status.f_bavail * status.f_frsize * 8 // 10)) >> 12 << 12


def why_store_is_too_large(asked: float | None, root: str = "") -> str:
    """Why the machine could never hold an object store of so many bytes, in words; "" where it could.

    This is no error: the store works up to what there is, and a program that asks for a certain size runs anywhere.
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
