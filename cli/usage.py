"""Facts on the local processes of a session: programs, and the memory really in use."""

from __future__ import annotations

import os
import shlex
import time
from typing import Any

COMMAND_MAX = 200  # characters
SHARED_MEMORY = "/dev/shm"


def programs(pids: list[int]) -> list[dict[str, Any]]:
    """Return programs by pid, as plain data.  A program that has just ended is left out."""
    import psutil

    from zray.exceptions.printable import printable

    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            command, begun = shlex.join(filter(None, process.cmdline())), process.create_time()
        except psutil.Error:
            continue
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(begun))
        found.append({"pid": pid, "command": printable(command[:COMMAND_MAX]), "started": started})
    return found


def memory(node_pid: int, session: str) -> dict[str, int]:
    """Memory in use by the node and all processes below it, and by the object store.

    Pages that several processes share are counted once.  The store is counted by itself.
    """
    import psutil

    try:
        node = psutil.Process(node_pid)
        pids = [node_pid, *(child.pid for child in node.children(recursive=True))]
    except psutil.Error:
        pids = []
    sizes = [size for pid in pids if (size := _own_bytes(pid)) is not None]
    return {"processes": len(sizes), "used_bytes": sum(sizes), "store_bytes": _store_bytes(session)}


def _own_bytes(pid: int) -> int | None:
    """Return one process's share in memory, without shared memory; None for an ended process."""
    found = {}
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in ("Pss", "Pss_Shmem"):
                    found[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError):
        return None
    return found.get("Pss", 0) - found.get("Pss_Shmem", 0)


def _store_bytes(session: str) -> int:
    """Memory behind the segments of a session."""
    total = 0
    try:
        for entry in os.scandir(SHARED_MEMORY):
            if entry.name.startswith(f"zray-{session}-"):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        pass  # one has gone meanwhile: the session ends
    return total
