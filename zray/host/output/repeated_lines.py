"""Equal lines of several workers, folded into one with a count: a warning of 24 workers becomes two lines.

The first is shown at once.  Equal lines of other workers within FOLD_SECONDS are counted, and shown as a single line
after that time.  A worker's repetition of its own line is shown as ever.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

from .log_lines import ERROR, LATEST, PART

FOLD_SECONDS = 5.0
# Limit of remembered lines.
RECENT_MAX = 10_000
SWITCH = "RAY_DEDUP_LOGS"  # Ray's; "0" shows all lines
_HINT = f"  (Equal lines of several workers are folded; {SWITCH}=0 shows all.)"


class Fold:
    """A shown line, and a count of equal lines not shown."""

    __slots__ = ("count", "label", "last", "until")

    def __init__(self, label: str, until: float) -> None:
        self.label = self.last = label
        self.until = until
        self.count = 0


class Folds:
    """The lines of the last seconds."""

    def __init__(self) -> None:
        self.is_on = os.environ.get(SWITCH, "1") != "0"
        self.recent: dict[str, Fold] = {}  # by stream and text, oldest first
        self.has_said = False  # how to show all lines

    def take(self, lines: list[str], now: float, live: Container[str]) -> list[str]:
        """Return the lines to show.  live: labels of begun lines, whose ends are not folded."""
        if not self.is_on:
            return lines
        shown: list[str] = []
        for line in lines:
            head, separator, text = line.partition(") ")
            if not separator or PART in head or LATEST in head or not text.strip() or head + separator in live:
                shown.append(line)
                continue
            key = ERROR + text if line[0] == ERROR else text
            fold = self.recent.get(key)
            if fold is not None and now < fold.until and fold.label != head:
                fold.count += 1
                fold.last = head
                continue
            if fold is None or now >= fold.until:
                shown += self._end(key)
                self.recent[key] = Fold(head, now + FOLD_SECONDS)
                if len(self.recent) > RECENT_MAX:
                    shown += self._end(next(iter(self.recent)))
            shown.append(line)
        return shown

    def due(self, now: float) -> list[str]:
        """Return the lines which report repetitions, once their time is over."""
        over = []
        for key, fold in self.recent.items():
            if now < fold.until:
                break
            over.append(key)
        return [line for key in over for line in self._end(key)]

    def rest(self) -> list[str]:
        """The same of all."""
        return [line for key in list(self.recent) for line in self._end(key)]

    def _end(self, key: str) -> Iterator[str]:
        fold = self.recent.pop(key, None)
        if fold is None or not fold.count:
            return
        note = ""
        if fold.count > 1:
            note = f" [repeated {fold.count}x across cluster]{'' if self.has_said else _HINT}"
            self.has_said = True
        yield f"{fold.last}) {key.removeprefix(ERROR)[:-1]}{note}\n"
