"""The clock of an experiment: seconds since the epoch, which never jump while the experiment is running.

Budgets and time limits count by it, and results are dated by it.  A correction of the system's clock is taken over when
the next experiment begins.
"""

from __future__ import annotations

import time

__all__ = ["now", "set_clock"]

_KIND = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the first one counts while a machine is suspended
_offset = time.time() - time.clock_gettime(_KIND)


def set_clock(at_least: float = 0.0) -> None:
    """Set the clock by the system's.

    Args:
        at_least: the time of the last event of the experiment, which goes on from there.
    """
    global _offset
    _offset = max(time.time(), at_least) - time.clock_gettime(_KIND)


def now() -> float:
    """The time."""
    return _offset + time.clock_gettime(_KIND)
