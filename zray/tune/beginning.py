"""The folder of a new experiment: its lock, remains of another experiment, its first files."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import warnings
from typing import TYPE_CHECKING

from .errors import warn_program
from .folder_lock import FolderLock
from .interrupts import command_to_resume
from .journal import JOURNAL, Journal
from .recovery import DECISIONS
from .state_file import STATE, SUMMARY, resuming_command, write_state, write_summary

if TYPE_CHECKING:
    from .running_experiment import RunningExperiment

__all__ = ["ExperimentWarning", "begin_folder", "give_up_folder"]


# Files that a new experiment replaces.
RECORDS = (JOURNAL, DECISIONS, STATE, SUMMARY)


class ExperimentWarning(UserWarning):
    """A warning that an experiment replaces, or continues differently, the experiment in its folder."""


def begin_folder(experiment: RunningExperiment, data: bytes) -> Journal:
    """Make the folder of a new experiment.

    Args:
        data: its state.

    Raises:
        JournalInUse: another program runs an experiment there.
        OSError: the folder cannot be written.
    """
    if not experiment.is_named:
        _make_new(experiment)
    path = experiment.path
    os.makedirs(path, exist_ok=True)
    lock = FolderLock(path)
    try:
        experiment.replaced = _put_away(path)
        # Ids of trials follow from the seed, and names of folders have whole seconds: a folder of a former run may
        # have the name that a new trial would get.
        experiment.controller.former_folders.update(entry.path for entry in os.scandir(path) if entry.is_dir())
        write_state(path, data)
        write_summary(experiment)
        return Journal(os.path.join(path, JOURNAL), lock)
    except BaseException:
        lock.release()
        raise


def give_up_folder(experiment: RunningExperiment, is_new: bool) -> None:
    """Undo `begin_folder` for an experiment without a trial: the records of the former one stand there again.

    Args:
        is_new: there was no folder before.
    """
    if is_new:
        shutil.rmtree(experiment.path, ignore_errors=True)
        return
    for name in RECORDS:
        place = os.path.join(experiment.path, name)
        with contextlib.suppress(FileNotFoundError):
            os.remove(place)
        if experiment.replaced:
            with contextlib.suppress(FileNotFoundError):
                os.rename(place + experiment.replaced, place)


def _make_new(experiment: RunningExperiment) -> None:
    """Make a new folder: several programs may begin in one second."""
    if not os.path.exists(experiment.storage_path):
        os.makedirs(experiment.storage_path, exist_ok=True)
    name, number = experiment.name, 1
    while True:
        try:
            os.mkdir(experiment.path)
            return
        except FileExistsError:
            number += 1
            experiment.name = f"{name}_{number}"
            experiment.settings.path = os.path.join(experiment.storage_path, experiment.name)


def _put_away(path: str) -> str:
    """Rename the records of the former experiment: as in Ray, a new experiment of the same name replaces them.

    Returns:
        The suffix of their new names; empty: there are none.
    """
    journal = os.path.join(path, JOURNAL)
    if not os.path.exists(journal):
        return ""
    words = _unfinished(path)
    kept = f"{journal}.{int(time.time() * 1000)}.old"
    if words:
        how = f"Tuner.restore({path!r}, trainable) or tune.run(..., resume=True)"
        if command := resuming_command(path) or command_to_resume.get():
            how = f"`{command}`"
        warn_program(
            f"{words} was in {path}, and another one begins there.  Its records are kept as {kept}.  An unfinished "
            f"experiment goes on with {how}; a new one takes another name.",
            ExperimentWarning,
        )
    suffix = kept.removeprefix(journal)
    for place in (os.path.join(path, name) for name in RECORDS):
        with contextlib.suppress(FileNotFoundError):
            os.rename(place, place + suffix)
    return suffix


def _unfinished(path: str) -> str:
    """Describe an unfinished experiment in words; empty: finished."""
    from .running_experiment import RunningExperiment

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            controller = RunningExperiment.load(path).controller
    except Exception:
        return "An experiment whose state cannot be read"
    if controller.is_done:
        return ""
    ended = sum(trial.is_over for trial in controller.get_trials())
    total = max(controller.settings.num_samples, len(controller.trials))
    return f"An unfinished experiment ({ended} of {total} trials ended)"
