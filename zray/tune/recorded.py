"""A recorded experiment, read from its folder: for commands that list, explain, draw and simulate.

The journal has everything.  Without it, as in folders that Ray has written, the files of the trials are read.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from .errors import TuneError
from .folder_lock import is_running
from .objective import Objective
from .outcomes import history
from .records.files import flattened, json_lines
from .recovery import DECISIONS
from .running_experiment import STATE, RunningExperiment
from .trial import Trial, TrialState, value_of

__all__ = ["Recorded", "best_value", "read_experiment"]


class Recorded(NamedTuple):
    """An experiment.

    experiment: with its state restored; None: only the files of the trials could be read, and `note` says why.
    """

    path: str
    trials: list[Trial]
    metric: str | None
    mode: str | None
    experiment: RunningExperiment | None
    note: str

    def results(self, trial: Trial) -> list[dict[str, Any]]:
        """All results of a trial."""
        return history(trial)

    def decisions(self, trial_id: str = "") -> list[dict[str, Any]]:
        """The recorded decisions, of all trials or of one."""
        found = []
        path = os.path.join(self.path, DECISIONS)
        if os.path.exists(path):
            for record in json_lines(path):
                if not trial_id or record.get("trial_id") == trial_id:
                    found.append(record)
        return found

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
            some = ", ".join(map(str, (found or self.trials)[:5]))
            count = "no trial" if not found else f"{len(found)} trials"
            raise TuneError(f"{self.path} has {count} called {name!r}: it has {some}, ...")
        return found[0]

    def interrupted(self) -> str:
        """Describe how to continue an unfinished experiment that no program runs; empty: not the case."""
        if self.experiment is None or self.experiment.controller.is_done or is_running(self.path):
            return ""
        return f"interrupted; go on with Tuner.restore({self.path!r}, trainable)"

    def total(self) -> int:
        """Return the number of trials, including trials that have not begun."""
        planned = self.experiment.settings.num_samples if self.experiment is not None else 0
        return max(len(self.trials), planned)

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
    experiment, note = None, ""
    if has_state(path):
        try:
            experiment = RunningExperiment.load(path)
        except Exception as error:  # a class whose module is not here, for example
            note = f"Only the files of the trials could be read, since the state could not: {error}"
    else:
        note = f"Only the files of the trials could be read, since there is no {STATE}."
    if experiment is not None:
        settings = experiment.settings
        own = (settings.metric, experiment.scheduler.metric, experiment.searcher.metric)
        modes = (settings.mode, experiment.scheduler.mode, experiment.searcher.mode)
        metric = metric or next((each for each in own if isinstance(each, str)), None)
        mode = mode or next((each for each in modes if isinstance(each, str)), None)
        trials = experiment.controller.get_trials()
    else:
        trials = _trials_of_files(path)
    if not trials and experiment is None:
        raise TuneError(f"{path} holds no experiment: it has no {STATE}, and no folder with a result.json.")
    return Recorded(path, trials, metric, mode, experiment, note)


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


def _trials_of_files(path: str) -> list[Trial]:
    trials: list[Trial] = []
    for folder in sorted(os.listdir(path)):
        place = os.path.join(path, folder)
        if not os.path.exists(os.path.join(place, "result.json")):
            continue
        results = json_lines(os.path.join(place, "result.json"))
        last = results[-1] if results else {}
        config = _parameters_of_files(place)
        if config is None:
            recorded_config = last.get("config")
            config = recorded_config if isinstance(recorded_config, dict) else {}
        iteration = last.get("training_iteration")
        trial = Trial(
            str(last.get("trial_id", folder)),
            "trainable",
            config,
            {},
            index=len(trials),
            name=folder,
            path=place,
            last_result=last,
            iteration=iteration if isinstance(iteration, int) else len(results),
        )
        error = os.path.join(place, "error.txt")
        if os.path.exists(error):
            with open(error, encoding="utf-8", errors="replace") as file:
                trial.error = file.read()
            trial.state = TrialState.ERROR
        else:
            trial.state = TrialState.TERMINATED
        trials.append(trial)
    _note_what_differs(trials)
    return trials


def _parameters_of_files(folder: str) -> dict[str, Any] | None:
    """Return the configuration in a trial's folder; None: the file is missing or damaged."""
    try:
        with open(os.path.join(folder, "params.json"), encoding="utf-8", errors="replace") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _note_what_differs(trials: list[Trial]) -> None:
    """Return the searched parameters: those with different values in different trials."""
    flat = [flattened(trial.config) for trial in trials]
    for name in {name: None for each in flat for name in each}:
        values = [each.get(name) for each in flat]
        if any(value != values[0] for value in values) and all(
            isinstance(value, (int, float, str, bool, type(None))) for value in values
        ):
            for trial, value in zip(trials, values, strict=True):
                trial.chosen[name] = value
