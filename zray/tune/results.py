"""The results of an experiment: `ResultGrid`, `Result`, and `ExperimentAnalysis` of former years."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..on_import import shadows
from .checkpoint import Checkpoint
from .errors import TuneError
from .html_tables import grid_html, result_html
from .naming import checkpoint_number
from .objective import Objective
from .outcomes import history, refuse_several
from .records.files import flattened, read_results
from .trial import Trial, TrialState, value_of

if TYPE_CHECKING:
    from .running_experiment import RunningExperiment

__all__ = ["Analysis", "ExperimentAnalysis", "Result", "ResultGrid"]


def _frame(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "Data frames need pandas, which is not installed: install it, or use rows(), which returns a list of dicts."
        ) from None
    return pandas.DataFrame(rows)


def error_of(trial: Trial) -> Exception | None:
    """The error of a failed trial: as it was raised, or as text."""
    if trial.state is not TrialState.ERROR:
        return None
    if trial.error_pickle:
        try:
            found = pickle.loads(trial.error_pickle)
        except Exception:
            found = None
        if isinstance(found, Exception):
            return found
    return TuneError(trial.error)


@dataclass
class Result:
    """The outcome of a trial.

    Args:
        metrics: the last result; None: there is none.
        checkpoint: the newest checkpoint; None: there is none.
        error: the error of a failed trial; None: the trial has not failed.
        path: the trial's folder.
        best_checkpoints: (checkpoint, metrics) of each checkpoint that was kept.
        metrics_dataframe_rows: all results, as a list of dicts.
        trial_config: the parameters of the trial; `config` is another name.
    """

    metrics: dict[str, Any] | None
    checkpoint: Checkpoint | None
    error: Exception | None
    path: str = ""
    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] = field(default_factory=list)
    metrics_dataframe_rows: list[dict[str, Any]] | None = field(default=None, repr=False)
    trial_config: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def config(self) -> dict[str, Any]:
        """The parameters of the trial."""
        return self.trial_config

    @property
    def log_dir(self) -> str:
        """The trial's folder."""
        return self.path

    @property
    def metrics_dataframe(self) -> Any:
        """All results of the trial, as a pandas data frame."""
        return _frame([flattened(row) for row in self.rows()])

    def rows(self) -> list[dict[str, Any]]:
        """All results of the trial, as a list of dicts."""
        return list(self.metrics_dataframe_rows or ())

    _repr_html_ = result_html

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint | None:
        """The checkpoint with the best value of a metric in the result that it belongs to, among those that were kept.

        Args:
            metric: the result's key; "a/b" reads nested results.
            mode: "min" or "max".

        Returns:
            The checkpoint; None: there is none with a finite value of the metric.
        """
        found = ((value_of(metrics, metric), checkpoint) for checkpoint, metrics in self.best_checkpoints)
        return Objective(metric, mode).best(found)

    @classmethod
    def from_path(cls, path: str) -> Result:
        """Read the outcome of a trial from its folder, even while the trial runs.

        Args:
            path: the trial's folder.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        rows = read_results(path)
        folders = sorted(name for name in os.listdir(path) if "." not in name and checkpoint_number(name) >= 0)
        checkpoints = [Checkpoint(os.path.join(path, name)) for name in folders]
        error: Exception | None = None
        if os.path.exists(os.path.join(path, "error.txt")):
            with open(os.path.join(path, "error.txt"), encoding="utf-8", errors="replace") as file:
                error = TuneError(file.read())
        metrics = rows[-1] if rows else None
        newest = checkpoints[-1] if checkpoints else None
        return cls(
            metrics, newest, error, path, [(each, {}) for each in checkpoints], rows, (metrics or {}).get("config", {})
        )


def result_of(trial: Trial) -> Result:
    """The outcome of a trial."""
    saved = trial.saved
    kept = [(Checkpoint(each.path), each.metrics) for each in trial.checkpoints]
    return Result(
        dict(trial.last_result) if trial.last_result else {},
        Checkpoint(saved.path) if saved is not None else None,
        error_of(trial),
        trial.path,
        kept,
        history(trial),
        trial.config,
    )


class ResultGrid:
    """The outcomes of all trials of an experiment, in the order of the trials.

    Args:
        experiment_analysis: what `tune.run` returned, or `ExperimentAnalysis(path)`.
    """

    def __init__(self, experiment_analysis: ExperimentAnalysis | RunningExperiment) -> None:
        given: Any = experiment_analysis
        self._defaults: tuple[str | None, str | None] = (None, None)
        if isinstance(given, ExperimentAnalysis):
            self._defaults = (given.default_metric, given.default_mode)
            given = given._experiment
        experiment: RunningExperiment = given
        self._experiment = experiment
        self._trials = experiment.controller.get_trials()
        self._results: dict[int, Result] = {}

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: int) -> Result:
        place = range(len(self._trials))[index]
        if place not in self._results:
            self._results[place] = result_of(self._trials[place])
        return self._results[place]

    def __iter__(self) -> Iterator[Result]:
        return (self[index] for index in range(len(self)))

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """The outcome of the best trial.

            best = results.get_best_result("loss", "min")
            print(best.config, best.metrics["loss"], best.checkpoint)

        Args:
            metric, mode: by which it is the best; None: those of TuneConfig.  An only trial needs none.
            scope: what is compared: "last", the last value that each trial has reported; "all", its best value ever;
                "avg", "last-5-avg" and "last-10-avg", the mean of all, of the last 5 or of the last 10 values.
            filter_nan_and_inf: values that are NaN or infinite do not count.

        Raises:
            ValueError: no metric is known.
            RuntimeError: no trial has reported the metric.
        """
        metric, mode = metric or self._defaults[0], mode or self._defaults[1]
        trial = self._experiment.best_trial(metric, mode, scope, filter_nan_and_inf)
        return self[self._trials.index(trial)]

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> Any:
        """A pandas data frame with a row for each trial; columns "config/..." are its parameters.

        Args:
            filter_metric, filter_mode: take the result with the best value of this metric, not the last one.

        Raises:
            ImportError: pandas is missing; `rows()` returns a list of dicts.
        """
        return _frame(self.rows(filter_metric, filter_mode))

    def rows(self, filter_metric: str | None = None, filter_mode: str | None = None) -> list[dict[str, Any]]:
        """Return a dict for each trial: the last result, or the best by `filter_metric` and `filter_mode`."""
        return self._experiment.rows(filter_metric, filter_mode)

    @property
    def errors(self) -> list[Exception]:
        """The errors of failed trials."""
        return [error for error in map(error_of, self._trials) if error is not None]

    @property
    def num_errors(self) -> int:
        """The number of failed trials."""
        return sum(trial.state is TrialState.ERROR for trial in self._trials)

    @property
    def num_terminated(self) -> int:
        """The number of trials that have ended without an error."""
        return sum(trial.state is TrialState.TERMINATED for trial in self._trials)

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return self._experiment.path

    @property
    def filesystem(self) -> Any:
        """None: the folder is local."""
        return None

    def __repr__(self) -> str:
        return f"ResultGrid({len(self)} trials, {self.num_errors} errors, {self.experiment_path})"

    _repr_html_ = grid_html


class ExperimentAnalysis:
    """The outcome of `tune.run`, or of an experiment in a folder.

    Args:
        experiment: the folder of an experiment.
        default_metric, default_mode: what stands for metric and mode below; None: those of the experiment.
        experiment_checkpoint_path: Ray's present name of `experiment`; a file in the folder stands for the folder.

    Raises:
        FileNotFoundError: the folder holds no experiment.

    Example:
        analysis = tune.ExperimentAnalysis("~/ray_results/first", default_metric="loss", default_mode="min")
        print(analysis.best_config)
    """

    def __init__(
        self,
        experiment: Any = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
        *,
        experiment_checkpoint_path: Any = None,
    ) -> None:
        if (experiment is None) == (experiment_checkpoint_path is None):
            raise TypeError("ExperimentAnalysis takes the folder of an experiment, once: ExperimentAnalysis(folder).")
        experiment = experiment_checkpoint_path if experiment is None else experiment
        if isinstance(experiment, (str, os.PathLike)):
            from .running_experiment import RunningExperiment

            path = os.path.expanduser(os.fspath(experiment))
            experiment = RunningExperiment.load(os.path.dirname(path) if os.path.isfile(path) else path)
        self._experiment = experiment
        self.default_metric = default_metric or experiment.settings.metric
        self.default_mode = default_mode or experiment.settings.mode
        self.trials: list[Trial] = experiment.controller.get_trials()

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """The best trial.

        Args:
            metric, mode: by which it is the best; None: those of the experiment.
            scope: what is compared: "last", "all", "avg", "last-5-avg" or "last-10-avg", as for
                `ResultGrid.get_best_result`.
            filter_nan_and_inf: values that are NaN or infinite do not count.

        Returns:
            The trial, with `config`, `last_result`, `path`, `trial_id`, ...; None: no trial has reported the metric.

        Raises:
            ValueError: no metric is known.
        """
        try:
            best: Trial = self._experiment.best_trial(
                metric or self.default_metric, mode or self.default_mode, scope, filter_nan_and_inf
            )
        except RuntimeError:
            return None
        return best

    def get_best_config(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> Any:
        """The parameters of the best trial, by `metric`, `mode` and `scope` as for `get_best_trial`; None: none is."""
        best = self.get_best_trial(metric, mode, scope)
        return best.config if best is not None else None

    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str | None:
        """The folder of the best trial, by `metric`, `mode` and `scope` as for `get_best_trial`; None: none is."""
        best = self.get_best_trial(metric, mode, scope)
        return best.path if best is not None else None

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None, return_path: bool = False
    ) -> Any:
        """The best checkpoint of a trial, among those that were kept.

        Args:
            trial: the trial, as `get_best_trial` returns it.
            metric, mode: by which it is the best; None: those of the experiment.  Without a metric in both places, the
                newest checkpoint is returned.
            return_path: whether the path is returned, and no `Checkpoint`.

        Returns:
            A `Checkpoint` or a path; None: no checkpoint has a finite value of the metric.
        """
        metric, mode = metric or self.default_metric, mode or self.default_mode or "max"
        found = trial.saved
        refuse_several(metric)
        if metric:
            is_time = metric == "training_iteration"
            values = (
                (each.iteration if is_time else value_of(each.metrics, metric), each) for each in trial.checkpoints
            )
            found = Objective(metric, mode).best(values)
        if found is None:
            return None
        return found.path if return_path else Checkpoint(found.path)

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> Any:
        """The newest checkpoint of a trial.

        Args:
            trial: the trial; None: the best one by metric and mode.
            metric, mode: by which a trial is the best.

        Returns:
            A `Checkpoint`; None: there is none.
        """
        trial = trial or self.get_best_trial(metric, mode)
        saved = trial.saved if trial is not None else None
        return Checkpoint(saved.path) if saved is not None else None

    def get_trial_checkpoints_paths(self, trial: Trial, metric: str | None = None) -> list[tuple[str, Any]]:
        """(path, value of the metric) of each checkpoint of a trial."""
        key = metric or self.default_metric or "training_iteration"
        refuse_several(key)
        return [(saved.path, value_of(saved.metrics, key)) for saved in trial.checkpoints]

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> Any:
        """A pandas data frame with a row for each trial; columns "config/..." are its parameters.

        Args:
            metric, mode: take the result with the best value of this metric; None: the last result.

        Raises:
            ValueError: the mode is unknown, or stands without a metric.
            ImportError: pandas is missing; `rows()` returns a list of dicts.
        """
        return _frame(self._experiment.rows(metric, mode))

    def rows(self, metric: str | None = None, mode: str | None = None) -> list[dict[str, Any]]:
        """A dict for each trial, as of `dataframe`."""
        rows: list[dict[str, Any]] = self._experiment.rows(metric, mode)
        return rows

    @property
    def results_df(self) -> Any:
        """The last results, as a pandas data frame with the trial's id as index."""
        frame = _frame(self._experiment.rows())
        return frame.set_index("trial_id", drop=False) if len(frame) else frame

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def trial_dataframes(self) -> dict[str, Any]:
        """All results of each trial as a pandas data frame, by the trial's id."""
        return {trial.trial_id: _frame([flattened(row) for row in history(trial)]) for trial in self.trials}

    def fetch_trial_dataframes(self) -> dict[str, Any]:
        """All results of each trial as a pandas data frame, by the trial's id."""
        return self.trial_dataframes

    @property
    def best_trial(self) -> Trial:
        """The best trial by the experiment's metric."""
        best: Trial = self._experiment.best_trial(self.default_metric, self.default_mode, "last")
        return best

    @property
    def best_config(self) -> dict[str, Any]:
        """The parameters of the best trial."""
        return self.best_trial.config

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial."""
        return self.best_trial.last_result

    @property
    def best_logdir(self) -> str:
        """The folder of the best trial."""
        return self.best_trial.path

    best_trial_dir = best_logdir

    @property
    def best_checkpoint(self) -> Any:
        """The newest checkpoint of the best trial, as in `best_trial.checkpoint`.

        `get_best_checkpoint(trial, metric, mode)` is the one that was the best by a metric.
        """
        saved = self.best_trial.checkpoint
        return Checkpoint(saved.path) if saved is not None else None

    @property
    def best_dataframe(self) -> Any:
        """All results of the best trial as a pandas data frame."""
        return _frame([flattened(row) for row in history(self.best_trial)])

    @property
    def best_result_df(self) -> Any:
        """The last result of the best trial as a pandas data frame."""
        return _frame([flattened(self.best_result)])

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return str(self._experiment.path)

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """Return the parameters of each trial, by id; with `prefix`, "config/" precedes their names."""
        return {
            trial.trial_id: {f"config/{key}": value for key, value in trial.config.items()} if prefix else trial.config
            for trial in self.trials
        }


# The class of 2019 and 2020 for the folder of an experiment.
Analysis = ExperimentAnalysis

shadows.name_absent(__name__)
