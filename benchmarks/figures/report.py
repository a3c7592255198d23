"""The report of a run: one HTML file that needs nothing else; a CSV and a JSON per figure."""

from __future__ import annotations

import csv
import json
from html import escape
from pathlib import Path
from typing import Any

from ..timing import percentile
from .results import ABSENT, MISSED, PAPERS_CLASS, REACHED, SIMULATED, Figure, Samples
from .svg import draw

COLUMNS = ("figure", "what", "class", "simulated", "label", "paper", "ours", "needed", "verdict", "value", "x", "y")
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1c1c; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 0.6rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; }
.reached { color: #15803d; } .not-reached { color: #b91c1c; font-weight: 600; }
.not-measured, .no-limit, .needed { color: #666; }
svg { max-width: 100%; height: auto; margin-right: 1rem; }
svg text { font: 11px system-ui, sans-serif; fill: #333; } svg .title { font-weight: 600; font-size: 12px; }
svg .tick-y { text-anchor: end; } svg .tick-x, svg .label { text-anchor: middle; } svg .legend-kind { fill: #777; }
svg .grid { stroke: #e5e5e5; } svg .axis { stroke: #555; }
"""
LEGEND = (
    "measured: real processes and real work on this machine. "
    "emulated: zray's own processes and messages, several nodes on this one machine, bodies of tasks that sleep. "
    "simulated: the roles of production in virtual time, with costs measured on this machine; drawn only when what it "
    "predicts for one node, and of how CPU time per task changes from one to eight, lies within 20 % of what real ones "
    "take."
)


def as_html(figures: list[Figure], circumstances: dict[str, str]) -> str:
    """The whole page."""
    facts = "; ".join(f"{escape(name)}: {escape(value)}" for name, value in circumstances.items())
    rows = [row for figure in figures for row in figure.rows]
    counts = [(name, sum(row.verdict == name for row in rows)) for name in (REACHED, MISSED, ABSENT)]
    body = [
        "<h1>zray reproduce: the paper's figures</h1>",
        f"<p>{facts}</p>",
        "<p>" + "; ".join(f"{count} {name}" for name, count in counts) + f". {escape(LEGEND)}</p>",
        table(figures),
    ]
    for figure in figures:
        body.append(f'<h2 id="{escape(figure.name)}">{escape(figure.name)}: {escape(figure.title)}</h2>')
        body += [f"<p>{escape(note)}</p>" for note in figure.notes]
        body += [draw(plot) for plot in figure.plots]
        if not figure.plots:
            body += [f"<p>{escape(row.label)}: {escape(row.verdict)}: {escape(row.ours)}</p>" for row in figure.rows]
    viewport = '<meta name="viewport" content="width=device-width">'
    head = f'<meta charset="utf-8">{viewport}<title>zray reproduce</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def table(figures: list[Figure]) -> str:
    """paper | ours | class | verdict."""
    lines = ["<table><thead><tr><th>figure<th>what<th>paper<th>ours<th>class<th>verdict</tr></thead><tbody>"]
    for figure in figures:
        for row in figure.rows:
            needed = f' <span class="needed">(needed: {escape(row.needed)})</span>' if row.needed else ""
            ours = escape(row.ours) if row.kind else f"not measured: {escape(row.ours)}"
            style = row.verdict.replace(" ", "-")
            cells = (
                f'<td><a href="#{escape(figure.name)}">{escape(figure.name)}</a>',
                f"<td>{escape(row.label)}",
                f"<td>{escape(row.paper)}",
                f"<td>{ours}{needed}",
                f"<td>{escape(row.kind) or '-'}",
                f'<td class="{style}">{escape(row.verdict)}',
            )
            lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</tbody></table>"])


def csv_lines(figure: Figure) -> list[dict[str, Any]]:
    """The rows of the table, then every point of every plot."""
    lines: list[dict[str, Any]] = []
    for row in figure.rows:
        lines.append(
            {"what": "row", "label": row.label, "paper": row.paper, "ours": row.ours, "needed": row.needed}
            | {"verdict": row.verdict, "value": "" if row.value is None else row.value, "class": row.kind}
        )
    for plot in figure.plots:
        for series in plot.series:
            label = f"{plot.full_title}: {series.name}"
            lines += [{"what": "point", "label": label, "class": series.kind, "x": x, "y": y} for x, y in series.points]
    return [line | {"figure": figure.name, "simulated": str(line["class"] == SIMULATED).lower()} for line in lines]


def write_csv(figure: Figure, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(csv_lines(figure))


def as_json(figure: Figure, circumstances: dict[str, Any]) -> dict[str, Any]:
    """All of the figure: what the table has, every point of every plot, and the raw samples where it has some.

    class: R1 measured, R2 emulated, R3 simulated; None for what could not be had.
    """
    return {
        "figure": figure.name,
        "title": figure.title,
        "circumstances": circumstances,
        "seeds": figure.seeds,
        "rows": [
            {"label": row.label, "paper": row.paper, "ours": row.ours, "needed": row.needed, "verdict": row.verdict}
            | {"value": row.value, "class": PAPERS_CLASS.get(row.kind)}
            for row in figure.rows
        ],
        "series": [
            {"plot": plot.full_title, "name": series.name, "class": PAPERS_CLASS[series.kind], "points": series.points}
            for plot in figure.plots
            for series in plot.series
        ],
        "samples": [samples_as_json(samples) for samples in figure.samples],
        "notes": figure.notes,
    }


def samples_as_json(samples: Samples) -> dict[str, Any]:
    percents = {f"p{percent}": percentile(samples.values, percent) for percent in (50, 95, 99) if samples.values}
    about = {"name": samples.name, "class": PAPERS_CLASS[samples.kind], "unit": samples.unit}
    return about | percents | {"repeats": len(samples.values), "raw": samples.values}


def write_report(figures: list[Figure], circumstances: dict[str, str], folder: Path) -> Path:
    """The page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        write_csv(figure, folder / f"{figure.name}.csv")
        found = json.dumps(as_json(figure, circumstances), indent=1)
        (folder / f"{figure.name}.json").write_text(found + "\n", encoding="utf-8")
    page = folder / "report.html"
    page.write_text(as_html(figures, circumstances), encoding="utf-8")
    return page
