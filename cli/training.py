"""The table of `zray rllib train` on a terminal: steps, returns and rates of the trials, drawn in place."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from zray.exceptions.printable import printable
from zray.tune import ProgressReporter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

__all__ = ["TrainingTable", "table_of"]

DRAW_SECONDS = 0.5
ROWS_MAX = 20
# Metrics that only grow, so that their share of a stop says how far a trial is.
COUNTERS = ("timesteps_total", "training_iteration", "time_total_s", "episodes_total")
HEADINGS = ("iter", "steps", "steps/s", "return", "length", "time", "done")
STYLES = {"RUNNING": "green", "PENDING": "yellow", "PAUSED": "cyan", "ERROR": "bold red"}


def number(value: Any, form: str) -> str:
    """Return a number as text; empty: no number yet."""
    return "" if value is None or value != value else format(value, form)


def cells_of(result: Mapping[str, Any], stop: Mapping[str, Any]) -> list[str]:
    """Return the cells of a trial's last result, in the order of HEADINGS.

    Args:
        stop: least values by metric, at which the trial ends.
    """
    steps, seconds = result.get("timesteps_total"), result.get("time_total_s")
    shares = [result[name] / stop[name] for name in COUNTERS if stop.get(name) and result.get(name) is not None]
    return [
        number(result.get("training_iteration"), ",d"),
        number(steps, ",d"),
        number(steps / seconds if steps and seconds else None, ",.0f"),
        number(result.get("episode_reward_mean"), ",.1f"),
        number(result.get("episode_len_mean"), ",.0f"),
        number(seconds, ",.0f") + (" s" if seconds else ""),
        number(min(1.0, max(shares)) if shares else None, ".0%"),
    ]


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of options that are not the same in all trials."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({repr(config.get(name)) for config in configs}) > 1]


def table_of(trials: Sequence[Any], stop: Mapping[str, Any], elapsed: float) -> RenderableType:
    """Return the trials as a table, by number: the running ones first.

    Args:
        stop: least values by metric, at which a trial ends.
        elapsed: seconds since the begin.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    order = list(STYLES)
    shown = sorted(
        enumerate(trials), key=lambda each: order.index(each[1].status) if each[1].status in order else len(order)
    )
    options = differing([trial.config for trial in trials])[:3]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("trial", justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for heading in (*options, *HEADINGS):
        table.add_column(Text(printable(heading)), justify="right", no_wrap=True)
    for place, trial in shown[:ROWS_MAX]:
        own = [Text(printable(str(trial.config.get(name, "")))) for name in options]
        status = Text(trial.status, style=STYLES.get(trial.status, ""))
        table.add_row(str(place), status, *own, *cells_of(trial.latest_result, stop))
    ended = sum(trial.status in ("TERMINATED", "ERROR") for trial in trials)
    lines = [Text(f"{ended} of {len(trials)} trials ended, {elapsed:,.0f} s", style="bold")]
    if len(trials) > ROWS_MAX:
        lines.append(Text(f"{len(trials) - ROWS_MAX} more trials not shown", style="dim"))
    return Group(*lines, table)


class TrainingTable(ProgressReporter):
    """Draws the table in place, twice a second; the last state stays.

    Args:
        stop: least values by metric, at which a trial ends.
        console: rich's; None: that of the standard output.
    """

    def __init__(self, stop: Mapping[str, Any], console: Any = None) -> None:
        self.stop, self.console = stop, console
        self.began = time.monotonic()
        self.due = self.began
        self.live: Any = None

    def should_report(self, trials: list[Any], done: bool = False) -> bool:
        """Whether half a second is over, or the training."""
        return done or time.monotonic() >= self.due

    def report(self, trials: list[Any], done: bool, *sys_info: str) -> None:
        """Draw the table."""
        if self.live is None:
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=self.console or Console(), auto_refresh=False)
            self.live.start()
        self.live.update(table_of(trials, self.stop, time.monotonic() - self.began), refresh=True)
        self.due = time.monotonic() + DRAW_SECONDS
        if done:
            self.live.stop()
            self.live = None
