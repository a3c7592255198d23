"""What a figure gives: rows with a verdict, and plots; each says in its own words how it was had.

measured    real processes and real work on this machine
emulated    real zray code and messages, several nodes on this one machine; bodies of tasks sleep
simulated   the roles of production in the simulator, in virtual time, with costs measured here
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

MEASURED, EMULATED, SIMULATED = "measured", "emulated", "simulated"
CLASSES = (MEASURED, EMULATED, SIMULATED)
# Of the bare pipeline (floor_pipeline.py, async_10k), on the two quiet cores that limits in seconds and tasks/s are
# meant for.
REFERENCE_RATE = 296_000.0
RATE, TIME = 1, -1  # what a machine twice as fast has twice as much of, and half of
PAPERS_CLASS = {MEASURED: "R1", EMULATED: "R2", SIMULATED: "R3"}  # in the JSON
REACHED, MISSED, SHOWN, ABSENT = "reached", "not reached", "no limit", "not measured"
VERDICTS = (REACHED, MISSED, SHOWN, ABSENT)


@dataclass(frozen=True)
class Row:
    """One line of the table "paper | ours | class | verdict"."""

    label: str
    paper: str
    ours: str
    kind: str  # one of CLASSES; "" where nothing was measured
    verdict: str
    value: float | None = None  # what `ours` says, as a number
    needed: str = ""  # the limit, in words

    def __post_init__(self) -> None:
        assert self.verdict in VERDICTS, self.verdict
        assert (self.kind == "") == (self.verdict == ABSENT), (self.kind, self.verdict)
        assert self.kind in (*CLASSES, ""), self.kind


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    name: str
    kind: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Plot:
    """x against y.  In the title stands how its series were had."""

    title: str
    x: str
    y: str
    series: list[Series]
    log_x: bool = False
    log_y: bool = False
    is_line: bool = True  # False: points that no line joins

    @property
    def full_title(self) -> str:
        """Emulated and simulated results say so."""
        kinds = [kind for kind in CLASSES if any(series.kind == kind for series in self.series)]
        return f"{self.title} ({', '.join(kinds)})" if kinds else self.title


@dataclass(frozen=True)
class Samples:
    """Each single value that a number of the table comes from, in the order in which they were had."""

    name: str
    kind: str
    unit: str
    values: list[float]


@dataclass
class Figure:
    """All of one figure."""

    name: str  # E1 ...
    title: str
    rows: list[Row] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)  # of what was drawn
    pace: float | None = None  # of this machine, by the bare pipeline: 1 is that of REFERENCE_RATE

    def add(
        self,
        label: str,
        value: float,
        unit: str,
        kind: str,
        *,
        paper: str = "",
        at_least: float | None = None,
        at_most: float | None = None,
        scales: int = 0,
        runs: Iterable[float] = (),
    ) -> None:
        """A row with a number, held against its limit where it has one.

        runs: the values that it is the median of; the row says how many there are, and how far apart.
        scales: RATE or TIME where the limit is meant for a machine of a certain speed.  A second row then says what
        the number comes to on such a one.
        """
        values = {label: value}
        if scales and self.pace is not None:
            factor = self.pace**-scales
            scaled = f"{label}: times {factor:.2f}, for a machine of the speed that the limit is meant for"
            values[scaled] = value * factor
        needed = limit_in_words(at_least, at_most, unit)
        for words, number in values.items():
            verdict = verdict_of(number, at_least=at_least, at_most=at_most)
            ours = f"{shown(number)} {unit}".strip() + spread_in_words(runs)
            self.rows.append(Row(words, paper, ours, kind, verdict, number, needed))

    def keep(self, name: str, values: Iterable[float], unit: str, kind: str) -> None:
        """Raw values, for the JSON."""
        self.samples.append(Samples(name, kind, unit, list(values)))

    def add_fact(self, label: str, holds: bool, ours: str, kind: str, *, paper: str = "") -> None:
        """A row that is true or not."""
        self.rows.append(Row(label, paper, ours, kind, REACHED if holds else MISSED))

    def add_text(self, label: str, ours: str, kind: str, *, paper: str = "") -> None:
        """A row in words, without a limit."""
        self.rows.append(Row(label, paper, ours, kind, SHOWN))

    def leave_out(self, label: str, why: str, *, paper: str = "") -> None:
        """A row that could not be had, and why."""
        self.rows.append(Row(label, paper, why, "", ABSENT))


def verdict_of(value: float, *, at_least: float | None = None, at_most: float | None = None) -> str:
    """What is no number reaches nothing."""
    if at_least is None and at_most is None:
        return SHOWN
    is_enough = at_least is None or value >= at_least
    is_little = at_most is None or value <= at_most
    return REACHED if is_enough and is_little and not math.isnan(value) else MISSED


def spread_in_words(runs: Iterable[float]) -> str:
    """How many runs, the least and the most of them."""
    values = list(runs)
    return f" ({len(values)} runs, {shown(min(values))} to {shown(max(values))})" if len(values) > 1 else ""


def limit_in_words(at_least: float | None, at_most: float | None, unit: str) -> str:
    parts = [] if at_least is None else [f">= {shown(at_least)}"]
    parts += [] if at_most is None else [f"<= {shown(at_most)}"]
    return f"{' and '.join(parts)} {unit}".strip() if parts else ""


def shown(value: float) -> str:
    """Three digits that count, thousands apart."""
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 0.9 < value < 1 else f"{value:.3g}"  # 0.9996 is not 1


def linear_fit(points: list[tuple[float, float]]) -> tuple[float, float, float]:
    """(slope, intercept, R2) of the line of least squares; R2 is 1 where y does not vary."""
    count = len(points)
    mean_x, mean_y = (sum(point[i] for point in points) / count for i in (0, 1))
    spread_x = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread_x if spread_x else 0.0
    intercept = mean_y - slope * mean_x
    total = sum((y - mean_y) ** 2 for _, y in points)
    left = sum((y - slope * x - intercept) ** 2 for x, y in points)
    return slope, intercept, 1 - left / total if total else 1.0
