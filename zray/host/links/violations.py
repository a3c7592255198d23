"""The number of tolerated offences: a peer with repeated forbidden messages is dropped (docs/security.md, S11)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

OFFENCES_MAX = 10
WINDOW_SECONDS = 60.0
LINES_MAX = 1_000
# Limit of remembered senders: each has an admitted name (a process of this machine, a key).
SENDERS_MAX = 1_000


class BoundedLog:
    """A log with a limited number of lines: unauthenticated peers cause some of them."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.count = 0

    def __call__(self, line: str) -> None:
        self.count += 1
        if self.count <= LINES_MAX:
            self.write(line)


class Offences:
    """Violations counted per sender."""

    def __init__(self) -> None:
        self.count = 0
        # The latest violations of each sender; the most recent offender stands last.
        self.at: dict[str, deque[float]] = {}

    def note(self, sender: str, now: float) -> bool:
        """Count a violation.  Returns whether the sender has too many."""
        self.count += 1
        times = self.at.pop(sender, None) or deque(maxlen=OFFENCES_MAX + 1)
        times.append(now)
        self.at[sender] = times
        self._forget(now)
        return len(times) > OFFENCES_MAX and now - times[0] <= WINDOW_SECONDS

    def _forget(self, now: float) -> None:
        """Forget senders without recent violations, and the oldest if there are very many."""
        for sender, times in list(islice(self.at.items(), 2)):
            if now - times[-1] > WINDOW_SECONDS or len(self.at) > SENDERS_MAX:
                del self.at[sender]
