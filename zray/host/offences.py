"""How much is put up with: a peer that says what it must not is dropped when it does so again and again (USERS S11)."""

from __future__ import annotations

from collections import deque

OFFENCES_MAX = 10
WINDOW_SECONDS = 60.0


class Offences:
    """Counts them per sender."""

    def __init__(self) -> None:
        self.count = 0
        self.at: dict[str, deque[float]] = {}

    def note(self, sender: str, now: float) -> bool:
        """One more.  Whether it is too many."""
        self.count += 1
        times = self.at.setdefault(sender, deque(maxlen=OFFENCES_MAX + 1))
        times.append(now)
        return len(times) > OFFENCES_MAX and now - times[0] <= WINDOW_SECONDS

    def forget(self, sender: str) -> None:
        """It is gone."""
        self.at.pop(sender, None)
