"""A trial: configuration, state, results so far."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, ClassVar

from msgspec import Struct, field

from .checkpoint import Checkpoint

__all__ = ["ExportFormat", "Trial", "TrialState", "headline", "value_of"]


class ExportFormat:
    """Names of formats for `export_formats`, which programs of 2018 to 2023 pass.  Nothing is exported."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"


class TrialState(str, Enum):
    """The state of a trial; the values are Ray's."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    def __str__(self) -> str:
        return self.value


# PENDING: waits for resources, perhaps with a checkpoint to start from.  PAUSED: the scheduler decides when it goes on.
TRANSITIONS: dict[TrialState, frozenset[TrialState]] = {
    TrialState.PENDING: frozenset({TrialState.RUNNING, TrialState.TERMINATED, TrialState.ERROR, TrialState.PAUSED}),
    TrialState.RUNNING: frozenset({TrialState.PENDING, TrialState.PAUSED, TrialState.TERMINATED, TrialState.ERROR}),
    TrialState.PAUSED: frozenset({TrialState.PENDING, TrialState.TERMINATED, TrialState.ERROR}),
    TrialState.TERMINATED: frozenset({TrialState.PENDING}),  # by a restore, if the experiment's end has cut it off
    TrialState.ERROR: frozenset({TrialState.PENDING}),  # by `resume_errored`
}


def value_of(result: dict[str, Any], key: str) -> Any:
    """A value of a nested result: "a/b" is result["a/b"], or result["a"]["b"]; None where there is none."""
    if key in result:
        return result[key]
    found: Any = result
    for part in key.split("/"):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def has_key(result: dict[str, Any], key: str) -> bool:
    """Whether a nested result has a value, which may be None, under a key."""
    first, _, rest = key.partition("/")
    return key in result or bool(rest and isinstance(inner := result.get(first), dict) and has_key(inner, rest))


def _at(config: dict[str, Any], path: str, default: Any) -> Any:
    """Return the value at the path of a parameter, also within lists; the default where none is there."""
    if path in config:
        return config[path]
    place: Any = config
    for part in path.split("/"):
        if isinstance(place, (list, tuple)):
            place = dict(enumerate(place))
        if not isinstance(place, dict):
            return default
        key = part if part in place or not part.isdecimal() else int(part)
        if key not in place:
            return default
        place = place[key]
    return place


def _left_of(former: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a result, also nested ones, that a later result lacks, or has as None."""
    found: dict[str, Any] = {}
    for key, value in former.items():
        new = result.get(key)
        if new is None:
            if value is not None:
                found[key] = value
        elif type(value) is dict and type(new) is dict and key != "config" and (rest := _left_of(value, new)):
            found[key] = rest
    return found


