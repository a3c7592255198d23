"""How long a thread has waited for a core: a run that was held up says nothing of how long its function takes.

On a machine where more wants to run than there are cores, a task of microseconds is now and then set aside for
20 ms.  Were that taken for its run time, its node would send it and its like in small batches, and to other nodes.
"""

from __future__ import annotations

from pathlib import Path

# The kernel's own count; the second number is nanoseconds.  Not all kernels have it: then nothing is known.
SCHEDSTAT = Path("/proc/thread-self/schedstat")
HELD_UP_PART = 0.5  # of a run: what was held up for less counts as it is


class CoreWaits:
    """Of the thread that asks."""

    def __init__(self, path: Path = SCHEDSTAT) -> None:
        self.path = path
        self.waited = self._read()

    def hold_up(self, seconds: float) -> bool:
        """Whether most of a run that took so long may have been waits for a core: so much has come since last asked."""
        before, self.waited = self.waited, self._read()
        return self.waited - before >= HELD_UP_PART * seconds

    def _read(self) -> float:
        try:
            return int(self.path.read_text().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0
