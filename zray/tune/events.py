"""Events handled by the controller, and actions requested by it.  The journal records the events."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Action", "Event"]


class Record(Struct, frozen=True, tag=True, omit_defaults=True):
    """The base of all events; `now`: seconds since the epoch."""

    now: float


class Capacity(Record, frozen=True, tag=True):
    """The number of trials that may run at once."""

    trials: int


class Suggested(Record, frozen=True, tag=True):
    """The searcher's configuration of a new trial: what a replay uses, whatever the searcher says then.

    pickle: (chosen values, configuration).  name, folder: of the trial, since the user's functions and the time zone
    decide about them.
    """

    trial_id: str
    pickle: bytes
    name: str = ""
    folder: str = ""


class Report(Record, frozen=True, tag=True):
    """A result of a trial.

    iteration: counted from 1 over all processes of the trial.  checkpoint: its folder; empty: none.  size: bytes in it;
    -1: not known.  fails: the checkpoint of this step could not be saved, and `Failed` follows.
    """

    trial_id: str
    iteration: int
    metrics: dict[str, Any]
    time_this_iter_s: float = 0.0
    time_total_s: float = 0.0
    checkpoint: str = ""
    size: int = -1
    fails: bool = False


class Began(Record, frozen=True, tag=True):
    """A process has begun with the trial.  facts: pid, hostname, node_ip: marks of the trial's results."""

    trial_id: str
    facts: dict[str, Any]


class Saved(Record, frozen=True, tag=True):
    """A checkpoint of the last result, requested by the controller.  size: in bytes; -1: not known."""

    trial_id: str
    iteration: int
    checkpoint: str
    size: int = -1


class Sealed(Record, frozen=True, tag=True):
    """The disk has a checkpoint.  digest: the checksum of its files."""

    trial_id: str
    checkpoint: str
    digest: int


class Halted(Record, frozen=True, tag=True):
    """The trial's process has stopped at the controller's request.

    checkpoint: empty: none.  size: bytes in it.  reason: why it could not be saved.
    """

    trial_id: str
    iteration: int
    checkpoint: str = ""
    size: int = -1
    reason: str = ""


class Finished(Record, frozen=True, tag=True):
    """The trial's function has returned."""

    trial_id: str


class Failed(Record, frozen=True, tag=True):
    """The trial's code raised, or its process died.  is_final: a repetition would not help."""

    trial_id: str
    error: str
    pickle: bytes = b""
    is_final: bool = False


class Resumed(Record, frozen=True, tag=True):
    """The experiment goes on in a new process.

    resume_errored, restart_errored, resume_unfinished: what happens to trials.  num_samples: of the search space, if
    they are more than before; 0: as before.
    """

    resume_errored: bool = False
    restart_errored: bool = False
    resume_unfinished: bool = True
    num_samples: int = 0


class TimedOut(Record, frozen=True, tag=True):
    """The time at which the budget may be over.  reason: why the experiment ends in any case; empty: no reason."""

    reason: str = ""


Event = Capacity | Suggested | Report | Began | Saved | Sealed | Halted | Finished | Failed | Resumed | TimedOut


class Start(Struct, frozen=True):
    """Start a process for the trial, from the latest checkpoint, if any."""

    trial_id: str


class Proceed(Struct, frozen=True):
    """Let the trial go on after its last result.  save: write a checkpoint first."""

    trial_id: str
    save: bool = False


class Halt(Struct, frozen=True):
    """Stop the trial's process.  save: write a checkpoint first."""

    trial_id: str
    save: bool = False


class Copy(Struct, frozen=True):
    """Copy the folder of a checkpoint."""

    source: str
    target: str


class Delete(Struct, frozen=True):
    """Delete the folder of a checkpoint."""

    path: str


class Kept(Struct, frozen=True):
    """A checkpoint has been added to the trial's, for the callbacks.  path: the checkpoint's folder."""

    trial_id: str
    path: str


class Logged(Struct, frozen=True):
    """A result, for the records and callbacks."""

    trial_id: str
    result: dict[str, Any]


class Ended(Struct, frozen=True):
    """The trial is over: the last record."""

    trial_id: str


class Explained(Struct, frozen=True):
    """A decision, for decisions.jsonl."""

    trial_id: str
    iteration: int
    action: str
    reason: str


class Added(Struct, frozen=True):
    """A trial, for the records."""

    trial_id: str


class BegunAnew(Struct, frozen=True):
    """A failed trial begins anew: the records of its former results are removed."""

    trial_id: str


Action = Start | Proceed | Halt | Copy | Delete | Kept | Logged | Ended | Explained | Added | BegunAnew
