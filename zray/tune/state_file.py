"""experiment.pkl: the arguments of an experiment, for a continuation in another process.

The file is written before the first trial: all of it is as at the beginning.  It may hold keys of callbacks, and only
its user can read it.
"""

from __future__ import annotations

import json
import os
import shlex
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any

from . import refs
from .callback import pickled, unpickled
from .errors import NoExperimentError, TuneError
from .interrupts import command_to_resume
from .storage import write_aside

if TYPE_CHECKING:
    from .running_experiment import RunningExperiment

__all__ = [
    "STATE",
    "SUMMARY",
    "how_to_resume",
    "objective_of",
    "objectives_of",
    "pickle_of",
    "read_objectives",
    "read_state",
    "read_summary",
    "resuming_command",
    "write_state",
    "write_summary",
]

STATE = "experiment.pkl"
# The file beside it that needs no class to be read: what is optimised.
SUMMARY = "experiment.json"
# The commands that run experiments.
COMMANDS = ("zray rllib train ", "zray tune run ")
# Of the error for a folder that does not exist: names that are looked at, and that are named.
NAMES_MAX, NEAR_MAX = 1_000, 3


def pickle_of(experiment: RunningExperiment) -> bytes:
    """Return the parts of an experiment required by `read_state`.

    Raises:
        TuneError: a part of the experiment cannot be pickled; the message names it.
    """
    kept = {**experiment.__dict__}
    kept.update(controller=None, refs=[], filesystem=None)  # a file system may hold connections and keys
    run = dict(experiment.run_options)
    kept["run_options"] = {**run, "reporter": None, "callbacks": pickled(run.get("callbacks") or [])}
    bare = type(experiment).__new__(type(experiment))
    bare.__dict__.update(kept)
    try:
        return refs.dumps(bare, experiment.refs)
    except Exception as error:
        raise TuneError(
            f"The experiment cannot be pickled for its processes: {error}{_culprit(experiment)}.  "
            "Create locks, open files and connections in the trial."
        ) from error


def _culprit(experiment: RunningExperiment) -> str:
    """The part of the experiment that cannot be pickled."""
    parts = {
        "the trainable": experiment.trainable,
        "stop": experiment.stop,
        "the scheduler": experiment.scheduler,
        **{f"the search space: {key!r}": value for key, value in experiment.space.items()},
        "the searcher": experiment.searcher,
        "the resources": experiment.run_options.get("resources"),
    }
    for name, part in parts.items():
        try:
            refs.dumps(part, experiment.refs)
        except Exception:
            return f" ({name})"
    return ""


def write_state(folder: str, data: bytes) -> None:
    """Write the file, for its user alone."""
    write_aside(os.path.join(folder, STATE), data, 0o600)


def objective_of(experiment: RunningExperiment) -> tuple[str | None, str | None]:
    """Return the metric and the mode of an experiment, perhaps named by scheduler or searcher alone; None: unknown."""
    parts: tuple[Any, ...] = (experiment.settings, experiment.scheduler, experiment.searcher)
    metric = next((part.metric for part in parts if isinstance(part.metric, str)), None)
    return metric, next((part.mode for part in parts if isinstance(part.mode, str)), None)


def objectives_of(experiment: RunningExperiment) -> dict[str, str | None]:
    """Return the metrics of several objectives, and the mode of each; empty: there is one at most."""
    for part in (experiment.settings, experiment.scheduler, experiment.searcher):
        several: Any = getattr(part, "metric", None)
        if isinstance(several, (list, tuple)):
            modes: Any = getattr(part, "mode", None)
            modes = modes if isinstance(modes, (list, tuple)) else [modes] * len(several)
            return {str(name): mode for name, mode in zip(several, modes, strict=False)}
    return {}


def write_summary(experiment: RunningExperiment) -> None:
    """Write the facts that commands need where the state cannot be loaded."""
    metric, mode = objective_of(experiment)
    found: dict[str, Any] = {"metric": metric, "mode": mode, "num_samples": experiment.settings.num_samples}
    if several := objectives_of(experiment):
        found["objectives"] = several
    if command := command_to_resume.get():
        found.update(resume=command, path=os.path.abspath(experiment.path))
    write_aside(os.path.join(experiment.path, SUMMARY), json.dumps(found, indent=2).encode())


