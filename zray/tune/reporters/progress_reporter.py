"""Reporters under Ray's names.  Subclasses decide when to report, and where to."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from zray.exceptions.printable import escaped, printable

from ..numbers import number, whole
from ..trial import Trial, TrialState, value_of
from .rows import best_of, cell, cells, columns_of, counts, counts_in_words, duration, picked, plain_table

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter", "TuneReporterBase"]

Names = Sequence[str] | Mapping[str, str] | None


def check_reporter(given: Any) -> None:
    """Raises:
    TypeError: the reporter of a program is a class, or lacks a method.
    """
    if isinstance(given, type):
        raise TypeError(f"progress_reporter is the class {given.__name__}: pass an object, as {given.__name__}().")
    if given is None or (hasattr(given, "update") and not hasattr(given, "should_report")):
        return
    lacking = [name for name in ("should_report", "report") if not callable(getattr(given, name, None))]
    if lacking:
        raise TypeError(
            f"A progress_reporter has should_report(trials, done) and report(trials, done, *sys_info), and "
            f"{type(given).__name__} lacks {' and '.join(lacking)}: derive it from tune.ProgressReporter."
        )


class ProgressReporter:
    """The base of reporters: it says when to report, and reports.

    Example:
        class Ends(tune.CLIReporter):
            def should_report(self, trials, done=False):
                return done
    """

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what is known before the first trial.

        Args:
            start_time: of the experiment, in seconds since the epoch.
            total_samples: number of trials; None: not known.
            metric, mode: what is optimised.
        """

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Whether `report` is to be called now.

        Args:
            trials: all trials.
            done: whether the experiment has ended.
        """
        raise NotImplementedError("A progress reporter defines should_report(trials, done).")

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Show the state.

        Args:
            trials: all trials.
            done: whether the experiment has ended.
            sys_info: a line of the scheduler, and one on resources.
        """
        raise NotImplementedError("A progress reporter defines report(trials, done, *sys_info).")


