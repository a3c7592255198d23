"""Two trees' samples side by side: the median of each, the ratio, and what has become worse."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..figures.results import shown
from .figures import FIGURES, Figure

WORSE_RATIO = 1.05


@dataclass
class Samples:
    """Samples of one figure in one tree, turn by turn.  why: why there are none."""

    values: list[float] = field(default_factory=list)
    why: str = ""

    def is_there(self) -> bool:
        """Whether every turn has measured it."""
        return bool(self.values) and not self.why

    def median(self) -> float:
        """The median of the turns."""
        return statistics.median(self.values)

    def told(self, figure: Figure) -> str:
        """The median and its unit."""
        return f"{shown(self.median())} {figure.unit}" if self.is_there() else "not there"


@dataclass
class Row:
    """Values of one figure in two trees.  A ratio above 1 is worse, whichever way better is."""

    figure: Figure
    before: Samples
    now: Samples
    is_paired: bool  # turn by turn, so that a machine that is slow for a minute is so for both

    def ratios(self) -> list[float]:
        """The ratio of each turn; of the medians, where the turns were not taken side by side."""
        pairs = [(self.before.median(), self.now.median())]
        if self.is_paired:
            pairs = list(zip(self.before.values, self.now.values, strict=True))
        return [ratio_of(old, new, self.figure) for old, new in pairs]

    def ratio(self) -> float:
        """The median of them."""
        return statistics.median(self.ratios())

    def best_ratio(self) -> float:
        """The ratio of the best turns: what else the machine does makes a turn worse, and never better."""
        best = max if self.figure.more_is_better else min
        return ratio_of(best(self.before.values), best(self.now.values), self.figure)

    def mark(self) -> str:
        """Worse, gone, or neither."""
        if not self.now.is_there():
            return "gone" if self.before.is_there() else ""
        if not self.before.is_there():
            return ""
        return "worse" if min(self.ratio(), self.best_ratio()) > WORSE_RATIO else ""

    def cells(self) -> list[str]:
        """Line of the table."""
        medians = [one.told(self.figure) for one in (self.before, self.now)]
        ratio = best = spread = ""
        if self.before.is_there() and self.now.is_there():
            ratios = self.ratios()
            ratio, best = f"{self.ratio():.3f}", f"{self.best_ratio():.3f}"
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""
        return [self.figure.name, *medians, ratio, best, spread, self.mark(), self.figure.words]


def ratio_of(before: float, now: float, figure: Figure) -> float:
    """How many times as bad."""
    worse, better = (before, now) if figure.more_is_better else (now, before)
    return worse / better if better else float("inf") if worse else 1.0


def rows_of(before: dict[str, Samples], now: dict[str, Samples], *, is_paired: bool) -> list[Row]:
    """A row for each figure that was asked for in either tree, in the order of the figures."""
    absent = Samples(why="it was not asked for")
    return [
        Row(figure, before.get(name, absent), now.get(name, absent), is_paired)
        for name, figure in FIGURES.items()
        if name in before or name in now
    ]


def table(rows: Sequence[Row], names: tuple[str, str]) -> str:
    """The rows as text, and why figures are not there."""
    lines = [["figure", *names, "ratio", "at best", "of the turns", "", "what"], *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.append(f"A ratio above 1 is worse than {names[0]}; above {WORSE_RATIO:g}, at best too, it is marked.")
    for row in rows:
        for name, samples in zip(names, (row.before, row.now), strict=True):
            if not samples.is_there():
                text.append(f"{row.figure.name} is not there in {name}: {samples.why}")
    return "\n".join(text)