def _overlaid(earlier: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with the values that it lacks, see `_left_of`."""
    found = dict(result)
    for key, value in earlier.items():
        new = found.get(key)
        if new is None:
            found[key] = value
        elif type(new) is dict:
            found[key] = _overlaid(value, new)
    return found


_FRAMES = re.compile(r'(  \+ Exception Group )?Traceback \(most recent call last\):|  File "')


def headline(error: str) -> str:
    """Return the type of an error and the first line of its message; " ..." stands for further lines."""
    lines = [line.removeprefix("  | ") for line in error.splitlines()]  # groups of exceptions have such bars
    lines = [line for line in lines if line.strip() and line != "[...]"]
    if not lines:
        return "no message"
    ends = [place for place, line in enumerate(lines) if not line[0].isspace() and not _FRAMES.match(line)]
    frames = [place for place, line in enumerate(lines) if _FRAMES.match(line) and ends and place < ends[-1]]
    if frames:  # what follows them, and is not indented as they are, is the exception
        lines = lines[next(place for place in ends if place > frames[-1]) :]
    first, *more = lines
    if more and first.rstrip().endswith(":"):
        first = f"{first.rstrip()} {more.pop(0).strip()}"
    return f"{first.strip()} ..." if more else first.strip()


class SavedCheckpoint(Struct):
    """A checkpoint in the trial's folder.

    path: its folder.  iteration, time_total_s: of the result that it belongs to.  score: by which it is kept.  size,
    digest: bytes and checksum of its files; -1, 0: not known.
    """

    path: str
    iteration: int
    time_total_s: float = 0.0
    score: float | None = None
    metrics: dict[str, Any] = {}
    size: int = -1
    digest: int = 0


class Trial(Struct, eq=False, weakref=True, dict=True):
    """A trial.

    chosen: the values that the search chose, by their path.  config: the whole configuration.  restore_from: the
    checkpoint with which it starts for the first time.
    """

    PENDING: ClassVar[str] = "PENDING"
    RUNNING: ClassVar[str] = "RUNNING"
    PAUSED: ClassVar[str] = "PAUSED"
    TERMINATED: ClassVar[str] = "TERMINATED"
    ERROR: ClassVar[str] = "ERROR"

    trial_id: str
    trainable_name: str
    config: dict[str, Any]
    chosen: dict[str, Any]
    index: int = 0
    state: TrialState = TrialState.PENDING
    experiment_tag: str = ""
    name: str = ""
    path: str = ""  # the trial's folder
    last_result: dict[str, Any] = field(default_factory=dict)
    iteration: int = 0  # of the last result
    checkpoints: list[SavedCheckpoint] = field(default_factory=list)
    restore_from: SavedCheckpoint | None = None
    num_failures: int = 0
    error: str = ""
    error_pickle: bytes = b""
    started_at: float = 0.0
    ended_at: float = 0.0
    best: float | None = None  # of the experiment's metric
    reason: str = ""  # of the last decision
    starts: int = 0  # how often a process began with it
    started_iteration: int = 0  # of the checkpoint from which the newest process began
    started_time_s: float = 0.0
    saves: int = 0  # checkpoints ever, for their names
    placement_group_factory: Any = None  # its resources
    is_cut_off: bool = False  # the experiment ended before the trial did
    failures_in_a_row: int = 0  # since its last result
    earlier: dict[str, Any] = field(default_factory=dict)  # the last values of metrics that the last result lacks
    not_before: float = 0.0  # when it may start again

    def move(self, state: TrialState) -> None:
        """Change the state, by the table.

        Raises:
            RuntimeError: the table does not have it.
        """
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"Trial {self.trial_id} cannot go from {self.state} to {state}.")
        self.state = state

    def take(self, result: dict[str, Any]) -> None:
        """Make a result the last one, and keep the last values of metrics that it lacks."""
        self.earlier = _left_of(self.latest_result, result)
        self.last_result = result

    @property
    def latest_result(self) -> dict[str, Any]:
        """The last result, with the last value of each metric that it lacks, as of an evaluation at times."""
        return _overlaid(self.earlier, self.last_result) if self.earlier else self.last_result

    @property
    def is_over(self) -> bool:
        """Whether the trial has ended, with or without an error."""
        return self.state in (TrialState.TERMINATED, TrialState.ERROR)

    @property
    def saved(self) -> SavedCheckpoint | None:
        """The record of the checkpoint to go on from: the newest one."""
        return self.checkpoints[-1] if self.checkpoints else self.restore_from

    @property
    def first_iteration(self) -> int:
        """The number of the first result: results go on behind those of the checkpoint with which the trial begins."""
        return 1 + (self.restore_from.iteration if self.restore_from is not None else 0)

    @property
    def parameters(self) -> dict[str, Any]:
        """The current values of the searched parameters, by path: a scheduler may have changed them."""
        return {path: _at(self.config, path, value) for path, value in self.chosen.items()}

    @property
    def has_newest(self) -> bool:
        """Whether a checkpoint of the last result is there."""
        return self.saved is not None and self.saved.iteration == self.iteration

    # --- names of Ray ---

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint to go on from: the newest one."""
        return Checkpoint(self.saved.path) if self.saved is not None else None

    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.saved is not None

    @property
    def status(self) -> str:
        """The state, as text."""
        return self.state.value

    def is_finished(self) -> bool:
        """Whether the trial has ended, with or without an error."""
        return self.is_over

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """The values that the search chose; `parameters` are the current ones."""
        return self.chosen

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Summaries of all results by metric: "max", "min", "avg", "last", "last-5-avg" and "last-10-avg"."""
        from .outcomes import analysis_of

        return analysis_of(self)

    @property
    def logdir(self) -> str:
        """The trial's folder."""
        return self.path

    @property
    def local_path(self) -> str:
        """The trial's folder."""
        return self.path

    def init_local_path(self) -> None:
        """Make the trial's folder, if missing."""
        import os

        os.makedirs(self.path, exist_ok=True)

    init_logdir = init_local_path

    @property
    def error_file(self) -> str | None:
        """The path of error.txt; None without an error."""
        import os

        return os.path.join(self.path, "error.txt") if self.error else None

    def __str__(self) -> str:
        return self.name or f"{self.trainable_name}_{self.trial_id}"

    __repr__ = __str__
