"""The number of tolerated offences: a peer with repeated forbidden messages is dropped (docs/security.md, S11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

OFFENCES_MAX = 10
WINDOW_SECONDS = 60.0
LINES_MAX = 1_000
# Of whom it is remembered: each has a name of its own that was let in (a process of this machine, a key).
SENDERS_MAX = 1_000


class BoundedLog:
    """As a log, but it has an end: strangers make some of the lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.count = 0

    def __call__(self, line: str) -> None:
        self.count += 1
        if self.count <= LINES_MAX:
            self.write(line)


class Offences:
    """Counts them per sender."""

    def __init__(self) -> None:
        self.count = 0
        # The latest ones of each sender; who has offended last stands last.
        self.at: dict[str, deque[float]] = {}

    def note(self, sender: str, now: float) -> bool:
        """One more.  Whether it is too many."""
        self.count += 1
        times = self.at.pop(sender, None) or deque(maxlen=OFFENCES_MAX + 1)
        times.append(now)
        self.at[sender] = times
        self._forget(now)
        return len(times) > OFFENCES_MAX and now - times[0] <= WINDOW_SECONDS

    def _forget(self, now: float) -> None:
        """Those that have been good for long: what they did counts no more.  And the oldest of very many."""
        for sender, times in list(islice(self.at.items(), 2)):
            if now - times[-1] > WINDOW_SECONDS or len(self.at) > SENDERS_MAX:
                del self.at[sender]
