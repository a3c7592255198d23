"""Functions as trainables: a function runs in a thread of the trial's process, and its reports are queued.

The function goes on while a report is on its way to the controller: at most REPORTS_AHEAD_MAX of them, and not beyond a
report with a checkpoint.  Reports behind a decision to stop are dropped, and the function ends at its next report.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import queue
import shutil
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..on_import import shadows
from . import session
from .checkpoint import Checkpoint, check
from .metrics import SHOWN_MAX, as_metrics, recordable, text_of
from .parameters import FunctionWithParameters, how_to_pass, required_of
from .unknown import shown

__all__ = ["FunctionRun", "Reporter", "StatusReporter", "TrialStopped", "call_form", "function"]

# A fast function waits for the controller behind so many reports: they are sent together, and cost microseconds each.
REPORTS_AHEAD_MAX = 1000
# A function that has just reported often ends, or reports again, within this time: one message takes both.
LINGER_SECONDS = 0.001


class TrialStopped(BaseException):
    """The trial is over: raised by a report, to end the function.  `except Exception` does not catch it."""


Item = tuple[dict[str, Any], "Checkpoint | None", float]  # metrics, checkpoint, seconds since the former report


def call_form(function: Callable[..., Any]) -> str:
    """Return the argument of a function beside the configuration: "config" (none), "reporter", "checkpoint_dir", or
    "second", a reporter of another name.

    Raises:
        TypeError: the function takes no configuration, or requires other arguments.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "config"
    named = [each.name for each in parameters[1:] if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    form = next((name for name in ("checkpoint_dir", "reporter") if name in named), "config")
    required = [each for each in required_of(parameters[1:]) if each.name != form]
    if parameters and parameters[0].kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        if not required:
            return form
        is_plain = not isinstance(getattr(function, "func", function), FunctionWithParameters)
        if len(required) == 1 and form == "config" and is_plain and required[0].kind is not required[0].KEYWORD_ONLY:
            return "second"
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", repr(function))
    raise TypeError(
        f"A trainable function takes (config), (config, reporter) or (config, checkpoint_dir=None), and {name} takes "
        f"({', '.join(each.name for each in parameters)}).{how_to_pass([each.name for each in required])}"
    )


class _RunThread(threading.Thread):
    """A thread that runs functions, one after the other.

    A new thread for each trial takes a quarter of the time of a short one, so a process that is used again keeps one.
    Context variables are those of a new thread.  Where torch is loaded, whose modes belong to a thread, none is kept.
    """

    idle: list[_RunThread] = []  # at most one

    def __init__(self) -> None:
        super().__init__(daemon=True, name="trial")
        self._given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_kept = False

    @classmethod
    def begin(cls, run: Callable[[_RunThread], None]) -> None:
        """Begin a run in an idle thread, or in a new one."""
        try:
            thread = cls.idle.pop()
        except IndexError:
            thread = cls()
            thread.start()
        thread._given.put(functools.partial(run, thread))

    def keep(self) -> None:
        """Have the thread wait for another run behind this one, which calls this before it says that it is over."""
        if not self.idle and "torch" not in sys.modules:
            self._is_kept = True
            self.idle.append(self)

    def run(self) -> None:
        self._is_kept = True
        while self._is_kept:
            run = self._given.get()
            self._is_kept = False
            contextvars.Context().run(run)
            del run  # a waiting thread keeps no trial


class FunctionRun:
    """A run of a function.

    Args:
        keeps_thread: whether the next run of this process may have the same thread.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        config: dict[str, Any],
        facts: dict[str, Any],
        checkpoint: Checkpoint | None,
        persist: Callable[[Checkpoint], Any],
        *,
        keeps_thread: bool = False,
    ) -> None:
        self.facts, self.checkpoint = facts, checkpoint
        self._function, self._config, self._persist = function, config, persist
        self._changed = threading.Condition()
        self._items: deque[tuple[dict[str, Any], Any, float]] = deque()
        self._is_stopped = False
        self._is_over = False
        self._error: BaseException | None = None
        self._reported_at = time.monotonic()
        self._has_reported = False
        self._keeps_thread = keeps_thread

    def start(self) -> None:
        """Begin."""
        session.enter(self)
        _RunThread.begin(self._run)

    def _run(self, thread: _RunThread) -> None:
        try:
            form = call_form(self._function)
            if form == "checkpoint_dir":
                path = self.checkpoint.path if self.checkpoint is not None else None
                returned = self._function(self._config, checkpoint_dir=path)
            elif form == "reporter":
                returned = self._function(self._config, reporter=Reporter(self))
            elif form == "second":
                returned = self._function(self._config, Reporter(self))
            else:
                returned = self._function(self._config)
            self._take_returned(returned)
        except TrialStopped:
            pass
        except SystemExit as error:
            if error.code not in (None, 0):
                self._error = error
        except BaseException as error:
            self._error = error
        if self._keeps_thread:
            thread.keep()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _take_returned(self, returned: Any) -> None:
        """A function may return its last result, or yield results.

        Raises:
            TypeError: what it returned or yielded is no result.
        """
        if inspect.isgenerator(returned):
            for metrics in returned:
                self.report(self.result_of(metrics, "yielded"), None)
        elif isinstance(returned, Mapping) or hasattr(returned, "_asdict") or not self._has_reported:
            if returned is not None:
                self.report(self.result_of(returned, "returned"), None)
        elif returned is not None:
            name = getattr(self._function, "__name__", "the function")
            words = "is left out: its results are those that it has reported"
            warnings.warn(f"{name} returned {_shortened(returned)} ({shown(returned)}), which {words}.", stacklevel=1)

    def result_of(self, value: Any, verb: str) -> dict[str, Any]:
        """Return a value of the function as a dict of metrics.

        Raises:
            TypeError: the value is no result; `verb` says what the function did with it.
        """
        metrics = as_metrics(value)
        if metrics is not None:
            return metrics
        name = getattr(self._function, "__name__", "The function")
        raise TypeError(
            f"{name} {verb} {_shortened(value)} ({shown(value)}), which is no result: return or yield a dict of "
            'metrics, as {"loss": 0.5}, or one number.'
        )

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        """Take a result from the function's thread.

        A checkpoint may stand among the metrics, since a result that is returned or yielded has no other place for it.

        Raises:
            ValueError: a metric cannot be recorded.
        """
        now = time.monotonic()
        if checkpoint is None and isinstance(metrics.get("checkpoint"), Checkpoint):
            metrics = dict(metrics)
            checkpoint = metrics.pop("checkpoint")
        checkpoint = checkpoint or session.take_folder_checkpoint()
        recorded = recordable(metrics)
        saved = None
        if checkpoint is not None:
            check(checkpoint)
            saved = self._persist(checkpoint)
        with self._changed:
            if self._is_stopped:
                _discard(saved)
                raise TrialStopped
            self._has_reported = True
            self._items.append((recorded, saved, now - self._reported_at))
            self._changed.notify_all()
            while self._items and (len(self._items) >= REPORTS_AHEAD_MAX or saved is not None):
                self._changed.wait()
                if self._is_stopped:
                    raise TrialStopped
        self._reported_at = time.monotonic()

    def take(self, timeout: float) -> list[tuple[dict[str, Any], Any, float]]:
        """The results since the last call: waits for the first one, up to a number of seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._items and not self._is_over:
                rest = deadline - time.monotonic()
                if rest <= 0:
                    return []
                self._changed.wait(rest)
            if not self._is_over:
                self._changed.wait(LINGER_SECONDS)
            items = list(self._items)
            self._items.clear()
            self._changed.notify_all()
        return items

    @property
    def is_over(self) -> bool:
        """Whether the function has ended and all its results are taken."""
        with self._changed:
            return self._is_over and not self._items

    @property
    def error(self) -> BaseException | None:
        """The error that the function raised."""
        return self._error

    def stop(self, timeout: float) -> bool:
        """Let the function end at its next report.

        Returns:
            False: it has not ended within the timeout, in seconds.
        """
        with self._changed:
            self._is_stopped = True
            for _, saved, _ in self._items:
                _discard(saved)
            self._items.clear()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._is_over, timeout)


def _discard(saved: Any) -> None:
    """Delete a checkpoint that nobody will hear of."""
    if saved is not None and saved[1] is None:
        shutil.rmtree(saved[0], ignore_errors=True)


def _shortened(value: Any) -> str:
    text = text_of(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


class Reporter:
    """The second argument of functions of 2018: `reporter(timesteps_total=i, mean_loss=loss)`."""

    def __init__(self, run: FunctionRun) -> None:
        self._run = run

    def __call__(self, _metrics: Mapping[str, Any] | None = None, **metrics: Any) -> None:
        result = self._run.result_of(_metrics, "reported") if _metrics is not None else {}
        self._run.report({**result, **metrics}, None)

    @property
    def logdir(self) -> str:
        """The trial's folder."""
        return str(self._run.facts.get("trial_dir", ""))


StatusReporter = Reporter


def function(func: Callable[..., Any]) -> Callable[..., Any]:
    """A function as a value of a configuration, which is passed on and not called, as in 2018 and 2019.

    Args:
        func: the function.
    """
    return functools.partial(func)


shadows.name_absent(__name__)
