"""Loggers: callbacks that record trials, the loggers of 2018 to 2022, and `pretty_print`.

An experiment writes result.json, progress.csv, params.json and params.pkl into each trial's folder, and TensorBoard's
events for its first 1,000 trials.  With TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1 it writes those of them whose callbacks it
is given.
"""

from __future__ import annotations

import csv as csv_format  # Ray's modules logger.csv and logger.json become attributes `csv` and `json` of this one
import json as json_format
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..on_import import shadows
from .callback import Callback
from .records.files import FORMATS, csv_rows, flattened, plain, without_nan
from .records.tensorboard import EventFile
from .trial import Trial
from .trial_results import result_for
from .unknown import shown

__all__ = [
    "DEFAULT_LOGGERS",
    "CSVLogger",
    "CSVLoggerCallback",
    "JsonLogger",
    "JsonLoggerCallback",
    "LegacyLoggerCallback",
    "Logger",
    "LoggerCallback",
    "NoopLogger",
    "TBXLogger",
    "TBXLoggerCallback",
    "UnifiedLogger",
    "pretty_print",
]


class LoggerCallback(Callback):
    """A callback that records trials; subclasses define the methods that begin with `log_trial_`.

    Arguments of methods: `trial`, with `trial_id`, `config` and `path`; `result`, a dict of metrics; `iteration`, the
    number of turns of the experiment's loop; `failed`, whether the trial has ended with an error.

    Example:
        class Printer(LoggerCallback):
            def log_trial_result(self, iteration, trial, result):
                print(trial, result["loss"])

        tune.run(train, callbacks=[Printer()])
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Called when a trial starts, or starts again."""

    def log_trial_restore(self, trial: Trial) -> None:
        """Called when a trial starts from a checkpoint."""

    def log_trial_save(self, trial: Trial) -> None:
        """Called when a trial has a checkpoint."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Called with each result."""

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Called when a trial has ended."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_start`."""
        self.log_trial_start(trial)

    def on_trial_restore(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_restore`."""
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_save`."""
        self.log_trial_save(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Calls `log_trial_result`."""
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_end`."""
        self.log_trial_end(trial, failed=False)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Calls `log_trial_end` with failed=True."""
        self.log_trial_end(trial, failed=True)


class JsonLoggerCallback(LoggerCallback):
    """Asks for result.json, params.json and params.pkl.

    Experiments write them anyway, unless TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1.
    """


class CSVLoggerCallback(LoggerCallback):
    """Asks for progress.csv, which experiments write anyway, unless TUNE_DISABLE_AUTO_CALLBACK_LOGGERS=1."""


class TBXLoggerCallback(LoggerCallback):
    """Writes TensorBoard's events for all trials, in place of the experiment's own for its first 1,000 trials.

    Curves are named "ray/tune/KEY", at the step `timesteps_total`, or else `training_iteration`.
    """

    def __init__(self) -> None:
        self._files: dict[str, EventFile] = {}

    def _file(self, trial: Trial) -> EventFile:
        file = self._files.get(trial.trial_id)
        if file is None:
            os.makedirs(trial.path, exist_ok=True)
            file = self._files[trial.trial_id] = EventFile(trial.path, flattened(plain(trial.config)))
        return file

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write the numbers of a result."""
        file = self._file(trial)
        file.log(flattened(plain(result)))
        file.flush()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Write that the trial has ended."""
        if trial.trial_id in self._files or trial.last_result:
            file = self._file(trial)
            del self._files[trial.trial_id]
            file.end(is_failed=failed)
            file.close()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the files of trials that have not ended."""
        while self._files:
            self._files.popitem()[1].close()


def _are_automatic() -> bool:
    """Whether an experiment writes its records without being asked."""
    return os.environ.get("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS") != "1"


def writes_events(callbacks: Iterable[Any]) -> bool:
    """Whether an experiment writes TensorBoard's events itself: no callback does, and the environment allows it."""
    return _are_automatic() and not any(isinstance(each, TBXLoggerCallback) for each in callbacks)


def formats_of(callbacks: Iterable[Any]) -> frozenset[str]:
    """Return the formats, of `records.files.FORMATS`, written for each trial of an experiment with these callbacks."""
    if _are_automatic():
        return FORMATS
    found: set[str] = set()
    for each in callbacks:
        if isinstance(each, JsonLoggerCallback):
            found.add("json")
        elif isinstance(each, CSVLoggerCallback):
            found.add("csv")
        elif isinstance(each, LegacyLoggerCallback):
            found |= each.formats
    return frozenset(found)


class Logger:
    """A logger of one trial, as programs of 2018 to 2022 define it.

    Args:
        config: the trial's configuration.
        logdir: the folder.
        trial: the trial; None: outside of an experiment.

    Subclasses define `_init`, `on_result`, `update_config`, `flush` and `close`.
    """

    def __init__(self, config: dict[str, Any], logdir: str, trial: Trial | None = None) -> None:
        self.config, self.logdir, self.trial = config, logdir, trial
        self._init()

    def _init(self) -> None:
        """Open what is needed."""

    def on_result(self, result: dict[str, Any]) -> None:
        """Write a result."""
        raise NotImplementedError(f"{type(self).__name__} has no method on_result: define it.")

    def update_config(self, config: dict[str, Any]) -> None:
        """Take another configuration.

        Args:
            config: the configuration from now on.
        """
        self.config = config

    def flush(self) -> None:
        """Hand over to the operating system."""

    def close(self) -> None:
        """Close what is open."""


class NoopLogger(Logger):
    """A logger that writes nothing.

    Args:
        config, logdir, trial: as of `Logger`.
    """

    def on_result(self, result: dict[str, Any]) -> None:
        """Do nothing."""


class JsonLogger(Logger):
    """Writes params.json, and result.json with one result a line.

    Args:
        config, logdir, trial: as of `Logger`.
    """

    def _init(self) -> None:
        os.makedirs(self.logdir, exist_ok=True)
        self.update_config(self.config)
        self._file = open(os.path.join(self.logdir, "result.json"), "a", errors="backslashreplace")  # noqa: SIM115

    def update_config(self, config: dict[str, Any]) -> None:
        """Write params.json."""
        self.config = config
        with open(os.path.join(self.logdir, "params.json"), "w", errors="backslashreplace") as file:
            json_format.dump(without_nan(plain(config)), file, indent=2, sort_keys=True)

    def on_result(self, result: dict[str, Any]) -> None:
        """Write a result."""
        self._file.write(json_format.dumps(plain(result)) + "\n")
        self._file.flush()

    def flush(self) -> None:
        """Hand over to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CSVLogger(Logger):
    """Writes progress.csv, with the columns of the first result.

    Args:
        config, logdir, trial: as of `Logger`.
    """

    def _init(self) -> None:
        os.makedirs(self.logdir, exist_ok=True)
        path = os.path.join(self.logdir, "progress.csv")
        self._columns: list[str] = []
        if os.path.exists(path):
            with open(path, newline="") as file, csv_rows(file) as rows:
                self._columns = next(rows, [])
        self._file = open(path, "a", errors="backslashreplace", newline="")  # noqa: SIM115

    def on_result(self, result: dict[str, Any]) -> None:
        """Write a result."""
        flat = flattened({key: value for key, value in plain(result).items() if key != "config"})
        writer = csv_format.writer(self._file, lineterminator="\n")
        if not self._columns:
            self._columns = list(flat)
            writer.writerow(self._columns)
        writer.writerow(["" if flat.get(key) is None else flat[key] for key in self._columns])
        self._file.flush()

    def flush(self) -> None:
        """Hand over to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TBXLogger(Logger):
    """Writes TensorBoard's events.

    Args:
        config, logdir, trial: as of `Logger`.
    """

    def _init(self) -> None:
        os.makedirs(self.logdir, exist_ok=True)
        self._file = EventFile(self.logdir, flattened(plain(self.config)))

    def on_result(self, result: dict[str, Any]) -> None:
        """Write the numbers of a result."""
        self._file.log(flattened(plain(result)))
        self._file.flush()

    def flush(self) -> None:
        """Hand over to the operating system."""
        self._file.flush(is_last=True)

    def close(self) -> None:
        """Write that the training has ended, and close the file."""
        self._file.end(is_failed=False)
        self._file.close()


DEFAULT_LOGGERS: tuple[type[Logger], ...] = (JsonLogger, CSVLogger, TBXLogger)


class UnifiedLogger(Logger):
    """Several loggers as one.

    Args:
        config, logdir, trial: as of `Logger`.
        loggers: classes; None: those of DEFAULT_LOGGERS.
        sync_function: accepted for programs of 2018.
    """

    def __init__(
        self,
        config: dict[str, Any],
        logdir: str,
        trial: Trial | None = None,
        loggers: Iterable[type[Logger]] | None = None,
        sync_function: Any = None,
    ) -> None:
        del sync_function
        self._classes = tuple(loggers) if loggers is not None else DEFAULT_LOGGERS
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [each(self.config, self.logdir, self.trial) for each in self._classes]

    def on_result(self, result: dict[str, Any]) -> None:
        """Hand a result to each logger."""
        for each in self._loggers:
            each.on_result(result)

    def update_config(self, config: dict[str, Any]) -> None:
        """Hand another configuration to each logger."""
        for each in self._loggers:
            each.update_config(config)

    def flush(self) -> None:
        """Flush each logger."""
        for each in self._loggers:
            each.flush()

    def close(self) -> None:
        """Close each logger."""
        for each in self._loggers:
            each.close()


class LegacyLoggerCallback(LoggerCallback):
    """Runs classes of loggers as a callback: one object of each class for each trial.

    Args:
        logger_classes: subclasses of `Logger`; the experiment itself writes the files of those of DEFAULT_LOGGERS.
    """

    def __init__(self, logger_classes: Iterable[type[Logger]]) -> None:
        if isinstance(logger_classes, (str, type)):
            raise TypeError(f"loggers is a list of classes, not {shown(logger_classes)}.")
        given = tuple(logger_classes)
        for place, each in enumerate(given):
            is_callback = isinstance(each, Callback) or isinstance(each, type) and issubclass(each, Callback)
            if is_callback or not callable(each):
                what = repr(each) if isinstance(each, str) else shown(each)
                advice = f"  Pass callbacks=[{what.rpartition(' ')[2]}()]." if is_callback else ""
                raise TypeError(f"loggers[{place}] is a class of tune.logger.Logger, not {what}.{advice}")
        own = {JsonLogger: ("json",), CSVLogger: ("csv",), TBXLogger: (), UnifiedLogger: FORMATS, NoopLogger: ()}
        self.logger_classes = tuple(each for each in given if each not in own)
        self.formats = frozenset(kind for each in given for kind in own.get(each, ()))
        self._loggers: dict[str, list[Logger]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Make the trial's loggers."""
        if trial.trial_id not in self._loggers:
            self._loggers[trial.trial_id] = [each(trial.config, trial.path, trial) for each in self.logger_classes]

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Hand a result to the trial's loggers."""
        self.log_trial_start(trial)
        for each in self._loggers[trial.trial_id]:
            each.on_result(result_for(each, result))

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the trial's loggers."""
        for each in self._loggers.pop(trial.trial_id, ()):
            each.close()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the loggers of trials that have not ended."""
        for trial in trials:
            self.log_trial_end(trial)


def pretty_print(result: Mapping[str, Any], exclude: Iterable[str] | None = None) -> str:
    """A result as text in YAML's form: sorted keys, one value a line, without the configuration.

    Args:
        result: a result of a trial.
        exclude: keys that are left out.

    Example:
        print(pretty_print(algorithm.train()))
    """
    left_out = {"config", "hist_stats", *(exclude or ())}
    shown = {key: value for key, value in plain(dict(result)).items() if value is not None and key not in left_out}
    return "".join(line + "\n" for line in _lines(shown, ""))


def _lines(value: dict[str, Any], indent: str) -> Iterable[str]:
    for key, item in sorted(value.items()):
        if isinstance(item, dict) and item:
            yield f"{indent}{key}:"
            yield from _lines(item, indent + "  ")
        elif isinstance(item, list) and item and not any(isinstance(each, (dict, list)) for each in item):
            yield f"{indent}{key}:"
            yield from (f"{indent}- {_scalar(each)}" for each in item)
        else:
            yield f"{indent}{key}: {_scalar(item)}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value if value and value.isprintable() and value == value.strip() and ": " not in value else repr(value)
    if isinstance(value, float) and value != value:
        return ".nan"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    return json_format.dumps(value)


shadows.name_absent(__name__)
