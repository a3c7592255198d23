"""Reporters as the loop of an experiment calls them: `update` each turn, which costs a look at the clock unless a
report is due.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zray.exceptions.printable import escaped, printable

from ..errors import warn_program
from ..metrics import text_of
from ..trial import Trial, TrialState, headline
from .endings import hint_on_starts, last_returns
from .progress_reporter import check_reporter
from .rows import cell, cells, columns_of
from .view import usage_of_session, view_of

if TYPE_CHECKING:
    from ..controller import Controller

__all__ = ["QuietLines", "ResultLines", "UserReporter", "Updates", "reporter_of"]

# A line of a log for each half minute: an experiment of a night has a thousand.
QUIET_SECONDS = 30.0
RESULT_SECONDS = 1.0
# Lines of results in a second: more are not read by anybody, and result.json has them all.
RESULT_LINES_MAX = 50
# Characters of an error in a line.
WORDS_MAX = 500
# Drawing takes at most this part of the time of the loop.
SHARE = 0.02


class Updates:
    """The base: `draw` is called when a report is due.

    Args:
        seconds: between two reports, at least.
        results: prints lines about trials as well; None: nothing does.
        usage: says which resources are in use.
    """

    def __init__(
        self, seconds: float, results: ResultLines | None = None, usage: Callable[[], str] = usage_of_session
    ) -> None:
        self.seconds, self.results, self.usage = seconds, results, usage
        self._due = time.monotonic() + self.first_after()
        self._has_failed = False
        if results is not None:
            results.write = self.write

    def first_after(self) -> float:
        """Seconds to the first report."""
        return 0.0

    def update(self, controller: Controller, is_final: bool) -> None:
        """Report if due, or at the end."""
        if self._has_failed:
            return
        began = time.monotonic()
        try:
            if self.results is not None:
                self.results.update(controller, is_final)
            if began < self._due and not is_final:
                return
            self.draw(controller, is_final)
        except (OSError, ValueError):  # the reader of the pipe has gone, or the output is closed: the trials go on
            self._due, self.results = float("inf"), None
            return
        except Exception as error:
            self._has_failed = True
            self.stop()
            give_up(self, error)
            return
        ended = time.monotonic()
        self._due = ended + max(self.seconds, (ended - began) / SHARE)

    def draw(self, controller: Controller, is_final: bool) -> None:
        """Show the state."""
        raise NotImplementedError

    def stop(self) -> None:
        """Give the terminal back, after an error."""

    def write(self, line: str) -> None:
        """Print a line above the shown block."""
        print(line, file=sys.stdout, flush=True)


def give_up(reporter: Any, error: Exception) -> None:
    """Say that a reporter shows nothing more: the trials go on."""
    name = type(reporter).__name__
    warn_program(
        f"The reporter {name} failed with {printable(f'{type(error).__name__}: {text_of(error)}')}: it shows nothing "
        "more.  The trials go on.",
        ReporterWarning,
    )


class ReporterWarning(UserWarning):
    """A reporter has failed."""


class ResultLines:
    """Lines about trials: their ends, and with `all_results` their results too, the newest of each once a second.

    Args:
        only_failures: failed trials alone, each error once.
    """

    def __init__(self, *, all_results: bool = False, only_failures: bool = False) -> None:
        self.all_results, self.only_failures = all_results, only_failures
        self._errors: dict[str, int] = {}  # the headline of an error -> how many more trials had it
        self.write: Callable[[str], None] = print
        self._open: dict[str, tuple[Trial, int]] = {}  # trials that have not ended, with the iteration that was shown
        self._count = 0
        self._due = 0.0

    def update(self, controller: Controller, is_final: bool) -> None:
        """Print what is new."""
        now = time.monotonic()
        if now < self._due and not is_final:
            return
        self._due = now + RESULT_SECONDS
        if len(controller.trials) > self._count:
            for trial in controller.get_trials()[self._count :]:
                self._open[trial.trial_id] = (trial, 0)
            self._count = len(controller.trials)
        lines: list[str] = []
        for key, (trial, shown) in list(self._open.items()):
            if trial.is_over:
                del self._open[key]
                if not self.only_failures or self._is_new_failure(trial):
                    lines.append(self._line(trial))
            elif self.all_results and trial.iteration > shown:
                self._open[key] = (trial, trial.iteration)
                lines.append(self._line(trial))
        for line in lines[:RESULT_LINES_MAX]:
            self.write(line)
        if len(lines) > RESULT_LINES_MAX:
            self.write(f"... and {len(lines) - RESULT_LINES_MAX} more trials; result.json has all results")
        if is_final:
            for words, count in self._errors.items():
                if count:
                    self.write(printable(f"{count} more trial{'s' * (count > 1)} failed with {cell(words, WORDS_MAX)}"))
            self._errors.clear()

    def _is_new_failure(self, trial: Trial) -> bool:
        """Whether a trial has failed with an error that was not shown yet."""
        if trial.state is not TrialState.ERROR:
            return False
        words = headline(trial.error)
        is_new = words not in self._errors
        self._errors[words] = 0 if is_new else self._errors[words] + 1
        return is_new

    def _line(self, trial: Trial) -> str:
        return printable(self._words(trial))

    def _words(self, trial: Trial) -> str:
        words = {TrialState.TERMINATED: "ended", TrialState.ERROR: "failed"}.get(trial.state, "result")
        if trial.state is TrialState.ERROR:
            words = cell(headline(trial.error), WORDS_MAX)
            return f"{trial} failed after {trial.iteration} results: {words}  ({trial.error_file})"
        columns = columns_of([trial], None, None, infer_limit=6)
        values = zip([*columns.parameters.values(), *columns.metrics.values()], cells(trial, columns), strict=True)
        text = ", ".join(f"{name}={value}" for name, value in values if value)
        reason = f": {trial.reason}" if trial.is_over and trial.reason else ""
        return (
            f"{trial} {words} {trial.iteration}: {text}{reason}"
            if words == "result"
            else f"{trial} {words}, {text}{reason}"
        )


class QuietLines(Updates):
    """Updates without a watching user: one line each half minute, and one at the end."""

    def __init__(self, results: ResultLines | None = None, seconds: float = QUIET_SECONDS) -> None:
        super().__init__(seconds, results, usage=lambda: "")

    def first_after(self) -> float:
        return self.seconds

    def draw(self, controller: Controller, is_final: bool) -> None:
        view = view_of(controller, "")
        best = view.best_in_words()
        line = f"tune {view.name}: {view.heading()}" + (f"; {best}" if best else "")
        if is_final:
            returns = last_returns(controller)
            line += f"; {returns}" * bool(returns) + f"; {view.end}" * bool(view.end)
            line += f"; results in {controller.settings.path}"
        self.write(printable(line))
        if is_final and (hint := hint_on_starts(controller)):
            self.write(hint)


class StatusBlocks(Updates):
    """The `== Status ==` block of 2018, each five seconds.

    Args:
        trials_max: trials that are listed.
    """

    def __init__(
        self,
        results: ResultLines | None = None,
        seconds: float = 5.0,
        trials_max: int = 20,
        usage: Callable[[], str] = usage_of_session,
    ) -> None:
        super().__init__(seconds, results, usage)
        self.trials_max = trials_max

    def draw(self, controller: Controller, is_final: bool) -> None:
        from .status_block import status_block

        self.write(escaped(status_block(controller, self.usage(), self.trials_max)))


class UserReporter(Updates):
    """The user's own reporter: it decides when to report, and reports.

    Args:
        reporter: has `should_report(trials, done)` and `report(trials, done, *sys_info)`.
    """

    def __init__(
        self, reporter: Any, results: ResultLines | None = None, usage: Callable[[], str] = usage_of_session
    ) -> None:
        super().__init__(0.0, results, usage)
        self.reporter = reporter
        self._is_set_up = False
        self._trials: list[Trial] = []

    def update(self, controller: Controller, is_final: bool) -> None:
        try:
            if self.results is not None:
                self.results.update(controller, is_final)
            if not self._has_failed:
                self._update(controller, is_final)
        except Exception as error:
            self._has_failed = True
            give_up(self.reporter, error)

    def _update(self, controller: Controller, is_final: bool) -> None:
        reporter, settings = self.reporter, controller.settings
        if len(self._trials) != len(controller.trials):
            self._trials = controller.get_trials()
        if not self._is_set_up:
            self._is_set_up = True
            if hasattr(reporter, "setup"):
                total = settings.num_samples if settings.num_samples > 0 else None
                reporter.setup(
                    start_time=controller.began_at - controller.earlier_s or None,
                    total_samples=total,
                    metric=settings.metric,
                    mode=settings.mode,
                )
        if reporter.should_report(self._trials, done=is_final):
            reporter.report(self._trials, is_final, controller.scheduler.debug_string(), self.usage())


def reporter_of(given: Any, verbose: Any = None, *, is_block: bool = False) -> Any:
    """The calls that the loop of an experiment makes.

    Args:
        given: the user's reporter, which is always used; None: one that fits the terminal, pipe or notebook.
        verbose: 0: nothing; 1, None or True: the state; 2: ends of trials too; 3: results too.
        is_block: whether 2 and 3 show the status block of 2018.

    Returns:
        An object with `update(controller, is_final)`; None: nothing is shown.

    Raises:
        TypeError: the user's reporter lacks a method.
        ValueError: verbose is something else.
    """
    if given is not None:
        if hasattr(given, "update") and not hasattr(given, "should_report"):
            return given
        check_reporter(given)
        return UserReporter(given, None if verbose == 0 else ResultLines(only_failures=True))
    level = 1 if verbose is None else verbose
    if not isinstance(level, int) or not 0 <= level <= 3:
        raise ValueError(f"verbose is 0, 1, 2 or 3, not {verbose!r}.")
    if level == 0:
        return None
    if is_block and level >= 2:
        return StatusBlocks(ResultLines(all_results=True) if level == 3 else ResultLines(only_failures=True))
    results = ResultLines(all_results=level == 3, only_failures=level == 1)
    from .notebook import is_notebook

    if is_notebook():
        from .live import NotebookTable

        return NotebookTable(results)
    if sys.stdout.isatty():
        from .live import LiveTable

        return LiveTable(results)
    return QuietLines(results)
