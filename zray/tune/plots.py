"""The plot page of an experiment: one HTML file with curves, parallel coordinates, importances and a table.

Everything is in the file.  The page is whole without scripts; a short one sorts the table and connects a trial's row
with its lines.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

from .drawing import Line, bars, colour_bar, curves, escape, parallel_coordinates
from .importances import TRIALS_MAX, importances
from .listing import listed
from .metrics import text_of
from .objective import Objective, number_of
from .outcomes import refuse_several
from .recorded import Recorded, best_value
from .reporters.rows import cell, counts, counts_in_words, duration

__all__ = ["STYLE", "VIEWPORT", "page"]

# Points that are read of one trial: a curve of 400 is drawn.
RESULTS_MAX = 20_000

# A phone draws a page without it in the width of a desktop.
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
STYLE = """
:root { --text: #1d232b; --soft: #66707c; --rule: #e3e6ea; --back: #ffffff; --hit: #d9480f; color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7eb; --soft: #98a2ae; --rule: #343a42; --back: #16191d; --hit: #ff922b }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 1000px;
       margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin-bottom: .2rem } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem }
p { margin: .2rem 0; overflow-wrap: anywhere } .note, .path { color: var(--soft) }
svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
svg .name, svg .mark { fill: var(--text) } svg .mark { paint-order: stroke; stroke: var(--back); stroke-width: 3px }
.grid, .axis { stroke: var(--rule) } .axis { stroke: var(--soft) }
@media (prefers-color-scheme: dark) {
  path.line { stroke: color-mix(in srgb, #8ab8ff, #454d57 calc(var(--rank) * 100%)) } svg rect { fill: #6ea8fe }
  circle.line { fill: color-mix(in srgb, #8ab8ff, #454d57 calc(var(--rank) * 100%)) }
  .mean, .seed { filter: brightness(1.6) }
}
.line { stroke-width: 1.4; opacity: .75 } .line:hover, .line.hit { opacity: 1 }
path.line:hover, path.line.hit { stroke: var(--hit); stroke-width: 3 }
@media (max-width: 700px) {
  body { margin: 1rem auto } svg { width: 820px } svg text { font-size: 13px } .chart { overflow-x: auto }
}
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; white-space: nowrap }
th, td { text-align: left; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule) }
th { cursor: pointer; position: sticky; top: 0; background: var(--back) } tr.hit td { color: var(--hit) }
.legend { color: var(--soft); font-size: 13px } .legend i { display: inline-block; width: 10px; height: 10px }
td.number { text-align: right; font-variant-numeric: tabular-nums }
"""

_SCRIPT = """
const mark = (key, on) => document.querySelectorAll("." + key).forEach(e => e.classList.toggle("hit", on));
document.querySelectorAll("[data-key], .line").forEach(e => {
  const key = e.dataset.key || [...e.classList].find(name => /^t\\d+$/.test(name));
  e.addEventListener("mouseenter", () => mark(key, true));
  e.addEventListener("mouseleave", () => mark(key, false));
});
document.querySelectorAll("th").forEach((th, column) => th.addEventListener("click", () => {
  const body = th.closest("table").tBodies[0], up = th.dataset.up !== "1";
  th.dataset.up = up ? "1" : "0";
  const value = row => row.cells[column].dataset;
  const rank = data => data.number !== undefined ? 0 : data.value !== "" ? 1 : 2;
  const order = (a, b) => {
    const x = value(a), y = value(b), ranks = rank(x) - rank(y);
    if (ranks || rank(x) === 2) return ranks;
    const difference = rank(x) ? x.value.localeCompare(y.value) : x.number - y.number;
    return up ? difference : -difference;
  };
  [...body.rows].sort(order).forEach(row => body.append(row));
}));
"""


def page(recorded: Recorded, trials_max: int = 500) -> str:
    """The page as HTML.

    Args:
        recorded: the experiment.
        trials_max: trials that are drawn: the best ones.

    Raises:
        ValueError: no metric is known, there are several, or no value is a number.
    """
    metric, mode = recorded.metric, recorded.mode
    if metric is None:
        refuse_several(recorded.objectives or None, "--metric {!r}, and --mode")
        raise ValueError("A plot needs a metric, and the experiment names none: pass --metric, and --mode.")
    objective = Objective(metric, mode)
    series, scores, ever = [], [], []
    for trial in recorded.trials:
        results = recorded.results(trial)[:RESULTS_MAX]
        points = [(number_of(each.get("training_iteration", 0)), objective.value(each)) for each in results]
        series.append(
            [(x, y) for x, y in points if x is not None and y is not None and _is_finite(x) and _is_finite(y)]
        )
        scores.append(objective.best_value([trial.latest_result]))
        ever.append(best_value(results, metric, mode))
    last = [trial.latest_result for trial in recorded.trials if trial.last_result]
    if last and all(score is None for score in [*scores, *ever]):
        known = ", ".join(dict.fromkeys(name for each in last for name in each))
        raise ValueError(f"No trial has a metric {metric!r} with a number.  The metrics are: {known}.")
    order = objective.ranked(zip(scores, range(len(scores)), strict=True))
    kept = sorted(order[:trials_max])
    rank = {place: position / max(1, len(order) - 1) for position, place in enumerate(order)}
    lines = [
        Line(f"t{place}", _label(recorded, place, metric, scores[place]), rank[place], series[place]) for place in kept
    ]
    parameters = recorded.parameters()
    columns: dict[str, Any] = {name: [values[place] for place in kept] for name, values in parameters.items()}
    columns[f"last {metric}"] = [scores[place] for place in kept]
    columns[f"best {metric} ever"] = [ever[place] for place in kept]
    sections = [
        _head(recorded, metric, scores, order),
        f"<h2>{escape(metric)}</h2>{curves(lines, 'training_iteration', metric)}{_legend(metric, scores, order)}",
        f"<h2>Parameters</h2>{parallel_coordinates(lines, columns)}",
        f"<h2>Importances</h2>{_importances(parameters, scores, mode)}",
        f"<h2>Trials</h2>{_table(recorded, trials_max)}",
    ]
    if len(recorded.trials) > trials_max:
        sections.insert(1, f'<p class="note">The best {trials_max} of {len(recorded.trials)} trials are drawn.</p>')
    name = escape(os.path.basename(recorded.path))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{VIEWPORT}<title>{name}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(sections)}<script>{_SCRIPT}</script></body></html>\n"
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _legend(metric: str, scores: list[float | None], order: list[int]) -> str:
    """The colours of the trials; empty: fewer than two have a value."""
    known = [score for place in order if (score := scores[place]) is not None]
    if len(known) < 2:
        return ""
    return colour_bar(f"worst {metric} = {cell(known[-1])}", f"best {metric} = {cell(known[0])}")


def _label(recorded: Recorded, place: int, metric: str, score: float | None) -> str:
    trial = recorded.trials[place]
    chosen = ", ".join(f"{name}={cell(value)}" for name, value in trial.parameters.items())
    return f"{trial} ({trial.status}): last {metric} = {cell(score)}; {chosen}"


def _head(recorded: Recorded, metric: str, scores: list[float | None], order: list[int]) -> str:
    name = escape(os.path.basename(recorded.path))
    trials = recorded.trials
    times = [trial.last_result.get("time_total_s") for trial in trials]
    trained = sum((float(value) for value in times if value is not None and _is_finite(value)), 0.0)
    best = ""
    if order and scores[order[0]] is not None:
        best = f"<p>Best: {escape(_label(recorded, order[0], metric, scores[order[0]]))}</p>"
    words = f"{len(trials)} trials: {counts_in_words(counts(trials))}; {duration(trained)} of training"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return f'<h1>{name}</h1><p>{escape(words)}</p>{best}<p class="path">{escape(recorded.path)}, {stamp}</p>'


def _importances(parameters: dict[str, list[Any]], scores: list[float | None], mode: str | None) -> str:
    try:
        drawn = bars(importances(parameters, scores, mode))
    except (ValueError, ImportError) as error:
        return f'<p class="note">{escape(str(error))}</p>'
    count = sum(score is not None for score in scores)
    return drawn + (f'<p class="note">From {TRIALS_MAX} of {count} trials.</p>' if count > TRIALS_MAX else "")


def _table(recorded: Recorded, limit: int) -> str:
    places = {str(trial): place for place, trial in enumerate(recorded.trials)}
    rows = listed(recorded, limit=limit)
    headings = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = []
    for row in rows:
        key = f"t{places[row['trial']]}"
        cells = "".join(_cell(row.get(heading)) for heading in headings)
        body.append(f'<tr class="{key}" data-key="{key}">{cells}</tr>')
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        '<p class="note">A click on a heading sorts by its column.</p>'
    )


def _cell(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    number = number_of(value)  # the script orders numbers as `Objective` does: they come before all other values
    kind = ' class="number"' if is_number else ""
    if number is not None and math.isfinite(number):
        kind += f' data-number="{number!r}"'
    full = "" if value is None else text_of(value)
    shown = cell(value, 120)
    title = f' title="{escape(full)}"' if shown.endswith("...") else ""
    return f'<td{kind} data-value="{escape(full)}"{title}>{escape(shown)}</td>'
