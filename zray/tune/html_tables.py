"""Results as tables of HTML, for notebooks (`_repr_html_`)."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .records.files import flattened
from .search.searcher import metrics_of
from .trial import headline

if TYPE_CHECKING:
    from .results import Result, ResultGrid

__all__ = ["grid_html", "result_html"]

# A notebook keeps what it shows: rows beyond so many are counted.
ROWS_MAX = 50
COLUMNS_MAX = 12
CHARACTERS_MAX = 200
# What each result has beside the metrics of the program.
OF_EACH = frozenset(
    "timestamp date time_this_iter_s time_total_s pid hostname node_ip time_since_restore iterations_since_restore "
    "experiment_id done trial_id episodes_total timesteps_total".split()
)


def grid_html(grid: ResultGrid) -> str:
    """A table with a row for each trial: state, parameters, the metric (else all metrics), and error."""
    experiment = grid._experiment
    shown = metrics_of(grid._defaults[0] or experiment.controller.settings.metric)
    rows = []
    for trial in grid._trials[:ROWS_MAX]:
        parameters = flattened(trial.config)
        found = flattened({key: value for key, value in trial.latest_result.items() if key != "config"})
        iteration = {"training_iteration": found.pop("training_iteration", "")}
        metrics = {
            key: value for key, value in found.items() if key in shown or (shown == [""] and _is_metric(key, value))
        }
        error = {"error": headline(trial.error)} if trial.error.strip() and trial.state.name == "ERROR" else {}
        rows.append({"trial": str(trial), "state": trial.state.name, **parameters, **metrics, **iteration, **error})
    left = len(grid) - len(rows)
    more = f"<p>... and {left:,} more trials</p>" if left > 0 else ""
    return f"<p>{html.escape(repr(grid))}</p>{_table(rows)}{more}"


def result_html(result: Result) -> str:
    """A table of what a trial has come to: parameters, last metrics, folder, checkpoint and error."""
    metrics = {key: value for key, value in (result.metrics or {}).items() if key not in OF_EACH and key != "config"}
    parts: dict[str, Any] = {
        **{f"config/{key}": value for key, value in result.config.items()},
        **metrics,
        "path": result.path,
    }
    if result.checkpoint is not None:
        parts["checkpoint"] = result.checkpoint.path
    if result.error is not None:
        parts["error"] = f"{type(result.error).__name__}: {result.error}"
    return _lines((_row("td", (key, value)) for key, value in parts.items()))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if len(columns) > COLUMNS_MAX:  # the error is the last one, and counts most
        columns = columns[: COLUMNS_MAX - 1] + columns[-1:]
    head = _row("th", columns)
    return _lines([head, *(_row("td", [row.get(column, "") for column in columns]) for row in rows)])


def _lines(rows: Iterable[str]) -> str:
    return "<table>" + "".join(rows) + "</table>"


def _row(tag: str, cells: Iterable[Any]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    try:
        text = str(value)
    except Exception as error:  # the program's own class
        text = f"<{type(value).__name__}: {type(error).__name__}>"
    return text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]} [...]"


def _is_metric(key: str, value: Any) -> bool:
    return key not in OF_EACH and isinstance(value, (int, float)) and not isinstance(value, bool)
