"""Names: trials, folders, tags; and the keys of results that are filled in."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from .errors import TuneError
from .metrics import clean_texts, text_of

if TYPE_CHECKING:
    from .settings import Settings
    from .trial import Trial

# Keys of a result that are not the user's metrics.
AUTO_KEYS = (
    "training_iteration",
    "time_total_s",
    "episodes_total",
    "timesteps_total",
    "node_ip",
    "hostname",
    "pid",
    "time_this_iter_s",
    "timestamp",
    "date",
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "config",
    "checkpoint_dir_name",
    "done",
    "trial_id",
    "experiment_id",
    "experiment_tag",
)

# Those of which a result keeps no value that the trial reports.
REPLACED = frozenset(AUTO_KEYS) - {
    "checkpoint_dir_name",
    "done",
    "episodes_total",
    "time_this_iter_s",
    "timesteps_since_restore",
    "timesteps_total",
}

# Bytes of a folder's name: usual file systems allow 255, and encrypted homes 143.  A date has 19 of them.
FOLDER_MAX, NAME_MAX, DATE = 143, 80, 19


def trial_id(experiment_id: str, index: int) -> str:
    """The id of a trial: the same after a restart of the experiment."""
    return f"{experiment_id}_{index:05d}"


def checkpoint_folder(path: str, number: int, origin: str = "") -> str:
    """The folder of a checkpoint.

    origin: the trial that it is copied from.  The name then differs from all that the trial's own process may write.
    """
    name = f"checkpoint_{number:06d}"
    return os.path.join(path, f"{name}_from_{origin}" if origin else name)


def checkpoint_number(name: str) -> int:
    """Return the number in the name of a checkpoint's folder; -1: another name."""
    found = re.match(r"checkpoint_(\d{6})(_from_\w+)?(\.unfinished)?$", name)
    return int(found[1]) if found else -1


_dates: dict[int, str] = {}


def date_of(now: float) -> str:
    """The time as Ray writes it, in local time."""
    second = int(now)
    if second not in _dates:
        _dates.clear()
        _dates[second] = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(second))
    return _dates[second]


def experiment_name(name: str, *, has_url: bool) -> str:
    """Return the name of an experiment: a folder below the folder of experiments, as "mine" or "project/mine".

    Args:
        has_url: whether a copy is kept at a URL.  Without one, an absolute path is taken as it is, as in Ray.

    Raises:
        ValueError: the name leads out of that folder.
    """
    found = os.path.normpath(name)
    if (has_url and os.path.isabs(found)) or found.split(os.sep)[0] in (os.curdir, os.pardir) or "\0" in found:
        raise ValueError(
            f"The name of an experiment is a folder below the folder of experiments, not {name!r}: storage_path names "
            "another place."
        )
    return found


def short(value: Any) -> str:
    """A value in the name of a trial."""
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-4 <= abs(value) < 1e6 or value == 0 else f"{value:.4g}"
    return clean_texts(text_of(getattr(value, "__name__", value)))


def tag_of(index: int, chosen: dict[str, Any]) -> str:
    """The experiment tag: `3_alpha=0.2,beta=1`."""
    parts = []
    for path, value in sorted(chosen.items()):
        if not isinstance(value, float) or 0 < abs(value) < 1e-4:
            text = short(value)
        else:
            text = f"{value:.4f}".rstrip("0").rstrip(".")
        parts.append(f"{path.rpartition('/')[2]}={text}")
    return f"{index}_{','.join(parts)}" if parts else str(index)


def cut(text: str, limit: int) -> str:
    """The beginning of a text, with so many bytes at most."""
    return text.encode(errors="replace")[:limit].decode(errors="ignore")


def folder_name(text: str, limit: int) -> str:
    """A text as a part of a folder's name."""
    return cut(re.sub(r"[^\w.,=+-]", "_", text), limit)


def _default_name(trial: Trial) -> str:
    """The name of a trial as in Ray: trainable, environment if the configuration has one, and id."""
    env = trial.config.get("env")
    env = env.__name__ if isinstance(env, type) else env
    if not isinstance(env, str) or not env:
        return f"{trial.trainable_name}_{trial.trial_id}"
    ends = f"{trial.trainable_name}_", f"_{trial.trial_id}"
    return cut(f"{ends[0]}{env}", max(NAME_MAX - len(ends[1]), len(ends[0].encode()))).replace("/", "_") + ends[1]


def _named(option: str, function: Any, trial: Trial) -> str:
    """The text that a function of the program gives for a trial.

    Raises:
        TuneError: the function has raised an error, or gives None.
    """
    advice = "It returns a text for each trial: correct it, then go on with Tuner.restore."
    try:
        found = function(trial)
        text = str(found)
    except Exception as error:
        raise TuneError(f"{option} failed with {type(error).__name__}: {error}.  {advice}") from error
    if found is None:
        raise TuneError(f"{option} returned None.  {advice}")
    return str(clean_texts(text))


def name_trial(
    trial: Trial, settings: Settings, now: float, taken: Container[str] = (), former: Container[str] = ()
) -> None:
    """Give a trial its tag, its name and its folder.

    Args:
        taken: the folders of the other trials.
        former: the folders of runs before this one, which only the user's function may name again.

    Raises:
        TuneError: a function of the program gives no name.
        ValueError: the user's function names a folder within another one.
    """
    trial.experiment_tag = tag_of(trial.index, trial.chosen)
    if settings.name_of is not None:
        trial.name = _named("trial_name_creator", settings.name_of, trial)
    else:
        trial.name = clean_texts(_default_name(trial))
    if settings.folder_of is not None:
        chosen = _named("trial_dirname_creator", settings.folder_of, trial)
        if os.sep in chosen or chosen in ("", ".", ".."):
            raise ValueError(
                f"trial_dirname_creator names one folder below the experiment's, without {os.sep!r}, not {chosen!r}."
            )
        folder = cut(re.sub(r"[\x00-\x1f\x7f]", "_", chosen), FOLDER_MAX)
    else:
        name = folder_name(trial.name, NAME_MAX)
        tag = folder_name(trial.experiment_tag, FOLDER_MAX - len(name.encode()) - DATE - 2)
        folder = f"{name}_{tag}_{date_of(now)}"
    trial.path = os.path.join(settings.path, folder)
    number = 1
    while trial.path in taken or settings.folder_of is None and trial.path in former:
        suffix = f"_{trial.trial_id}" + f"_{number}" * (number > 1)
        trial.path = os.path.join(settings.path, cut(folder, FOLDER_MAX - len(suffix)) + suffix)
        number += 1


def rename_trial(trial: Trial, settings: Settings, name: str, folder: str) -> None:
    """Give a trial the name and the folder that are recorded."""
    trial.experiment_tag = tag_of(trial.index, trial.chosen)
    trial.name = name
    trial.path = os.path.join(settings.path, folder)


def folder_of(trial: Trial) -> str:
    """The name of a trial's folder."""
    return os.path.basename(trial.path)
