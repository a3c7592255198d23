"""Plots as SVG, small and without a library: axes, ticks, lines, a legend."""

from __future__ import annotations

import math
from html import escape

from .results import SIMULATED, Plot, Series

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 34, 46  # margins; the legend stands on the right
COLOURS = ("#1f5fa8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490")
TICKS = 5
POINTS_MAX = 400  # of one series; more are thinned out evenly, the last one stays


class Axis:
    """Values of one direction, and where they lie."""

    def __init__(self, values: list[float], start: float, end: float, *, is_log: bool) -> None:
        self.is_log = is_log
        self.start, self.end = start, end
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        if is_log:
            self.ticks = [10.0**power for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
            if len(self.ticks) == 1:
                self.ticks.append(self.ticks[0] * 10)
        else:
            self.ticks = nice_ticks(min(low, 0.0), high)
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def at(self, value: float) -> float:
        """Where it lies, within the plot whatever it is."""
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + share * (self.end - self.start)


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`."""
    if high <= low:
        high = low + 1.0
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_text(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def drawable(series: Series, plot: Plot) -> list[tuple[float, float]]:
    """Its points that can be drawn: finite, and above 0 on a logarithmic axis."""
    points = [
        (x, y)
        for x, y in series.points
        if math.isfinite(x) and math.isfinite(y) and (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)
    ]
    step = -(-len(points) // POINTS_MAX) or 1
    return points[::-1][::step][::-1]


def draw(plot: Plot) -> str:
    """The plot, with its full title."""
    lines = [(series, drawable(series, plot)) for series in plot.series]
    x = Axis([point[0] for _, points in lines for point in points], LEFT, WIDTH - RIGHT, is_log=plot.log_x)
    y = Axis([point[1] for _, points in lines for point in points], HEIGHT - BOTTOM, TOP, is_log=plot.log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(plot.full_title)}">',
        text(LEFT, 16, plot.full_title, "title"),
        *frame(plot, x, y),
    ]
    for number, (series, points) in enumerate(lines):
        parts += drawn_series(series, points, x, y, number, is_line=plot.is_line)
    return "\n".join([*parts, "</svg>"])


def text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{escape(words)}</text>'


def frame(plot: Plot, x: Axis, y: Axis) -> list[str]:
    """Axes, grid and ticks."""
    parts = []
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" class="grid"/>')
        parts.append(text(LEFT - 6, at + 4, tick_text(tick), "tick-y"))
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(
            f'<line x1="{at:.1f}" y1="{HEIGHT - BOTTOM}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM + 4}" class="axis"/>'
        )
        parts.append(text(at, HEIGHT - BOTTOM + 17, tick_text(tick), "tick-x"))
    parts.append(f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}" class="axis"/>')
    parts.append(f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{HEIGHT - BOTTOM}" class="axis"/>')
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, plot.x, "label"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="14" y="{middle:.1f}" class="label" transform="rotate(-90 14 {middle:.1f})">{escape(plot.y)}</text>'
    )
    return parts


def drawn_series(
    series: Series, points: list[tuple[float, float]], x: Axis, y: Axis, number: int, *, is_line: bool
) -> list[str]:
    """What is simulated is dashed."""
    colour = COLOURS[number % len(COLOURS)]
    dash = ' stroke-dasharray="5 4"' if series.kind == SIMULATED else ""
    places = [(x.at(a), y.at(b)) for a, b in points]
    parts = []
    if is_line and len(places) > 1:
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
    if not is_line or len(places) <= 60:
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="{colour}"/>' for a, b in places]
    left, top = WIDTH - RIGHT + 12, TOP + 10 + 32 * number
    parts.append(f'<line x1="{left}" y1="{top}" x2="{left + 18}" y2="{top}" stroke="{colour}" stroke-width="2"{dash}/>')
    parts.append(text(left + 23, top + 4, series.name, "legend"))
    parts.append(text(left + 23, top + 17, series.kind, "legend-kind"))
    return parts
