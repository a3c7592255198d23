"""The clocks behind the number of global schedulers: CPU time of this process, and idle time of the machine's cores."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ...roles.replica_effects import CpuMeasured

CLOCKS = "/proc/stat"


def measured(path: str = CLOCKS) -> CpuMeasured:
    """Return both; no idle time where the system does not tell it."""
    return CpuMeasured(time.process_time(), idle_seconds(path))


def idle_seconds(path: str = CLOCKS) -> float:
    """Return the idle seconds since the start of the machine, over the cores that this process may use."""
    allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:
        for line in file:
            name, *fields = line.split()
            if name in allowed:  # user, nice, system, idle, iowait
                ticks += int(fields[3]) + int(fields[4])
    return ticks / os.sysconf("SC_CLK_TCK")
