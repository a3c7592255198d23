"""The session of a trial: how its code reports results, and asks who it is.

tune.report({"loss": loss}, checkpoint=checkpoint)     today; also train.report, session.report
tune.report(loss=loss), tune.track.log(loss=loss)      2019 to 2022
reporter(timesteps_total=i, mean_loss=loss)            2018
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..on_import import shadows
from .checkpoint import TEMPORARY, Checkpoint
from .metrics import as_metrics
from .result import DEFAULT_METRIC

__all__ = [
    "TuneContext",
    "checkpoint_dir",
    "get_checkpoint",
    "get_context",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "is_session_enabled",
    "report",
]


class Session(Protocol):
    """The calls that the running trial offers."""

    facts: dict[str, Any]
    checkpoint: Checkpoint | None

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        """Take a result."""


# The trial of this process; threads that the trial starts report too.
_current: list[Session] = []
_folder_checkpoint: list[Checkpoint] = []  # of `with tune.checkpoint_dir`, until the next report


def enter(session: Session) -> None:
    """Make a trial the current trial of the process."""
    _current[:] = [session]
    _folder_checkpoint.clear()


def leave() -> None:
    """No trial runs any more."""
    _current.clear()


def current() -> Session | None:
    """The trial of this process."""
    return _current[0] if _current else None


def report(
    _metrics: Mapping[str, Any] | None = None,
    checkpoint: Checkpoint | None = None,
    *,
    checkpoint_dir_name: str | None = None,
    **metrics: Any,
) -> None:
    """Report a result of the current trial.

    Args:
        _metrics: the metrics, as a dict, also as `metrics=`; or pass them as keywords.  One number is the metric
            `_metric`.
        checkpoint: what the trial can go on from.
        checkpoint_dir_name: accepted for Ray's programs.

    Raises:
        TypeError: the metrics are no dict, or the checkpoint is none.
        FileNotFoundError: the folder of the checkpoint is not there.

    Example:
        for step in range(10):
            tune.report({"loss": train_one_epoch(config)})
    """
    session = current()
    if _metrics is None and list(metrics) == ["metrics"] and isinstance(metrics["metrics"], Mapping):
        _metrics, metrics = metrics["metrics"], {}  # the parameter's name in Ray
    if _metrics is not None and not isinstance(_metrics, Mapping):
        given = as_metrics(_metrics) if DEFAULT_METRIC not in metrics else None
        if given is None:
            raise TypeError(f'report takes a dict of metrics, as {{"loss": 0.5}}, not {type(_metrics).__name__}.')
        _metrics = given  # tune.report(0.5): one value, in 2020
    if session is None:
        warnings.warn("A result was reported outside of a trial: it is ignored.", stacklevel=2)
        return
    merged = {**_metrics, **metrics} if _metrics is not None else metrics
    session.report(merged, checkpoint)


def take_folder_checkpoint() -> Checkpoint | None:
    """The checkpoint of `with tune.checkpoint_dir`, for the result that comes next."""
    return _folder_checkpoint.pop() if _folder_checkpoint else None


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint from which the trial goes on; None: the trial begins.

    Example:
        checkpoint = tune.get_checkpoint()
        step = 0
        if checkpoint:
            with checkpoint.as_directory() as folder:
                step = int(open(os.path.join(folder, "step")).read())
    """
    session = current()
    return session.checkpoint if session is not None else None


@contextlib.contextmanager
def checkpoint_dir(step: int | None = None) -> Iterator[str]:
    """A folder whose files belong to the next result, as programs of 2020 to 2022 save checkpoints.

    Args:
        step: accepted for these programs; checkpoints are numbered by themselves.
    """
    import tempfile

    del step
    session = current()
    base = str(session.facts["trial_dir"]) if session is not None else None
    folder = tempfile.mkdtemp(prefix=TEMPORARY, dir=base if base and os.path.isdir(base) else None)
    yield folder
    made = Checkpoint(folder)
    made._is_temporary = True
    _folder_checkpoint[:] = [made]


class TuneContext:
    """Facts of the current trial; outside of a trial: None."""

    def _fact(self, name: str) -> Any:
        session = current()
        return session.facts.get(name) if session is not None else None

    def get_experiment_name(self) -> str | None:
        """The experiment's name."""
        return self._fact("experiment_name")

    def get_trial_name(self) -> str | None:
        """The trial's name."""
        return self._fact("trial_name")

    def get_trial_id(self) -> str | None:
        """The trial's id."""
        return self._fact("trial_id")

    def get_trial_dir(self) -> str | None:
        """The trial's folder."""
        return self._fact("trial_dir")

    def get_trial_resources(self) -> Any:
        """The trial's resources."""
        return self._fact("trial_resources")

    def get_storage(self) -> Any:
        """Absent: the folder is `get_trial_dir()`."""
        raise NotImplementedError("zray has no storage contexts.  Use get_trial_dir().")

    # --- one process a trial: names that trainers of Ray have ---

    def get_world_size(self) -> int:
        """1: a trial is one process."""
        return 1

    def get_world_rank(self) -> int:
        """0: a trial is one process."""
        return 0

    def get_local_rank(self) -> int:
        """0: a trial is one process."""
        return 0

    def get_local_world_size(self) -> int:
        """1: a trial is one process."""
        return 1

    def get_node_rank(self) -> int:
        """0: a trial is one process."""
        return 0

    def get_metadata(self) -> dict[str, Any]:
        """Empty: trials have no metadata beside their configuration."""
        return {}


def get_context() -> TuneContext:
    """Facts of the trial that runs here, each by a method; outside of a trial: None.

    Example:
        tune.get_context().get_trial_dir()  # also get_trial_id, get_trial_name, get_experiment_name
    """
    return TuneContext()


def get_trial_id() -> str | None:
    """Return the id of the current trial."""
    return get_context().get_trial_id()


def get_trial_name() -> str | None:
    """Return the name of the current trial."""
    return get_context().get_trial_name()


def get_trial_dir() -> str | None:
    """Return the folder of the current trial."""
    return get_context().get_trial_dir()


def get_trial_resources() -> Any:
    """Return the resources of the current trial."""
    return get_context().get_trial_resources()


def is_session_enabled() -> bool:
    """Whether a trial runs here."""
    return current() is not None


shadows.name_absent(__name__)
