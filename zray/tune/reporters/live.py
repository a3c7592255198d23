"""The live table: drawn by rich below the output of the program, and in place in a notebook."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zray.exceptions.printable import printable

from ..trial import Trial, TrialState
from ..waits import why_waiting
from .endings import hint_on_starts
from .rows import cell, cells, columns_of, picked
from .updates import ResultLines, Updates
from .view import View, usage_of_session, view_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..controller import Controller

__all__ = ["LiveTable", "NotebookTable", "table_of"]

DRAW_SECONDS = 0.5
ROWS_MAX = 20
# Lines of the terminal that the table leaves free: its frame, the lines around it, and a few of the program.
LINES_AROUND = 10
# A notebook's own style may have another font, in which columns do not align.
PRE = "<pre style='line-height:1.3;font-family:monospace;white-space:pre'>{code}</pre>"
_SHORT = {"total time (s)": "time (s)"}
_STYLES = {
    TrialState.RUNNING: "green",
    TrialState.PENDING: "yellow",
    TrialState.PAUSED: "cyan",
    TrialState.ERROR: "bold red",
    TrialState.TERMINATED: "",
}


def table_of(controller: Controller, view: View, rows_max: int = ROWS_MAX) -> RenderableType:
    """The state as a table: counts, resources, the best trial, and one row a trial."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    settings = controller.settings
    trials = controller.get_trials()
    rows = picked(trials, rows_max, settings.metric, settings.mode)
    columns = columns_of(rows, None, None, settings.metric)
    table = Table(title=None, box=_box(), pad_edge=False)
    # Columns that may wrap give way first: that is the reasons, whose cells are cut and do not wrap.
    for heading in ("trial", "status"):
        table.add_column(heading, no_wrap=True)
    for heading in (*columns.parameters.values(), *columns.metrics.values()):
        table.add_column(Text(_SHORT.get(heading) or cell(heading)), justify="right", no_wrap=True)
    reasons = {trial.trial_id: why_waiting(controller, trial) for trial in rows}
    has_reasons = any(reasons.values())
    if has_reasons:
        table.add_column("waits for")
    for trial in rows:
        style = "bold" if trial is view.best else ""
        own = [Text(text) for text in cells(trial, columns)]
        status = Text(trial.status, style=_STYLES[trial.state])
        extra = [_cut(reasons[trial.trial_id])] if has_reasons else []
        table.add_row(Text(_name(trial)), status, *own, *extra, style=style)
    lines = [Text(printable(f"{view.name}: {view.heading()}"), style="bold")]
    lines += [
        Text(printable(text))
        for text in (f"{view.usage}  {view.scheduler}".strip(), view.best_in_words(), view.end)
        if text
    ]
    if len(trials) > len(rows):
        lines.append(Text(f"{len(trials) - len(rows)} more trials not shown", style="dim"))
    return Group(*lines[:1], *lines[1:], *([table] if rows else []))


def _cut(text: str) -> Any:
    from rich.text import Text

    for words in ("its process waits for ", "it waits for ", "it waits "):  # the heading says so
        text = text.removeprefix(words)
    return Text(printable(text), style="dim", no_wrap=True, overflow="ellipsis")


def _box() -> Any:
    from rich import box

    return box.SIMPLE_HEAD


def _name(trial: Trial) -> str:
    return cell(str(trial), 32)


class LiveTable(Updates):
    """The table on a terminal; the last state stays.

    Args:
        results: lines about trials above the table; None: none.
        console: rich's; None: that of the standard output.
    """

    def __init__(
        self,
        results: ResultLines | None = None,
        console: Any = None,
        usage: Callable[[], str] = usage_of_session,
    ) -> None:
        super().__init__(DRAW_SECONDS, results, usage)
        self._console = console
        self._live: Any = None

    def draw(self, controller: Controller, is_final: bool) -> None:
        if self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._console = self._console or Console()
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        rows = max(3, min(ROWS_MAX, self._console.height - LINES_AROUND))
        self._live.update(table_of(controller, view_of(controller, self.usage(), time.time()), rows), refresh=True)
        if is_final:
            self._live.stop()
            self._live = None
            if hint := hint_on_starts(controller):
                self._console.print(hint, markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            with contextlib.suppress(Exception):
                live.stop()

    def write(self, line: str) -> None:
        if self._live is None:
            super().write(line)
        else:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)


class NotebookTable(Updates):
    """The table in the output of a notebook's cell, kept up to date."""

    def __init__(self, results: ResultLines | None = None, usage: Callable[[], str] = usage_of_session) -> None:
        super().__init__(2 * DRAW_SECONDS, results, usage)
        self._shown: Any = None

    def draw(self, controller: Controller, is_final: bool) -> None:
        import io

        from rich.console import Console

        from .notebook import display_html

        # In a notebook a console of rich's would display by itself as well.
        console = Console(record=True, file=io.StringIO(), width=160, force_jupyter=False)
        console.print(table_of(controller, view_of(controller, self.usage(), time.time())))
        text = console.export_html(inline_styles=True, code_format=PRE)
        self._shown = display_html(text, self._shown)