def read_summary(folder: str) -> tuple[str | None, str | None, int]:
    """Return the metric, the mode and the number of trials of an experiment; None and 0: unknown."""
    found = _summary(folder)
    metric, mode, samples = (found.get(key) for key in ("metric", "mode", "num_samples"))
    return (
        metric if isinstance(metric, str) else None,
        mode if mode in ("min", "max") else None,
        samples if isinstance(samples, int) else 0,
    )


def read_objectives(folder: str) -> dict[str, str | None]:
    """Return the metrics of several objectives, as `objectives_of`."""
    several = _summary(folder).get("objectives")
    several = several if isinstance(several, dict) else {}
    return {name: mode if mode in ("min", "max") else None for name, mode in several.items()}


def _summary(folder: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, SUMMARY), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def resuming_command(folder: str) -> str:
    """Return the command that goes on with the experiment of a command; empty: a program ran it, or it was moved.

    The file may be another user's: a text that is more than one command of zray is none.
    """
    found = _summary(folder)
    command = found.get("resume")
    if not isinstance(command, str) or found.get("path") != os.path.abspath(folder):
        return ""
    try:
        is_one = shlex.join(shlex.split(command)) == command
    except ValueError:
        return ""
    return command if is_one and command.startswith(COMMANDS) else ""


def how_to_resume(folder: str, experiment: RunningExperiment | None) -> str:
    """Return the command or the call that goes on with an experiment."""
    if command := resuming_command(folder):
        return f"`{command}`"
    trainable = getattr(experiment, "trainable", None)
    is_known = isinstance(trainable, type) and trainable.__module__.startswith("zray.rllib.")
    name = repr(experiment.trainable_name) if experiment is not None and is_known else "trainable"
    return f"Tuner.restore({folder!r}, {name})"


def _no_folder(folder: str) -> str:
    """Text of the error for a folder that does not exist."""
    parent = os.path.dirname(os.path.abspath(folder))
    try:
        # Others of a long list are of no help, and a folder of experiments may be long.
        names = sorted(entry.name for entry in islice(os.scandir(parent), NAMES_MAX) if entry.is_dir())
    except OSError:
        return f"The folder {folder} does not exist, nor can {parent} be read: give the folder of the experiment."
    with_state = [name for name in names if os.path.exists(os.path.join(parent, name, STATE))]
    near = get_close_matches(os.path.basename(folder), with_state, NEAR_MAX) or with_state[:NEAR_MAX]
    found = f"Experiments in {parent}: {', '.join(near)}" if near else f"There is no experiment in {parent} either"
    return f"The folder {folder} does not exist.  {found}."


def read_state(folder: str, given: list[Any]) -> RunningExperiment:
    """Return the experiment of a folder, as of its beginning.

    Args:
        given: the refs of its search space.

    Raises:
        NoExperimentError: the folder holds no experiment.
        TuneError: the file is damaged, or needs a module that is not here.
    """
    from .running_experiment import RunningExperiment

    path = os.path.join(folder, STATE)
    try:
        with open(path, "rb") as file:
            found = refs.loads(file.read(), given)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise NoExperimentError(_no_folder(folder)) from None
        raise NoExperimentError(f"{folder} holds no experiment: it has no {STATE}.") from None
    except OSError:
        raise
    except Exception as error:
        advice = (
            "Make the module importable, as in the first run"
            if isinstance(error, (ImportError, AttributeError))
            else "The file is damaged: the results are in the folders of the trials (`zray tune ls`)"
        )
        raise TuneError(f"{path} cannot be read: {type(error).__name__}: {error}.  {advice}.") from error
    if not isinstance(found, RunningExperiment):
        raise TuneError(f"{path} holds no experiment but {type(found).__name__}: another program has written it.")
    found.refs = given
    found.run_options["callbacks"] = unpickled(found.run_options["callbacks"])
    return found
