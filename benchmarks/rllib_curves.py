"""Runs of learning as rows of the table, and as curves in SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .figures.results import MEASURED, Plot, Series
from .figures.svg import draw
from .rllib_learning import Learned
from .rows import Row

SEEDS = (0, 1, 2)
STYLE = "text{font:11px sans-serif;fill:#333}.title{font-weight:600}.tick-y{text-anchor:end}.grid{stroke:#e5e5e5}"
STYLE += ".tick-x,.label{text-anchor:middle}.axis{stroke:#555}.legend-kind{fill:#777}"


def learning_row(figure: str, runs: list[Learned], last: int, seconds: int | None) -> Row:
    """The slowest of the seeds, and how many reach the level."""
    reached = [run for run in runs if run.is_reached]
    steps = max(run.points[-1][0] for run in runs)
    slowest = max(run.seconds for run in runs)
    text = f"{len(reached)} of {len(runs)} seeds; at most {steps:,} steps, {slowest:.1f} s"
    needed = f"{last:,} steps" + (f", {seconds} s" if seconds else "")
    return Row(figure, text, needed, len(reached) == len(runs) and (seconds is None or slowest <= seconds))


def draw_curves(
    name: str, title: str, runs_by_label: Mapping[str, Sequence[Learned]], folder: Path, more: Sequence[Series] = ()
) -> None:
    """Write the returns over steps as SVG.

    Args:
        runs_by_label: runs of SEEDS, in their order.
        more: series that are drawn beside these.
    """
    series = [
        Series(f"{label}, seed {seed}", MEASURED, [(float(steps), value) for steps, value in run.points])
        for label, runs in runs_by_label.items()
        for seed, run in zip(SEEDS, runs, strict=False)
    ]
    text = draw(Plot(title, "steps", "return", [*series, *more], is_line=True))
    start = text.index(">") + 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.svg").write_text(f"{text[:start]}\n<style>{STYLE}</style>{text[start:]}\n")
