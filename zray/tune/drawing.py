"""Charts as SVG: curves, parallel coordinates, bars.  Text only; nothing is fetched from anywhere."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from zray.exceptions.printable import escaped

from .numbers import is_beyond_float
from .reporters.rows import cell

__all__ = ["Line", "axes", "bars", "colour_bar", "curves", "escape", "parallel_coordinates"]

WIDTH, HEIGHT = 960, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 16, 44
# Points of a curve: more than the pixels of a chart are not seen.
POINTS_MAX = 400
# Axes of parallel coordinates: more would stand too close.
AXES_MAX = 12
# What has diverged beyond it is drawn there: the distance between two values is then a float too.
LARGEST = 1e307
# Different numbers of an axis up to which each has its mark, if there is room of so many pixels.
VALUES_MAX, MARK = 10, 14
# Pixels of a letter, and of the longest name of an axis.
LETTER, NAME = 6.2, 150


def escape(text: str) -> str:
    """The text as a part of a page: markup and control characters in it have no effect."""
    return html.escape(escaped(text))


class Line(NamedTuple):
    """A trial in a chart.

    key: its class in the page, which connects it with its row of the table.  rank: from 0, the best, to 1.
    """

    key: str
    label: str
    rank: float
    points: Sequence[tuple[float, float]]


def colour(rank: float) -> str:
    """A colour from strong (the best) to pale."""
    stops = [(33, 84, 200), (86, 156, 214), (170, 176, 184)]
    place = min(max(rank, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(stops[low], stops[low + 1], strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def ticks(low: float, high: float, count: int = 6, least: float = 0.0) -> list[float]:
    """Round numbers between two bounds.  least: the smallest step between them."""
    if not high > low:
        return [low]
    raw = max((high - low) / count, least)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


class Scale:
    """Values to pixels.

    Args:
        is_log: whether the logarithm is drawn evenly.
    """

    def __init__(self, values: Sequence[float], start: float, end: float, *, is_log: bool = False) -> None:
        self.is_log = is_log
        self.low = max(min(values, default=0.0), -LARGEST)
        self.high = min(max(values, default=1.0), LARGEST)
        if self.low == self.high:
            margin = abs(self.low) * 0.1 or 0.5
            self.low, self.high = self.low - (0 if is_log else margin), self.high + margin
        self.start, self.end = start, end
        self.least_step = float(all(value == int(value) for value in values))  # nothing lies between iterations

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        value = min(max(value, -LARGEST), LARGEST)
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers on the scale."""
        if not self.is_log:
            return ticks(self.low, self.high, least=self.least_step)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for factors in ((1,), (1, 2, 5)):
            marks = [factor * 10.0**power for power in powers for factor in factors]
            found = [mark for mark in marks if self.low <= mark <= self.high]
            if len(found) > 2:
                break
        return found if len(found) >= 2 else [self.low, self.high]


def goes_over_decades(values: Sequence[float]) -> bool:
    """Whether a logarithmic scale fits: half of the values would lie in the lowest fifth of a linear one."""
    if not values or min(values) <= 0 or max(values) / min(values) < 20:
        return False
    return sorted(values)[len(values) // 2] <= max(values) / 5


def svg(parts: Sequence[str], label: str, height: int = HEIGHT) -> str:
    """A chart of shapes, in a frame that scrolls where the screen is narrow."""
    begin = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return f'<div class="chart">{begin}{"".join(parts)}</svg></div>'


def thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return at most POINTS_MAX of the points, with the first and the last."""
    if len(points) <= POINTS_MAX:
        return points
    return [points[round(place * (len(points) - 1) / (POINTS_MAX - 1))] for place in range(POINTS_MAX)]


def _path(points: Sequence[tuple[float, float]], line: Line) -> str:
    """Draw a trial's line in the colour of its rank; `--rank` is for the page, with other colours on a dark screen."""
    if len(points) == 1:
        (x, y) = points[0]
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour(line.rank)}"'
    else:
        steps = " L".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shape = f'<path d="M{steps}" fill="none" stroke="{colour(line.rank)}"'
    name = shape[1 : shape.index(" ")]
    title = f"<title>{escape(line.label)}</title>"
    return f'{shape} class="line {line.key}" style="--rank:{line.rank:.2f}">{title}</{name}>'


def axes(x_scale: Scale, y_scale: Scale, x_name: str) -> list[str]:
    """The grid of a chart, with the marks of both axes and the name of the horizontal one."""
    parts: list[str] = []
    for value in y_scale.ticks():
        y = y_scale(value)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{cell(float(value))}</text>')
    for value in x_scale.ticks():
        x = x_scale(value)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{cell(float(value))}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_name)}</text>')
    return parts


def curves(lines: Sequence[Line], x_name: str, y_name: str) -> str:
    """A curve for each trial; the best ones lie on top."""
    drawn = [line for line in lines if line.points]
    xs = [x for line in drawn for x, _ in line.points]
    ys = [y for line in drawn for _, y in line.points]
    if not drawn:
        return '<p class="note">No trial has reported the metric.</p>'
    x_scale = Scale(xs, LEFT, WIDTH - RIGHT)
    y_scale = Scale(ys, HEIGHT - BOTTOM, TOP, is_log=goes_over_decades(ys))
    parts = axes(x_scale, y_scale, x_name)
    for line in sorted(drawn, key=lambda each: -each.rank):
        points = [(x_scale(x), y_scale(y)) for x, y in thinned(line.points)]
        parts.append(_path(points, line))
    return svg(parts, f"{y_name} of each trial")


