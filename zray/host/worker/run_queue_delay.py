"""Waits of a thread for a core: a run with such delays says nothing about the duration of its function.

On a machine with more runnable threads than cores, a task of microseconds is now and then suspended for 20 ms.  If that
counted as run time, the node would send such tasks in small batches, and to other nodes.
"""

from __future__ import annotations

from pathlib import Path

# The kernel's count; the second number is nanoseconds.  Not all kernels have it: then nothing is known.
SCHEDSTAT = Path("/proc/thread-self/schedstat")
HELD_UP_PART = 0.5  # of a run: a smaller part of waiting is ignored


class CoreWaits:
    """The waits of the calling thread for a core."""

    def __init__(self, path: Path = SCHEDSTAT) -> None:
        self.path = path
        self.waited = self._read()

    def hold_up(self, seconds: float) -> bool:
        """Return whether most of a run may have been waits for a core, by the count since the last call."""
        before, self.waited = self.waited, self._read()
        return self.waited - before >= HELD_UP_PART * seconds

    def _read(self) -> float:
        try:
            return int(self.path.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
