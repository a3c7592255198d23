"""A recorded experiment, read from its folder: for commands that list, explain, draw and simulate.

The state and the journal have everything.  Without the state, the other files are read, see `recorded_files`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .errors import TuneError
from .folder_lock import is_running
from .journal import JOURNAL
from .objective import Objective
from .outcomes import history
from .output import printed_aside
from .recorded_files import read_decisions, trials_of_files
from .records.files import read_results
from .reporters.rows import cell
from .running_experiment import STATE, RunningExperiment
from .state_file import how_to_resume, objective_of, objectives_of, read_objectives, read_summary
from .trial import Trial, value_of

__all__ = ["Recorded", "best_value", "read_experiment"]

# Names of trials in an error, and characters of each.
NAMES_MAX, NAME_MAX = 3, 60


class Recorded(NamedTuple):
    """An experiment.

    experiment: with its state restored; None: only its other files could be read, and `note` says why.  planned: the
    number of trials, also of those to come; 0: not known.  has_only_folders: there is no journal.  objectives: the
    metrics of several objectives, with their modes.
    """

    path: str
    trials: list[Trial]
    metric: str | None
    mode: str | None
    experiment: RunningExperiment | None
    note: str
    planned: int = 0
    has_only_folders: bool = False
    objectives: Mapping[str, str | None] = {}

    def results(self, trial: Trial) -> list[dict[str, Any]]:
        """All results of a trial."""
        return history(trial) if self.experiment is not None else read_results(trial.path)

    def decisions(self, trial_id: str = "") -> list[dict[str, Any]]:
        """The recorded decisions, of all trials or of one."""
        return read_decisions(self.path, trial_id)

    def trial(self, name: str) -> Trial:
        """Return a trial by id, name, number, or the beginning or end of the id or name.

        Raises:
            TuneError: there is none, or several.
        """
        exact = [trial for trial in self.trials if name in (trial.trial_id, str(trial), str(trial.index))]
        found = exact or [
            trial
            for trial in self.trials
            if any(text.startswith(name) or text.endswith(name) for text in (trial.trial_id, str(trial)))
        ]
        if len(found) != 1:
            if found:
                some = ", ".join(cell(str(trial), NAME_MAX) for trial in found[:NAMES_MAX])
                some += ", ..." * (len(found) > NAMES_MAX)
                raise TuneError(f"{self.path} has {len(found)} trials called {name!r}: {some}.")
            count, last = len(self.trials), self.trials[-1:]
            numbers = f", with the numbers 0 to {count - 1}" if count > 1 else ""
            known = f", as {cell(str(last[0]), NAME_MAX)}" if last else ""
            raise TuneError(f"{self.path} has no trial called {name!r}: it has {count}{numbers}{known}.")
        return found[0]

    def interrupted(self) -> str:
        """Describe how to continue an unfinished experiment that no program runs; empty: not the case."""
        if self.experiment is None:
            is_done = self.has_only_folders or all(trial.is_over for trial in self.trials)
        else:
            is_done = self.experiment.controller.is_done
        if is_done or is_running(self.path):
            return ""
        if self.experiment is None:
            return "interrupted"  # a restore needs the state too
        return f"interrupted; go on with {how_to_resume(self.path, self.experiment)}"

    def total(self) -> int:
        """Return the number of trials, including trials that have not begun."""
        return max(len(self.trials), self.planned)

    def parameters(self) -> dict[str, list[Any]]:
        """Return the values of each parameter chosen by the search, by path, in the order of the trials."""
        names: dict[str, None] = {}
        for trial in self.trials:
            names.update(dict.fromkeys(trial.chosen))
        current = [(trial.parameters, trial.config) for trial in self.trials]
        return {
            name: [own[name] if name in own else value_of(config, name) for own, config in current] for name in names
        }


def best_value(results: list[dict[str, Any]], metric: str, mode: str | None) -> float | None:
    """The best finite value of a metric in a trial's results; None: there is none."""
    return Objective(metric, mode).best_value(results)


def read_experiment(path: str, metric: str | None = None, mode: str | None = None) -> Recorded:
    """The experiment in a folder.

    Args:
        path: the folder, or its name in the folder of experiments.
        metric, mode: what is optimised; None: as the experiment says.

    Raises:
        TuneError: the folder holds no trials.
    """
    path = folder_of(path)
    experiment, note, planned = None, "", 0
    if has_state(path):
        try:
            with printed_aside():
                experiment = RunningExperiment.load(path)
        except Exception as error:  # a class whose module is not here, for example
            note = f"Only its other files could be read, since the state could not: {error}"
    else:
        note = f"Only the files of the trials could be read, since there is no {STATE}."
    if experiment is not None:
        (own_metric, own_mode), objectives = objective_of(experiment), objectives_of(experiment)
        planned = experiment.settings.num_samples
        trials = experiment.controller.get_trials()
    else:
        trials, more = trials_of_files(path)
        note = f"{note}  {more}".rstrip()
        (own_metric, own_mode, planned), objectives = read_summary(path), read_objectives(path)
    metric = metric or own_metric
    mode = mode or objectives.get(metric or "") or own_mode
    if not trials and experiment is None:
        raise TuneError(f"{path} holds no experiment: it has no {STATE}, and no folder with a result.json.")
    has_only_folders = experiment is None and not os.path.exists(os.path.join(path, JOURNAL))
    return Recorded(path, trials, metric, mode, experiment, note, planned, has_only_folders, objectives)


def has_state(path: str) -> bool:
    """Whether the folder of an experiment has a pickled state, with classes of the program's modules."""
    return os.path.exists(os.path.join(path, STATE))


def folder_of(path: str) -> str:
    """Return the folder of an experiment: a path, or a name in the folder of experiments.

    Raises:
        TuneError: there is no such folder.
    """
    from .storage import default_storage_path

    for candidate in (os.path.expanduser(path), os.path.join(default_storage_path(), path)):
        if os.path.isdir(candidate):
            return os.path.abspath(candidate)
    raise TuneError(f"There is no experiment {path!r}, here or in {default_storage_path()}.")