class Axis:
    """An axis of parallel coordinates: numbers on a scale, other values evenly."""

    def __init__(self, name: str, values: Sequence[Any], *, is_metric: bool = False) -> None:
        self.name = name
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        numbers = [value for value in numbers if not is_beyond_float(value)]  # a text has a place in any case
        self.is_number = bool(numbers) and len(numbers) == sum(value is not None for value in values)
        ends = (HEIGHT - BOTTOM, TOP + 14)
        if self.is_number:
            finite = [float(value) for value in numbers if math.isfinite(value)]
            self.scale = Scale(finite, *ends, is_log=goes_over_decades(finite))
            self.marks = [(self.scale(value), cell(float(value))) for value in self._marked(finite)]
        else:
            texts = sorted({cell(value, 30) for value in values if value is not None})
            step = (ends[0] - ends[1]) / max(1, len(texts) - 1)
            self.places = {text: ends[0] - step * place for place, text in enumerate(texts)}
            self.marks = [(place, text) for text, place in list(self.places.items())[:20]]

    def _marked(self, values: Sequence[float]) -> list[float]:
        """Return the values with marks: for a choice among a few numbers all of them, without round numbers between."""
        own = sorted(set(values))
        if not 1 < len(own) <= VALUES_MAX:
            return self.scale.ticks()
        pixels = [self.scale(value) for value in own]
        is_roomy = all(abs(one - other) >= MARK for one, other in pairwise(pixels))
        return own if is_roomy else self.scale.ticks()

    def place(self, value: Any) -> float | None:
        """The pixel of a value; None: it has none."""
        if value is None:
            return None
        if self.is_number:
            return self.scale(float(value)) if math.isfinite(value) else None
        return self.places[cell(value, 30)]


def parallel_coordinates(lines: Sequence[Line], columns: dict[str, Sequence[Any]]) -> str:
    """An axis for each parameter, and a line for each trial.

    Args:
        lines: their points are not used.
        columns: the values of each axis, in the order of the lines.
    """
    axes = [Axis(name, values) for name, values in list(columns.items())[-AXES_MAX:]]
    if len(axes) < 2 or not lines:
        return '<p class="note">There is no parameter to draw.</p>'
    gap = (WIDTH - 2 * LEFT) / (len(axes) - 1)
    parts: list[str] = []
    for order in sorted(range(len(lines)), key=lambda place: -lines[place].rank):
        found = [axis.place(columns[axis.name][order]) for axis in axes]
        points = [(LEFT + gap * place, y) for place, y in enumerate(found) if y is not None]
        if points:
            parts.append(_path(points, lines[order]))
    for place, axis in enumerate(axes):
        x = LEFT + gap * place
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{TOP + 10}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        below = HEIGHT - (8 if gap < NAME and place % 2 else 24)  # names of close axes stand on two lines
        name = f"{escape(cell(axis.name, int(NAME / LETTER)))}<title>{escape(axis.name)}</title>"
        parts.append(f'<text class="name" x="{x:.1f}" y="{below}" text-anchor="middle">{name}</text>')
        space = gap - 10 if place < len(axes) - 1 else LEFT - 6
        for y, text in axis.marks:
            mark = escape(cell(text, max(4, int(space / LETTER))))
            parts.append(f'<text class="mark" x="{x + 6:.1f}" y="{y + 4:.1f}">{mark}</text>')
    more = f'<p class="note">The last {AXES_MAX - 1} of {len(columns) - 1} parameters are drawn.</p>'
    return svg(parts, "parameters of each trial") + more * (len(columns) > AXES_MAX)


def colour_bar(worst: str, best: str) -> str:
    """The legend of the colours of trials: from the worst to the best value of the metric."""
    steps = 12
    ranks = [1 - place / (steps - 1) for place in range(steps)]
    shown = "".join(f'<i style="background:{colour(rank)}"></i>' for rank in ranks)
    return f'<div class="legend">{escape(worst)} {shown} {escape(best)}</div>'


def bars(shares: dict[str, float]) -> str:
    """A bar for each parameter."""
    row = 26
    height = row * len(shares) + 10
    largest = max(shares.values(), default=0.0) or 1.0
    parts: list[str] = []
    for place, (name, share) in enumerate(shares.items()):
        y, length = place * row + 6, share / largest * (WIDTH - 330)
        parts.append(f'<text x="230" y="{y + 14}" text-anchor="end">{escape(cell(name, 32))}</text>')
        parts.append(f'<rect x="240" y="{y}" width="{max(length, 1):.1f}" height="18" fill="{colour(0.0)}"/>')
        parts.append(f'<text x="{246 + max(length, 1):.1f}" y="{y + 14}">{share:.2f}</text>')
    return svg(parts, "importances", height)
