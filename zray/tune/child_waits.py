"""Tasks of trials that wait for resources which the trials themselves hold.

A trial of one CPU that starts a task and waits for its value needs a second CPU.  As many trials as CPUs, and each of
them waits for ever.  The processes of the trials are known by the actor's class, and a task by the call of the actor
that has submitted it.
"""

from __future__ import annotations

from collections.abc import Mapping

from zray.exceptions import ZrayError
from zray.util.state import list_tasks
from zray.util.why import why

from .worker import TrialActor

__all__ = ["OWN_TASK", "REMEDY", "is_of_task", "waits_of_children"]

# The beginning of such a reason in the records, which tells it from that of a process that does not begin.
OWN_TASK = "its own "
REMEDY = (
    'Give each trial a place for its tasks, as tune.with_resources(trainable, tune.PlacementGroupFactory([{"CPU": 1}, '
    '{"CPU": 1}])), or run fewer trials at once, as TuneConfig(max_concurrent_trials=...).'
)
# Tasks that are looked at, and that are asked about.
ROWS_MAX, ASKED_MAX = 10_000, 20
# States of tasks that do not wait.
_OTHER = ("RUNNING", "FINISHED", "FAILED")


def waits_of_children(trials: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for which a task of each trial waits, where trials hold what the task needs.

    Args:
        trials: the trial by the id of a call of its process, in hexadecimal.
    """
    try:
        waiting = [("state", "!=", state) for state in _OTHER]
        own = f"{TrialActor.__name__}."
        if all(row.name.startswith(own) for row in list_tasks(filters=waiting, limit=ROWS_MAX)):
            return {}  # most often: times by process cost more
        rows = list_tasks(filters=waiting, detail=True, limit=ROWS_MAX)
        found: dict[str, str] = {}
        for row in [row for row in rows if row.parent_task_id in trials][:ASKED_MAX]:
            trial_id = trials[row.parent_task_id]
            if trial_id not in found and (reason := reason_of_child(why(row.task_id))):
                found[trial_id] = reason
    except (ZrayError, ValueError, NotImplementedError):  # the session ends, or the task has begun
        return {}
    return found


def is_of_task(reason: str) -> bool:
    """Whether the wait of a process that does not answer is one of its own task, for what trials hold."""
    return f"held by actor {TrialActor.__name__}" in reason and not reason.startswith("its process")


def reason_of_child(lines: list[str]) -> str:
    """The reason for which a task waits, where trials alone hold what the task needs; else empty.

    Args:
        lines: as of `why`: the first one names the task and its state.
    """
    kept = [line.strip() for line in lines[1:] if line.strip()]
    holders = [line for line in kept if line.startswith("held by ")]
    if not holders or any(not line.startswith(f"held by actor {TrialActor.__name__}") for line in holders):
        return ""
    kept[0] = kept[0].partition(": ")[2] or kept[0]  # without the name of the ref
    return OWN_TASK + ", ".join([*(line for line in kept if line not in holders), "held by trials"])