class TuneReporterBase(ProgressReporter):
    """The base of reporters with a table.  The arguments are those of `CLIReporter`."""

    def __init__(
        self,
        *,
        metric_columns: Names = None,
        parameter_columns: Names = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f'mode is "min" or "max", not {mode!r}.')
        number("max_report_frequency", max_report_frequency)
        rows = {"max_progress_rows": max_progress_rows, "max_error_rows": max_error_rows}
        for name, value in {**rows, "max_column_length": max_column_length, "infer_limit": infer_limit}.items():
            whole(name, value)
        self._metric_columns, self._parameter_columns = metric_columns, parameter_columns
        self._total_samples = total_samples
        self._max_progress_rows, self._max_error_rows = max_progress_rows, max_error_rows
        self._max_column_length, self._max_report_frequency = max_column_length, max_report_frequency
        self._infer_limit, self._print_intermediate_tables = infer_limit, print_intermediate_tables
        self._metric, self._mode, self._sort_by_metric = metric, mode, sort_by_metric
        self._start_time = time.time()
        self._reported_at = float("-inf")

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.set_start_time(start_time)
        self._total_samples = self._total_samples or total_samples
        self.set_search_properties(metric, mode)

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Take the experiment's metric and mode, unless the reporter has its own.

        Returns:
            False: it has others.
        """
        if (self._metric and metric and metric != self._metric) or (self._mode and mode and mode != self._mode):
            return False
        self._metric, self._mode = self._metric or metric, self._mode or mode
        return True

    def set_total_samples(self, total_samples: int | None) -> None:
        """Take the number of trials."""
        self._total_samples = total_samples

    def set_start_time(self, timestamp: float | None = None) -> None:
        """Take the time of the begin, in seconds since the epoch; None: now."""
        self._start_time = time.time() if timestamp is None else timestamp

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show a metric, under a heading of its own."""
        self._metric_columns = _with(self._metric_columns, metric, representation)

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show a parameter, under a heading of its own."""
        self._parameter_columns = _with(self._parameter_columns, parameter, representation)

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        now = time.monotonic()
        if not done and now - self._reported_at < self._max_report_frequency:
            return False
        self._reported_at = now
        return True

    def _progress_str(
        self, trials: list[Trial], done: bool, *sys_info: str, fmt: str = "psql", delim: str = "\n"
    ) -> str:
        """The report as text."""
        lines = [
            "== Status ==",
            f"Current time: {time.strftime('%Y-%m-%d %H:%M:%S')} (running for {self._elapsed()})",
            *sys_info,
        ]
        best = best_of(trials, self._metric, self._mode)
        if best is not None:
            value = cell(value_of(best.latest_result, self._metric or ""))
            lines.append(
                f"Current best trial: {best.trial_id} with {self._metric}={value} and parameters={best.parameters}"
            )
        total = f"/{self._total_samples}" if self._total_samples and self._total_samples > 0 else ""
        lines.append(f"Number of trials: {len(trials)}{total} ({counts_in_words(counts(trials))})")
        if done or self._print_intermediate_tables is not False:
            lines += self._table(trials, None if done and self._max_progress_rows is None else self._max_progress_rows)
            lines += self._errors(trials)
        return escaped(delim.join(lines) + delim)

    def _elapsed(self) -> str:
        return duration(time.time() - self._start_time)

    def _table(self, trials: list[Trial], limit: int | None) -> list[str]:
        rows = picked(trials, limit, self._metric, self._mode, by_metric=self._sort_by_metric)
        if not rows:
            return []
        columns = columns_of(rows, self._parameter_columns, self._metric_columns, self._metric, self._infer_limit)
        headings = ["Trial name", "status", "loc", *columns.parameters.values(), *columns.metrics.values()]
        width = self._max_column_length
        shown = []
        for trial in rows:
            place = trial.last_result
            loc = f"{place['node_ip']}:{place['pid']}" if "pid" in place and "node_ip" in place else ""
            shown.append([printable(str(trial)), trial.status, loc, *cells(trial, columns, width)])
        headings = [cell(heading, max(width, 20)) for heading in headings]
        more = [f"... {len(trials) - len(rows)} more trials not shown"] if len(trials) > len(rows) else []
        return [*plain_table(headings, shown), *more]

    def _errors(self, trials: list[Trial]) -> list[str]:
        failed = [trial for trial in trials if trial.state is TrialState.ERROR or (trial.error and not trial.is_over)]
        if not failed:
            return []
        shown = [
            [printable(str(each)) for each in (trial, trial.num_failures, trial.error_file)]
            for trial in failed[: self._max_error_rows]
        ]
        more = [f"... {len(failed) - len(shown)} more not shown"] if len(failed) > len(shown) else []
        return [f"Number of errored trials: {len(failed)}"] + [
            *plain_table(["Trial name", "# failures", "error file"], shown),
            *more,
        ]


def _with(columns: Names, key: str, heading: str | None) -> dict[str, str]:
    """Add a column.

    Raises:
        ValueError: it is there.
    """
    found = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns or ()}
    if key in found:
        raise ValueError(f"The column {key!r} is there already.")
    return {**found, key: heading or key}


class CLIReporter(TuneReporterBase):
    """A reporter that prints a status block with a table, as text.

    Args:
        metric_columns: keys of results, or a dict with their headings; None: metrics that trials report.
        parameter_columns: names of parameters, or a dict with their headings; None: what the search chooses.
        total_samples: number of trials; None: that of the experiment.
        max_progress_rows: rows of the table.
        max_error_rows: rows of the table of errors.
        max_column_length: characters of a cell.
        max_report_frequency: seconds between two reports, at least.
        infer_limit: metrics shown where metric_columns names none.
        print_intermediate_tables: whether the tables are shown before the end; None: yes.
        metric: the result's key that is optimised; None: that of the experiment.
        mode: "min" or "max"; None: that of the experiment.
        sort_by_metric: whether the rows are in the order of the metric.

    Raises:
        ValueError: the mode is another word.

    Example:
        tune.RunConfig(progress_reporter=tune.CLIReporter(metric_columns=["loss"], max_report_frequency=30))
    """

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        print(self._progress_str(trials, done, *sys_info), file=sys.stdout, flush=True)


class JupyterNotebookReporter(TuneReporterBase):
    """A reporter that keeps one status block up to date in the output of a notebook's cell.

    Args:
        overwrite: whether a report replaces the one before.
        options: those of `CLIReporter`.
    """

    def __init__(self, overwrite: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self._overwrite = overwrite
        self._display: Any = None

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        from .notebook import display_text

        self._display = display_text(
            self._progress_str(trials, done, *sys_info), self._display if self._overwrite else None
        )
