"""Names: trials, folders, tags; and the keys of results that are filled in."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

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

# Bytes of a folder's name on the usual file systems: 255.
TAG_MAX = 120


def trial_id(experiment_id: str, index: int) -> str:
    """The id of a trial: the same after a restart of the experiment."""
    return f"{experiment_id}_{index:05d}"


def checkpoint_folder(path: str, number: int) -> str:
    """The folder of a checkpoint."""
    return os.path.join(path, f"checkpoint_{number:06d}")


_dates: dict[int, str] = {}


def date_of(now: float) -> str:
    """The time as Ray writes it, in local time."""
    second = int(now)
    if second not in _dates:
        _dates.clear()
        _dates[second] = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(second))
    return _dates[second]


def short(value: Any) -> str:
    """A value in the name of a trial."""
    if isinstance(value, float):
        return f"{value:.4f}" if 1e-4 <= abs(value) < 1e6 or value == 0 else f"{value:.4g}"
    return str(getattr(value, "__name__", value))


def tag_of(index: int, chosen: dict[str, Any]) -> str:
    """The experiment tag: `3_alpha=0.2,beta=1`."""
    parts = []
    for path, value in sorted(chosen.items()):
        text = short(value) if not isinstance(value, float) else f"{value:.4f}".rstrip("0").rstrip(".") or "0"
        parts.append(f"{path.rpartition('/')[2]}={text}")
    return f"{index}_{','.join(parts)}" if parts else str(index)


def name_trial(trial: Trial, settings: Settings, now: float) -> None:
    """Give a trial its tag, its name and its folder."""
    trial.experiment_tag = tag_of(trial.index, trial.chosen)
    trial.name = settings.name_of(trial) if settings.name_of is not None else f"{trial.trainable_name}_{trial.trial_id}"
    if settings.folder_of is not None:
        folder = settings.folder_of(trial)
    else:
        tag = re.sub(r"[^\w.,=+-]", "_", trial.experiment_tag)[:TAG_MAX]
        folder = f"{trial.name}_{tag}_{date_of(now)}"
    trial.path = os.path.join(settings.path, folder)
